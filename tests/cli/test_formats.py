import os
import subprocess
import sys
from pathlib import Path

import pytest

from stablemiss.cli import formats
from stablemiss.cli.formats import (
    STANDARD,
    Format,
    check_not_input,
    check_readable,
    check_writable,
    format_of,
    show_path,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", "csv"),
        ("A.TSV.GZ", "csv"),
        ("a.pq", "parquet"),
        ("a.arrow", "feather"),
        ("a.ndjson", "jsonl"),
        ("a.json", "jsonl"),
    ],
)
def test_the_extension_determines_the_format(name, expected):
    assert format_of(Path(name)) == expected
    assert format_of(Path(name), Format.excel) == expected


def test_the_given_format_is_for_names_that_do_not_show_it():
    assert format_of(Path("a.data"), Format.jsonl) == Format.jsonl
    assert format_of(STANDARD, Format.parquet) == Format.parquet
    assert format_of(STANDARD) == Format.csv
    with pytest.raises(ValueError, match=r"a\.data .*\.parquet.*--format csv"):
        format_of(Path("a.data"))


def test_a_file_that_does_not_exist_and_a_folder_raise(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        check_readable(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="is a folder"):
        check_readable(tmp_path)


@pytest.mark.parametrize(
    ("package", "name", "extra"), [("pyarrow", "a.csv", "files"), ("openpyxl", "a.xlsx", "excel")]
)
def test_the_error_without_a_package_says_how_to_install_it(tmp_path, monkeypatch, package, name, extra):
    (tmp_path / name).touch()
    monkeypatch.setattr(formats, "find_spec", lambda found: None if found == package else found)
    with pytest.raises(ModuleNotFoundError, match=rf'{package}.*pip install "stablemiss\[{extra}\]"'):
        check_readable(tmp_path / name)
    with pytest.raises(ModuleNotFoundError, match=package):
        check_writable(tmp_path / f"other-{name}", None, {})


@pytest.fixture(params=["same", "symbolic link", "hard link", "spelling", "folder link"])
def alias(request, tmp_path):
    """A file and another name of it."""
    path = tmp_path / "folder" / "data.csv"
    path.parent.mkdir()
    path.write_text("x\n1\n")
    other = tmp_path / "other.csv"
    match request.param:
        case "same":
            other = path
        case "symbolic link":
            other.symlink_to(path)
        case "hard link":
            os.link(path, other)
        case "spelling":
            other = tmp_path / "folder" / ".." / "folder" / "data.csv"
        case "folder link":
            (tmp_path / "linked").symlink_to(path.parent)
            other = tmp_path / "linked" / "data.csv"
    return path, other


def test_an_output_that_is_an_input_raises_whatever_its_name(alias):
    path, other = alias
    with pytest.raises(ValueError, match=r"--output .* is the same file as the data, .*overwritten"):
        check_writable(other, None, {"the data": path})
    with pytest.raises(ValueError, match="--model"):
        check_not_input("--model", path, {"the data": other})


@pytest.mark.parametrize(
    "arguments", [["fit", "-", "--target", "y", "--model"], ["tune", "-", "--target", "y", "--output"]]
)
def test_redirected_standard_input_is_never_overwritten(tmp_path, arguments):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,2\n")
    with path.open() as stdin:
        done = subprocess.run(
            [sys.executable, "-c", "from stablemiss.cli import main; main()", *arguments, str(path)],
            stdin=stdin,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert "is the same file as the data, standard input," in done.stderr
    assert path.read_text() == "x,y\n1,2\n"


def test_other_files_standard_streams_and_absent_files_are_no_inputs(tmp_path):
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").touch()
    inputs = {
        "the data": STANDARD,
        "--params": None,
        "--study": tmp_path / "absent",
        "the model": tmp_path / "b.csv",
    }
    check_writable(tmp_path / "a.csv", None, inputs)
    check_writable(tmp_path / "new.csv", None, inputs)
    check_writable(STANDARD, None, inputs)


def test_the_minus_sign_has_a_name():
    assert show_path(STANDARD) == "standard input"
    assert show_path(STANDARD, is_output=True) == "standard output"


@pytest.mark.parametrize("name", ["a.json", "A.JSON.gz"])
def test_json_lines_are_not_written_under_the_name_of_json(tmp_path, name):
    with pytest.raises(ValueError, match=r"not valid JSON.*\.jsonl"):
        check_writable(tmp_path / name, None, {})
    check_writable(tmp_path / "a.jsonl", None, {})
