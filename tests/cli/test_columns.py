from datetime import date

import pyarrow
import pytest

from stablemiss.cli.columns import Remarks, TextRules, infer_types, to_text, to_training_types
from stablemiss.cli.entries import MISSING

CSV = TextRules("a.csv", missing_values=MISSING, is_untyped=True)
PARQUET = TextRules("a.parquet")
NUMBERS = [str(i) for i in range(40)]


def infer(entries, rules=CSV, **options):
    """Type and entries of one column, and the remarks on it."""
    array = pyarrow.array(entries, pyarrow.string())
    table, remarks = infer_types(pyarrow.table({"x": array}), rules, **options)
    return str(table.schema.field("x").type), table.column("x").to_pylist(), remarks.of_column("x")


@pytest.mark.parametrize(
    ("entries", "expected_type", "values"),
    [
        (["1", "2", ""], "int64", [1, 2, None]),
        (["1", "2.5", "NA"], "double", [1.0, 2.5, None]),
        (["true", "False", "?"], "bool", [True, False, None]),
        (["a", "None", "b"], "string", ["a", None, "b"]),
        (["", "NA"], "double", [None, None]),
        (["1", "x", "2"], "string", ["1", "x", "2"]),
        (["2024-01-31", ""], "string", ["2024-01-31", None]),
    ],
)
def test_columns_of_untyped_files_get_the_type_of_their_entries(entries, expected_type, values):
    assert infer(entries)[:2] == (expected_type, values)


@pytest.mark.parametrize("marker", ["", "-"])
def test_digits_with_leading_zeros_are_text_unless_they_are_the_target(marker):
    postcodes = ["01067", "80331", "10115"] * 10
    assert infer([*postcodes, marker])[:2] == ("string", [*postcodes, marker or None])
    assert infer(postcodes, target="x")[0] == "int64"
    assert infer(["05", "7", "12"])[0] == "int64"
    assert infer(["0", "1"])[0] == "int64"
    assert infer(["0.5", "1.5"])[0] == "double"


def test_text_of_typed_files_stays_text_and_has_no_markers():
    assert infer(["a", "2", "NA"], PARQUET)[:2] == ("string", ["a", "2", "NA"])
    assert infer(["1", "2"], PARQUET)[:2] == ("string", ["1", "2"])
    assert infer(["1", "gone"], TextRules("a.parquet", missing_values=("gone",)))[1] == ["1", None]


@pytest.mark.parametrize("rules", [CSV, PARQUET])
@pytest.mark.parametrize("marker", ["-", ".", "unknown", "Missing", "n.a."])
@pytest.mark.parametrize("n", [2, 50])
def test_markers_in_a_numeric_column_are_missing_and_counted(rules, marker, n):
    kind, values, remarks = infer([*NUMBERS, *[marker] * n], rules)
    assert kind == "double"
    assert values == [*map(float, NUMBERS), *[None] * n]
    assert remarks == [f"{n} entries of {marker!r} read as missing"]


def test_markers_are_categories_in_a_column_without_numbers():
    assert infer(["none", "unknown", "none"])[:2] == ("string", ["none", "unknown", "none"])
    assert infer(["1", "a", "-", "-"])[:2] == ("string", ["1", "a", "-", "-"])


def test_entries_of_known_markers_are_counted_in_text_too():
    assert infer(["a", "?", "?", ""])[2] == ["2 entries of '?' read as missing"]


@pytest.mark.parametrize("rules", [CSV, PARQUET])
def test_another_entry_in_a_numeric_column_raises_with_advice(rules):
    with pytest.raises(ValueError) as caught:
        infer([*NUMBERS, "about 5", "-"], rules)
    message = str(caught.value)
    for fact in (
        rules.name,
        "'x'",
        "'about 5'",
        "--missing-value 'about 5'",
        "--category 'x'",
        "--ignore 'x'",
    ):
        assert fact in message


def test_a_target_with_another_entry_raises_unless_it_consists_of_classes():
    with pytest.raises(ValueError, match="use --classify"):
        infer([*NUMBERS, "expensive"], target="x")
    kind, values, _ = infer([*NUMBERS, "expensive"], target="x", classify=True)
    assert (kind, values[-1]) == ("string", "expensive")
    assert infer(NUMBERS, target="x", classify=True)[0] == "int64"


