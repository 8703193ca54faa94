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
    block : Block
        Which rows these are.
    components : Components
        Whose answer it is.
    """

    log_joint: torch.Tensor
    deviation: torch.Tensor
    factor: torch.Tensor
    cells: torch.Tensor
    block: Block
    components: Components

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
        self.factors = torch.linalg.cholesky(covariances)
        self.precisions = torch.cholesky_inverse(self.factors)
        self.log_dets = 2 * self.factors.diagonal(dim1=1, dim2=2).log().sum(dim=1)

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
        return Posterior(self.log_weights[:, None] + log_density, deviation, factor, cells, block, self)


class ConditionalCovariances:
    """Cov[x | x_o, component], (d, d) for each component and distinct mask of a block, never written out.

    Parameters
    ----------
    posterior : Posterior

    Attributes
    ----------
    missing : (U, d) bool
        The cells that are not observed; all others have no variance left.
    """

    def __init__(self, posterior: Posterior):
        self._components, block = posterior.components, posterior.block
        k, d = self._components.means.shape
        n_patterns, b = block.columns.shape
        self._factor, self._columns = posterior.factor, block.columns
        listed = torch.zeros(n_patterns, d, dtype=torch.bool).scatter_(1, block.columns, True)
        self._is_observed, self.missing = block.observed, ~listed if block.observed else listed
        if block.observed:
            # With Σ_oo = L Lᵀ and W = L⁻¹ Σ_o: the covariance is Σ − Wᵀ W.
            rows = self._listed(self._components.covariances)
            self._half = torch.linalg.solve_triangular(posterior.factor, rows, upper=False)
        else:
            every = torch.arange(k * n_patterns)
            inverses = posterior.inverses(every).reshape(k, n_patterns, b * b)
            # A complete row has none: one number that counts for nothing keeps the shapes alike.
            self._inverse = inverses if b else torch.zeros(k, n_patterns, 1, dtype=inverses.dtype)
            # Where a column stands in the block; zero, and never used, for those that are not in it.
            self._place = torch.zeros(n_patterns, d, dtype=torch.int64)
            self._place.scatter_(1, block.columns, torch.arange(b).expand(n_patterns, -1))

    def of_pairs(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Covariances (K, U, n) of columns left[i] and right[i]."""
        if self._is_observed:
            whole = self._components.covariances[:, None, left, right]
            found = whole - (self._half[..., left] * self._half[..., right]).sum(dim=2)
        else:
            cells = self._place[:, left] * self._columns.shape[1] + self._place[:, right]
            found = self._inverse.gather(2, cells.expand(len(self._inverse), -1, -1))
        return torch.where(self.missing[:, left] & self.missing[:, right], found, 0.0)

    def times(self, matrices: torch.Tensor) -> torch.Tensor:
        """Each component's covariances times its (d, r) of `matrices` (K, d, r): (K, U, d, r)."""
        if self._is_observed:
            whole = (self._components.covariances @ matrices)[:, None]
            found = whole - self._half.mT @ (self._half @ matrices[:, None])
            return torch.where(self.missing[..., None], found, 0.0)
        n_patterns, b = self._columns.shape
        inverse = self._inverse[..., : b * b].reshape(len(matrices), n_patterns, b, b)
        return self._spread(inverse @ self._listed(matrices))

    def draw(self, noise: torch.Tensor) -> torch.Tensor:
        """Deviations from the conditional mean, (K, U, d, S), that have these covariances.

        Parameters
        ----------
        noise : (d, S)
            Standard normal.

        Notes
        -----
        For u ~ N(0, Σ), what the observed cells of u do not tell of the others has just this mechanism:
        u_m − Σ_mo Σ_oo⁻¹ u_o = Λ_mm⁻¹ (Λ u)_m.
        """
        factors = self._components.factors
        if self._is_observed:
            whole = factors @ noise
        else:
            whole = torch.linalg.solve_triangular(factors.mT, noise[None], upper=True)
        own = torch.linalg.solve_triangular(self._factor, self._listed(whole), upper=False)
        if self._is_observed:
            return torch.where(self.missing[..., None], whole[:, None] - self._half.mT @ own, 0.0)
        return self._spread(torch.linalg.solve_triangular(self._factor.mT, own, upper=True))

    def _listed(self, matrices: torch.Tensor) -> torch.Tensor:
        """The rows of `matrices` (K, d, r) that belong to the block's columns, (K, U, b, r)."""
        k, _, r = matrices.shape
        return matrices.index_select(1, self._columns.reshape(-1)).reshape(k, *self._columns.shape, r)

    def _spread(self, numbers: torch.Tensor) -> torch.Tensor:
        """Numbers (K, U, b, r) of the missing columns among zeros, (K, U, d, r)."""
        k, n_patterns, _, r = numbers.shape
        spread = torch.zeros(k, n_patterns, self.missing.shape[1], r, dtype=numbers.dtype)
        return spread.scatter_(2, self._columns[None, :, :, None].expand_as(numbers), numbers)


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

    def ask(
        self,
        values: NDArray,
        mask: NDArray,
        width: int,
        answer: Callable[[Posterior], torch.Tensor],
        numbers_per_cell: int = 1,
    ) -> Floats:
        """(n, width) numbers, `answer` giving those of one block's rows.

        Parameters
        ----------
        values, mask : (n, d)
            mask True = observed; values elsewhere have no influence.
        width : int
        answer : Posterior of R rows -> (R, width)
        numbers_per_cell : int
            How many numbers `answer` holds for each cell and component at once; more make smaller blocks.
        """
        values, mask = np.asarray(values), np.asarray(mask, dtype=bool)
        patterns = Patterns(mask)
        answers = np.empty((len(mask), width))

        def work(blocks: Sequence[Block]) -> None:
            for block in blocks:
                # Picked block by block: a sorted copy of a long table would double its memory.
                rows = patterns.order[block.rows]
                seen = mask[rows]
                table = np.where(seen, values[rows], 0.0)
                posterior = components.posterior(block, torch.from_numpy(table), torch.from_numpy(seen))
                answers[rows] = answer(posterior).numpy()

        with Workers() as workers:
            components = self.components()
            workers.map(patterns.blocks(self.n_components * numbers_per_cell), work)
        return answers

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

        return self.ask(values, mask, len(wanted), answer)

    def responsibilities(self, values: NDArray, mask: Bools) -> Floats:
        """P(component | observed cells), (n, K)."""
        return self.ask(values, mask, self.n_components, lambda p: p.log_joint.softmax(dim=0).T)

    def log_joint(self, values: NDArray, mask: Bools) -> Floats:
        """log weight + log density of the observed cells under each component, (n, K)."""
        return self.ask(values, mask, self.n_components, lambda p: p.log_joint.T)

    def log_likelihood(self, values: NDArray, mask: Bools) -> Floats:
        """log density of each row's observed cells, (n,); 0 for a row with none."""
        return self.ask(values, mask, 1, lambda p: p.log_joint.logsumexp(dim=0)[:, None])[:, 0]
