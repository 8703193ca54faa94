"""Numbers are recognised in the ways in which people write them, and codes are not."""

from __future__ import annotations

import pytest

from stablemiss.encoding.numbers_in_text import are_zero_padded, is_number_with_unit, is_separated_number


@pytest.mark.parametrize(
    "text", ["12", "12,28", "-0,5", "1.234,5", "1,234.5", "1'234", "1\N{NO-BREAK SPACE}234,5", " 7, ", "1e3"]
)
def test_numbers_with_separators(text: str) -> None:
    assert is_separated_number(text)


@pytest.mark.parametrize(
    "text", ["", "?", "nan", ",", "1,2,3", "12.10.2024", "1.23.456", "12-13", "12%", "a1"]
)
def test_text_that_is_not_a_number_with_separators(text: str) -> None:
    assert not is_separated_number(text)


def test_the_unit_is_the_most_frequent_one() -> None:
    is_weight = is_number_with_unit(["5 kg", "6,5 kg", "100 g", "7"])
    assert [is_weight(text) for text in ("8 kg", "8kg", "8", "100 g", "kg", "")] == [True] * 3 + [False] * 3
    is_price = is_number_with_unit(["$5", "$1,234.56"])
    assert [is_price(text) for text in ("$7", "7", "7 $", "#7")] == [True, True, False, False]
    assert not is_number_with_unit(["red", "K100"])("K100")


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ({"01067", "80331"}, True),
        ({"00", "01"}, True),
        ({"80331", "10115"}, False),
        ({"0", "1"}, False),
        ({"05", "5"}, False),
        ({"0.5", "1.5"}, False),
        ({"-01", "123"}, False),
        (set(), False),
    ],
)
def test_zero_padded_digits(levels: set[str], expected: bool) -> None:
    assert are_zero_padded(levels) is expected
