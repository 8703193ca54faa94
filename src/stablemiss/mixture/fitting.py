"""From rows to a fitted mixture: where EM starts, how it is sped up, when it stops, how many components."""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from stablemiss.mixture.conditional import GaussianMixture
from stablemiss.mixture.em import Parameters, Rows, Sums, expect, maximise
from stablemiss.mixture.workers import Workers
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed

RIDGES = (0.1, 1.0, 10.0, 100.0)


class MixtureFit:
    """Fits mixtures to the observed cells of `train`, judged by the likelihood of those of `valid`.

    Parameters
    ----------
    train, valid : Rows
        Standardised columns, targets last. With no validation rows the training likelihood decides.
    n_targets : int
        How many of the last columns are targets.
    tolerance : float
        EM stops when a step gains less log-likelihood per row. Smaller is slower and closer to the optimum.
    max_steps : int
        Most E-steps of one fit.
    rng : numpy Generator
    progress : Progress
    """

    def __init__(
        self,
        train: Rows,
        valid: Rows,
        n_targets: int,
        tolerance: float,
        max_steps: int,
        rng: Rng,
        progress: Progress,
    ):
        # The ridge counts in rows, so the weights must, too: mean one over the rows of this fit.
        weight, n = float(train.weight.sum() + valid.weight.sum()), len(train) + len(valid)
        self.train, self.valid = (rows.reweighted(n / weight if n else 1.0) for rows in (train, valid))
        self.n_targets = n_targets
        self.tolerance, self.max_steps = tolerance, max_steps
        self.rng, self.progress = rng, progress
        self.ridge = RIDGES[0]
        self.n_steps = 0  # E-steps taken

    def fit(self, n_components: int | None, max_components: int, ridge: float | None) -> GaussianMixture:
        """The mixture with the best held-out likelihood among the sizes allowed."""
        self._best = self._unit()
        if len(self.train):
            with Workers() as self.workers:
                self._best = self._one_component(ridge)
                if n_components is None:
                    self._best = self._choose_size(self._best, max_components)
                elif n_components > 1:
                    start = self._start(self._best, n_components)
                    self._best = self._climb(start, f"{n_components} components")
            self.progress.finish()
        return self.mixture

    @property
    def mixture(self) -> GaussianMixture:
        """The mixture as it stands."""
        return self._best.mixture()

    def refresh(self) -> GaussianMixture:
        """The fitted mixture after a few steps on all rows, so that the validation rows count as data too."""
        everything = self.train.joined(self.valid)
        if len(everything):
            with Workers() as self.workers:
                for _ in range(3):
                    self._best, _ = self._step(everything, self._best)
        return self.mixture

    def _step(self, rows: Rows, parameters: Parameters) -> tuple[Parameters, float]:
        """One EM step, and the mean log-likelihood at the parameters it started from."""
        sums = self._expect(rows, parameters)
        return maximise(sums, parameters, self.n_targets, self.ridge), sums.log_likelihood

    def _expect(self, rows: Rows, parameters: Parameters) -> Sums:
        self.n_steps += 1
        return expect(rows, parameters, self.workers)

    @property
    def _judges(self) -> Rows:
        return self.valid if len(self.valid) else self.train

    def _held_out(self, parameters: Parameters) -> float:
        return self._judges.log_likelihood(parameters, self.workers)

    def _unit(self) -> Parameters:
        """The standard Gaussian: what standardised columns look like before anything is learnt."""
        d = self.train.values.shape[1]
        zero = torch.zeros((), dtype=torch.float64)
        return Parameters(
            torch.zeros(1, dtype=torch.float64),
            torch.zeros(1, d, dtype=torch.float64),
            torch.eye(d, dtype=torch.float64)[None],
            log_between=zero,
            log_shared=zero,
        )

    def _one_component(self, ridge: float | None) -> Parameters:
        """A single Gaussian, with the ridge that predicts the validation rows best unless it is given."""
        d = self.train.values.shape[1]
        candidates = list(RIDGES) if ridge is None else [ridge]
        self.ridge = candidates.pop(0)
        best = self._climb(self._unit(), f"1 component, ridge {self.ridge:g}")
        for candidate in candidates:
            kept, self.ridge = self.ridge, candidate
            fitted = self._climb(self._unit(), f"1 component, ridge {candidate:g}")
            # Several components are sharper than one, which hardly minds a ridge that would blur them: only a
            # gain far above the noise, as when there are fewer rows than columns, is worth a larger one.
            if self._gains(fitted, best, least=2e-3 * d):
                best = fitted
            else:
                self.ridge = kept
                break
        return best

    def _choose_size(self, single: Parameters, max_components: int) -> Parameters:
        """Grow until two sizes in a row do not help the held-out likelihood; each size starts afresh."""
        best, failures = single, 0
        # Fewer than ten rows a component cannot say anything about a covariance.
        for size in range(2, min(max_components, len(self.train) // 10) + 1):
            grown = self._climb(self._start(single, size), f"{size} components")
            if self._gains(grown, best):
                best, failures = grown, 0
            else:
                failures += 1
            if failures == 2:
                break
        return best

    def _gains(self, fitted: Parameters, best: Parameters, least: float = 0.0) -> bool:
        """Is the gain in held-out likelihood above `least` and two of its standard errors?"""
        judges = self._judges
        gain = judges.log_density(fitted, self.workers) - judges.log_density(best, self.workers)
        weight = judges.weight / judges.weight.sum()
        mean = gain @ weight
        return bool(mean > max(least, 2 * float(((gain - mean) ** 2 @ weight**2).sqrt())))

    def _start(self, single: Parameters, n_components: int, n_steps: int = 12) -> Parameters:
        """The best of three short runs on a part of the rows.

        Two start from the covariances of small random sets of rows, which differ by chance, and EM makes the
        most of the difference: components that share their centre but not their shape are found only so. One
        starts from k-means, which finds the ones that lie apart.
        """
        d = self.train.values.shape[1]
        part = self.train
        if len(part) > 80 * d + 1024:
            part = part.take(self.rng.choice(len(part), 80 * d + 1024, replace=False))
        filled = single.mixture().conditional_mean(part.values.numpy(), part.mask.numpy())
        k_means = KMeans(
            min(n_components, len(filled)), n_init=1, max_iter=30, random_state=draw_seed(self.rng)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
            clusters = k_means.fit_predict(filled)
        groups = [[np.flatnonzero(clusters == k) for k in np.unique(clusters)]]
        few = min(len(filled), 2 * d)
        for _ in range(2):
            groups.append([self.rng.choice(len(filled), few, replace=False) for _ in range(n_components)])

        best, best_score = single, -math.inf
        for group in groups:
            parameters, score = self._around(single, filled, group), -math.inf
            for _ in range(n_steps):
                parameters, score = self._step(part, parameters)
            if score > best_score:
                best, best_score = parameters, score
        return best

    def _around(self, single: Parameters, filled: np.ndarray, groups: list[np.ndarray]) -> Parameters:
        """Components with the means of the groups' rows and covariances halfway to the overall one."""
        overall = single.covariances[0].numpy()
        means, covariances = [], []
        for group in groups:
            rows = filled[group]
            centred = rows - rows.mean(axis=0)
            means.append(rows.mean(axis=0))
            covariances.append(0.5 * (centred.T @ centred) / max(1, len(rows)) + 0.5 * overall)
        return Parameters(
            torch.full((len(groups),), -math.log(len(groups)), dtype=torch.float64),
            torch.from_numpy(np.array(means)),
            torch.from_numpy(np.array(covariances)),
            log_between=single.log_shared,
            log_shared=single.log_shared,
        )

    def _climb(self, parameters: Parameters, what: str) -> Parameters:
        """EM with SQUAREM steps until it gains nothing more, on the training or on the validation rows.

        Varadhan & Roland (2008): two EM steps give a first and a second difference, from which a longer step
        is extrapolated; it is kept if the likelihood is not below that after the first of the two.
        """
        self.progress.start(f"mixture: {what}", total=self.max_steps)
        best, best_score, falls, steps = parameters, -math.inf, 0, 0
        while steps < self.max_steps:
            once, before = self._step(self.train, parameters)
            twice, after = self._step(self.train, once)
            start, middle, end = (p.coordinates() for p in (parameters, once, twice))
            change, bend = middle - start, end - 2 * middle + start
            length = float((change.norm() / bend.norm().clamp_min(1e-12)).clamp(1.0, 256.0))
            further = parameters.at(start + 2 * length * change + length**2 * bend)
            parameters, steps = twice, steps + 2
            gain = (after - before) / self.tolerance
            # A leap may go too far: past what floating point can factor, or down the other side.
            if gain > 1 and further.is_sound():
                sums = self._expect(self.train, further)
                steps += 1
                if sums.log_likelihood >= after:
                    parameters = maximise(sums, further, self.n_targets, self.ridge)
                    after = sums.log_likelihood
            score = self._held_out(parameters)
            self.progress.update(steps, f"log-likelihood {after:.3f}, held out {score:.3f}")
            falls = 0 if score > best_score + self.tolerance else falls + 1
            if score > best_score:
                best, best_score = parameters, score
            if gain <= 1 or falls == 2:
                break
        return best
