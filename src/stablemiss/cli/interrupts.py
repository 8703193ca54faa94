"""Ctrl-C ends a command within three seconds, with a sentence about what was written."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

EXIT_CODE = 130
NOTHING_WRITTEN = "Interrupted; nothing was written."
# Seconds after Ctrl-C after which the process is ended even if compiled code is still running.
GRACE_SECONDS = 1.0


@dataclass
class Interruption:
    """What happens when the running command is interrupted.

    Attributes
    ----------
    message : str
        The sentence to print. A command replaces it as soon as it has written something.
    unfinished : set of Path
        Files to delete if the process has to be ended.
    is_reported : bool
        Whether the sentence was printed.
    """

    message: str = NOTHING_WRITTEN
    unfinished: set[Path] = field(default_factory=set)
    is_reported: bool = False

    def text(self) -> str:
        """The sentence, on a line of its own after the ^C that a terminal shows."""
        self.is_reported = True
        return f"\n{self.message}" if sys.stderr.isatty() else self.message


# Of the running command. There is one command per process.
interruption = Interruption()


@contextmanager
def removed_if_interrupted(path: Path) -> Iterator[None]:
    """Context manager that deletes an unfinished file if the process has to be ended while it is written."""
    interruption.unfinished.add(path)
    try:
        yield
    finally:
        interruption.unfinished.discard(path)


def watch_interrupts() -> None:
    """End the process `GRACE_SECONDS` after Ctrl-C, or at the second Ctrl-C, if it has not ended by itself.

    Python handles Ctrl-C between two instructions of the main thread, so compiled code, such as the fit of a
    tree ensemble, could delay it for minutes. Here another thread is woken up at once.
    """
    if os.name != "posix":
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_wait_for_interrupt, args=(reader,), daemon=True).start()


def end_process() -> NoReturn:
    """End the process at once, without waiting for other threads."""
    for path in interruption.unfinished:
        path.unlink(missing_ok=True)
    if not interruption.is_reported:
        os.write(2, f"{interruption.text()}\n".encode())
    os._exit(EXIT_CODE)


def _wait_for_interrupt(reader: int) -> None:
    while os.read(reader, 1) != bytes([signal.SIGINT]):
        pass
    # Returns early at the second Ctrl-C.
    select.select([reader], [], [], GRACE_SECONDS)
    end_process()
