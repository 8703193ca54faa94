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
def test_what_people_write_for_missing_is_missing_in_numbers_and_text(tmp_path, missing):
    table = read_table(write(tmp_path / "a.csv", f"x,word\n1.5,a\n{missing},{missing}\n"))
    assert table.to_pydict() == {"x": [1.5, None], "word": ["a", None]}


def test_types_come_from_the_whole_file(tmp_path):
    """A column of whole numbers over megabytes that ends in 0.5 is a column of decimal numbers."""
    lines = ["x", *["1"] * 1_000_000, "0.5"]
    table = read_table(write(tmp_path / "a.csv", "\n".join(lines)))
    assert table.schema.field("x").type == pyarrow.float64()
    assert table.column("x")[-1].as_py() == 0.5


def test_a_column_without_values_is_numeric_and_all_missing(tmp_path):
    table = read_table(write(tmp_path / "a.csv", "x,y\n,1\n,2\n"))
    assert table.schema.field("x").type == pyarrow.float64()
    assert table.column("x").null_count == 2


def test_text_columns_stay_text(tmp_path):
    path = write(tmp_path / "a.csv", "code,x\n01,1\n02,2\n")
    assert read_table(path, text_columns=["code", "absent"]).to_pydict() == {
        "code": ["01", "02"],
        "x": [1, 2],
    }


def test_line_breaks_inside_quotes_and_a_byte_order_mark_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfx,word\n1,"two\nlines"\n')
    assert read_table(path).to_pydict() == {"x": [1], "word": ["two\nlines"]}


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "A.CSV", "a.pq"])
def test_what_is_written_is_read_back(tmp_path, name):
    table = pyarrow.table(
        {"x": [0.1, None, 1e300], "word": ["a,b", 'say "c"', None], "yes": [True, False, None]}
    )
    write_table(table, tmp_path / name)
    assert read_table(tmp_path / name) == table
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_gz_is_really_compressed(tmp_path):
    write_table(pyarrow.table({"x": [1, 2]}), tmp_path / "a.csv.gz")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode().split() == ['"x"', "1", "2"]


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path):
    (tmp_path / "year=2024").mkdir()
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "year=2024" / "a.parquet")
    assert read_table(tmp_path / "year=2024" / "a.parquet").column_names == ["x"]


def test_the_row_index_of_pandas_is_no_column(tmp_path):
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=[0, 2, 1])
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    frame.rename_axis("house").to_parquet(tmp_path / "named.parquet")
    for name, left_out in (
        ("a.csv", "a column without a name"),
        ("a.parquet", "'__index_level_0__'"),
        ("named.parquet", "'house'"),
    ):
        with pytest.warns(UserWarning, match=f"Left out of .*{name}.*: {left_out}"):
            assert read_table(tmp_path / name).column_names == ["x"]


def test_an_index_that_only_counts_is_not_worth_a_word(tmp_path):
    pd.DataFrame({"x": [1, 2, 3]}).to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").column_names == ["x"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"", "cannot be read as CSV: Empty"),
        ("a.csv", b"x,y\n", "has column names but no rows"),
        ("a.csv", b"x,y\n1\n", "Expected 2 columns, got 1"),
        ("a.csv", b"x,x\n1,2\n", "several columns named 'x'; rename"),
        ("a.csv", b"x,y\n\xff\xfe,1\n", "Column 'x' of .* is not UTF-8"),
        ("a.csv.gz", b"x,y\n1,2\n", "cannot be read as CSV"),
        ("a.parquet", b"PAR1 nonsense", "cannot be read as PARQUET"),
        ("a.xlsx", b"", "should end in .csv"),
    ],
)
def test_a_file_that_is_no_table_is_told_in_a_sentence(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_absent_files_and_folders_are_told_apart(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        read_table(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path)


def test_an_unknown_column_is_answered_with_the_known_ones(tmp_path):
    table = pyarrow.table({"height": [1], "weight": [2]})
    with pytest.raises(ValueError, match=r"no column 'size'; its columns are: height, weight\."):
        check_column(table, "size", tmp_path / "a.csv")


def test_without_pyarrow_one_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r'needs pyarrow; install with: pip install "stablemiss\[files\]"'
    ):
        read_table(write(tmp_path / "a.csv", "x\n1\n"))
