import pytest

from stablemiss.text import first_date_entry, non_numeric_entry


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["1.5"] * 19 + ["unknown"], "unknown"),
        (["1e3", " 2 ", "-3"] * 5 + ["1,234"], "1,234"),
        (["1"] * 9 + ["a"], None),
        (["1", "2"], None),
        (["a", "b"], None),
        ([], None),
    ],
)
def test_a_non_numeric_entry_is_found_only_if_nearly_all_entries_are_numbers(entries, expected):
    assert non_numeric_entry(entries) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["31/12/2020", "1/1/2021"], "31/12/2020"),
        (["31.12.20 23:59"], "31.12.20 23:59"),
        (["31/12/2020", "soon"], None),
        (["1.5", "2.5"], None),
        ([], None),
    ],
)
def test_dates_are_recognised_only_if_all_entries_are_dates(entries, expected):
    assert first_date_entry(entries) == expected
