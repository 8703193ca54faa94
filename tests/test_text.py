import pytest

from stablemiss.text import looks_like_dates, non_numeric_entry


@pytest.mark.parametrize(
    ("entries", "stray"),
    [
        (["1.5"] * 19 + ["unknown"], "unknown"),
        (["1e3", " 2 ", "-3"] * 5 + ["1,234"], "1,234"),
        (["1"] * 9 + ["a"], None),
        (["1", "2"], None),
        (["a", "b"], None),
        ([], None),
    ],
)
def test_a_stray_entry_is_one_among_many_numbers(entries, stray):
    assert non_numeric_entry(entries) == stray


@pytest.mark.parametrize(
    ("entries", "date"),
    [
        (["31/12/2020", "1/1/2021"], "31/12/2020"),
        (["31.12.20 23:59"], "31.12.20 23:59"),
        (["31/12/2020", "soon"], None),
        (["1.5", "2.5"], None),
        ([], None),
    ],
)
def test_dates_are_known_where_all_entries_are_dates(entries, date):
    assert looks_like_dates(entries) == date
