"""How many processor threads torch works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(n_threads: int | None) -> Iterator[None]:
    """Inside the block torch computes with `n_threads` threads (None: with as many as before).

    Small steps are best taken by one thread: threads that wait for each other after every small operation
    gain nothing, and on a busy or throttled machine a step can take thirty times as long.

    Examples
    --------
    >>> with torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    if n_threads is not None:
        torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        if n_threads is not None:
            torch.set_num_threads(before)
