"""Result rows in a file, one JSON line each: added at the end, never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from stablemiss.writing import check_folder

# What tells a result row from any other line of JSON.
KEYS = {"key", "scores", "error"}


class Store:
    """A file of result rows that survives whoever writes to it.

    A line is written whole, and reaches the disk, before the next begins; what a killed writer left of a line
    is not read, and the next writer cuts it off. Anything else that is no row ends the reading: such a file
    was damaged, and nothing is added to it.

    Parameters
    ----------
    path : str or Path
        The file, which need not be there yet.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder) / "rows.jsonl")
    ...     with store.adding() as add:
    ...         add({"key": "a", "scores": [], "error": None})
    ...     [row["key"] for row in store.rows()]
    ['a']
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, in the order they came; of several with one key only the last."""
        found: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(self._whole_lines(), start=1):
            row = self._parse(line, number)
            found.pop(row["key"], None)
            found[row["key"]] = row
        return list(found.values())

    @contextmanager
    def adding(self) -> Iterator[Any]:
        """Give a function that adds a row; nobody else adds until the block ends."""
        check_folder(self.path)
        lock = FileLock(f"{self.path}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as busy:
            raise BlockingIOError(
                f"Another run is adding to {self.path}; wait for it, or give another folder."
            ) from busy
        try:
            self.rows()
            with self.path.open("ab") as file:
                file.truncate(sum(map(len, self._whole_lines())))
                yield lambda row: self._add(file.fileno(), row)
        finally:
            lock.release()
            Path(lock.lock_file).unlink(missing_ok=True)

    def _add(self, file: int, row: dict[str, Any]) -> None:
        line = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
        end = os.fstat(file).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(file, line[written:])
            os.fsync(file)
        except OSError as error:
            # Half a line would be cut off by the next writer anyway; a file without one is better now.
            os.ftruncate(file, end)
            raise OSError(
                f"{self.path} could not take another row ({error.strerror}); the rows before it are safe. "
                "Make room and run the command again: it goes on from there."
            ) from error

    def _whole_lines(self) -> list[bytes]:
        if not self.path.exists():
            return []
        return [line for line in self.path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = json.loads(line)
            is_row = isinstance(row, dict) and row.keys() >= KEYS
        except ValueError:
            is_row = False
        if not is_row:
            raise ValueError(
                f"Line {number} of {self.path} is no result row: the file was damaged. Nothing was written; "
                "take out that line, or move the file away, and run the command again."
            )
        return row
