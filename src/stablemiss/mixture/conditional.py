"""A Gaussian mixture asked about rows with holes: densities of what is there, expectations of what is not.

For one component and one mask, o = observed and m = missing, with covariance Σ and precision Λ = Σ⁻¹:

    E[x_m | x_o] = μ_m + Σ_mo Σ_oo⁻¹ (x_o − μ_o) = μ_m − Λ_mm⁻¹ Λ_mo (x_o − μ_o)
    Cov[x_m | x_o] = Σ_mm − Σ_mo Σ_oo⁻¹ Σ_om = Λ_mm⁻¹
    log|Σ_oo| = log|Σ| + log|Λ_mm|

Either column of formulas needs one factored block, of the observed or of the missing columns; the smaller is
taken, so a row costs at most (d/2)³ whatever is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.mixture.patterns import Block, Patterns
from stablemiss.mixture.workers import Workers


@dataclass(frozen=True)
class Posterior:
    """What the components say about the rows of one block.

    Attributes
    ----------
    log_joint : (K, R)
        log weight + log density of the observed cells, per component.
    deviation : (K, R, d)
        E[x | x_o, component] − mean of the component; at observed cells just x − mean.
    factor : (K, U, b, b)
        Cholesky factor per component and distinct mask, of Σ_oo or of Λ_mm.
    cells : (U, b · b) int64
        Where the numbers of a block stand in a (d, d) matrix laid out in a row.
    """

    log_joint: torch.Tensor
    deviation: torch.Tensor
    factor: torch.Tensor
    cells: torch.Tensor

    def inverses(self, chosen: torch.Tensor) -> torch.Tensor:
        """Inverted blocks (n, b · b), Σ_oo⁻¹ or Λ_mm⁻¹, of some of the K · U pairs of component and mask."""
        k, n_patterns, b, _ = self.factor.shape
        # The factors are laid out by columns: transposed, each is a contiguous row to be picked as a whole.
        rows = self.factor.mT.reshape(k * n_patterns, b * b).index_select(0, chosen)
        return torch.cholesky_inverse(rows.reshape(len(chosen), b, b).mT).mT.reshape(len(chosen), b * b)


class Components:
    """A mixture's parameters as float64 tensors with all that every block needs computed once."""

    def __init__(self, log_weights: torch.Tensor, means: torch.Tensor, covariances: torch.Tensor):
        self.log_weights, self.means, self.covariances = log_weights, means, covariances
        factor = torch.linalg.cholesky(covariances)
        self.precisions = torch.cholesky_inverse(factor)
        self.log_dets = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(dim=1)

    def posterior(self, block: Block, values: torch.Tensor, mask: torch.Tensor) -> Posterior:
        """Densities and conditional means for the rows of `block`; values (R, d), mask (R, d) are theirs."""
        k, d = self.means.shape
        n_patterns, b = block.columns.shape
        deviation = torch.where(mask, values - self.means[:, None], 0.0)
        matrices = self.covariances if block.observed else self.precisions
        cells = (block.columns[:, :, None] * d + block.columns[:, None, :]).reshape(n_patterns, b * b)
        chosen = matrices.reshape(k, d * d).gather(1, cells.reshape(-1).expand(k, -1))
        factor, _ = torch.linalg.cholesky_ex(chosen.reshape(k, n_patterns, b, b))
        log_det = 2 * factor.diagonal(dim1=2, dim2=3).log().sum(dim=2)[:, block.pattern]
        # One factor per row; a copy only where several rows share one.
        per_row = factor if n_patterns == len(values) else factor[:, block.pattern]
        where = block.columns[block.pattern].expand(k, -1, -1)
        if block.observed:
            seen = deviation.gather(2, where)
            solved = _solve(per_row, seen)
            distance = (seen * solved).sum(dim=2)
            deviation = torch.zeros_like(deviation).scatter_(2, where, solved) @ self.covariances
        else:
            pull = deviation @ self.precisions
            distance = (deviation * pull).sum(dim=2)
            unseen = pull.gather(2, where)
            solved = _solve(per_row, unseen)
            distance = distance - (unseen * solved).sum(dim=2)
            log_det = log_det + self.log_dets[:, None]
            deviation = deviation.scatter(2, where, -solved)
        n_observed = mask.sum(dim=1, dtype=values.dtype)
        log_density = -0.5 * (n_observed * math.log(2 * math.pi) + log_det + distance)
        return Posterior(self.log_weights[:, None] + log_density, deviation, factor, cells)


