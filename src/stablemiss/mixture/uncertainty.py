"""Expected squared errors of predictions, and how much of them is due to missing values.

Under the mixture, E[y | x] is linear within each component, and the distribution of x given its observed
values x_o is again a mixture of Gaussians. With responsibilities ρ_k = P(component k | x_o), three quantities
follow for each row:

    error              Var[y | x_o] = Σ_k ρ_k Var_k[y | x_o] + Σ_k ρ_k (E_k[y | x_o] − E[y | x_o])²
    error_if_complete  E[Var[y | x] | x_o], the expected error if all values were observed
    gain_j             Var[y | x_o] − E[Var[y | x_o, x_j] | x_o], the reduction if column j were also observed

`error` is exact, and with one component so are the other two. With several components, `error_if_complete` is
the sum of two terms: the noise within the components, which is exact, and the disagreement between the
components, which is averaged over `N_DRAWS` fixed draws of the missing values. `gain` is the reduction by the
best *linear* use of the column, Cov[y, x_j]² / Var[x_j], where the covariance given x_o includes the
differences between the component means. It is a lower bound of the true gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.mixture.conditional import ConditionalCovariances, GaussianMixture, Posterior
from stablemiss.mixture.patterns import MAX_BLOCK_CELLS

# Number of draws of the missing values, in antithetic pairs. With mixtures of three to six different
# regressions, the error of `error_if_complete` is then 2 to 9 % for a row, and 1 to 3 % for its mean over
# rows.
N_DRAWS = 32
# A column counts as redundant if the share of its variance that the previous columns of its group leave
# unexplained is below this.
MIN_VARIANCE_SHARE = 1e-10


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Expected squared errors of the best prediction, for each row.

    Attributes
    ----------
    error : (n, r)
        Expected squared error of each output, given the observed values.
    error_if_complete : (n, r)
        Expected squared error if no value were missing; equal to `error` for complete rows.
    gain : (n, n_groups)
        Reduction of `error`, summed over the outputs, if one missing column were also observed. Zero for
        observed columns. If several missing columns carry the same information, each is credited with all of
        it, so gains do not add up. Columns that are informative only in combination may have no gain.

    See Also
    --------
    GaussianMixture : The mixture from which the errors are computed.
    """

    error: Floats
    error_if_complete: Floats
    gain: Floats

    @classmethod
    def of(
        cls,
        mixture: GaussianMixture,
        values: NDArray,
        mask: Bools,
        groups: NDArray | None = None,
        outputs: NDArray | None = None,
    ) -> Uncertainty:
        """Expected errors of the mixture when it predicts the targets from incomplete features.

        Parameters
        ----------
        mixture : GaussianMixture
            Mixture over d features followed by t targets. Targets may be constant within a component, as
            class indicators are if each class has its own component.
        values, mask : (n, d)
            Features; mask True = observed, values elsewhere have no influence.
        groups : (d,) int, default=None
            Features with the same number belong to one column and are observed together. None means that
            each feature is a separate column. The columns of `gain` are in ascending order of these numbers.
        outputs : (t, r), default=None
            Linear combinations of the targets, one per column, whose errors are computed. None means the
            targets themselves. A diagonal matrix changes the units. The identity with an additional column
            (−1, …, −1) gives the Brier scores of all classes from the indicators of all but one of them.

        Notes
        -----
        For each distinct mask and each of the K components, the smaller submatrix, b ≤ d/2, is factorised and
        inverted, which costs K (b³ + b² d). With several components each row costs another N_DRAWS · K · d².
        Rows are processed in blocks, with about 100 MiB of additional memory per thread.

        Examples
        --------
        y = x₀ + x₁ + noise of variance ¼, with independent features of variances 1 and 4:

        >>> covariance = np.array([[1.0, 0.0, 1.0], [0.0, 4.0, 4.0], [1.0, 4.0, 5.25]])
        >>> mixture = GaussianMixture(np.ones(1), np.zeros((1, 3)), covariance[None])
        >>> mask = np.array([[True, True], [True, False], [False, False]])
        >>> uncertainty = Uncertainty.of(mixture, np.zeros((3, 2)), mask)
        >>> uncertainty.error.ravel().tolist(), uncertainty.error_if_complete.ravel().tolist()
        ([0.25, 4.25, 5.25], [0.25, 0.25, 0.25])
        >>> uncertainty.gain.tolist(), uncertainty.most_informative_missing.tolist()
        ([[0.0, 0.0], [0.0, 4.0], [1.0, 4.0]], [-1, 1, 1])
        """
        mask = np.asarray(mask, dtype=bool)
        d, n_targets = mask.shape[1], mixture.means.shape[1] - mask.shape[1]
        groups = np.arange(d) if groups is None else np.asarray(groups)
        outputs = np.eye(max(0, n_targets)) if outputs is None else np.asarray(outputs, dtype=np.float64)
        if np.shape(values) != mask.shape or len(groups) != d or len(outputs) != n_targets or n_targets < 1:
            raise ValueError(
                f"values {np.shape(values)}, mask {mask.shape}, groups {groups.shape} and outputs "
                f"{outputs.shape} must agree with each other and with the mixture's {mixture.means.shape[1]} "
                "columns, which are the features followed by the targets."
            )
        r = outputs.shape[1]
        errors = _ErrorModel(mixture, groups, outputs)
        features = _features(mixture, d)
        width = 2 * r + errors.n_groups
        results = features.evaluate(values, mask, width, errors.evaluate, numbers_per_cell=r)
        return cls(results[:, :r], results[:, r : 2 * r], results[:, 2 * r :])

    @property
    def most_informative_missing(self) -> NDArray[np.int64]:
        """Index of the missing column with the largest gain, (n,); −1 if no column has a gain."""
        return np.where(self.gain.max(axis=1) > 0, self.gain.argmax(axis=1), -1)


