"""How long do the command line and `from stablemiss import AnyMaskRegressor` take to start?

Each command runs in a new process, once per repeat, all commands in turn. Times are medians over the repeats:
the processor time of all threads, which other processes affect less, and the elapsed time. The import of the
estimators is compared with importing torch and one estimator of scikit-learn, and with importing torch and
the base classes of scikit-learn alone. A first, unrecorded run of each command writes the bytecode.

    python benchmarks/startup.py [--repeats 5] [--again] [--only-print]
"""

from __future__ import annotations

import os
import subprocess
import sys
from time import perf_counter

import numpy as np
from common import make_parser, open_store

from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import provenance

STORE = open_store("startup")
ESTIMATORS = "from stablemiss import AnyMaskRegressor"
BASE = "import torch, sklearn.base"
COMMANDS = {
    "stablemiss --help": ["-m", "stablemiss", "--help"],
    "stablemiss methods": ["-m", "stablemiss", "methods"],
    BASE: ["-c", BASE],
    "import torch, sklearn.linear_model": ["-c", "import torch, sklearn.linear_model"],
    "import torch, sklearn.ensemble": ["-c", "import torch, sklearn.ensemble"],
    ESTIMATORS: ["-c", ESTIMATORS],
}


def seconds(arguments: list[str]) -> dict[str, float]:
    """Processor time and elapsed time of a new Python process."""
    start = perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = perf_counter() - start
    if status != 0:
        raise RuntimeError(f"{arguments} failed.")
    return {"cpu_seconds": usage.ru_utime + usage.ru_stime, "elapsed_seconds": elapsed}


def measure(repeat: int) -> Record:
    """Start each command once."""
    return Record(
        experiment="startup",
        dataset="none",
        mechanism="none",
        level=None,
        instance=repeat,
        label="startup",
        seed=repeat,
        scores=tuple(
            Score(name, None, None, None, seconds(arguments)) for name, arguments in COMMANDS.items()
        ),
        metric="seconds",
        extra={"n_cpus": os.cpu_count(), "load": os.getloadavg()[0]},
        **provenance(),
    )


def table(records: list[Record]) -> str:
    """Medians over the repeats, and the ratio to importing torch and the base classes of scikit-learn."""
    times = {
        name: np.array(
            [
                (score.extra["cpu_seconds"], score.extra["elapsed_seconds"])
                for record in records
                for score in record.scores
                if score.mechanism == name
            ]
        )
        for name in COMMANDS
    }
    rows = []
    for name, measured in times.items():
        cpu, elapsed = np.median(measured, axis=0)
        ratio = np.median(measured[:, 0] / times[BASE][:, 0])
        rows.append([f"`{name}`", f"{cpu:.2f} s", f"{elapsed:.2f} s", f"{ratio:.2f}×"])
    load = np.median([record.extra["load"] for record in records])
    header = ["process", "CPU time", "elapsed", f"CPU time / `{BASE}`"]
    return f"{len(records)} repeats, median load {load:.1f}\n\n" + markdown_table(header, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--again", action="store_true", help="measure stored repeats again")
    options = parser.parse_args()
    if not options.only_print:
        for arguments in COMMANDS.values():
            seconds(arguments)
        for repeat in range(options.repeats):
            if options.again or repeat not in {record.instance for record in STORE.records()}:
                record = measure(repeat)
                with STORE.appending() as append:
                    append(record)
    print(table(STORE.records()))


if __name__ == "__main__":
    main()
