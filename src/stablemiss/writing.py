"""Atomic writing of files: a file is written completely or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Start of the names of temporary files.
PREFIX = ".unfinished-"


def check_can_write(path: str | Path) -> None:
    """Raise OSError if no file can be written at `path`. Call it before a long computation, not after it.

    See Also
    --------
    atomic_write : Writes a file atomically.
    """
    path = _resolve_link(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {path.parent} for {path.name} does not exist; create it first.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; pass the name of a file to write.")
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is a device or a pipe; pass the name of a file to write.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"The folder {path.parent} is not writable; choose another one.")


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Context manager for writing a file atomically.

    It yields the path of a temporary file in the same folder, which is renamed to `path` at the end, after
    its content has reached the disk. If the block raises, the temporary file is deleted and an existing file
    at `path` is unchanged. If the process is killed, the temporary file remains until the next write into the
    folder. A replaced file keeps its permissions. A symbolic link stays a link, and the file it points to is
    replaced.

    Parameters
    ----------
    path : str or Path
        Path of the finished file. The temporary file has the same extension, because some writers choose
        the format by it.

    See Also
    --------
    check_can_write : Checks in advance whether the file can be written.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "a.txt") as unfinished:
    ...         _ = unfinished.write_text("done")
    ...     [path.name for path in Path(folder).iterdir()]
    ['a.txt']
    """
    check_can_write(path)
    path = _resolve_link(path)
    _remove_abandoned(path.parent)
    # Only the extension, such as .csv.gz, is kept, because a long name with a prefix could exceed the limit
    # of the file system.
    unfinished, lock = _create_locked(path.parent, suffix="".join(path.suffixes[-2:]))
    try:
        yield unfinished
        # Otherwise a power failure could leave an empty file under the final name.
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        # Files created by mkstemp are readable by their owner only.
        unfinished.chmod(_permissions(path))
        unfinished.replace(path)
        _flush_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


def _create_locked(folder: Path, suffix: str) -> tuple[Path, int | None]:
    """Create a temporary file, locked until its handle is closed or the process ends for any reason."""
    while True:
        handle, name = tempfile.mkstemp(prefix=PREFIX, suffix=suffix, dir=folder)
        if fcntl is None:  # On Windows, an open file cannot be renamed.
            os.close(handle)
            return Path(name), None
        # Some network file systems have no locks; abandoned files then remain.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        # Between creation and lock, another process may have taken the file for an abandoned one.
        if os.fstat(handle).st_nlink > 0:
            return Path(name), handle
        os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files in `folder` that no process has locked: their processes were killed.

    A lock, unlike the number of a process, is also valid for other containers and hosts.
    """
    if fcntl is None:
        return
    for path in folder.glob(f"{PREFIX}*"):
        # Files of other users, and of running processes, are kept.
        with suppress(OSError):
            if not stat.S_ISREG(path.lstat().st_mode):
                continue
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


def _flush_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk."""
    # Windows and some network file systems cannot do this.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _resolve_link(path: str | Path) -> Path:
    """Return the file that the link `path` points to, or `path` itself if it is not a link to a file."""
    path = Path(path)
    # Links to pipes and devices, such as /dev/stdout, cannot be resolved to a path.
    is_link_to_file = path.is_symlink() and (path.is_file() or not path.exists())
    return path.resolve() if is_link_to_file else path


def _permissions(path: Path) -> int:
    """Permissions of the file at `path`, or the default permissions of a new file if it does not exist."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
