"""How far off a prediction is expected to be, and how much of that is due to what is missing.

Under the mixture, y given the complete row is linear in each component, and x given its observed cells o is a
mixture of Gaussians again. With shares ρ_k = P(component k | x_o) three numbers follow for each row:

    error     Var[y | x_o] = Σ_k ρ_k Var_k[y | x_o] + Σ_k ρ_k (E_k[y | x_o] − E[y | x_o])²
    complete  E[Var[y | x] | x_o], what would be left if every cell were seen
    gain_j    Var[y | x_o] − E[Var[y | x_o, x_j] | x_o], the fall if column j alone were seen

`error` is exact. So are the other two for one component. For several, `complete` has an exact part, the noise
within the components, and an average over `DRAWS` fixed draws of the missing cells of how far the components
still disagree. `gain` is what the best *linear* use of the column would win: Cov[y, x_j]² / Var[x_j] for the
overall covariance given x_o, which the spread of the component means is part of. Never more than the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.mixture.conditional import ConditionalCovariances, GaussianMixture, Posterior
from stablemiss.mixture.patterns import BLOCK_CELLS

# Draws of the missing cells, in pairs of opposite ones. On mixtures of three to six different regressions 32
# leave `complete` of a row uncertain by 2 to 9 %, and its mean over rows by 1 to 3 %.
DRAWS = 32
# A column of a group counts as told by the columns before it when less of its variance is left.
TOLD = 1e-10


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Expected squared errors of the best prediction, for each row.

    Attributes
    ----------
    error : (n, r)
        Of each output, with what is observed.
    complete : (n, r)
        The same if nothing were missing; equal to `error` where nothing is.
    gain : (n, n_groups)
        By how much `error`, summed over the outputs, would fall if a column that is missing were seen, it
        alone. Zero for observed columns. Columns that can stand in for each other each have the whole gain;
        columns that tell something only together may have none.
    """

    error: Floats
    complete: Floats
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
        """What the mixture expects of its own errors when it predicts the targets from incomplete features.

        Parameters
        ----------
        mixture : GaussianMixture
            Over d features and then t targets. Targets may be constant within a component, as the indicators
            of classes are in a mixture of the classes' densities.
        values, mask : (n, d)
            Features; mask True = observed, values elsewhere have no influence.
        groups : (d,) int, optional
            Features with the same number are one column and seen together; each its own by default. Gains
            come in the order of the numbers.
        outputs : (t, r), optional
            Combinations of the targets whose errors are wanted, a column for each; the targets themselves by
            default. Factors on the diagonal change units; (−1, …, −1) beside the identity gives all classes'
            Brier scores from the indicators of all but the first.

        Notes
        -----
        Each distinct mask has the smaller of its blocks, b ≤ d/2, factored and inverted for each of the K
        components, K (b³ + b² d); more than one component cost each row another DRAWS · K · d². Rows are
        taken in blocks, so that beyond the answer about 100 MiB per thread are held at once.

        Examples
        --------
        y = x₀ + x₁ + noise of variance ¼, with independent features of variances 1 and 4:

        >>> covariance = np.array([[1.0, 0.0, 1.0], [0.0, 4.0, 4.0], [1.0, 4.0, 5.25]])
        >>> mixture = GaussianMixture(np.ones(1), np.zeros((1, 3)), covariance[None])
        >>> mask = np.array([[True, True], [True, False], [False, False]])
        >>> found = Uncertainty.of(mixture, np.zeros((3, 2)), mask)
        >>> found.error.ravel().tolist(), found.complete.ravel().tolist()
        ([0.25, 4.25, 5.25], [0.25, 0.25, 0.25])
        >>> found.gain.tolist(), found.most_informative_missing.tolist()
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
                "columns, which are the features and then the targets."
            )
        r = outputs.shape[1]
        teller = _Teller(mixture, groups, outputs)
        features = GaussianMixture(mixture.weights, mixture.means[:, :d], mixture.covariances[:, :d, :d])
        found = features.ask(values, mask, 2 * r + teller.n_groups, teller.tell, numbers_per_cell=r)
        return cls(found[:, :r], found[:, r : 2 * r], found[:, 2 * r :])

    @property
    def most_informative_missing(self) -> NDArray[np.int64]:
        """The missing column with the largest gain, (n,); −1 where none would help."""
        return np.where(self.gain.max(axis=1) > 0, self.gain.argmax(axis=1), -1)


class _Teller:
    """The regression of the outputs on the features in each component, and what follows from it for rows.

    Shapes: K components, R rows, d features, r outputs.
    """

    def __init__(self, mixture: GaussianMixture, groups: NDArray, outputs: Floats):
        d = len(groups)
        means, covariances = mixture.means, mixture.covariances
        cross = covariances[:, :d, d:]
        slope = np.linalg.solve(covariances[:, :d, :d], cross)
        residual = covariances[:, d:, d:] - cross.transpose(0, 2, 1) @ slope
        self.slope = torch.from_numpy(slope @ outputs)  # (K, d, r)
        self.noise = torch.from_numpy(np.einsum("ir,kij,jr->kr", outputs, residual, outputs).clip(0.0))
        self.at_mean = torch.from_numpy(means[:, d:] @ outputs)
        _, numbered, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        self.n_groups = len(sizes)
        # Which groups have each size, and the columns (n, size) of those that do.
        by_group = np.split(np.argsort(numbered, kind="stable"), np.cumsum(sizes)[:-1])
        self.of_size = {
            int(size): (
                torch.from_numpy(np.flatnonzero(sizes == size)),
                torch.from_numpy(np.stack([by_group[g] for g in np.flatnonzero(sizes == size)])),
            )
            for size in np.unique(sizes)
        }
        half = np.random.default_rng(0).standard_normal((DRAWS // 2, d))
        # Neighbours, which mostly fall on one component, are opposite to each other.
        self.draws = torch.from_numpy(np.stack([half, -half], axis=1).reshape(DRAWS, d))
        self.quantiles = (torch.arange(DRAWS) + 0.5) / DRAWS

    def tell(self, posterior: Posterior) -> torch.Tensor:
        """(R, 2 r + n_groups): `error`, `complete` and `gain` side by side."""
        share = posterior.log_joint.softmax(dim=0)
        covariances = ConditionalCovariances(posterior)
        rows = posterior.block.pattern
        predictions = self._predictions(posterior.deviation)
        cross = covariances.times(self.slope)  # Cov[x, output | x_o] of each component and mask
        within = (self.slope[:, None] * cross).sum(dim=2)[:, rows] + self.noise[:, None]
        # Where y is known exactly, rounding must not leave less than nothing.
        error = (_average(share, within) + _variance(share, predictions)).clamp_min(0.0)

        # The covariance of x and outputs over all components, as if it were that of one Gaussian.
        x = posterior.components.means[:, None] + posterior.deviation
        apart = torch.where(covariances.missing[rows], x - _average(share, x), 0.0)
        far = (predictions - _average(share, predictions)) * share[..., None]
        cross = _average(share, cross[:, rows]) + torch.einsum("knd,knr->ndr", apart, far)
        gain = torch.zeros(len(rows), self.n_groups, dtype=torch.float64)
        best = torch.zeros_like(error)
        for groups, columns in self.of_size.values():
            explained = _explained(_of_groups(covariances, columns, share, apart, rows), cross[:, columns])
            gain[:, groups] = explained.sum(dim=2)
            best = torch.maximum(best, explained.amax(dim=1))
        complete = error
        if covariances.missing.any():
            # A complete row tells at least as much as any one column, however the draws have fallen.
            most = (error - best).clamp_min(0.0)
            complete = torch.minimum(self._complete(posterior, covariances, share), most)
        return torch.cat([error, complete, gain], dim=1)

    def _predictions(self, deviation: torch.Tensor) -> torch.Tensor:
        """E[outputs | x] of each component, (K, R, r), for x at a `deviation` (K, R, d) from its mean."""
        return self.at_mean[:, None] + deviation @ self.slope

    def _complete(
        self, posterior: Posterior, covariances: ConditionalCovariances, share: torch.Tensor
    ) -> torch.Tensor:
        """E[Var[outputs | x] | x_o], (R, r)."""
        noise = _average(share, self.noise[:, None])
        if len(share) == 1:
            return noise  # one component cannot disagree with itself
        components, rows = posterior.components, posterior.block.pattern
        # As many draws at a time as there is room for beside a block's own numbers.
        n_at_once = max(1, 8 * BLOCK_CELLS // posterior.deviation.numel())
        below = share.cumsum(dim=0)[:-1]
        doubt = torch.zeros_like(noise)
        for noises, quantiles in zip(
            self.draws.split(n_at_once), self.quantiles.split(n_at_once), strict=True
        ):
            # The draws are shared out among the components as the shares are; all rows use the same ones, so
            # that a row's answer does not depend on its neighbours.
            drawn = (below < quantiles[:, None, None]).sum(dim=1)  # (S, R)
            x = components.means[drawn] + posterior.deviation[drawn, torch.arange(len(rows))]
            x = x + covariances.draw(noises.T)[drawn, rows, :, torch.arange(len(noises))[:, None]]
            deviation = x.reshape(1, -1, x.shape[2]) - components.means[:, None]  # (K, S · R, d)
            distance = ((deviation @ components.precisions) * deviation).sum(dim=2)
            log_joint = components.log_weights[:, None] - 0.5 * (components.log_dets[:, None] + distance)
            variance = _variance(log_joint.softmax(dim=0), self._predictions(deviation))
            doubt += variance.reshape(len(noises), *doubt.shape).sum(dim=0)
        return noise + doubt / DRAWS


def _average(share: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Mean over components: share (K, R), numbers (K, R or 1, …)."""
    return (share.reshape(*share.shape, *[1] * (numbers.ndim - 2)) * numbers).sum(dim=0)


