"""Worker processes end together with the process that started them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import TypeVar

# Seconds between two checks whether the parent still runs.
POLL_SECONDS = 1.0

Result = TypeVar("Result")

_lock = Lock()
_watched: set[int] = set()


def end_with_parent(parent: int) -> None:
    """End this process as soon as its parent has ended, for instance because it was killed.

    A worker would otherwise finish its computation for nobody. The check runs on a thread of the worker. The
    signal that Linux can send instead comes too early: when the *thread* that started the worker ends.

    Parameters
    ----------
    parent : int
        Process number of the parent, determined by the parent itself: it may have ended already.

    See Also
    --------
    call_in_worker : Calls this function before another one.
    """
    with _lock:
        if parent in _watched:
            return
        _watched.add(parent)
    Thread(target=_watch, args=(parent,), daemon=True).start()


def call_in_worker(parent: int, function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function in a worker process that ends with its parent.

    Parameters
    ----------
    parent : int
        Process number of the parent.
    function : callable
    *arguments
        Arguments of the function.

    Examples
    --------
    >>> call_in_worker(os.getppid(), abs, -2)
    2
    """
    # A pool of one job calls the function in the parent itself.
    if os.getpid() != parent:
        end_with_parent(parent)
    return function(*arguments)


def _watch(parent: int) -> None:
    # An orphan gets another parent.
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)
