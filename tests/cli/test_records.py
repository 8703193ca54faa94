import io
import json
from datetime import datetime

import pyarrow
import pytest
from openpyxl import Workbook

from stablemiss.cli.records import excel_batches, jsonl_batches


def read_lines(*records, batch_rows=None):
    content = "\n".join(json.dumps(record) for record in records).encode()
    return [table.to_pydict() for table in jsonl_batches(io.BytesIO(content), "a.jsonl", batch_rows)]


def test_json_lines_have_types_and_may_omit_columns():
    table = read_lines({"x": 1, "word": "a"}, {"x": 2.5, "yes": True}, {"x": None})
    assert table == [{"x": [1.0, 2.5, None], "word": ["a", None, None], "yes": [None, True, None]}]


def test_numbers_mixed_with_text_become_text():
    assert read_lines({"x": 1}, {"x": "?"}) == [{"x": ["1", "?"]}]


def test_integers_too_large_for_int64_become_floats():
    assert read_lines({"x": 10**30}) == [{"x": [1e30]}]


def test_json_lines_are_read_in_batches():
    batches = read_lines(*({"x": i} for i in range(5)), batch_rows=lambda n_columns: 2)
    assert [batch["x"] for batch in batches] == [[0, 1], [2, 3], [4]]


def test_batches_of_wide_tables_have_fewer_rows(tmp_path):
    def batch_rows(n_columns):
        return 6 // n_columns

    rows = [[i, 2 * i, 3 * i] for i in range(5)]
    sheet = write_sheet(tmp_path / "a.xlsx", ["x", "y", "z"], *rows)
    lines = read_lines(*(dict(zip("xyz", row, strict=True)) for row in rows), batch_rows=batch_rows)
    assert [batch["x"] for batch in lines] == [[0, 1], [2, 3], [4]]
    assert [table.to_pydict() for table in excel_batches(sheet, "a.xlsx", batch_rows)] == lines


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"", ["is empty"]),
        (b'{"x": 1}\n{"x": \n', ["Line 2", "not valid JSON"]),
        (b"[1, 2]\n", ["Line 1", "one object per line"]),
        (b'{"x": [1]}\n', ["'x'", "list"]),
    ],
)
def test_lines_that_are_not_records_raise(content, facts):
    with pytest.raises(ValueError) as caught:
        list(jsonl_batches(io.BytesIO(content), "a.jsonl", None))
    assert all(fact in str(caught.value) for fact in facts), caught.value


def test_a_column_that_appears_after_the_first_batch_raises():
    with pytest.raises(ValueError, match=r"Row 3 of a\.jsonl has a column 'y'"):
        read_lines({"x": 1}, {"x": 2}, {"y": 3}, batch_rows=lambda n_columns: 2)


def write_sheet(path, *rows, sheets=1):
    workbook = Workbook()
    for row in rows:
        workbook.active.append(row)
    for number in range(1, sheets):
        workbook.create_sheet(f"more {number}")
    workbook.save(path)
    return path


def test_excel_cells_have_types(tmp_path):
    path = write_sheet(
        tmp_path / "a.xlsx",
        ["x", "word", "day", "yes", "mixed", None],
        [1, "a", datetime(2024, 1, 31), True, 5],
        [2.5, None, None, False, "?"],
        [],
    )
    (table,) = excel_batches(path, "a.xlsx", None)
    assert table.to_pydict() == {
        "x": [1.0, 2.5],
        "word": ["a", None],
        "day": [datetime(2024, 1, 31), None],
        "yes": [True, False],
        "mixed": ["5", "?"],
    }
    assert pyarrow.types.is_timestamp(table.schema.field("day").type)


def test_further_sheets_are_mentioned(tmp_path):
    path = write_sheet(tmp_path / "a.xlsx", ["x"], [1], sheets=3)
    with pytest.warns(UserWarning, match=r"a\.xlsx has 3 sheets; only the first, 'Sheet', is read"):
        list(excel_batches(path, "a.xlsx", None))


def test_a_sheet_without_column_names_raises(tmp_path):
    path = write_sheet(tmp_path / "a.xlsx", [None, None], [1, 2])
    with pytest.raises(ValueError, match="must contain the column names"):
        list(excel_batches(path, "a.xlsx", None))
