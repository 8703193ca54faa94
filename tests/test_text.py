import pickle

import pytest

from stablemiss.text import RowError, count, is_number, quoted


@pytest.mark.parametrize(
    ("entry", "expected"),
    [("1.5", True), (" -2 ", True), ("1e3", True), ("1,5", False), ("", False), ("unknown", False)],
)
def test_numbers_are_recognised(entry, expected):
    assert is_number(entry) is expected


def test_the_plural_depends_on_the_number():
    assert [count(n, "row") for n in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]


def test_long_enumerations_are_cut():
    assert quoted(["a"]) == "'a'"
    assert quoted(["a", "b", "c"], limit=3) == "'a', 'b', 'c'"
    assert quoted(["a", "b", "c", "d"], limit=2) == "'a', 'b' and 2 more"


def test_errors_about_a_row_can_be_sent_between_processes_and_renumbered():
    error = pickle.loads(pickle.dumps(RowError("In row ", 3, ", x is '{y}'.")))
    assert str(error) == "In row 3, x is '{y}'."
    assert error.with_row(error.row + 1) == "In row 4, x is '{y}'."
