"""How fast the dependence and its gradient are, against plain matrix products in the same run.

Prints, for both forms, the time of one loss with its gradient as a ratio to that of the same multiplications
in `torch.mm` (ZᵀZ and then Z times that, where Z has a column for every feature and mask indicator and one of
ones), how it grows with the rows, what wide tables take, and the highest memory of the process.

    python benchmarks/decorrelation.py [--seed 0] [--wide]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import torch

from stablemiss.decorrelation import Decorrelator, Dependence, RandomFeatures

Q = 5


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of `work`, after one run to warm up."""
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


def measure(n: int, d: int, form: str, seed: int) -> Dependence:
    values, mask = make_table(n, d, seed)
    return Dependence(values, mask, RandomFeatures.draw(d, Q, np.random.default_rng(seed)), form=form)


def bare(n: int, d: int) -> Callable[[], object]:
    """The same operations as two bare products: 4 n p² with p columns."""
    columns = torch.randn(n, d * Q + d + 1)

    def work() -> torch.Tensor:
        return torch.mm(columns, torch.mm(columns.T, columns))

    return work


def peak() -> float:
    """Highest memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wide", action="store_true", help="also 784 and 10,744 columns: about ten minutes")
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, float32, {Q} features per column")
    print("\none loss with its gradient")
    print(f"{'rows':>8} {'columns':>8} {'form':>9} {'ms':>8} {'µs a row':>9} {'to mm':>7}")
    sizes = [(n, 50) for n in (4096, 16384, 65536, 262144)]
    for n, d in sizes:
        for form in ("weighted", "paper"):
            ready = measure(n, d, form, options.seed)
            weight = torch.ones(n)
            repeats = max(3, 10 * 16384 // n)
            ours = seconds(lambda ready=ready, weight=weight: ready(weight), repeats)
            reference = seconds(bare(n, d), repeats)
            line = f"{n:>8} {d:>8} {form:>9} {ours * 1e3:>8.1f} {ours / n * 1e6:>9.2f}"
            print(f"{line} {ours / reference:>6.2f}×", flush=True)
    print("\nweights from start to end: as many steps as it takes, 128 columns at a time")
    for n, d in [(16384, 50), (8192, 784)]:
        values, mask = make_table(n, d, options.seed)
        start = time.perf_counter()
        result = Decorrelator().learn_weights(
            values.numpy(), mask.numpy(), rng=np.random.default_rng(options.seed)
        )
        left = result.effective_rows / n
        print(f"{n:>8} {d:>8} {time.perf_counter() - start:>8.1f} s, effective rows {left:.0%}", flush=True)
    if not options.wide:
        return
    print("\nwide tables: one loss with its gradient over all pairs of columns")
    for n, d in [(8192, 784), (2048, 10744)]:
        # The peak is that of all so far: the long tables above may have set it.
        ready = measure(n, d, "weighted", options.seed)
        start = time.perf_counter()
        ready(torch.ones(n))
        took = time.perf_counter() - start
        flops = 4 * n * (d * (Q + 1)) ** 2 / 2  # each pair of blocks once
        print(
            f"{n:>8} {d:>8} {took:>8.1f} s, {flops / took / 1e9:.0f} GFLOP/s, peak {peak():.2f} GiB",
            flush=True,
        )
    values, mask = make_table(2048, 10744, options.seed)
    start = time.perf_counter()
    Decorrelator().learn_weights(values.numpy(), mask.numpy(), rng=np.random.default_rng(options.seed))
    print(f"    2048    10744 {time.perf_counter() - start:>8.1f} s for weights, peak {peak():.2f} GiB")


if __name__ == "__main__":
    main()
