"""Context managers that change torch's global state temporarily."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

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


class AllocationLimit(TorchFunctionMode):
    """Context manager that raises ValueError once the modules built inside it need too many elements.

    The sizes of a module may come from a manipulated file. The error occurs before a too large tensor is
    allocated, and also ends a loop over too many layers.

    Parameters
    ----------
    n_elements : int
        Maximum number of elements of all tensors that are created inside the block, for parameters, buffers
        and their initial values.

    See Also
    --------
    torch_randomness, torch_threads : Other temporary changes.

    Examples
    --------
    >>> with AllocationLimit(1000):
    ...     torch.nn.Linear(10, 10**9)
    Traceback (most recent call last):
    ValueError: a network with the stored configuration is larger than its stored parameters.
    """

    # The functions by which torch's layers and our networks create parameters and buffers.
    FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye)

    def __init__(self, n_elements: int):
        super().__init__()
        self._n_left = n_elements

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in self.FACTORIES:
            sizes = args[0] if args and isinstance(args[0], tuple | list) else args
            # An empty tensor counts as one element, so that a loop that creates only empty layers ends too.
            self._n_left -= max(1, math.prod(size for size in sizes if isinstance(size, int)))
            if self._n_left < 0:
                raise ValueError(
                    "a network with the stored configuration is larger than its stored parameters."
                )
        return function(*args, **(kwargs or {}))