class ConditionalVariance:
    """Var[targets | x_o] under a mixture: `Uncertainty.error` alone, which costs a fraction of all three.

    Parameters
    ----------
    mixture : GaussianMixture
        Mixture over d features followed by t targets.
    d : int
        Number of features.

    See Also
    --------
    Uncertainty : Also tells how much of the variance is due to missing values.

    Examples
    --------
    >>> covariance = np.array([[1.0, 0.0, 1.0], [0.0, 4.0, 4.0], [1.0, 4.0, 5.25]])
    >>> mixture = GaussianMixture(np.ones(1), np.zeros((1, 3)), covariance[None])
    >>> mask = np.array([[True, True], [True, False], [False, False]])
    >>> ConditionalVariance(mixture, d=2).of(np.zeros((3, 2)), mask).ravel().tolist()
    [0.25, 4.25, 5.25]
    """

    def __init__(self, mixture: GaussianMixture, d: int):
        self._features = _features(mixture, d)
        self._regressions = _Regressions(mixture, np.eye(mixture.means.shape[1] - d), d)

    def of(self, values: NDArray, mask: Bools) -> Floats:
        """Variances (n, t) for features (n, d); mask True = observed."""
        t = self._regressions.noise.shape[1]
        return self._features.evaluate(values, mask, t, self._variance, numbers_per_cell=t)

    def _variance(self, posterior: Posterior) -> torch.Tensor:
        responsibility = posterior.log_joint.softmax(dim=0)
        cross = ConditionalCovariances(posterior).times(self._regressions.slope)
        return self._regressions.variance(posterior, responsibility, cross)


def _features(mixture: GaussianMixture, d: int) -> GaussianMixture:
    """The marginal mixture of the first d columns."""
    return GaussianMixture(mixture.weights, mixture.means[:, :d], mixture.covariances[:, :d, :d])


