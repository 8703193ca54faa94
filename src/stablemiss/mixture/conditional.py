"""Gaussian mixture for incomplete rows: density of the observed values, expectation of the missing ones.

For one component and one mask, o = observed and m = missing, with covariance Σ and precision Λ = Σ⁻¹:

    E[x_m | x_o] = μ_m + Σ_mo Σ_oo⁻¹ (x_o − μ_o) = μ_m − Λ_mm⁻¹ Λ_mo (x_o − μ_o)
    Cov[x_m | x_o] = Σ_mm − Σ_mo Σ_oo⁻¹ Σ_om = Λ_mm⁻¹
    log|Σ_oo| = log|Σ| + log|Λ_mm|

The first form factorises the submatrix of the observed columns, the second form that of the missing columns.
The smaller one is used, so a row costs at most (d/2)³ operations for any mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.mixture.patterns import Block, Patterns
from stablemiss.mixture.workers import ThreadWorkers


@dataclass(frozen=True)
class Posterior:
    """Densities and conditional means of the rows of one block, for each component.

    Shapes: K components, R rows and U distinct masks of the block, d columns, b = size of the submatrix.

    Attributes
    ----------
    log_joint : (K, R)
        Log component weight + log density of the observed values, per component.
    deviation : (K, R, d)
        E[x | x_o, component] − mean of the component; x − mean for observed values.
    factor : (K, U, b, b)
        Cholesky factor of Σ_oo or of Λ_mm, per component and distinct mask.
    positions : (U, b · b) int64
        Positions of the entries of each submatrix in a flattened (d, d) matrix.
    block : Block
        The rows.
    components : Components
        The mixture.
    """

    log_joint: torch.Tensor
    deviation: torch.Tensor
    factor: torch.Tensor
    positions: torch.Tensor
    block: Block
    components: Components

    def inverses(self, pairs: torch.Tensor) -> torch.Tensor:
        """Inverse submatrices (n, b · b), Σ_oo⁻¹ or Λ_mm⁻¹, of n of the K · U pairs of component and mask."""
        k, n_patterns, b, _ = self.factor.shape
        # The factors are stored in column-major order, so each transposed factor is contiguous and can be
        # selected as one row.
        rows = self.factor.mT.reshape(k * n_patterns, b * b).index_select(0, pairs)
        return torch.cholesky_inverse(rows.reshape(len(pairs), b, b).mT).mT.reshape(len(pairs), b * b)


class Components:
    """Parameters of a mixture as float64 tensors, with their Cholesky factors, inverses and determinants."""

    def __init__(self, log_weights: torch.Tensor, means: torch.Tensor, covariances: torch.Tensor):
        self.log_weights, self.means, self.covariances = log_weights, means, covariances
        self.factors = torch.linalg.cholesky(covariances)
        self.precisions = torch.cholesky_inverse(self.factors)
        self.log_dets = 2 * self.factors.diagonal(dim1=1, dim2=2).log().sum(dim=1)

    def posterior(self, block: Block, values: torch.Tensor, mask: torch.Tensor) -> Posterior:
        """Densities and conditional means of the rows of `block`, with values (R, d) and mask (R, d)."""
        k, d = self.means.shape
        n_patterns, b = block.columns.shape
        deviation = torch.where(mask, values - self.means[:, None], 0.0)
        matrices = self.covariances if block.columns_are_observed else self.precisions
        positions = (block.columns[:, :, None] * d + block.columns[:, None, :]).reshape(n_patterns, b * b)
        submatrices = matrices.reshape(k, d * d).gather(1, positions.reshape(-1).expand(k, -1))
        factor, _ = torch.linalg.cholesky_ex(submatrices.reshape(k, n_patterns, b, b))
        log_det = 2 * factor.diagonal(dim1=2, dim2=3).log().sum(dim=2)[:, block.pattern]
        # One factor per row; copied only if several rows share a mask.
        per_row = factor if n_patterns == len(values) else factor[:, block.pattern]
        columns = block.columns[block.pattern].expand(k, -1, -1)
        if block.columns_are_observed:
            observed = deviation.gather(2, columns)
            solved = _solve(per_row, observed)
            distance = (observed * solved).sum(dim=2)
            deviation = torch.zeros_like(deviation).scatter_(2, columns, solved) @ self.covariances
        else:
            product = deviation @ self.precisions
            distance = (deviation * product).sum(dim=2)
            missing = product.gather(2, columns)
            solved = _solve(per_row, missing)
            distance = distance - (missing * solved).sum(dim=2)
            log_det = log_det + self.log_dets[:, None]
            deviation = deviation.scatter(2, columns, -solved)
        n_observed = mask.sum(dim=1, dtype=values.dtype)
        log_density = -0.5 * (n_observed * math.log(2 * math.pi) + log_det + distance)
        log_joint = self.log_weights[:, None] + log_density
        return Posterior(log_joint, deviation, factor, positions, block, self)


class ConditionalCovariances:
    """Cov[x | x_o, component] for each component and distinct mask of a block, without storing the matrices.

    Parameters
    ----------
    posterior : Posterior
        Result of `Components.posterior`.

    Attributes
    ----------
    missing : (U, d) bool
        Missing columns of each mask; the conditional variance of the others is zero.
    """

    def __init__(self, posterior: Posterior):
        self._components, block = posterior.components, posterior.block
        k, d = self._components.means.shape
        n_patterns, b = block.columns.shape
        self._factor, self._columns = posterior.factor, block.columns
        in_submatrix = torch.zeros(n_patterns, d, dtype=torch.bool).scatter_(1, block.columns, True)
        self._columns_are_observed = block.columns_are_observed
        self.missing = ~in_submatrix if block.columns_are_observed else in_submatrix
        if block.columns_are_observed:
            # With Σ_oo = L Lᵀ and W = L⁻¹ Σ_o, the covariance is Σ − Wᵀ W.
            rows = self._submatrix_rows(self._components.covariances)
            self._half = torch.linalg.solve_triangular(posterior.factor, rows, upper=False)
        else:
            all_pairs = torch.arange(k * n_patterns)
            inverses = posterior.inverses(all_pairs).reshape(k, n_patterns, b * b)
            # Complete rows have an empty submatrix; a dummy zero lets `gather` work for them too.
            self._inverse = inverses if b else torch.zeros(k, n_patterns, 1, dtype=inverses.dtype)
            # Position of each column in the submatrix; zero, and never used, for columns outside it.
            self._index = torch.zeros(n_patterns, d, dtype=torch.int64)
            self._index.scatter_(1, block.columns, torch.arange(b).expand(n_patterns, -1))

    def of_pairs(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Covariances (K, U, n) of columns left[i] and right[i]."""
        if self._columns_are_observed:
            unconditional = self._components.covariances[:, None, left, right]
            covariances = unconditional - (self._half[..., left] * self._half[..., right]).sum(dim=2)
        else:
            positions = self._index[:, left] * self._columns.shape[1] + self._index[:, right]
            covariances = self._inverse.gather(2, positions.expand(len(self._inverse), -1, -1))
        return torch.where(self.missing[:, left] & self.missing[:, right], covariances, 0.0)

    def times(self, matrices: torch.Tensor) -> torch.Tensor:
        """Covariances of each component times its matrix in `matrices` (K, d, r), (K, U, d, r)."""
        if self._columns_are_observed:
            unconditional = (self._components.covariances @ matrices)[:, None]
            product = unconditional - self._half.mT @ (self._half @ matrices[:, None])
            return torch.where(self.missing[..., None], product, 0.0)
        n_patterns, b = self._columns.shape
        inverse = self._inverse[..., : b * b].reshape(len(matrices), n_patterns, b, b)
        return self._pad(inverse @ self._submatrix_rows(matrices))

    def draw(self, noise: torch.Tensor) -> torch.Tensor:
        """Draw deviations from the conditional mean, (K, U, d, S), with these covariances.

        Parameters
        ----------
        noise : (d, S)
            Standard normal.

        Notes
        -----
        For u ~ N(0, Σ), the residual of u_m after regression on u_o has this distribution:
        u_m − Σ_mo Σ_oo⁻¹ u_o = Λ_mm⁻¹ (Λ u)_m.
        """
        factors = self._components.factors
        if self._columns_are_observed:
            unconditional = factors @ noise
        else:
            unconditional = torch.linalg.solve_triangular(factors.mT, noise[None], upper=True)
        solved = torch.linalg.solve_triangular(self._factor, self._submatrix_rows(unconditional), upper=False)
        if self._columns_are_observed:
            return torch.where(self.missing[..., None], unconditional[:, None] - self._half.mT @ solved, 0.0)
        return self._pad(torch.linalg.solve_triangular(self._factor.mT, solved, upper=True))

    def _submatrix_rows(self, matrices: torch.Tensor) -> torch.Tensor:
        """The rows of `matrices` (K, d, r) that belong to the columns of the submatrix, (K, U, b, r)."""
        k, _, r = matrices.shape
        return matrices.index_select(1, self._columns.reshape(-1)).reshape(k, *self._columns.shape, r)

    def _pad(self, numbers: torch.Tensor) -> torch.Tensor:
        """Numbers (K, U, b, r) of the missing columns, padded with zeros to (K, U, d, r)."""
        k, n_patterns, _, r = numbers.shape
        padded = torch.zeros(k, n_patterns, self.missing.shape[1], r, dtype=numbers.dtype)
        return padded.scatter_(2, self._columns[None, :, :, None].expand_as(numbers), numbers)


