import os

import pytest

from stablemiss.writing import check_folder, whole_file


def test_a_block_that_fails_leaves_the_folder_as_it_was(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("before")

    def write_half_and_fail():
        with whole_file(path) as unfinished:
            unfinished.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half_and_fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_ends_well_replaces_the_file(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_text("before")
    with whole_file(path) as unfinished:
        assert unfinished.name.endswith(".csv.gz")
        unfinished.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_rights_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    with whole_file(tmp_path / "a") as unfinished:
        unfinished.write_text("")
    assert os.stat(tmp_path / "a").st_mode == os.stat(tmp_path / "plain").st_mode


def test_an_absent_folder_and_a_folder_as_file_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        check_folder(tmp_path / "no" / "a.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_folder(tmp_path)
