"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_folder(path: str | Path) -> None:
    """Raise, in one sentence, where a file at `path` could not be written: before long work, not after it."""
    path = _end_of_links(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {path.parent} for {path.name} does not exist; create it first.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file to write.")
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is a device or a pipe; give the name of a file to write.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"The folder {path.parent} may not be written to; choose another one.")


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a file beside `path` to write to; it takes `path`'s place when the block ends well.

    If the block raises, nothing is left behind and what stood at `path` before stays as it was. A file that
    is replaced hands on its rights; a link stays a link, and the file it points to is replaced.

    Parameters
    ----------
    path : str or Path
        Where the finished file will stand. Its ending is kept, for writers that look at it.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "a.txt") as unfinished:
    ...         _ = unfinished.write_text("done")
    ...     [path.name for path in Path(folder).iterdir()]
    ['a.txt']
    """
    check_folder(path)
    path = _end_of_links(path)
    # Of the name only the ending, such as .csv.gz: a long name must not become too long.
    handle, name = tempfile.mkstemp(
        prefix=".unfinished-", suffix="".join(path.suffixes[-2:]), dir=path.parent
    )
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        # mkstemp makes files that only their owner may read.
        unfinished.chmod(_rights(path))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _end_of_links(path: str | Path) -> Path:
    """Where a file written to `path` would stand."""
    path = Path(path)
    # Pipes and devices, reached through links such as /dev/stdout, have no path of their own.
    is_link_to_file = path.is_symlink() and (path.is_file() or not path.exists())
    return path.resolve() if is_link_to_file else path


def _rights(path: Path) -> int:
    """Those of the file at `path`, else those of any new file."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
