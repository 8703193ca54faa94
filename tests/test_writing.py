import os

import pytest

from stablemiss.writing import atomic_write, check_can_write


def test_an_error_in_the_block_leaves_the_folder_unchanged(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("before")

    def write_half_and_fail():
        with atomic_write(path) as unfinished:
            unfinished.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half_and_fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_replaced_at_the_end_of_the_block(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_text("before")
    with atomic_write(path) as unfinished:
        assert unfinished.name.endswith(".csv.gz")
        unfinished.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_default_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    with atomic_write(tmp_path / "a") as unfinished:
        unfinished.write_text("")
    assert os.stat(tmp_path / "a").st_mode == os.stat(tmp_path / "plain").st_mode


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "a"
    path.write_text("before")
    path.chmod(0o640)
    with atomic_write(path) as unfinished:
        unfinished.write_text("after")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_a_link_and_its_target_is_written(tmp_path, exists):
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real.csv", tmp_path / "link"
    if exists:
        real.write_text("before")
    link.symlink_to(real)
    with atomic_write(link) as unfinished:
        assert unfinished.parent == real.parent
        unfinished.write_text("after")
    assert link.is_symlink()
    assert real.read_text() == "after"


def test_a_pipe_or_device_raises_and_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link", "/dev/null"):
        with pytest.raises(FileExistsError, match="is a device or a pipe"):
            check_can_write(path)
    assert pipe.is_fifo()


def test_the_longest_possible_file_name_works(tmp_path):
    path = tmp_path / ("n" * 251 + ".csv")
    with atomic_write(path) as unfinished:
        assert unfinished.suffix == ".csv"
    assert path.exists()


def test_a_folder_that_does_not_exist_and_a_folder_as_file_raise(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        check_can_write(tmp_path / "no" / "a.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_can_write(tmp_path)
