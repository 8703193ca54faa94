"""What all benchmarks share: their options, their store of records, generated tables, and processes."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stablemiss.report.markdown import write_block
from stablemiss.results import Store

ROOT = Path(__file__).parent.parent


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the option that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only-print", action="store_true", help="fit nothing, print stored results")
    return parser


def open_store(name: str) -> Store:
    """The store of a benchmark. A stopped benchmark continues from its records."""
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    return Store(folder / f"{name}.jsonl")


def fill(page: str, name: str, text: str) -> None:
    """Write `text` between the markers `name` of a page."""
    write_block(ROOT / page, name, text)


def in_own_process(function: Callable, *arguments: Any) -> Any:
    """Call a function in a new process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
