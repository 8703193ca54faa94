"""Context managers that change torch's global state temporarily."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from stablemiss.seeding import Rng, draw_seed


@contextmanager
def torch_randomness(rng: Rng) -> Iterator[None]:
    """Seed torch's global generators from `rng` inside the block and restore them afterwards.

    Layers draw their initial weights from torch's global generator, which cannot be passed as an argument.
    This makes a fit reproducible without changing the random state of the caller's code.

    See Also
    --------
    torch_threads : Sets the number of threads temporarily.

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
    """Let torch use `n_threads` threads inside the block; None leaves the number unchanged.

    Training steps on small tensors are fastest with one thread. Several threads that synchronise after
    every small operation gain nothing, and on a busy or throttled machine they can make a step thirty times
    slower.

    See Also
    --------
    torch_randomness : Seeds torch temporarily.

    Examples
    --------
    >>> with torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    previous = torch.get_num_threads()
    if n_threads is not None:
        torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        if n_threads is not None:
            torch.set_num_threads(previous)