def test_categories_are_categorical_whatever_their_entries_are():
    table = pyarrow.table(
        {"code": ["01", "1", None], "n": [1.0, 2.0, None], "day": [date(2024, 1, 31), None, None]}
    )
    table, _ = infer_types(table, PARQUET, ["code", "n", "day"])
    assert all(pyarrow.types.is_dictionary(field.type) for field in table.schema)
    assert table.to_pydict() == {
        "code": ["01", "1", None],
        "n": ["1", "2", None],
        "day": ["2024-01-31", None, None],
    }


def test_floats_with_a_fraction_keep_it_as_text():
    assert to_text(pyarrow.chunked_array([[1.0, 2.5]])).to_pylist() == ["1", "2.5"]


def convert(column, rules=CSV, numeric=("x",), categorical=(), dates=()):
    remarks = Remarks()
    names = {"numbers": numeric, "categories": categorical, "dates": dates}
    table = to_training_types(pyarrow.table({"x": column}), names, rules, remarks)
    return table.column("x").to_pylist(), remarks.of_column("x")


def test_new_rows_get_the_types_of_training():
    assert convert(["1", "True", "", "2.5"])[0] == [1.0, 1.0, None, 2.5]
    assert convert(["1,5", "1.000"], TextRules("a.csv", decimal=","))[0] == [1.5, 1000.0]
    assert convert([1, 2, None], PARQUET, (), ("x",))[0] == ["1", "2", None]
    assert convert(["01", "?"], CSV, (), ("x",)) == (["01", None], ["1 entry of '?' read as missing"])
    assert convert([None, None], CSV) == ([None, None], [])


def test_any_number_of_markers_is_missing_in_a_column_that_was_numeric():
    assert convert(["-", "unknown", "-", "1"]) == (
        [None, None, None, 1.0],
        ["2 entries of '-' read as missing", "1 entry of 'unknown' read as missing"],
    )


def test_another_entry_in_a_column_that_was_numeric_raises():
    with pytest.raises(ValueError, match=r"Column 'x' in a\.csv must be numeric, as in training; got 'big'"):
        convert(["1", "-", "big"])


def test_markers_are_missing_in_columns_of_dates():
    kind, values, remarks = infer(["2024-01-31", "-", "unknown", "2024-02-01"])
    assert (kind, values) == ("string", ["2024-01-31", None, None, "2024-02-01"])
    assert len(remarks) == 2
    assert convert(["2024-01-31", "-"], CSV, (), (), ("x",))[0] == ["2024-01-31", None]


@pytest.mark.parametrize("entries", [["1", "-999", "-999.0"], [1, -999, -999], [1.0, -999.0, -999.0]])
def test_numbers_that_mean_missing_can_be_given(entries):
    rules = TextRules("a", missing_values=("-999", "gone"), is_untyped=isinstance(entries[0], str))
    table, remarks = infer_types(pyarrow.table({"x": entries}), rules)
    assert table.column("x").to_pylist() == [1, None, None]
    assert remarks.of_column("x") == ["2 entries of '-999' read as missing"]
    assert convert(entries, rules)[0] == [1, None, None]


def test_numbers_that_mean_missing_may_stand_beside_large_whole_numbers():
    table, remarks = infer_types(
        pyarrow.table({"x": [2**60 + 1, -999]}), TextRules("a", missing_values=("-999",))
    )
    assert table.column("x").to_pylist() == [2**60 + 1, None]
    assert remarks.of_column("x") == ["1 entry of '-999' read as missing"]


@pytest.mark.parametrize("kind", [pyarrow.date32(), pyarrow.timestamp("us"), pyarrow.timestamp("ms")])
def test_dates_that_mean_missing_can_be_given(kind):
    dates = pyarrow.array([date(2024, 1, 31), date(1900, 1, 1), None]).cast(kind)
    rules = TextRules("a", missing_values=("1900-01-01",))
    table, remarks = infer_types(pyarrow.table({"x": dates}), rules)
    assert table.column("x").to_pylist() == [dates[0].as_py(), None, None]
    assert remarks.of_column("x") == ["1 entry of '1900-01-01' read as missing"]
    assert convert(dates, rules, (), (), ("x",))[0] == [dates[0].as_py(), None, None]


def test_remarks_are_counted_over_batches():
    remarks = Remarks()
    for _ in range(1000):
        remarks.count_missing("x", {"?": 2})
    remarks.count_missing("y", {})
    assert remarks.lines() == ["Column 'x': 2,000 entries of '?' read as missing."]