def _solve(factor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """x with A x = right, (…, b), for A given by its Cholesky factor (…, b, b)."""
    half = torch.linalg.solve_triangular(factor, right[..., None], upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)[..., 0]


@dataclass(frozen=True)
class GaussianMixture:
    """A mixture of Gaussians over d columns that answers for any mask.

    Parameters
    ----------
    weights : (K,)
        Shares of the components, summing to one.
    means : (K, d)
    covariances : (K, d, d)
        Positive definite.

    Examples
    --------
    >>> pair = GaussianMixture(np.ones(1), np.zeros((1, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]]))
    >>> seen = np.array([[2.0, 0.0]]), np.array([[True, False]])
    >>> pair.conditional_mean(*seen).tolist()
    [[2.0, 1.0]]
    """

    weights: Floats
    means: Floats
    covariances: Floats

    @property
    def n_components(self) -> int:
        return len(self.weights)

    def components(self) -> Components:
        return Components(*map(torch.from_numpy, (np.log(self.weights), self.means, self.covariances)))

    def _ask(
        self, values: NDArray, mask: NDArray, width: int, answer: Callable[[Posterior], torch.Tensor]
    ) -> Floats:
        """(n, width) numbers, `answer` giving those of one block's rows."""
        patterns = Patterns(np.asarray(mask, dtype=bool))
        mask = np.asarray(mask, dtype=bool)[patterns.order]
        table = torch.from_numpy(np.where(mask, np.asarray(values)[patterns.order], 0.0))
        seen = torch.from_numpy(mask)
        answers = torch.empty(len(table), width, dtype=torch.float64)

        def work(blocks: Sequence[Block]) -> None:
            for block in blocks:
                posterior = components.posterior(block, table[block.rows], seen[block.rows])
                answers[block.rows] = answer(posterior)

        with Workers() as workers:
            components = self.components()
            workers.map(patterns.blocks(self.n_components), work)
        result = np.empty(answers.shape)
        result[patterns.order] = answers.numpy()
        return result

    def conditional_mean(self, values: NDArray, mask: Bools, columns: NDArray | None = None) -> Floats:
        """E[x_columns | observed cells], (n, len(columns)); an observed column is its own mean.

        Parameters
        ----------
        values, mask : (n, d)
            mask True = observed; values elsewhere have no influence.
        columns : array of int, optional
            Which columns are wanted; all by default.
        """
        wanted = torch.arange(self.means.shape[1]) if columns is None else torch.as_tensor(columns)
        means = torch.from_numpy(self.means)[:, None, wanted]

        def answer(posterior: Posterior) -> torch.Tensor:
            share = posterior.log_joint.softmax(dim=0)
            return (share[..., None] * (means + posterior.deviation[..., wanted])).sum(dim=0)

        return self._ask(values, mask, len(wanted), answer)

    def responsibilities(self, values: NDArray, mask: Bools) -> Floats:
        """P(component | observed cells), (n, K)."""
        return self._ask(values, mask, self.n_components, lambda p: p.log_joint.softmax(dim=0).T)

    def log_joint(self, values: NDArray, mask: Bools) -> Floats:
        """log weight + log density of the observed cells under each component, (n, K)."""
        return self._ask(values, mask, self.n_components, lambda p: p.log_joint.T)

    def log_likelihood(self, values: NDArray, mask: Bools) -> Floats:
        """log density of each row's observed cells, (n,); 0 for a row with none."""
        return self._ask(values, mask, 1, lambda p: p.log_joint.logsumexp(dim=0)[:, None])[:, 0]
