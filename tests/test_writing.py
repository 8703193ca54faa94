import os
import stat
import subprocess
import sys

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


# Writes a file, prints the name of the temporary file and waits.
WRITER = """
import sys, time
from stablemiss.writing import atomic_write
with atomic_write(sys.argv[1]) as unfinished:
    unfinished.write_text("half")
    print(unfinished.name, flush=True)
    time.sleep(60)
"""


def start_writer(path):
    """A process that is writing `path`, and the name of its temporary file."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
    return writer, writer.stdout.readline().strip()


@pytest.mark.slow
def test_the_temporary_file_of_a_killed_process_is_removed_by_the_next_write(tmp_path):
    path = tmp_path / "model"
    path.write_text("before")
    (killed, abandoned), (running, unfinished) = start_writer(path), start_writer(path)
    try:
        killed.kill()
        killed.wait()
        assert path.read_text() == "before"
        with atomic_write(tmp_path / "other") as own:
            # What other processes are still writing is kept, as are files with other names.
            assert {file.name for file in tmp_path.iterdir()} == {"model", own.name, unfinished}
        assert (tmp_path / unfinished).read_text() == "half"
        assert abandoned != unfinished
    finally:
        for writer in (killed, running):
            writer.kill()
            writer.communicate()
    with atomic_write(path) as unfinished:
        unfinished.write_text("after")
    assert {file.name for file in tmp_path.iterdir()} == {"model", "other"}


def test_two_writes_at_the_same_time_do_not_remove_each_others_files(tmp_path):
    with atomic_write(tmp_path / "a") as first:
        first.write_text("first")
        with atomic_write(tmp_path / "a") as second:
            second.write_text("second")
        assert (tmp_path / "a").read_text() == "second"
    assert (tmp_path / "a").read_text() == "first"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_the_content_is_flushed_before_the_file_gets_its_name_and_the_folder_afterwards(
    tmp_path, monkeypatch
):
    path, flushed, fsync = tmp_path / "a", [], os.fsync

    def record(handle):
        flushed.append((stat.S_ISDIR(os.fstat(handle).st_mode), path.exists(), os.fstat(handle).st_size))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    with atomic_write(path) as unfinished:
        unfinished.write_text("content")
    (file_is_folder, *file_state), (folder_is_folder, has_name, _) = flushed
    assert not file_is_folder
    assert file_state == [False, len("content")]
    assert folder_is_folder
    assert has_name


def test_pipes_and_links_that_look_like_temporary_files_are_not_touched(tmp_path):
    os.mkfifo(tmp_path / ".unfinished-pipe")
    (tmp_path / "real").write_text("kept")
    (tmp_path / ".unfinished-link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "a") as unfinished:
        unfinished.write_text("")
    assert (tmp_path / "real").read_text() == "kept"
    assert (tmp_path / ".unfinished-link").is_symlink()
    assert (tmp_path / ".unfinished-pipe").is_fifo()
