"""Torch's process-wide settings, changed for the length of a block and put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from stablemiss.seeding import Rng, draw_seed


@contextmanager
def torch_randomness(rng: Rng) -> Iterator[None]:
    """Inside the block torch's global generators follow `rng`; afterwards they are as they were.

    Layers initialise themselves from torch's global state, which cannot be passed in. This keeps a fit
    reproducible without moving the state that the caller's own code relies on.

    Examples
    --------
    >>> import numpy as np
    >>> def draw():
    ...     with torch_randomness(np.random.default_rng(0)):
    ...         return float(torch.rand(()))
    >>> draw() == draw()
    True
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(draw_seed(rng))
        yield


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
