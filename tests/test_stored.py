"""Entries of another type, shape or range than the code relies on raise an error."""

import numpy as np
import pytest

from stablemiss.stored import check_stored, stored_array, stored_bool, stored_list


def test_an_array_that_fits_is_returned_as_it_is():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert stored_array({"a": array}, "a", (2, None), lowest=0, highest=5) is array
    empty = np.zeros((0,))
    assert stored_array({"a": empty}, "a", (0,)) is empty


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 4)),
        np.zeros((3, 2)),
        np.zeros(6),
        np.zeros((0, 3)),
        np.zeros((2, 3), dtype=np.float32),
        np.zeros((2, 3), dtype=np.int64),
        np.zeros((2, 3), dtype=object),
        np.full((2, 3), np.nan),
        np.full((2, 3), np.inf),
        np.full((2, 3), 8.0),
        np.full((2, 3), -1.0),
        [[0.0, 0.0, 0.0]] * 2,
        None,
        "text",
    ],
    ids=str,
)
def test_other_arrays_raise(array):
    with pytest.raises(ValueError, match=r"^weight must "):
        stored_array({"weight": array}, "weight", (2, 3), lowest=0.0, highest=7.0)


def test_an_axis_of_any_length_must_not_be_empty():
    with pytest.raises(ValueError, match=r"shape \(n, 3\), but is .* shape \(0, 3\)"):
        stored_array({"a": np.zeros((0, 3))}, "a", (None, 3))


def test_lists_and_booleans_of_another_type_or_length_raise():
    assert stored_list({"a": ["x", "y"]}, "a", str, 2) == ["x", "y"]
    for items in (["x"], ["x", 1], ("x", "y"), "xy", None):
        with pytest.raises(ValueError, match=r"^a must "):
            stored_list({"a": items}, "a", str, 2)
    assert stored_bool({"a": False}, "a") is False
    for value in (0, None, "True", np.ones(1)):
        with pytest.raises(ValueError, match=r"^a must be True or False"):
            stored_bool({"a": value}, "a")


def test_a_condition_that_does_not_hold_raises():
    check_stored(np.bool_(True), "fine")
    with pytest.raises(ValueError, match=r"^the problem\.$"):
        check_stored(False, "the problem")
