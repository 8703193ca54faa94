import pyarrow
import pytest

from stablemiss.cli.entries import MISSING, is_missing_marker, is_number_text, null_markers, to_numbers


def chunked(*entries):
    return pyarrow.chunked_array([pyarrow.array(entries, pyarrow.string())])


@pytest.mark.parametrize(
    ("entries", "decimal", "numbers"),
    [
        (["1", "-2", None], ".", [1, -2, None]),
        (["1", "2.5", " 3 ", "1e3", "+.5"], ".", [1.0, 2.5, 3.0, 1000.0, 0.5]),
        (["1,5", "1.234,5", "-0,25", "7", "1,5e3"], ",", [1.5, 1234.5, -0.25, 7.0, 1500.0]),
        (["1,234.5", "1,234,567", "12"], ".", [1234.5, 1234567.0, 12.0]),
        (["0,274", "-0,460"], ".", [None, None]),
        (["1.5", "x", "12.10.2024", "1,2,3"], ",", [None, None, None, None]),
        (["1,5", "12-10", "0x10", "", "2"], ".", [None, None, None, None, 2.0]),
        (["inf", "-Infinity"], ",", [float("inf"), float("-inf")]),
    ],
)
def test_numbers_are_read_with_either_decimal_mark(entries, decimal, numbers):
    assert to_numbers(chunked(*entries), decimal).to_pylist() == numbers


def test_whole_numbers_are_integers_even_if_large():
    column = to_numbers(chunked("9007199254740993", "0"))
    assert column.type == pyarrow.int64()
    assert column[0].as_py() == 2**53 + 1


def test_numbers_beyond_int64_are_floats():
    assert to_numbers(chunked("1" + "0" * 30)).to_pylist() == [1e30]


@pytest.mark.parametrize("decimal", [".", ","])
def test_python_and_arrow_agree_on_what_a_number_is(decimal):
    entries = [
        "1",
        "1.5",
        "1,5",
        "1.234,5",
        "1,234.5",
        "1.2.3",
        "1e5",
        "-1",
        "--1",
        "1-",
        ".5",
        ",5",
        ".",
        "a",
        "5.",
    ]
    numbers = to_numbers(chunked(*entries), decimal).to_pylist()
    for entry, number in zip(entries, numbers, strict=True):
        assert is_number_text(entry, decimal) == (number is not None), entry


def test_markers_become_null_and_are_counted_unless_they_are_empty():
    column, counts = null_markers(chunked("a", "?", " NA ", "", None, "?"), MISSING)
    assert column.to_pylist() == ["a", None, None, None, None, None]
    assert counts == {"?": 2, "NA": 1}


def test_a_column_without_markers_is_returned_unchanged():
    column = chunked("a", None)
    assert null_markers(column, MISSING) == (column, {})


def test_markers_can_ignore_case_but_keep_their_spelling_in_the_count():
    assert null_markers(chunked("Unknown", "1"), ("unknown",), ignore_case=True)[1] == {"Unknown": 1}


@pytest.mark.parametrize(
    ("entry", "expected"), [("", True), ("n.a.", True), ("MISSING", True), ("none of it", False)]
)
def test_markers_of_missing_numbers(entry, expected):
    assert is_missing_marker(entry) is expected
