"""Records in a file, one line of JSON each. Lines are appended and never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from stablemiss.results.record import Record
from stablemiss.writing import check_can_write

# Every line starts with this.
LINE_START = b'{"experiment": "'


class Store:
    """A file of records that survives crashes of the processes that write to it.

    A line is written and flushed to disk before the next one begins. The incomplete last line of a killed
    writer is ignored by readers and removed by the next writer. If anything else in the file is not a record,
    the file was damaged: reading raises an error and nothing is appended.

    Parameters
    ----------
    path : str or Path
        The file. It need not exist yet, but its folder must.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder) / "records.jsonl")
    ...     with store.appending() as append:
    ...         append(Record("demo", "toy", "mar", 0.5, 0, "ols", seed=0))
    ...     [record.label for record in store.records()]
    ['ols']
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def records(self) -> list[Record]:
        """All records, the last one of each key.

        A failure does not replace an earlier success that was computed with the same settings.
        """
        latest: dict[str, Record] = {}
        lines, _ = self._lines()
        for number, line in enumerate(lines, start=1):
            record = self._parse(line, number)
            earlier = latest.get(record.key)
            if earlier and record.failure and not earlier.failure and record.settings == earlier.settings:
                continue
            latest.pop(record.key, None)
            latest[record.key] = record
        return list(latest.values())

    @contextmanager
    def appending(self) -> Iterator[Callable[[Record], None]]:
        """Context in which this process alone may append; yields the function that appends a record."""
        check_can_write(self.path)
        # The lock file is kept: removing it could remove one that another process has just locked.
        lock = FileLock(f"{self.path}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise BlockingIOError(
                f"Another process is writing to {self.path}. Wait for it to end, or choose another folder."
            ) from error
        try:
            # Raises if the file is damaged.
            self.records()
            lines, incomplete = self._lines()
            with self.path.open("ab") as file:
                if incomplete:
                    file.truncate(os.fstat(file.fileno()).st_size - len(incomplete))
                elif lines and not self.path.read_bytes().endswith(b"\n"):
                    # Some editors drop the newline at the end of a file.
                    os.write(file.fileno(), b"\n")
                yield lambda record: self._append(file.fileno(), record)
        finally:
            lock.release()

    def _append(self, file: int, record: Record) -> None:
        line = (record.to_json() + "\n").encode()
        end = os.fstat(file).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(file, line[written:])
            os.fsync(file)
        except OSError as error:
            os.ftruncate(file, end)
            raise OSError(
                f"Writing to {self.path} failed ({error.strerror}). The earlier records are safe. Free some "
                "disk space and run the command again: it continues from there."
            ) from error

    def _lines(self) -> tuple[list[bytes], bytes]:
        """Complete lines, and the incomplete line of a killed writer after them (empty if there is none)."""
        if not self.path.exists():
            return [], b""
        *lines, rest = self.path.read_bytes().split(b"\n")
        if rest.endswith(b"}") and _is_complete_json(rest):
            self._parse(rest, len(lines) + 1)
            return [*lines, rest], b""
        if not rest.startswith(LINE_START[: len(rest)]):
            raise self._damaged(len(lines) + 1)
        return lines, rest

    def _parse(self, line: bytes, number: int) -> Record:
        try:
            return Record.from_json(line)
        except ValueError as error:
            raise self._damaged(number) from error

    def _damaged(self, number: int) -> ValueError:
        return ValueError(
            f"Line {number} of {self.path} is not a result record: the file is damaged. Nothing was written. "
            "Remove that line, or move the file away, and run the command again."
        )


def _is_complete_json(line: bytes) -> bool:
    """Whether a line is a whole JSON value; a killed writer may have stopped after an inner brace."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
