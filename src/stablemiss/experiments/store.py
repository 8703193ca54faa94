"""Result rows in a file, one JSON line each: added at the end, never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from stablemiss.writing import check_folder

# How every line begins.
BEGINNING = b'{"key": "'
# What a score, and the row of a fit, must say, and of which kind.
SCORE: dict[str, Any] = {"mechanism": str, "level": int | float, "rmse": int | float}
FIT: dict[str, Any] = {
    "label": str,
    "dataset": str,
    "train_mechanism": str,
    "train_level": int | float,
    "instance": int,
}


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
    ...         add({"key": "a", "budget": "quick", "scores": [], "error": None})
    ...     [row["key"] for row in store.rows()]
    ['a']
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far; of several with one key the last, unless that failed where the other did not."""
        found: dict[str, dict[str, Any]] = {}
        lines, _ = self._lines()
        for number, line in enumerate(lines, start=1):
            row = self._parse(line, number)
            earlier = found.get(row["key"])
            if earlier and row["error"] and not earlier["error"] and row.get("given") == earlier.get("given"):
                continue
            found.pop(row["key"], None)
            found[row["key"]] = row
        return list(found.values())

    @contextmanager
    def adding(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Give a function that adds a row; nobody else adds until the block ends."""
        check_folder(self.path)
        # The lock's own file stays: who removes it may remove the one that another run has just locked.
        lock = FileLock(f"{self.path}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as busy:
            raise BlockingIOError(
                f"Another run is adding to {self.path}; wait for it, or give another folder."
            ) from busy
        try:
            self.rows()
            lines, rest = self._lines()
            with self.path.open("ab") as file:
                if rest:
                    # What a killed writer left of its last line.
                    file.truncate(os.fstat(file.fileno()).st_size - len(rest))
                elif lines and not self.path.read_bytes().endswith(b"\n"):
                    # As some editors leave a file.
                    os.write(file.fileno(), b"\n")
                yield lambda row: self._add(file.fileno(), row)
        finally:
            lock.release()

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

    def _lines(self) -> tuple[list[bytes], bytes]:
        """Whole lines, and what stands after the last of them: nothing, or the beginning of a row."""
        if not self.path.exists():
            return [], b""
        *lines, rest = self.path.read_bytes().split(b"\n")
        if rest.endswith(b"}") and _is_row(_from_json(rest)):
            return [*lines, rest], b""
        if not rest.startswith(BEGINNING[: len(rest)]):
            raise self._damaged(len(lines) + 1)
        return lines, rest

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        row = _from_json(line)
        if not _is_row(row):
            raise self._damaged(number)
        return row

    def _damaged(self, number: int) -> ValueError:
        return ValueError(
            f"Line {number} of {self.path} is no result row: the file was damaged. Nothing was written; "
            "take out that line, or move the file away, and run the command again."
        )


def _from_json(line: bytes) -> Any:
    """What a line says; None if that is nothing."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_row(row: Any) -> bool:
    """Whether all that others read without asking is there."""
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("key", "budget")):
        return False
    scores = row.get("scores")
    return (
        isinstance(scores, list)
        and all(isinstance(score, dict) and _has(score, SCORE) for score in scores)
        and isinstance(row.get("error", 0), str | None)
        and isinstance(row.get("versions", {}), dict)
        and ("label" not in row or _has(row, FIT))
    )


def _has(found: dict[str, Any], kinds: dict[str, Any]) -> bool:
    return all(isinstance(found.get(key), kind) for key, kind in kinds.items())
