"""Speed of the dependence and its gradient, compared with plain matrix products in the same run.

Prints, for both forms, the time of one loss with its gradient as a ratio to that of the same multiplications
in `torch.mm` (ZᵀZ, then Z times the result, where Z has a column for every feature and mask indicator and a
column of ones) for growing numbers of rows, and the time and peak memory for wide tables.

    python benchmarks/decorrelation.py [--seed 0] [--wide]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from stablemiss.decorrelation import Decorrelator, Dependence, RandomFeatures
from stablemiss.results.provenance import peak_memory

Q = 5


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of `work`, after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def make_table(n: int, d: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator), torch.rand(n, d, generator=generator) < 0.5


def make_dependence(n: int, d: int, form: str, seed: int) -> Dependence:
    values, mask = make_table(n, d, seed)
    return Dependence(values, mask, RandomFeatures.draw(d, Q, np.random.default_rng(seed)), form=form)


def matrix_products(n: int, d: int) -> Callable[[], object]:
    """Two matrix products with as many operations as one loss with its gradient: 4 n p² for p columns."""
    columns = torch.randn(n, d * Q + d + 1)

    def work() -> torch.Tensor:
        return torch.mm(columns, torch.mm(columns.T, columns))

    return work


def peak_gib() -> float:
    """Peak memory of this process so far, in GiB."""
    return peak_memory() / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wide", action="store_true", help="also 784 and 10,744 columns: about ten minutes")
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, float32, {Q} features per column")
    print("\none loss with its gradient")
    print(f"{'rows':>8} {'columns':>8} {'form':>9} {'ms':>8} {'µs a row':>9} {'× torch.mm':>10}")
    sizes = [(n, 50) for n in (4096, 16384, 65536, 262144)]
    for n, d in sizes:
        for form in ("weighted", "paper"):
            dependence = make_dependence(n, d, form, options.seed)
            weight = torch.ones(n)
            repeats = max(3, 10 * 16384 // n)
            ours = seconds(lambda measure=dependence, weight=weight: measure(weight), repeats)
            reference = seconds(matrix_products(n, d), repeats)
            line = f"{n:>8} {d:>8} {form:>9} {ours * 1e3:>8.1f} {ours / n * 1e6:>9.2f}"
            print(f"{line} {ours / reference:>10.2f}", flush=True)
    print("\ncomplete computation of the weights, 128 columns at a time")
    for n, d in [(16384, 50), (8192, 784)]:
        values, mask = make_table(n, d, options.seed)
        start = time.perf_counter()
        result = Decorrelator().learn_weights(
            values.numpy(), mask.numpy(), rng=np.random.default_rng(options.seed)
        )
        effective = result.effective_rows / n
        print(
            f"{n:>8} {d:>8} {time.perf_counter() - start:>8.1f} s, effective rows {effective:.0%}", flush=True
        )
    if not options.wide:
        return
    print("\nwide tables: one loss with its gradient over all pairs of columns")
    for n, d in [(8192, 784), (2048, 10744)]:
        # The peak is that of the whole process and may come from the long tables above.
        dependence = make_dependence(n, d, "weighted", options.seed)
        start = time.perf_counter()
        dependence(torch.ones(n))
        elapsed = time.perf_counter() - start
        flops = 4 * n * (d * (Q + 1)) ** 2 / 2  # each pair of blocks once
        print(
            f"{n:>8} {d:>8} {elapsed:>8.1f} s, {flops / elapsed / 1e9:.0f} GFLOP/s, "
            f"peak {peak_gib():.2f} GiB",
            flush=True,
        )
    values, mask = make_table(2048, 10744, options.seed)
    start = time.perf_counter()
    Decorrelator().learn_weights(values.numpy(), mask.numpy(), rng=np.random.default_rng(options.seed))
    print(f"    2048    10744 {time.perf_counter() - start:>8.1f} s for weights, peak {peak_gib():.2f} GiB")


if __name__ == "__main__":
    main()
