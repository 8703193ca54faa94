import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pandas as pd
import pyarrow
import pytest
from pyarrow import feather, parquet

from stablemiss.cli import formats, reading
from stablemiss.cli.formats import STANDARD, Format
from stablemiss.cli.reading import PrefixedStream, ReadOptions, batch_rows, open_table, read_table
from stablemiss.cli.writing import write_table

NAMES = [
    "a.csv",
    "a.csv.gz",
    "a.tsv",
    "a.parquet",
    "a.feather",
    "a.jsonl",
    "a.jsonl.gz",
    "a.xlsx",
    "A.CSV",
    "a.pq",
]
TYPED = pyarrow.table(
    {"x": [0.1, None, 1e300], "word": ["a,b", 'say "c"', None], "yes": [True, False, None], "n": [1, 2, None]}
)
AS_TEXT = {
    "x": ["0.1", "", "1e+300"],
    "word": ["a,b", 'say "c"', ""],
    "yes": ["true", "false", ""],
    "n": ["1", "2", ""],
}


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_written_table_can_be_read(tmp_path, name):
    write_table(TYPED, tmp_path / name)
    table, dialect = read_table(tmp_path / name)
    assert (table.to_pydict() == AS_TEXT) if dialect else (table == TYPED)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.feather", "a.jsonl", "a.xlsx"])
def test_batches_contain_all_rows_in_order(tmp_path, monkeypatch, name):
    monkeypatch.setattr(reading, "BATCH_ROWS", 100)
    write_table(pyarrow.table({"x": range(250)}), tmp_path / name)
    with open_table(tmp_path / name, ReadOptions()) as source:
        batches = list(source.batches())
    assert [batch.num_rows for batch in batches] == [100, 100, 50]
    assert [int(x) for batch in batches for x in batch.column("x").to_pylist()] == list(range(250))


def test_batches_of_wide_tables_have_fewer_rows():
    assert batch_rows(10**7) == 1
    assert batch_rows(1000) * 1000 <= reading.BATCH_CELLS


@pytest.mark.parametrize("name", NAMES)
def test_standard_input_is_read_in_every_format(tmp_path, monkeypatch, name):
    write_table(TYPED, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    file_format = formats.format_of(Path(name))
    table, dialect = read_table(STANDARD, ReadOptions(format=file_format))
    assert (table.to_pydict() == AS_TEXT) if dialect else (table == TYPED)


@pytest.mark.parametrize("name", ["pipe.csv", "pipe.parquet"])
def test_a_named_pipe_can_be_read(tmp_path, name):
    pipe, file = tmp_path / name, tmp_path / f"file-{name}"
    write_table(TYPED, file)
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: pipe.write_bytes(file.read_bytes()))
    thread.start()
    assert read_table(pipe)[0].num_rows == 3
    thread.join()


def test_a_file_with_an_unknown_extension_is_read_with_the_given_format(tmp_path):
    path = write(tmp_path / "a.data", "x\n1\n")
    assert read_table(path, ReadOptions(format=Format.csv))[0].to_pydict() == {"x": ["1"]}


def test_gzipped_files_are_recognised_by_their_content(tmp_path):
    (tmp_path / "a.csv").write_bytes(gzip.compress(b"x\n1\n"))
    assert read_table(tmp_path / "a.csv")[0].to_pydict() == {"x": ["1"]}


def test_a_folder_named_like_a_partition_does_not_add_a_column(tmp_path):
    (tmp_path / "year=2024").mkdir()
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "year=2024" / "a.parquet")
    assert read_table(tmp_path / "year=2024" / "a.parquet")[0].column_names == ["x"]


def test_the_row_index_of_pandas_is_dropped_with_a_warning(tmp_path):
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=[0, 2, 1])
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    feather.write_feather(pyarrow.Table.from_pandas(frame), tmp_path / "a.feather")
    frame.rename_axis("house").to_parquet(tmp_path / "named.parquet")
    for name, dropped in (
        ("a.csv", "a column without a name"),
        ("a.parquet", "'__index_level_0__'"),
        ("a.feather", "'__index_level_0__'"),
        ("named.parquet", "'house'"),
    ):
        with pytest.warns(UserWarning, match=f"Dropped from .*{name}.*: {dropped}"):
            assert read_table(tmp_path / name)[0].column_names == ["x"]


def test_a_default_index_is_dropped_without_a_warning(tmp_path):
    pd.DataFrame({"x": [1, 2, 3]}).to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet")[0].column_names == ["x"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"x,y\n", "has column names but no rows"),
        ("a.csv", b"x,x\n1,2\n", "several columns named 'x'; rename"),
        ("a.csv.gz", gzip.compress(b"x,y\n1,2\n" * 999, mtime=0)[:-20], "cannot be read as CSV"),
        ("a.parquet", b"PAR1 nonsense", "cannot be read as Parquet"),
        ("a.feather", b"nonsense", "cannot be read as Feather"),
        ("a.xlsx", b"nonsense", "cannot be read as Excel"),
        ("a.doc", b"", "--format"),
    ],
)
def test_a_file_that_is_not_a_table_raises(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_stream_continues_after_the_bytes_that_were_read():
    stream = PrefixedStream(b"abc", io.BytesIO(b"def"))
    assert stream.read(2) == b"ab"
    assert stream.read(2) == b"c"
    assert stream.read() == b"def"
    assert stream.read() == b""


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.feather", "a.jsonl", "a.xlsx"])
@pytest.mark.parametrize("other", [".csv", ".parquet", ".data", ""])
def test_a_given_format_is_more_important_than_the_extension(tmp_path, name, other):
    write_table(pyarrow.table({"x": ["a", "b"]}), tmp_path / name)
    path = (tmp_path / name).rename(tmp_path / f"b{other}")
    table, _ = read_table(path, ReadOptions(format=formats.format_of(Path(name))))
    assert table.to_pydict() == {"x": ["a", "b"]}
