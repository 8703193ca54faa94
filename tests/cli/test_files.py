import gzip

import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from stablemiss.cli import files
from stablemiss.cli.files import check_column, read_table, write_table


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "missing", ["", "NA", "NaN", "nan", "null", "NULL", "None", "?", "N/A", "<NA>", '""']
)
def test_markers_of_missing_values_are_missing_in_numeric_and_text_columns(tmp_path, missing):
    table = read_table(write(tmp_path / "a.csv", f"x,word\n1.5,a\n{missing},{missing}\n"))
    assert table.to_pydict() == {"x": [1.5, None], "word": ["a", None]}


def test_types_are_inferred_from_the_whole_file(tmp_path):
    """A column of a million integers followed by 0.5 is a column of floats."""
    lines = ["x", *["1"] * 1_000_000, "0.5"]
    table = read_table(write(tmp_path / "a.csv", "\n".join(lines)))
    assert table.schema.field("x").type == pyarrow.float64()
    assert table.column("x")[-1].as_py() == 0.5


def test_a_column_without_values_is_numeric_and_all_missing(tmp_path):
    table = read_table(write(tmp_path / "a.csv", "x,y\n,1\n,2\n"))
    assert table.schema.field("x").type == pyarrow.float64()
    assert table.column("x").null_count == 2


def test_text_columns_are_read_as_text(tmp_path):
    path = write(tmp_path / "a.csv", "code,x\n01,1\n02,2\n")
    assert read_table(path, text_columns=["code", "absent"]).to_pydict() == {
        "code": ["01", "02"],
        "x": [1, 2],
    }


def test_line_breaks_inside_quotes_and_a_byte_order_mark_work(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfx,word\n1,"two\nlines"\n')
    assert read_table(path).to_pydict() == {"x": [1], "word": ["two\nlines"]}


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "A.CSV", "a.pq"])
def test_a_written_table_can_be_read(tmp_path, name):
    table = pyarrow.table(
        {"x": [0.1, None, 1e300], "word": ["a,b", 'say "c"', None], "yes": [True, False, None]}
    )
    write_table(table, tmp_path / name)
    assert read_table(tmp_path / name) == table
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_files_with_extension_gz_are_compressed(tmp_path):
    write_table(pyarrow.table({"x": [1, 2]}), tmp_path / "a.csv.gz")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode().split() == ['"x"', "1", "2"]


def test_a_folder_named_like_a_partition_does_not_add_a_column(tmp_path):
    (tmp_path / "year=2024").mkdir()
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "year=2024" / "a.parquet")
    assert read_table(tmp_path / "year=2024" / "a.parquet").column_names == ["x"]


def test_the_row_index_of_pandas_is_dropped_with_a_warning(tmp_path):
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=[0, 2, 1])
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    frame.rename_axis("house").to_parquet(tmp_path / "named.parquet")
    for name, dropped in (
        ("a.csv", "a column without a name"),
        ("a.parquet", "'__index_level_0__'"),
        ("named.parquet", "'house'"),
    ):
        with pytest.warns(UserWarning, match=f"Dropped from .*{name}.*: {dropped}"):
            assert read_table(tmp_path / name).column_names == ["x"]


def test_a_default_index_is_dropped_without_a_warning(tmp_path):
    pd.DataFrame({"x": [1, 2, 3]}).to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").column_names == ["x"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "cannot be read as CSV: Empty"),
        ("a.csv", b"x,y\n", "has column names but no rows"),
        ("a.csv", b"x,y\n1\n", "Expected 2 columns, got 1"),
        ("a.csv", b"x,x\n1,2\n", "several columns named 'x'; rename"),
        ("a.csv", b"x,y\n\xff\xfe,1\n", "Column 'x' in .* is not UTF-8"),
        ("a.csv.gz", b"x,y\n1,2\n", "cannot be read as CSV"),
        ("a.parquet", b"PAR1 nonsense", "cannot be read as PARQUET"),
        ("a.xlsx", b"", "must end in .csv"),
    ],
)
def test_a_file_that_is_not_a_table_raises(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_does_not_exist_and_a_folder_raise(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        read_table(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path)


def test_the_error_for_an_unknown_column_lists_the_columns(tmp_path):
    table = pyarrow.table({"height": [1], "weight": [2]})
    with pytest.raises(ValueError, match=r"no column 'size'; its columns are: height, weight\."):
        check_column(table, "size", tmp_path / "a.csv")


def test_the_error_without_pyarrow_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r'needs pyarrow; install with: pip install "stablemiss\[files\]"'
    ):
        read_table(write(tmp_path / "a.csv", "x\n1\n"))
