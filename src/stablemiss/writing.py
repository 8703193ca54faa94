"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_folder(path: str | Path) -> None:
    """Raise, in one sentence, where a file at `path` could not be written: before long work, not after it."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {path.parent} for {path.name} does not exist; create it first.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file to write.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"The folder {path.parent} may not be written to; choose another one.")


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a file beside `path` to write to; it takes `path`'s place when the block ends well.

    If the block raises, nothing is left behind and what stood at `path` before stays as it was.

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
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=".unfinished-", suffix="-" + path.name, dir=path.parent)
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        # mkstemp makes files that only their owner may read; a result gets the rights of any other new file.
        umask = os.umask(0)
        os.umask(umask)
        unfinished.chmod(0o666 & ~umask)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