def _variance(share: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Variance over components, (R, r)."""
    return _average(share, (numbers - _average(share, numbers)) ** 2)


def _of_groups(
    covariances: ConditionalCovariances,
    columns: torch.Tensor,
    share: torch.Tensor,
    apart: torch.Tensor,
    rows: torch.Tensor,
) -> torch.Tensor:
    """Overall covariances (R, n, g, g) given x_o within each of n groups of g columns.

    Parameters
    ----------
    covariances : ConditionalCovariances
    columns : (n, g)
    share : (K, R)
    apart : (K, R, d)
        The components' conditional means, from their mean.
    rows : (R,)
        The mask that each row has.
    """
    n, g = columns.shape
    result = torch.empty(len(rows), n, g, g, dtype=torch.float64)
    for i in range(g):
        for j in range(i + 1):
            left, right = columns[:, i], columns[:, j]
            both = covariances.of_pairs(left, right)[:, rows] + apart[..., left] * apart[..., right]
            result[..., i, j] = result[..., j, i] = _average(share, both)
    return result


def _explained(covariance: torch.Tensor, cross: torch.Tensor) -> torch.Tensor:
    """Variance of each output that the columns of a group explain together, (R, n, r).

    Elimination, one column of all groups after the other: each adds what the ones before it left. A column
    without variance of its own, as the last of a one-hot code, adds nothing instead of dividing by zero.

    Parameters
    ----------
    covariance : (R, n, g, g)
    cross : (R, n, g, r)
        Covariances of columns and outputs.
    """
    enough = TOLD * covariance.diagonal(dim1=2, dim2=3)
    total = torch.zeros_like(cross[:, :, 0])
    for i in range(covariance.shape[2]):
        left = covariance[..., i, i]
        inverse = torch.where(left > enough[..., i], 1 / left, 0.0)[..., None]
        total += cross[:, :, i] ** 2 * inverse
        weight = (covariance[..., i] * inverse)[..., None]
        cross = cross - weight * cross[:, :, i : i + 1]
        covariance = covariance - weight * covariance[:, :, i : i + 1]
    return total