class _Regressions:
    """Regression of the outputs on the features in each component.

    Shapes: K components, R rows, d features, r outputs.
    """

    def __init__(self, mixture: GaussianMixture, outputs: Floats, d: int):
        means, covariances = mixture.means, mixture.covariances
        cross = covariances[:, :d, d:]
        slope = np.linalg.solve(covariances[:, :d, :d], cross)
        residual = covariances[:, d:, d:] - cross.transpose(0, 2, 1) @ slope
        self.slope = torch.from_numpy(slope @ outputs)  # (K, d, r)
        self.noise = torch.from_numpy(np.einsum("ir,kij,jr->kr", outputs, residual, outputs).clip(0.0))
        self.output_at_mean = torch.from_numpy(means[:, d:] @ outputs)

    def predictions(self, deviation: torch.Tensor) -> torch.Tensor:
        """E[outputs | x] of each component, (K, R, r), for x at a `deviation` (K, R, d) from its mean."""
        return self.output_at_mean[:, None] + deviation @ self.slope

    def variance(
        self, posterior: Posterior, responsibility: torch.Tensor, cross: torch.Tensor
    ) -> torch.Tensor:
        """Var[outputs | x_o], (R, r); `cross` is Cov[x, output | x_o] of each component and mask."""
        within = (self.slope[:, None] * cross).sum(dim=2)[:, posterior.block.pattern] + self.noise[:, None]
        between = _variance(responsibility, self.predictions(posterior.deviation))
        # If y is known exactly, rounding errors must not give a negative variance.
        return (_average(responsibility, within) + between).clamp_min(0.0)


