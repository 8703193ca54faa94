import gzip
import io
import re
import sys
from datetime import UTC, date, datetime

import numpy as np
import pyarrow
import pytest

from stablemiss.cli import writing
from stablemiss.cli.dialect import Dialect
from stablemiss.cli.formats import STANDARD, Format
from stablemiss.cli.reading import read_table
from stablemiss.cli.writing import csv_lines, open_output, write_table


def test_csv_has_quotation_marks_only_where_they_are_needed():
    table = pyarrow.table({"x": [1.5, None], "word": ["plain", 'a "b", c'], "day": [date(2024, 1, 31), None]})
    assert csv_lines(table).decode() == '1.5,plain,2024-01-31\n,"a ""b"", c",\n'


@pytest.mark.parametrize("separator", ["^", "\\", "]", "-", "\t", " ", "¦"])
def test_only_entries_with_the_separator_have_quotation_marks(separator):
    table = pyarrow.table({"x": ["plain", f"a{separator}b"], "y": ["p", "q"]})
    assert csv_lines(table, separator).decode() == f'plain{separator}p\n"a{separator}b"{separator}q\n'


NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "entry", "type_name"),
    [
        ("a.csv", [1, 2], "list<item: int64>"),
        ("a.csv", b"\xff", "binary"),
        ("a.xlsx", {"a": 1}, "struct<a: int64>"),
        ("a.xlsx", b"\xff", "binary"),
        ("a.xlsx", NOON, "timestamp[us, tz=UTC]"),
    ],
)
def test_types_that_a_format_cannot_store_raise(tmp_path, name, entry, type_name):
    table = pyarrow.table({"x": [1], "odd": [entry]})
    with pytest.raises(ValueError, match=re.escape(f"Column 'odd' has the type {type_name}, ")):
        write_all(tmp_path / name, table)
    assert not list(tmp_path.iterdir())
    write_all(tmp_path / "a.parquet", table)
    assert read_table(tmp_path / "a.parquet")[0] == table


def test_csv_may_have_time_zones_and_text_stored_as_binary(tmp_path):
    write_all(tmp_path / "a.csv", pyarrow.table({"x": [NOON], "word": [b"plain"]}))
    assert (tmp_path / "a.csv").read_text() == "x,word\n2024-01-31 12:00:00Z,plain\n"


@pytest.mark.parametrize(
    ("times", "entries"),
    [
        ([datetime(2024, 6, 27), None], ["2024-06-27", ""]),
        ([datetime(2024, 6, 27), datetime(2024, 6, 27, 12)], ["2024-06-27 00:00:00", "2024-06-27 12:00:00"]),
        ([datetime(2024, 6, 27, 12, 0, 0, 500)], ["2024-06-27 12:00:00.000500"]),
        ([None, datetime(2024, 6, 27, tzinfo=UTC)], ["", "2024-06-27 00:00:00Z"]),
    ],
)
def test_times_in_csv_have_no_parts_that_are_always_zero(times, entries):
    table = pyarrow.table({"x": ["a"] * len(times), "time": times})
    assert csv_lines(table).decode().splitlines() == [f"a,{entry}" for entry in entries]


def test_the_output_has_the_dialect_of_the_input(tmp_path):
    with open_output(tmp_path / "a.csv", dialect=Dialect(";", ",", "cp1252")) as write:
        write(pyarrow.table({"größe": ["a;b", "1.5"], "x": [0.25, -1e-9]}))
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == 'größe;x\n"a;b";0,25\n1.5;-1e-9\n'


def test_tsv_is_separated_by_tabs_whatever_the_input_is(tmp_path):
    with open_output(tmp_path / "a.tsv", dialect=Dialect(";")) as write:
        write(pyarrow.table({"x": [1], "y": [2]}))
    assert (tmp_path / "a.tsv").read_text() == "x\ty\n1\t2\n"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.feather", "a.jsonl", "a.xlsx"])
def test_batches_are_written_one_after_the_other(tmp_path, name):
    with open_output(tmp_path / name) as write:
        for x in (1, 2, 3):
            write(pyarrow.table({"x": [x], "word": [f"w{x}"]}))
    table, _ = read_table(tmp_path / name)
    assert [int(x) for x in table.column("x").to_pylist()] == [1, 2, 3]
    assert table.column("word").to_pylist() == ["w1", "w2", "w3"]


def write_all(path, *tables, then=None):
    with open_output(path) as write:
        for table in tables:
            write(table)
        if then is not None:
            raise then


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.feather", "a.jsonl", "a.xlsx"])
def test_an_error_leaves_an_existing_file_unchanged_and_no_other_file(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ZeroDivisionError):
        write_all(tmp_path / name, pyarrow.table({"x": [1]}), then=ZeroDivisionError())
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_files_with_extension_gz_are_compressed(tmp_path):
    write_table(pyarrow.table({"x": [1, 2]}), tmp_path / "a.csv.gz")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"x\n1\n2\n"


@pytest.mark.parametrize("file_format", list(Format))
def test_standard_output_is_written_in_every_format(tmp_path, monkeypatch, file_format):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer))
    with open_output(STANDARD, file_format) as write:
        write(pyarrow.table({"x": [1, 2]}))
    extension = ".xlsx" if file_format == Format.excel else f".{file_format}"
    (tmp_path / f"a{extension}").write_bytes(buffer.getvalue())
    assert [int(x) for x in read_table(tmp_path / f"a{extension}")[0].column("x").to_pylist()] == [1, 2]


def test_types_that_change_between_batches_are_converted_or_raise(tmp_path):
    first = pyarrow.table({"x": [1.5]})
    write_all(tmp_path / "a.parquet", first, pyarrow.table({"x": [2]}))
    assert read_table(tmp_path / "a.parquet")[0].to_pydict() == {"x": [1.5, 2.0]}
    with pytest.raises(ValueError, match=r"Column 'x' has another type.*\.csv"):
        write_all(tmp_path / "b.parquet", first, pyarrow.table({"x": ["words"]}))


@pytest.mark.parametrize("entry", ["ring\x07", np.datetime64("12000-01-01", "s")])
def test_entries_that_a_sheet_cannot_store_raise(tmp_path, entry):
    table = pyarrow.table({"x": pyarrow.array([entry])})
    with pytest.raises(ValueError, match=r"control characters nor dates .* Write a \.csv"):
        write_all(tmp_path / "a.xlsx", table)
    assert not list(tmp_path.iterdir())


def test_a_sheet_with_too_many_rows_raises(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MAX_EXCEL_ROWS", 3)
    two_rows = pyarrow.table({"x": [1, 2]})
    with pytest.raises(ValueError, match=r"at most 3 rows; write a \.csv"):
        write_all(tmp_path / "a.xlsx", two_rows, two_rows)