def _solve(factor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Solve A x = right for x, (…, b), with A given by its Cholesky factor (…, b, b)."""
    half = torch.linalg.solve_triangular(factor, right[..., None], upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)[..., 0]


@dataclass(frozen=True)
class GaussianMixture:
    """A mixture of Gaussians over d columns, with conditional expectations for any mask.

    Parameters
    ----------
    weights : (K,)
        Component weights; their sum is one.
    means : (K, d)
        Component means.
    covariances : (K, d, d)
        Component covariances, positive definite.

    See Also
    --------
    MixtureFit : Fits a mixture to incomplete rows.
    Uncertainty : Expected errors of its predictions.

    Examples
    --------
    >>> mixture = GaussianMixture(np.ones(1), np.zeros((1, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]]))
    >>> values, mask = np.array([[2.0, 0.0]]), np.array([[True, False]])
    >>> mixture.conditional_mean(values, mask).tolist()
    [[2.0, 1.0]]
    """

    weights: Floats
    means: Floats
    covariances: Floats

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @cached_property
    def components(self) -> Components:
        """The factorised parameters, kept for later calls: one row costs about as much as factorising."""
        return Components(*map(torch.from_numpy, (np.log(self.weights), self.means, self.covariances)))

    def evaluate(
        self,
        values: NDArray,
        mask: NDArray,
        width: int,
        function: Callable[[Posterior], torch.Tensor],
        numbers_per_cell: int = 1,
    ) -> Floats:
        """Apply `function` to the posterior of each block of rows; the results have shape (n, width).

        Parameters
        ----------
        values, mask : (n, d)
            mask True = observed; values elsewhere have no influence.
        width : int
            Number of columns of the result.
        function : callable
            Posterior of R rows -> (R, width).
        numbers_per_cell : int, default=1
            Memory needed by `function`, in numbers per component, row and column. Raising it makes the
            blocks smaller.
        """
        values, mask = np.asarray(values), np.asarray(mask, dtype=bool)
        patterns = Patterns(mask)
        results = np.empty((len(mask), width))

        def process(blocks: Sequence[Block]) -> None:
            for block in blocks:
                # Rows are selected block by block: a sorted copy of the table would double the memory.
                rows = patterns.order[block.rows]
                block_mask = mask[rows]
                block_values = np.where(block_mask, values[rows], 0.0)
                posterior = components.posterior(
                    block, torch.from_numpy(block_values), torch.from_numpy(block_mask)
                )
                results[rows] = function(posterior).numpy()

        with ThreadWorkers() as workers:
            components = self.components
            workers.map(patterns.blocks(self.n_components * numbers_per_cell), process)
        return results

    def conditional_mean(self, values: NDArray, mask: Bools, columns: NDArray | None = None) -> Floats:
        """E[x_columns | observed values], (n, len(columns)); observed values are returned unchanged.

        Parameters
        ----------
        values, mask : (n, d)
            mask True = observed; values elsewhere have no influence.
        columns : array of int, default=None
            Columns to return. None returns all columns.
        """
        selected = torch.arange(self.means.shape[1]) if columns is None else torch.as_tensor(columns)
        means = torch.from_numpy(self.means)[:, None, selected]

        def mean(posterior: Posterior) -> torch.Tensor:
            responsibility = posterior.log_joint.softmax(dim=0)
            return (responsibility[..., None] * (means + posterior.deviation[..., selected])).sum(dim=0)

        return self.evaluate(values, mask, len(selected), mean)

    def responsibilities(self, values: NDArray, mask: Bools) -> Floats:
        """P(component | observed values), (n, K)."""
        return self.evaluate(values, mask, self.n_components, lambda p: p.log_joint.softmax(dim=0).T)

    def log_joint(self, values: NDArray, mask: Bools) -> Floats:
        """Log weight + log density of the observed values under each component, (n, K)."""
        return self.evaluate(values, mask, self.n_components, lambda p: p.log_joint.T)

    def log_likelihood(self, values: NDArray, mask: Bools) -> Floats:
        """Log density of the observed values of each row, (n,); 0 for a row with no observed values."""
        return self.evaluate(values, mask, 1, lambda p: p.log_joint.logsumexp(dim=0)[:, None])[:, 0]