class _ErrorModel:
    """The expected errors that follow from the regressions of the components.

    Shapes: K components, R rows, d features, r outputs.
    """

    def __init__(self, mixture: GaussianMixture, groups: NDArray, outputs: Floats):
        d = len(groups)
        self.regressions = _Regressions(mixture, outputs, d)
        _, numbered, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        self.n_groups = len(sizes)
        # For each size of a group: the groups of that size and their columns (n, size).
        by_group = np.split(np.argsort(numbered, kind="stable"), np.cumsum(sizes)[:-1])
        self.groups_by_size = {
            int(size): (
                torch.from_numpy(np.flatnonzero(sizes == size)),
                torch.from_numpy(np.stack([by_group[g] for g in np.flatnonzero(sizes == size)])),
            )
            for size in np.unique(sizes)
        }
        half = np.random.default_rng(0).standard_normal((N_DRAWS // 2, d))
        # The two draws of an antithetic pair are adjacent: adjacent draws are usually assigned to the same
        # component, and only then do their errors cancel.
        self.draws = torch.from_numpy(np.stack([half, -half], axis=1).reshape(N_DRAWS, d))
        self.quantiles = (torch.arange(N_DRAWS) + 0.5) / N_DRAWS

    def evaluate(self, posterior: Posterior) -> torch.Tensor:
        """Columns of `error`, `error_if_complete` and `gain` next to each other, (R, 2 r + n_groups)."""
        responsibility = posterior.log_joint.softmax(dim=0)
        covariances = ConditionalCovariances(posterior)
        rows = posterior.block.pattern
        predictions = self.regressions.predictions(posterior.deviation)
        cross = covariances.times(self.regressions.slope)
        error = self.regressions.variance(posterior, responsibility, cross)

        # Overall covariance of features and outputs, including the differences between component means.
        x = posterior.components.means[:, None] + posterior.deviation
        x_shift = torch.where(covariances.missing[rows], x - _average(responsibility, x), 0.0)
        output_shift = (predictions - _average(responsibility, predictions)) * responsibility[..., None]
        cross = _average(responsibility, cross[:, rows]) + torch.einsum("knd,knr->ndr", x_shift, output_shift)
        gain = torch.zeros(len(rows), self.n_groups, dtype=torch.float64)
        best = torch.zeros_like(error)
        for groups, columns in self.groups_by_size.values():
            covariance = _group_covariances(covariances, columns, responsibility, x_shift, rows)
            explained = _explained_variance(covariance, cross[:, columns])
            gain[:, groups] = explained.sum(dim=2)
            best = torch.maximum(best, explained.amax(dim=1))
        error_if_complete = error
        if covariances.missing.any():
            # All columns together explain at least as much as any single one. The random draws must not
            # contradict this.
            upper_bound = (error - best).clamp_min(0.0)
            estimate = self._error_if_complete(posterior, covariances, responsibility)
            error_if_complete = torch.minimum(estimate, upper_bound)
        return torch.cat([error, error_if_complete, gain], dim=1)

    def _error_if_complete(
        self, posterior: Posterior, covariances: ConditionalCovariances, responsibility: torch.Tensor
    ) -> torch.Tensor:
        """E[Var[outputs | x] | x_o], (R, r)."""
        noise = _average(responsibility, self.regressions.noise[:, None])
        if len(responsibility) == 1:
            return noise  # with one component there is no disagreement
        components, rows = posterior.components, posterior.block.pattern
        # Number of draws per iteration, limited by memory.
        n_at_once = max(1, 8 * MAX_BLOCK_CELLS // posterior.deviation.numel())
        cumulative = responsibility.cumsum(dim=0)[:-1]
        disagreement = torch.zeros_like(noise)
        for noises, quantiles in zip(
            self.draws.split(n_at_once), self.quantiles.split(n_at_once), strict=True
        ):
            # The draws are distributed over the components in proportion to `responsibility`. All rows use
            # the same draws, so that the result for a row does not depend on the other rows.
            drawn = (cumulative < quantiles[:, None, None]).sum(dim=1)  # component of each draw, (S, R)
            x = components.means[drawn] + posterior.deviation[drawn, torch.arange(len(rows))]
            x = x + covariances.draw(noises.T)[drawn, rows, :, torch.arange(len(noises))[:, None]]
            deviation = x.reshape(1, -1, x.shape[2]) - components.means[:, None]  # (K, S · R, d)
            distance = ((deviation @ components.precisions) * deviation).sum(dim=2)
            log_joint = components.log_weights[:, None] - 0.5 * (components.log_dets[:, None] + distance)
            variance = _variance(log_joint.softmax(dim=0), self.regressions.predictions(deviation))
            disagreement += variance.reshape(len(noises), *disagreement.shape).sum(dim=0)
        return noise + disagreement / N_DRAWS


def _average(responsibility: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Mean over components, weighted by `responsibility` (K, R), of `numbers` (K, R or 1, …)."""
    return (responsibility.reshape(*responsibility.shape, *[1] * (numbers.ndim - 2)) * numbers).sum(dim=0)


def _variance(responsibility: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Variance over components, (R, r), weighted by `responsibility`."""
    return _average(responsibility, (numbers - _average(responsibility, numbers)) ** 2)


def _group_covariances(
    covariances: ConditionalCovariances,
    columns: torch.Tensor,
    responsibility: torch.Tensor,
    x_shift: torch.Tensor,
    pattern: torch.Tensor,
) -> torch.Tensor:
    """Overall covariances (R, n, g, g), given x_o, within each of n groups of g columns.

    Parameters
    ----------
    covariances : ConditionalCovariances
        Covariances within the components.
    columns : (n, g)
        Columns of each group.
    responsibility : (K, R)
        Responsibilities of the components.
    x_shift : (K, R, d)
        Conditional means of the components minus the overall conditional mean.
    pattern : (R,)
        Index of the mask of each row, among the distinct masks.
    """
    n, g = columns.shape
    result = torch.empty(len(pattern), n, g, g, dtype=torch.float64)
    for i in range(g):
        for j in range(i + 1):
            left, right = columns[:, i], columns[:, j]
            products = (
                covariances.of_pairs(left, right)[:, pattern] + x_shift[..., left] * x_shift[..., right]
            )
            result[..., i, j] = result[..., j, i] = _average(responsibility, products)
    return result


def _explained_variance(covariance: torch.Tensor, cross: torch.Tensor) -> torch.Tensor:
    """Variance of each output that the columns of a group explain together, (R, n, r).

    Gaussian elimination, one column of all groups after the other. A column that the previous ones determine,
    such as the last column of a one-hot encoding, adds nothing instead of causing a division by zero.

    Parameters
    ----------
    covariance : (R, n, g, g)
        Covariances of the columns of each group.
    cross : (R, n, g, r)
        Covariances of columns and outputs.
    """
    min_variance = MIN_VARIANCE_SHARE * covariance.diagonal(dim1=2, dim2=3)
    total = torch.zeros_like(cross[:, :, 0])
    for i in range(covariance.shape[2]):
        variance = covariance[..., i, i]
        inverse = torch.where(variance > min_variance[..., i], 1 / variance, 0.0)[..., None]
        total += cross[:, :, i] ** 2 * inverse
        weight = (covariance[..., i] * inverse)[..., None]
        cross = cross - weight * cross[:, :, i : i + 1]
        covariance = covariance - weight * covariance[:, :, i : i + 1]
    return total
