"""Measurements that need a process of their own: the peak of its memory is then its own, too."""

from __future__ import annotations

import multiprocessing
import platform
import resource
from collections.abc import Callable
from typing import Any


def peak_memory() -> int:
    """The most bytes this process has held so far."""
    # Linux counts in KiB, macOS in bytes. A new process starts with its parent's peak, which therefore must
    # never hold a table.
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def in_own_process(function: Callable, *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
