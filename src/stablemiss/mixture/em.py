"""EM for a full-covariance Gaussian mixture on the observed cells of (x, y).

Under MCAR and MAR the likelihood of the observed cells does not contain the mask (Rubin's ignorability), so
the fitted mixture does not depend on the mechanism that hid the rest, and E[y | x_o] follows for every mask.

Three things keep it accurate and quick:

- Each component's regression of y on x is shrunk towards the regression all components share, by as much as
  the data say (variance components, updated within EM). A component with few rows would otherwise fit noise.
- The covariance of x gets a ridge worth `ridge` rows of unit variance, so it fades with a component's size.
- SQUAREM steps in the Cholesky coordinates (always a valid covariance) take a fraction of EM's steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields

import numpy as np
import torch

from stablemiss.data import Bools, Floats
from stablemiss.mixture.conditional import Components, GaussianMixture
from stablemiss.mixture.patterns import Block, Patterns
from stablemiss.mixture.workers import Workers

# The least variance of regression coefficients.
LEAST = 1e-12
# A share of a row in a component below which its conditional covariance is left out of the sums.
NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Parameters:
    """What EM moves: K components over d columns, the last t of which are targets.

    Attributes
    ----------
    log_weights : (K,)
    means : (K, d)
    covariances : (K, d, d)
    log_between : ()
        log variance of the components' regression coefficients around the shared ones.
    log_shared : ()
        log variance of the shared regression coefficients around zero.
    """

    log_weights: torch.Tensor
    means: torch.Tensor
    covariances: torch.Tensor
    log_between: torch.Tensor
    log_shared: torch.Tensor

    def mixture(self) -> GaussianMixture:
        return GaussianMixture(
            self.log_weights.softmax(dim=0).numpy(), self.means.numpy(), self.covariances.numpy()
        )

    def components(self) -> Components:
        return Components(self.log_weights, self.means, self.covariances)

    def is_sound(self) -> bool:
        """Can every covariance, and so every block of it, be inverted with digits to spare?"""
        if not torch.isfinite(self.covariances).all():
            return False
        eigenvalues = torch.linalg.eigvalsh(self.covariances)
        return bool((eigenvalues[:, 0] > 1e-10 * eigenvalues[:, -1]).all())

    def coordinates(self) -> torch.Tensor:
        """All numbers in one unconstrained vector: covariances as Cholesky factors with a log diagonal."""
        factor = torch.linalg.cholesky(self.covariances)
        log_diagonal = torch.diag_embed(factor.diagonal(dim1=1, dim2=2).log())
        factor = factor.tril(-1) + log_diagonal
        parts = (self.log_weights, self.means, factor, self.log_between, self.log_shared)
        return torch.cat([part.reshape(-1) for part in parts])

    def at(self, coordinates: torch.Tensor) -> Parameters:
        """The parameters with the shape of these that stand at `coordinates`."""
        sizes = [getattr(self, field.name).numel() for field in fields(self)]
        weights, means, factors, between, shared = coordinates.split(sizes)
        factors = factors.reshape(self.covariances.shape)
        lower = factors.tril(-1) + torch.diag_embed(factors.diagonal(dim1=1, dim2=2).exp())
        means = means.reshape(self.means.shape)
        # No likelihood guards the two variances against a leap too far.
        between, shared = (part[0].clamp(math.log(LEAST), -math.log(LEAST)) for part in (between, shared))
        return Parameters(weights.log_softmax(dim=0), means, lower @ lower.mT, between, shared)


@dataclass(frozen=True)
class Sums:
    """Expected sufficient statistics of some rows under a mixture, deviations taken from its means.

    Attributes
    ----------
    weight : (K,)
        Rows' weights times their probability of belonging to each component.
    first : (K, d)
        Weighted deviations.
    second : (K, d, d)
        Weighted products of deviations, the conditional covariances of missing cells included.
    log_likelihood : float
        Weighted mean over the rows.
    """

    weight: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor
    log_likelihood: float


class Rows:
    """Incomplete rows laid out for EM: sorted so that equal work is side by side.

    Parameters
    ----------
    values : (n, d)
        Standardised, targets in the last columns.
    mask : (n, d)
        True = observed.
    weight : (n,)
        How much each row counts.
    """

    def __init__(self, values: Floats, mask: Bools, weight: Floats):
        self._patterns = Patterns(np.asarray(mask, dtype=bool))
        order = self._patterns.order
        mask = np.asarray(mask, dtype=bool)[order]
        self.values = torch.from_numpy(np.where(mask, values[order], 0.0))
        self.mask = torch.from_numpy(mask)
        self.weight = torch.from_numpy(np.asarray(weight, dtype=np.float64)[order])
        self._blocks: dict[int, list[Block]] = {}

    def __len__(self) -> int:
        return len(self.values)

    def blocks(self, n_components: int) -> list[Block]:
        """The rows cut into blocks of work; cut once for each number of components."""
        if n_components not in self._blocks:
            self._blocks = {n_components: self._patterns.blocks(n_components)}
        return self._blocks[n_components]

    def take(self, index: np.ndarray) -> Rows:
        return Rows(self.values.numpy()[index], self.mask.numpy()[index], self.weight.numpy()[index])

    def reweighted(self, factor: float) -> Rows:
        """The same rows, all weights multiplied by `factor`."""
        rows = copy(self)
        rows.weight = self.weight * factor
        return rows

    def joined(self, other: Rows) -> Rows:
        """These rows and the others, each row counting by its own weight."""
        pairs = ((self.values, other.values), (self.mask, other.mask), (self.weight, other.weight))
        return Rows(*(torch.cat(pair).numpy() for pair in pairs))

    def log_density(self, parameters: Parameters, workers: Workers) -> torch.Tensor:
        """log density of each row's observed cells, (n,), in the sorted order."""
        components = parameters.components()
        result = torch.empty(len(self), dtype=torch.float64)

        def work(blocks: Sequence[Block]) -> None:
            for block in blocks:
                posterior = components.posterior(block, self.values[block.rows], self.mask[block.rows])
                result[block.rows] = posterior.log_joint.logsumexp(dim=0)

        workers.map(self.blocks(len(components.means)), work)
        return result

    def log_likelihood(self, parameters: Parameters, workers: Workers) -> float:
        """Weighted mean of `log_density`."""
        return float(self.log_density(parameters, workers) @ self.weight / self.weight.sum())


