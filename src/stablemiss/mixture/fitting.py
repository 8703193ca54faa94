"""Fits a mixture: initialisation, acceleration and stopping of EM, selection of the number of components."""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from stablemiss.mixture.conditional import GaussianMixture
from stablemiss.mixture.em import EMRows, Parameters, SufficientStatistics, expect, maximise
from stablemiss.mixture.workers import ThreadWorkers
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed

# Candidates for the ridge: the number of pseudo-rows of unit variance added to each covariance.
RIDGES = (0.1, 1.0, 10.0, 100.0)
# EM steps on a subset of the rows: from each starting point, and further ones from the best of them.
TRIAL_STEPS, FURTHER_STEPS = 5, 7


def numbers_of_components(maximum: int) -> list[int]:
    """Numbers of components to try, from two on: Fibonacci numbers, and the maximum.

    The more components there are, the less one more of them changes; not to try all numbers saves time.

    Examples
    --------
    >>> numbers_of_components(4), numbers_of_components(8)
    ([2, 3, 4], [2, 3, 5, 8])
    """
    numbers = [2, 3]
    while numbers[-1] < maximum:
        numbers.append(min(numbers[-2] + numbers[-1], maximum))
    return [number for number in numbers if number <= maximum]


class MixtureFit:
    """Fits mixtures to the observed values of `train` and selects one by its likelihood on `valid`.

    Parameters
    ----------
    train, valid : EMRows
        Standardised columns, targets last. Without validation rows the training likelihood is used.
    n_targets : int
        Number of targets, which are the last columns.
    tolerance : float
        EM stops when a step increases the log-likelihood per row by less than this. Lowering it makes the fit
        slower and closer to the optimum.
    max_steps : int
        Maximum number of E-steps per number of components. Raising it allows a closer fit.
    rng : numpy Generator
        Draws the starting points.
    progress : Progress
        Reports the steps.
    """

    def __init__(
        self,
        train: EMRows,
        valid: EMRows,
        n_targets: int,
        tolerance: float,
        max_steps: int,
        rng: Rng,
        progress: Progress,
    ):
        # The ridge is measured in rows, so weights must have mean one over the rows of this fit.
        weight, n = float(train.weight.sum() + valid.weight.sum()), len(train) + len(valid)
        self.train, self.valid = (rows.reweighted(n / weight if n else 1.0) for rows in (train, valid))
        self.n_targets = n_targets
        self.tolerance, self.max_steps = tolerance, max_steps
        self.rng, self.progress = rng, progress
        self.ridge = RIDGES[0]
        self.n_steps = 0  # number of E-steps so far

    def fit(self, n_components: int | None, max_components: int, ridge: float | None) -> GaussianMixture:
        """Fit a mixture and return it.

        Parameters
        ----------
        n_components : int or None
            Number of components. None selects it by the validation likelihood.
        max_components : int
            Maximum number of components if `n_components` is None. Raising it fits more complex
            distributions and takes longer.
        ridge : float or None
            Ridge on the covariance of the features: the number of pseudo-rows of unit variance that are
            added. Raising it regularises more.
            None selects it by the validation likelihood.
        """
        self._best = self._standard_normal()
        if len(self.train):
            with ThreadWorkers() as self.workers:
                self._best = self._fit_one_component(ridge)
                if n_components is None:
                    self._best = self._select_n_components(self._best, max_components)
                elif n_components > 1:
                    start = self._initialise(self._best, n_components)
                    self._best = self._run_em(start, f"{n_components} components")
            self.progress.finish()
        return self.mixture

    @property
    def mixture(self) -> GaussianMixture:
        """The fitted mixture."""
        return self._best.mixture()

    def update_on_all_rows(self) -> GaussianMixture:
        """Update the fitted mixture by three EM steps on training and validation rows together."""
        all_rows = self.train.joined(self.valid)
        if len(all_rows):
            with ThreadWorkers() as self.workers:
                for _ in range(3):
                    self._best, _ = self._step(all_rows, self._best)
        return self.mixture

    @property
    def parameters(self) -> Parameters:
        """The parameters of the fitted mixture."""
        return self._best

    def update(self, sums: SufficientStatistics) -> None:
        """Take an EM step, given the sufficient statistics of any rows under the current parameters.

        Parameters
        ----------
        sums : SufficientStatistics
            From `expect`; those of several batches are added with `merged`.
        """
        self._best = maximise(sums, self._best, self.n_targets, self.ridge)

    def _step(self, rows: EMRows, parameters: Parameters) -> tuple[Parameters, float]:
        """The parameters after one EM step, and the mean log-likelihood before it."""
        sums = self._expect(rows, parameters)
        return maximise(sums, parameters, self.n_targets, self.ridge), sums.log_likelihood

    def _expect(self, rows: EMRows, parameters: Parameters) -> SufficientStatistics:
        self.n_steps += 1
        return expect(rows, parameters, self.workers)

    @property
    def _validation_rows(self) -> EMRows:
        return self.valid if len(self.valid) else self.train

    def _validation_likelihood(self, parameters: Parameters) -> float:
        return self._validation_rows.log_likelihood(parameters, self.workers)

    def _standard_normal(self) -> Parameters:
        """One standard normal component, the starting point for standardised columns."""
        d = self.train.values.shape[1]
        zero = torch.zeros((), dtype=torch.float64)
        return Parameters(
            torch.zeros(1, dtype=torch.float64),
            torch.zeros(1, d, dtype=torch.float64),
            torch.eye(d, dtype=torch.float64)[None],
            log_between=zero,
            log_shared=zero,
        )

    def _fit_one_component(self, ridge: float | None) -> Parameters:
        """Fit a single Gaussian. If `ridge` is None, select it by the validation likelihood."""
        d = self.train.values.shape[1]
        candidates = list(RIDGES) if ridge is None else [ridge]
        self.ridge = candidates.pop(0)
        best = self._run_em(self._standard_normal(), "1 component")
        for candidate in candidates:
            best_ridge, self.ridge = self.ridge, candidate
            fitted = self._run_em(self._standard_normal(), "1 component")
            # A ridge that suits a single Gaussian can be too large for several narrower components. A larger
            # ridge is therefore accepted only if it clearly improves the fit, which happens, for example, if
            # there are fewer rows than columns.
            if self._is_better(fitted, best, min_gain=2e-3 * d):
                best = fitted
            else:
                self.ridge = best_ridge
                break
        return best

    def _select_n_components(self, single: Parameters, max_components: int) -> Parameters:
        """Add components until the validation likelihood does not improve for two numbers in a row."""
        best, n_failures = single, 0
        # A covariance cannot be estimated from fewer than ten rows per component.
        for n_components in numbers_of_components(min(max_components, len(self.train) // 10)):
            fitted = self._run_em(self._initialise(single, n_components), f"{n_components} components")
            if self._is_better(fitted, best):
                best, n_failures = fitted, 0
            else:
                n_failures += 1
            if n_failures == 2:
                break
        return best

    def _is_better(self, fitted: Parameters, best: Parameters, min_gain: float = 0.0) -> bool:
        """Whether the gain in validation likelihood exceeds `min_gain` and twice its standard error."""
        rows = self._validation_rows
        gain = rows.log_density(fitted, self.workers) - rows.log_density(best, self.workers)
        weight = rows.weight / rows.weight.sum()
        mean = gain @ weight
        return bool(mean > max(min_gain, 2 * float(((gain - mean) ** 2 @ weight**2).sqrt())))

    def _initialise(self, single: Parameters, n_components: int) -> Parameters:
        """The best of three short runs of EM on a subset of the rows, continued for a few steps.

        One run starts from k-means, which finds components with different means. Two runs start from the
        means and covariances of small random sets of rows. These differ by chance, and EM amplifies the
        differences, which finds components with equal means and different covariances.
        """
        from sklearn.cluster import KMeans

        d = self.train.values.shape[1]
        subset = self.train
        if len(subset) > 80 * d + 1024:
            subset = subset.take(self.rng.choice(len(subset), 80 * d + 1024, replace=False))
        filled = single.mixture().conditional_mean(subset.values.numpy(), subset.mask.numpy())
        k_means = KMeans(
            min(n_components, len(filled)), n_init=1, max_iter=30, random_state=draw_seed(self.rng)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
            clusters = k_means.fit_predict(filled)
        starts = [[np.flatnonzero(clusters == k) for k in np.unique(clusters)]]
        n_rows = min(len(filled), 2 * d)
        for _ in range(2):
            starts.append([self.rng.choice(len(filled), n_rows, replace=False) for _ in range(n_components)])

        best, best_score = single, -math.inf
        for groups in starts:
            parameters, score = self._from_groups(single, filled, groups), -math.inf
            for _ in range(TRIAL_STEPS):
                parameters, score = self._step(subset, parameters)
            if score > best_score:
                best, best_score = parameters, score
        for _ in range(FURTHER_STEPS):
            best, _ = self._step(subset, best)
        return best

    def _from_groups(self, single: Parameters, filled: np.ndarray, groups: list[np.ndarray]) -> Parameters:
        """One component per group of rows, whose covariance is averaged with the overall covariance."""
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

    def _run_em(self, parameters: Parameters, description: str) -> Parameters:
        """Run EM with SQUAREM steps until the training or the validation likelihood no longer improves.

        Varadhan & Roland (2008): two EM steps give a first and a second difference, from which a longer step
        is extrapolated. It is accepted if the likelihood is not lower than after the first EM step.
        """
        self.progress.start(f"Gaussian mixture, {description}", total=self.max_steps)
        best, best_score, n_failures, steps = parameters, -math.inf, 0, 0
        while steps < self.max_steps:
            once, before = self._step(self.train, parameters)
            twice, after = self._step(self.train, once)
            start, middle, end = (p.coordinates() for p in (parameters, once, twice))
            first, second = middle - start, end - 2 * middle + start
            length = float((first.norm() / second.norm().clamp_min(1e-12)).clamp(1.0, 256.0))
            extrapolated = parameters.at(start + 2 * length * first + length**2 * second)
            parameters, steps = twice, steps + 2
            gain = (after - before) / self.tolerance
            # A step that is too long gives ill-conditioned covariances or a lower likelihood, and is not
            # used.
            if gain > 1 and extrapolated.is_well_conditioned():
                sums = self._expect(self.train, extrapolated)
                steps += 1
                if sums.log_likelihood >= after:
                    parameters = maximise(sums, extrapolated, self.n_targets, self.ridge)
                    after = sums.log_likelihood
            score = self._validation_likelihood(parameters)
            self.progress.update(steps, f"log-likelihood {after:.3f}, validation {score:.3f}")
            n_failures = 0 if score > best_score + self.tolerance else n_failures + 1
            if score > best_score:
                best, best_score = parameters, score
            if gain <= 1 or n_failures == 2:
                break
        return best
