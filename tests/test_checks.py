"""The checks of parameters: which values pass, and what the errors say about the others."""

from types import SimpleNamespace

import numpy as np
import pytest

from stablemiss.checks import (
    check_bool,
    check_choice,
    check_integer,
    check_number,
    check_path,
    check_widths,
    shown,
    to_list,
)


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(200), 2**31 - 1])
def test_integers_at_or_above_the_minimum_pass(value):
    check_integer(SimpleNamespace(depth=value), depth=1)
    check_integer({"depth": value}, depth=1)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (0, "depth must be an integer of at least 1; got 0"),
        (2.0, "depth must be an integer of at least 1; got 2.0"),
        ("2", "depth must be an integer.*got '2'"),
        (None, "depth must be an integer.*got None"),
        (True, "depth must be an integer.*got True"),
        (np.nan, "depth must be an integer.*got nan"),
        (np.array([1, 2]), r"depth must be an integer.*got array\(\[1, 2\]\)"),
        (10**30, "depth must be an integer from 1 to 2147483647; got 10{30}"),
        pytest.param(
            10**5000, "depth must be an integer from 1 to 2147483647; got a value of", id="5000 digits"
        ),
    ],
)
def test_other_values_for_an_integer_raise(value, reason):
    with pytest.raises(ValueError, match=reason):
        check_integer(SimpleNamespace(width=5, depth=value), width=1, depth=1)


def test_a_maximum_and_an_extra_value_are_part_of_the_message():
    check_integer({"k": "auto"}, k=(1, 9), unless="auto")
    check_integer({"k": None}, k=(1, 9), unless=None)
    check_integer({"k": np.int64(-1)}, k=(1, 9), unless=-1)
    for value in (0, 10, "other", None):
        with pytest.raises(ValueError, match=f"k must be an integer from 1 to 9, or 'auto'; got {value!r}"):
            check_integer({"k": value}, k=(1, 9), unless="auto")


@pytest.mark.parametrize(
    ("value", "interval"),
    [
        (0.0, "[0, inf)"),
        (1, "(0, 1]"),
        (2.5, "(0, inf)"),
        (np.float32(0.1), "(0, 0.5)"),
        (np.int64(3), "[3, 3]"),
        (-5, "(-inf, 0]"),
        (1e300, "[0, inf)"),
    ],
)
def test_numbers_in_the_interval_pass(value, interval):
    check_number(SimpleNamespace(ridge=value), ridge=interval)


@pytest.mark.parametrize(
    ("value", "interval", "reason"),
    [
        (-0.1, "[0, inf)", "ridge must be a finite number of at least 0; got -0.1"),
        (0, "(0, inf)", "ridge must be a finite number above 0; got 0"),
        (np.inf, "[0, inf)", "ridge must be a finite number.*got inf"),
        (np.nan, "[0, 1]", "ridge must be a number from 0 to 1; got nan"),
        ("0.1", "(0, 1]", "ridge must be a number above 0 and at most 1; got '0.1'"),
        (None, "[0, 1)", "ridge must be a number of at least 0 and below 1; got None"),
        (True, "[0, 1]", "ridge must be.*got True"),
        (np.array([0.1, 0.2]), "[0, 1]", "ridge must be.*got array"),
        (10**400, "[0, inf)", "ridge must be a finite number of at least 0; got 1000"),
        (10**30, "[0, inf)", r"ridge is the integer 1000.*Use a float: 1e\+30"),
    ],
)
def test_other_values_for_a_number_raise(value, interval, reason):
    with pytest.raises(ValueError, match=reason):
        check_number(SimpleNamespace(ridge=value), ridge=interval)


@pytest.mark.parametrize("value", ["b", "", None, 1, ["a"], b"a", np.array(["a", "c"]), {}])
def test_only_the_given_strings_are_choices(value):
    check_choice({"start": "a"}, start=("a", "c"))
    check_choice({"start": np.str_("c")}, start=("a", "c"))
    with pytest.raises(ValueError, match="start must be 'a' or 'c'; got"):
        check_choice({"start": value}, start=("a", "c"))


@pytest.mark.parametrize("value", [None, "True", 2, 0.0, [], np.array([True, False])])
def test_only_true_and_false_are_booleans(value):
    for boolean in (True, False, np.True_, 0, 1):
        check_bool({"use_mask": boolean}, "use_mask")
    with pytest.raises(ValueError, match="use_mask must be True or False; got"):
        check_bool({"use_mask": value}, "use_mask")


@pytest.mark.parametrize("widths", [(), [], (8,), [8, 4], (np.int64(8),)])
def test_widths_may_be_any_sequence_of_positive_integers(widths):
    check_widths(SimpleNamespace(hidden=widths), "hidden")


@pytest.mark.parametrize(
    ("widths", "reason"),
    [
        (8, r"hidden must be a sequence of layer widths; got 8. For a single layer use \(8,\)"),
        (2.5, r"hidden must be a sequence of layer widths, such as \(128, 64\); got 2.5"),
        (-3, r"hidden must be a sequence of layer widths, such as \(128, 64\); got -3"),
        (None, "hidden must be a sequence.*got None"),
        ("88", "hidden must be a sequence.*got '88'"),
        (b"88", "hidden must be a sequence.*got b'88'"),
        ([-3], r"hidden must contain only integers from 1.*got \[-3\]"),
        ((8, 0), r"hidden must contain only integers from 1.*got \(8, 0\)"),
        ((8, 2.5), r"hidden must contain only integers from 1.*got \(8, 2.5\)"),
        ((True,), r"hidden must contain only integers from 1.*got \(True,\)"),
        ((10**9,), r"hidden must contain only integers from 1 to 65536.*got \(1000000000,\)"),
    ],
)
def test_other_values_for_widths_raise(widths, reason):
    with pytest.raises(ValueError, match=reason):
        check_widths(SimpleNamespace(hidden=widths), "hidden")


@pytest.mark.parametrize("path", [None, 5, b"file", ["file"]])
def test_only_strings_and_path_objects_are_paths(path, tmp_path):
    check_path("study", "file")
    check_path("study", tmp_path)
    with pytest.raises(TypeError, match=r"study must be a path.*got"):
        check_path("study", path)


class Unprintable:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize("value", [list(range(999)), np.arange(999), "x" * 999, Unprintable(), "a\nb"])
def test_shown_values_are_short_and_on_one_line(value):
    assert 0 < len(shown(value)) <= 60
    assert "\n" not in shown(value)


def test_a_collection_becomes_a_list_and_other_values_none():
    assert to_list(np.array([1, 2])) == to_list({1, 2}) == to_list((1, 2)) == [1, 2]
    assert [to_list(value) for value in ("ab", b"ab", {"a": 1}, 5, None, np.array(5))] == [None] * 6