def expect(rows: Rows, parameters: Parameters, workers: Workers) -> Sums:
    """E-step: one pass over the rows."""
    components = parameters.components()
    k, d = parameters.means.shape

    def work(blocks: Sequence[Block]) -> tuple[torch.Tensor, ...]:
        weight, first, second, total = _zeros(k), _zeros(k, d), _zeros(k, d, d), _zeros()
        # Conditional covariances are scattered Λ_mm⁻¹, or Σ − Σ P Σ with P the scattered Σ_oo⁻¹. Both are
        # linear in the inverse, so the inverses are summed first and Σ · Σ is applied once at the end.
        from_missing, from_observed, observed_weight = _zeros(k * d * d), _zeros(k * d * d), _zeros(k)
        for block in blocks:
            posterior = components.posterior(block, rows.values[block.rows], rows.mask[block.rows])
            row_weight = rows.weight[block.rows]
            log_density = posterior.log_joint.logsumexp(dim=0)
            total += log_density @ row_weight
            share = (posterior.log_joint - log_density).exp() * row_weight
            weighted = share[..., None] * posterior.deviation
            weight += share.sum(dim=1)
            first += weighted.sum(dim=1)
            second += weighted.mT @ posterior.deviation
            n_patterns = len(block.columns)
            if n_patterns < len(row_weight):
                share = _zeros(k, n_patterns).index_add_(1, block.pattern, share)
            if block.observed:
                observed_weight += share.sum(dim=1)
            # Most rows clearly belong to one component; inverses that would count for nothing are not made.
            chosen = torch.nonzero(share.reshape(-1) > NEGLIGIBLE)[:, 0]
            inverses = posterior.inverses(chosen) * share.reshape(-1)[chosen, None]
            cells = posterior.cells.index_select(0, chosen % n_patterns)
            cells += (chosen // n_patterns * (d * d))[:, None]
            sums = from_observed if block.observed else from_missing
            sums.index_add_(0, cells.reshape(-1), inverses.reshape(-1))
        return weight, first, second, from_missing, from_observed, observed_weight, total

    shares = workers.map(rows.blocks(k), work)
    weight, first, second, from_missing, from_observed, observed_weight, total = (
        torch.stack(parts).sum(dim=0) for parts in zip(*shares, strict=True)
    )
    covariances = parameters.covariances
    spread = observed_weight[:, None, None] * covariances
    spread = spread - covariances @ from_observed.reshape(k, d, d) @ covariances
    second = second + spread + from_missing.reshape(k, d, d)
    return Sums(weight, first, second, float(total / rows.weight.sum()))


def maximise(sums: Sums, parameters: Parameters, n_targets: int, ridge: float) -> Parameters:
    """M-step: means, covariances of x with a ridge, and partially pooled regressions of y on x."""
    weight = sums.weight.clamp_min(1e-10)
    shift = sums.first / weight[:, None]
    scatter = sums.second - weight[:, None, None] * shift[:, :, None] * shift[:, None, :]
    scatter = (scatter + scatter.mT) / 2
    d = scatter.shape[1] - n_targets
    # `ridge` rows of unit variance join each component, so an empty one falls back on the identity.
    rows = (weight + ridge)[:, None, None]
    scatter_x = scatter[:, :d, :d] + ridge * _eye(d)
    covariance_x = scatter_x / rows
    if n_targets == 0:
        covariances, between, shared = covariance_x, parameters.log_between, parameters.log_shared
    else:
        coef, residual, between, shared = _pooled_regressions(scatter_x, scatter, parameters, n_targets)
        covariance_xy = covariance_x @ coef
        residual = (residual + ridge * 1e-2 * _eye(n_targets)) / rows
        covariance_y = coef.mT @ covariance_xy + residual
        covariances = torch.cat(
            [
                torch.cat([covariance_x, covariance_xy], dim=2),
                torch.cat([covariance_xy.mT, (covariance_y + covariance_y.mT) / 2], dim=2),
            ],
            dim=1,
        )
    return Parameters((weight / weight.sum()).log(), parameters.means + shift, covariances, between, shared)


def _pooled_regressions(
    scatter_x: torch.Tensor, scatter: torch.Tensor, parameters: Parameters, n_targets: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Coefficients (K, d, t) of y on x per component, residual scatter (K, t, t), and the two log variances.

    Model, for each target: a component's coefficients ~ N(c, τ² I), the shared ones c ~ N(0, s² I). Given
    the noise of each component, the posterior of all of them is Gaussian, and τ² and s² move as in EM for
    variance components: a component borrows from the others as much as they are alike.
    """
    k, d = scatter_x.shape[:2]
    scatter_xy, scatter_y = scatter[:, :d, d:], scatter[:, d:, d:]
    precision_y = _inverse(parameters.covariances)[:, d:, d:]
    noises = torch.linalg.inv(precision_y).diagonal(dim1=1, dim2=2)  # Var[y | x] as it stands, (K, t)
    # A single component is the shared one.
    between = parameters.log_between.exp() if k > 1 else _zeros()
    shared = parameters.log_shared.exp()

    coefs, uncertainties, new_between, new_shared = [], [], _zeros(), _zeros()
    for noise, product in zip(noises.T, scatter_xy.permute(2, 0, 1), strict=True):
        noise = noise[:, None, None]
        # With S = XᵀX: G = (τ² S + σ² I)⁻¹, and the rows of a component tell c with precision S G.
        solve = _inverse(between * scatter_x + noise * _eye(d))
        told = (scatter_x @ solve).sum(dim=0)
        spread = _inverse((told + told.mT) / 2 + _eye(d) / shared)  # Cov[c]
        center = spread @ (solve @ product[:, :, None]).sum(dim=0)
        coef = center + between * solve @ (product[:, :, None] - scatter_x @ center)
        own = between * noise * solve  # Cov[coefficients | c]
        lean = between * solve @ scatter_x  # how far they follow their own rows instead of c
        rest = _eye(d) - lean
        covariance = own + rest @ spread @ rest.mT
        coefs.append(coef)
        uncertainties.append((covariance * scatter_x).sum(dim=(1, 2)))
        apart = (coef - center).square().sum() + _trace(own) + _trace(lean @ spread @ lean.mT)
        new_between += apart / (k * d * n_targets)
        new_shared += (center.square().sum() + _trace(spread)) / (d * n_targets)
    coef = torch.cat(coefs, dim=2)
    cross = scatter_xy.mT @ coef
    # The coefficients' own uncertainty is part of what x leaves unexplained.
    residual = scatter_y - cross - cross.mT + coef.mT @ scatter_x @ coef
    residual = residual + torch.diag_embed(torch.stack(uncertainties, dim=1))
    log_between = new_between.clamp_min(LEAST).log() if k > 1 else parameters.log_between
    return coef, residual, log_between, new_shared.clamp_min(LEAST).log()


def _trace(matrices: torch.Tensor) -> torch.Tensor:
    """Sum of all diagonals."""
    return matrices.diagonal(dim1=-2, dim2=-1).sum()


def _inverse(matrix: torch.Tensor) -> torch.Tensor:
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix))


def _zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def _eye(n: int) -> torch.Tensor:
    return torch.eye(n, dtype=torch.float64)
