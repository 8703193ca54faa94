"""Sources made of files: rows come in a fixed order, and whatever is wrong with a file is one sentence."""

import warnings
from pathlib import Path

import numpy as np
import polars
import pyarrow
import pytest
from pyarrow import dataset as arrow_dataset
from pyarrow import parquet

from stablemiss.sources import SourceError, files, is_source, open_source


def write(path: Path, first: int, n: int = 100, **columns: object) -> Path:
    table = pyarrow.table({"a": np.arange(first, first + n, dtype=float), "b": ["x"] * n, **columns})
    parquet.write_table(table, path, row_group_size=40)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        write(tmp_path / f"part-{number}.parquet", 100 * number)
    return tmp_path


def values(source: object) -> list[float]:
    with open_source(source) as opened:
        return [value for batch in opened.map(lambda first, table: table["a"].to_pylist()) for value in batch]


def test_every_kind_of_source_gives_all_rows_once_and_in_order(folder: Path) -> None:
    expected = np.arange(300.0).tolist()
    assert values(folder) == expected
    assert values(str(folder)) == expected
    assert values(folder / "part-1.parquet") == expected[100:200]
    assert values(arrow_dataset.dataset(str(folder))) == expected
    assert values(polars.scan_parquet(folder / "*.parquet")) == expected


def test_positions_of_batches_continue_over_row_groups_and_files(folder: Path) -> None:
    with open_source(folder) as source:
        positions = list(source.map(lambda first, table: (first, table["a"][0].as_py())))
        assert [first for first, _ in positions] == [value for _, value in positions]
        assert [part.n_rows for part in source.parts] == [40, 40, 20] * 3


def test_columns_in_the_names_of_folders_are_columns(tmp_path: Path) -> None:
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        write(tmp_path / f"year={year}" / "rows.parquet", year)
    with open_source(tmp_path) as source:
        years = [set(table) for table in source.map(lambda first, table: table["year"].to_pylist())]
    assert years == [{2023}] * 3 + [{2024}] * 3


def test_the_temporary_file_of_a_lazy_frame_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with open_source(polars.scan_parquet(folder / "*.parquet")) as source:
        assert list(folder.glob("stablemiss-*"))
        assert source.n_rows == 300
    assert not list(folder.glob("stablemiss-*"))


def test_tables_in_memory_are_no_sources() -> None:
    assert not is_source(polars.DataFrame({"a": [1.0]}))
    assert not is_source(pyarrow.table({"a": [1.0]}))
    assert not is_source(np.zeros((2, 2)))


def break_nothing_there(folder: Path) -> None:
    for path in folder.glob("*.parquet"):
        path.unlink()


def break_columns(folder: Path) -> None:
    write(folder / "part-1.parquet", 0, extra=[1.0] * 100)


def break_types(folder: Path) -> None:
    table = pyarrow.table({"a": ["text"], "b": ["x"]})
    parquet.write_table(table, folder / "part-1.parquet")


def break_empty(folder: Path) -> None:
    (folder / "part-1.parquet").write_bytes(b"")


def break_format(folder: Path) -> None:
    (folder / "part-1.parquet").write_text("a,b\n1,x\n" * 10)


def break_truncated(folder: Path) -> None:
    path = folder / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (break_nothing_there, "no Parquet files"),
        (break_columns, "'extra'"),
        (break_types, "part-1.parquet"),
        (break_empty, "part-1.parquet"),
        (break_format, "part-1.parquet"),
        (break_truncated, "part-1.parquet"),
    ],
)
def test_a_wrong_folder_is_refused_before_any_row_is_read(folder: Path, damage: object, named: str) -> None:
    damage(folder)
    with pytest.raises(SourceError, match=named) as raised:
        open_source(folder)
    assert "\n" not in str(raised.value)


def test_a_file_without_rows_is_skipped_with_one_sentence(folder: Path) -> None:
    write(folder / "part-1.parquet", 0, n=0)
    with pytest.warns(UserWarning, match="part-1.parquet has no rows"):
        source = open_source(folder)
    assert source.n_rows == 200


