"""Time and memory of `diagnose` on 100,000 rows of 50 columns, beside those of reading the file.

Two CSV files of 100,000 rows and 50 columns with 10 and 12% missing are read with pyarrow and compared. Peak
memory is that of numpy's and Python's allocations during the comparison.

    python benchmarks/diagnose.py [--rows 100000] [--columns 50]
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow
from common import make_parser
from pyarrow import csv

from stablemiss import diagnose


def write_files(folder: Path, n: int, d: int) -> list[Path]:
    rng = np.random.default_rng(0)
    paths = [folder / "before.csv", folder / "now.csv"]
    for path, rate in zip(paths, (0.10, 0.12), strict=True):
        values = rng.normal(size=(n, d))
        missing = rng.random((n, d)) < rate
        columns = {f"x{j}": pyarrow.array(values[:, j], mask=missing[:, j]) for j in range(d)}
        csv.write_csv(pyarrow.table(columns), path)
    return paths


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=50)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        paths = write_files(Path(folder), options.rows, options.columns)
        diagnose(*(csv.read_csv(path)[:200] for path in paths))  # imports
        start = perf_counter()
        tables = [csv.read_csv(path) for path in paths]
        reading = perf_counter() - start
        start = perf_counter()
        result = diagnose(*tables)
        seconds = perf_counter() - start
        tracemalloc.start()
        diagnose(*tables)
        peak = tracemalloc.get_traced_memory()[1]
    size = sum(table.nbytes for table in tables)
    print(f"{options.rows:,} + {options.rows:,} rows × {options.columns} columns: {result.verdict}")
    print(f"reading {reading:.2f} s, diagnose {seconds:.2f} s: {seconds / reading:.1f} × reading")
    print(f"peak memory {peak / size:.1f} × the tables ({size / 2**20:.0f} MiB)")


if __name__ == "__main__":
    main()
