"""Speed and accuracy of the EM mixture: Gaussian-Mix, 50 features, MAR at 50% missing.

Prints, for fits with three components to growing numbers of rows:

- seconds, and the number of passes over the rows (E-steps),
- time per row, component and step, which is constant if the cost is linear in the rows,
- the time to fit, divided by the time of the Cholesky factorisations and inversions alone (same shapes, as
  many as in all E-steps, same threads, same run; "× Cholesky"),
- the same ratio for matrices of all 51 columns, as if all masks were padded to one shape ("× padded"),
- the gap to the Bayes-optimal predictor at nine test levels.

    python benchmarks/em_mixture.py [--seed 0] [--rows 4096 16384 65536] [--mechanism mar] [--level 0.5]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
import torch

from stablemiss.datasets import Population, make_gaussian_mix
from stablemiss.missingness import LEVELS, MECHANISMS, Mechanism
from stablemiss.mixture import EMRows, GaussianMixture, MixtureFit
from stablemiss.mixture.em import Parameters, SufficientStatistics
from stablemiss.mixture.workers import ThreadWorkers
from stablemiss.progress import NullProgress

N_TEST = 8192


def make_rows(
    population: Population, mechanism: Mechanism, n: int, rng: np.random.Generator
) -> tuple[EMRows, EMRows, dict]:
    """Training and validation rows (85 : 15), standardised, the target in the last column."""
    X, y = population.draw(n, rng)
    X = mechanism.hide(X, rng)
    scale = {"mean": np.nanmean(X, axis=0), "sd": np.nanstd(X, axis=0), "y_mean": y.mean(), "y_sd": y.std()}
    values = np.column_stack([(X - scale["mean"]) / scale["sd"], (y - y.mean()) / y.std()])
    mask, cut = ~np.isnan(values), n * 15 // 100
    train, valid = (
        EMRows(values[part], mask[part], np.ones(len(values[part])))
        for part in (slice(cut, None), slice(cut))
    )
    return train, valid, scale


class CountedFit(MixtureFit):
    """A fit that counts its E-steps, by rows and number of components."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.passes: Counter = Counter()

    def _expect(self, rows: EMRows, parameters: Parameters) -> SufficientStatistics:
        self.passes[rows, len(parameters.means)] += 1
        return super()._expect(rows, parameters)


def bare_pass(rows: EMRows, n_components: int, whole: bool = False) -> float:
    """Seconds to factor and invert one matrix for every mask and component of an E-step.

    The matrices have the size that the E-step factors: the smaller of the observed and the missing block.
    With `whole=True` they have the size of all columns, as if all masks were padded to one shape.
    """
    blocks = rows.blocks(n_components)
    d = rows.values.shape[1]
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(d, d + 2, dtype=torch.float64, generator=generator)
    largest = root @ root.mT + torch.eye(d, dtype=torch.float64)
    matrices = {}
    for block in blocks:
        n_patterns, b = (len(block.columns), d) if whole else block.columns.shape
        matrices[id(block)] = largest[:b, :b].expand(n_components, n_patterns, b, b).contiguous()

    def work(subset: list) -> None:
        for block in subset:
            factor, _ = torch.linalg.cholesky_ex(matrices[id(block)])
            torch.cholesky_inverse(factor)

    with ThreadWorkers() as workers:
        workers.map(blocks, work)
        start = time.perf_counter()
        for _ in range(2):
            workers.map(blocks, work)
        return (time.perf_counter() - start) / 2


def gaps(
    mixture: GaussianMixture,
    scale: dict,
    population: Population,
    mechanism: Mechanism,
    rng: np.random.Generator,
) -> list[float]:
    """Relative gap of the mixture's RMSE to the Bayes-optimal one, at each test level."""
    result = []
    for level in LEVELS:
        X, y = population.draw(N_TEST, rng)
        X = mechanism.at(level).hide(X, rng)
        values = np.column_stack([(X - scale["mean"]) / scale["sd"], np.full(N_TEST, np.nan)])
        output = mixture.conditional_mean(values, ~np.isnan(values), np.array([X.shape[1]]))[:, 0]
        ours = np.sqrt(np.mean((output * scale["y_sd"] + scale["y_mean"] - y) ** 2))
        result.append(ours / np.sqrt(np.mean((population.bayes(X) - y) ** 2)) - 1)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, nargs="+", default=[4096, 16384, 65536])
    parser.add_argument("--mechanism", choices=sorted(MECHANISMS), default="mar")
    parser.add_argument("--level", type=float, default=0.5)
    parser.add_argument("--components", type=int, default=3)
    options = parser.parse_args()

    population = make_gaussian_mix(random_state=options.seed)
    print(
        f"Gaussian-Mix, 50 features, {options.mechanism} {options.level:.0%}, seed {options.seed}, ", end=""
    )
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    heads = ("rows", "seconds", "E-steps", "µs each", "× Cholesky", "× padded")
    print(" ".join(f"{head:>{max(8, len(head))}}" for head in heads), "  gap to Optimal at 10…90%")
    for n in options.rows:
        rng = np.random.default_rng(options.seed)
        mechanism = MECHANISMS[options.mechanism](options.level).fit(population.draw(20000, rng)[0], rng)
        train, valid, scale = make_rows(population, mechanism, n, rng)
        fit = CountedFit(train, valid, 1, tolerance=3e-4, max_steps=150, rng=rng, progress=NullProgress())
        start = time.perf_counter()
        fit.fit(options.components, max_components=options.components, ridge=None)
        mixture = fit.update_on_all_rows()
        seconds = time.perf_counter() - start
        bare, whole = (
            sum(count * bare_pass(rows, k, of_all) for (rows, k), count in fit.passes.items())
            for of_all in (False, True)
        )
        n_matrices = sum(count * len(rows) * k for (rows, k), count in fit.passes.items())
        levels = " ".join(f"{gap:6.2%}" for gap in gaps(mixture, scale, population, mechanism, rng))
        microseconds = seconds / n_matrices * 1e6
        numbers = f"{n:>8} {seconds:>8.1f} {fit.n_steps:>8} {microseconds:>8.1f}"
        print(f"{numbers} {seconds / bare:>10.2f} {seconds / whole:>8.2f}   {levels}", flush=True)


if __name__ == "__main__":
    main()
