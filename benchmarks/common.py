"""Shared by all benchmarks: options, the store of records, generated tables, and separate processes."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from stablemiss.report.markdown import write_block
from stablemiss.results import Record, Store

ROOT = Path(__file__).parent.parent
Job = TypeVar("Job")


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the option that all benchmarks with records have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only-print",
        action="store_true",
        help="fit nothing; print the tables of the stored records, and write them into the docs if a page "
        "shows them",
    )
    return parser


def open_store(name: str) -> Store:
    """The store of a benchmark. A stopped benchmark continues from its records."""
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    return Store(folder / f"{name}.jsonl")


def run_pending(
    store: Store,
    jobs: Iterable[Job],
    to_key: Callable[[Job], str],
    run: Callable[[Job], Record],
    again: bool = False,
) -> None:
    """Run the jobs that have no stored record, and store each record as soon as it is complete.

    Parameters
    ----------
    store : Store
    jobs : iterable
    to_key : callable
        Job → key of its record.
    run : callable
        Job → record.
    again : bool, default=False
        Whether to run jobs with a stored record, too.
    """
    for job in jobs:
        key = to_key(job)
        # Read again for each job: another process may run the same benchmark.
        if again or key not in {record.key for record in store.records()}:
            print(key, flush=True)
            record = run(job)
            with store.appending() as append:
                append(record)


def write_docs(page: str, name: str, text: str) -> None:
    """Write `text` between the markers `name` of a page of the repository."""
    write_block(ROOT / page, name, text)


def in_new_process(function: Callable, *arguments: Any) -> Any:
    """Call a function in a new process, so that peak memory is measured for this call alone."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