def test_a_column_without_values_in_a_file_has_the_type_of_the_other_files(folder: Path) -> None:
    for number in (0, 2):
        table = pyarrow.table({"a": pyarrow.nulls(10), "b": ["x"] * 10})
        parquet.write_table(table, folder / f"part-{number}.parquet")
    with open_source(folder) as source:
        types = set(source.map(lambda first, table: str(table.schema.field("a").type)))
    assert types == {"double"}


def test_a_file_that_vanishes_midway_is_named(folder: Path) -> None:
    with open_source(folder) as source:
        batches = source.map(lambda first, table: first)
        next(batches)
        (folder / "part-2.parquet").unlink()
        with pytest.raises(SourceError, match=r"part-2\.parquet has vanished"):
            list(batches)


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"a": np.random.default_rng(0).normal(size=3000)})
    parquet.write_table(table, path, row_group_size=1000, write_page_checksum=True, use_dictionary=False)
    column = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 50] = bytes(50)
    path.write_bytes(content)
    with open_source(path) as source, pytest.raises(SourceError, match=r"row group 1 of .*rows\.parquet"):
        list(source.map(lambda first, table: first))


@pytest.mark.parametrize(
    ("error", "advice"), [(PermissionError("no"), "permission"), (OSError("Corrupt data"), "damaged")]
)
def test_a_file_that_cannot_be_read_is_called_damaged_only_if_it_may_be(error: OSError, advice: str) -> None:
    assert advice in files._unreadable("rows.parquet", error)
    assert "rows.parquet" in files._unreadable("rows.parquet", error)
    assert ("damaged" in files._unreadable("rows.parquet", error)) == (advice == "damaged")


def test_a_folder_with_the_name_of_a_file_is_a_folder(folder: Path) -> None:
    (folder / "spark.parquet").mkdir()
    write(folder / "spark.parquet" / "part-0.parquet", 300)
    assert values(folder) == np.arange(400.0).tolist()


def test_paths_do_not_depend_on_the_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Those of the workers of a cluster are different.
    monkeypatch.chdir(folder.parent)
    with open_source(folder.name) as source:
        monkeypatch.chdir("/")
        assert sum(source.map(lambda first, table: table.num_rows)) == 300


def test_a_file_outside_of_the_folders_that_name_a_column_is_refused(folder: Path) -> None:
    (folder / "year=2024").mkdir()
    write(folder / "year=2024" / "rows.parquet", 0)
    with pytest.raises(SourceError, match=r"part-0\.parquet has no 'year'"):
        open_source(folder)


def test_a_link_without_a_file_is_named(folder: Path) -> None:
    (folder / "part-9.parquet").symlink_to(folder / "nowhere")
    with pytest.raises(SourceError, match=r"part-9\.parquet is a link"):
        open_source(folder)


def test_a_lazy_frame_of_a_file_that_does_not_exist_is_not_blamed_on_the_disk(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.parquet") as raised:
        open_source(polars.scan_parquet(folder / "nowhere.parquet"))
    assert "TMPDIR" not in str(raised.value)


def fingerprints(source: object) -> list[object]:
    with open_source(source) as opened:
        return [part.fingerprint() for part in opened.parts]


def test_a_fingerprint_changes_if_and_only_if_the_rows_do(folder: Path) -> None:
    lazy = polars.scan_parquet(folder / "*.parquet")
    table = parquet.read_table(folder)
    for first, again, other in [
        (folder, str(folder), folder / "part-0.parquet"),
        # The same number of rows, in another order.
        (lazy, lazy, lazy.reverse()),
        (arrow_dataset.dataset(table), arrow_dataset.dataset(table), arrow_dataset.dataset(table[::-1])),
    ]:
        assert fingerprints(first) == fingerprints(again)
        assert fingerprints(first) != fingerprints(other)


def test_a_filtered_dataset_is_refused_with_advice(folder: Path) -> None:
    filtered = arrow_dataset.dataset(str(folder)).filter(arrow_dataset.field("a") > 10)
    with pytest.raises(SourceError, match="lazy frame"):
        open_source(filtered)


def test_notes_of_pandas_do_not_make_files_different(folder: Path) -> None:
    table = parquet.read_table(folder / "part-1.parquet").replace_schema_metadata({"note": "other"})
    parquet.write_table(table, folder / "part-1.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_source(folder).n_rows == 300
