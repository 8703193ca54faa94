"""EM for a full-covariance Gaussian mixture on the observed values of (x, y).

Under MCAR and MAR the likelihood of the observed values does not contain the mask (Rubin's ignorability).
The fitted mixture therefore does not depend on the missingness mechanism, and it gives E[y | x_o] for every
mask.

Three techniques make it accurate and fast:

- Each component's regression of y on x is shrunk towards a regression shared by all components. The amount
  of shrinkage is estimated within EM (variance components). Otherwise components with few rows would overfit.
- The covariance of x gets a ridge equivalent to `ridge` rows of unit variance. The influence of the ridge
  decreases with the number of rows of the component.
- SQUAREM steps converge in far fewer iterations than plain EM. They are taken in Cholesky coordinates, which
  always give a valid covariance.
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
from stablemiss.mixture.workers import ThreadWorkers

# Lower bound of the two variances of the regression coefficients (`log_between` and `log_shared`).
MIN_VARIANCE = 1e-12
# Rows whose responsibility is smaller do not contribute to the conditional covariances of a component.
MIN_RESPONSIBILITY = 1e-9


@dataclass(frozen=True)
class Parameters:
    """Parameters fitted by EM: K components over d columns, the last t of which are targets.

    Attributes
    ----------
    log_weights : (K,)
        Log of the component weights.
    means : (K, d)
        Component means.
    covariances : (K, d, d)
        Component covariances.
    log_between : ()
        Log variance of the components' regression coefficients around the shared ones.
    log_shared : ()
        Log variance of the shared regression coefficients around zero.
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

    def is_well_conditioned(self) -> bool:
        """Whether every covariance, and therefore every submatrix of it, can be inverted accurately."""
        if not torch.isfinite(self.covariances).all():
            return False
        eigenvalues = torch.linalg.eigvalsh(self.covariances)
        return bool((eigenvalues[:, 0] > 1e-10 * eigenvalues[:, -1]).all())

    def coordinates(self) -> torch.Tensor:
        """All parameters as one unconstrained vector; covariances as Cholesky factors with a log diagonal."""
        factor = torch.linalg.cholesky(self.covariances)
        log_diagonal = torch.diag_embed(factor.diagonal(dim1=1, dim2=2).log())
        factor = factor.tril(-1) + log_diagonal
        tensors = (self.log_weights, self.means, factor, self.log_between, self.log_shared)
        return torch.cat([tensor.reshape(-1) for tensor in tensors])

    def at(self, coordinates: torch.Tensor) -> Parameters:
        """Parameters of the same shape with the given `coordinates`; the inverse of `coordinates()`."""
        sizes = [getattr(self, field.name).numel() for field in fields(self)]
        weights, means, factors, between, shared = coordinates.split(sizes)
        factors = factors.reshape(self.covariances.shape)
        lower = factors.tril(-1) + torch.diag_embed(factors.diagonal(dim1=1, dim2=2).exp())
        means = means.reshape(self.means.shape)
        # `log_between` and `log_shared` are not in the likelihood, so the acceptance test of SQUAREM cannot
        # reject extreme values of them; clamp them.
        limit = -math.log(MIN_VARIANCE)
        between, shared = (tensor[0].clamp(-limit, limit) for tensor in (between, shared))
        return Parameters(weights.log_softmax(dim=0), means, lower @ lower.mT, between, shared)


@dataclass(frozen=True)
class SufficientStatistics:
    """Expected sufficient statistics of the rows under a mixture, in deviations from the component means.

    Attributes
    ----------
    weight : (K,)
        Sum of the row weights times the responsibility of each component.
    first : (K, d)
        Weighted sum of deviations.
    second : (K, d, d)
        Weighted sum of products of deviations, including the conditional covariances of missing values.
    log_likelihood : float
        Weighted mean of the log density of the rows.
    """

    weight: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor
    log_likelihood: float

    def merged(self, other: SufficientStatistics) -> SufficientStatistics:
        """The statistics of the rows of both, under the same mixture."""
        n_rows = [float(sums.weight.sum()) for sums in (self, other)]
        total = n_rows[0] * self.log_likelihood + n_rows[1] * other.log_likelihood
        return SufficientStatistics(
            self.weight + other.weight,
            self.first + other.first,
            self.second + other.second,
            total / max(sum(n_rows), 1e-300),
        )


class EMRows:
    """Incomplete rows prepared for EM: sorted so that rows with equal masks are adjacent.

    Parameters
    ----------
    values : (n, d)
        Standardised, targets in the last columns.
    mask : (n, d)
        True = observed.
    weight : (n,)
        Sample weights.
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
        """The rows split into blocks. The result is cached for the last number of components."""
        if n_components not in self._blocks:
            self._blocks = {n_components: self._patterns.blocks(n_components)}
        return self._blocks[n_components]

    def take(self, index: np.ndarray) -> EMRows:
        """The rows at `index`, in the sorted order."""
        return EMRows(self.values.numpy()[index], self.mask.numpy()[index], self.weight.numpy()[index])

    def reweighted(self, factor: float) -> EMRows:
        """The same rows with all weights multiplied by `factor`."""
        rows = copy(self)
        rows.weight = self.weight * factor
        return rows

    def joined(self, other: EMRows) -> EMRows:
        """These rows followed by those of `other`, with their weights."""
        pairs = ((self.values, other.values), (self.mask, other.mask), (self.weight, other.weight))
        return EMRows(*(torch.cat(pair).numpy() for pair in pairs))

    def log_density(self, parameters: Parameters, workers: ThreadWorkers) -> torch.Tensor:
        """Log density of the observed values of each row, (n,), in the sorted order."""
        components = parameters.components()
        log_density = torch.empty(len(self), dtype=torch.float64)

        def process(blocks: Sequence[Block]) -> None:
            for block in blocks:
                posterior = components.posterior(block, self.values[block.rows], self.mask[block.rows])
                log_density[block.rows] = posterior.log_joint.logsumexp(dim=0)

        workers.map(self.blocks(len(components.means)), process)
        return log_density

    def log_likelihood(self, parameters: Parameters, workers: ThreadWorkers) -> float:
        """Weighted mean of `log_density`."""
        return float(self.log_density(parameters, workers) @ self.weight / self.weight.sum())


def expect(rows: EMRows, parameters: Parameters, workers: ThreadWorkers) -> SufficientStatistics:
    """E-step: compute the expected sufficient statistics in one pass over the rows."""
    components = parameters.components()
    k, d = parameters.means.shape

    def process(blocks: Sequence[Block]) -> tuple[torch.Tensor, ...]:
        weight, first, second, total = _zeros(k), _zeros(k, d), _zeros(k, d, d), _zeros()
        # A conditional covariance is Λ_mm⁻¹ padded with zeros, or Σ − Σ P Σ with P the padded Σ_oo⁻¹. Both
        # are linear in the inverse, so the inverses are summed first. Their sum is multiplied by Σ from both
        # sides at the end.
        from_missing, from_observed, observed_weight = _zeros(k * d * d), _zeros(k * d * d), _zeros(k)
        for block in blocks:
            posterior = components.posterior(block, rows.values[block.rows], rows.mask[block.rows])
            row_weight = rows.weight[block.rows]
            log_density = posterior.log_joint.logsumexp(dim=0)
            total += log_density @ row_weight
            responsibility = (posterior.log_joint - log_density).exp() * row_weight
            weighted = responsibility[..., None] * posterior.deviation
            weight += responsibility.sum(dim=1)
            first += weighted.sum(dim=1)
            second += weighted.mT @ posterior.deviation
            n_patterns = len(block.columns)
            if n_patterns < len(row_weight):
                responsibility = _zeros(k, n_patterns).index_add_(1, block.pattern, responsibility)
            if block.columns_are_observed:
                observed_weight += responsibility.sum(dim=1)
            # Most rows clearly belong to one component, so inverses of negligible weight are not computed.
            pairs = torch.nonzero(responsibility.reshape(-1) > MIN_RESPONSIBILITY)[:, 0]
            inverses = posterior.inverses(pairs) * responsibility.reshape(-1)[pairs, None]
            positions = posterior.positions.index_select(0, pairs % n_patterns)
            positions += (pairs // n_patterns * (d * d))[:, None]
            sums = from_observed if block.columns_are_observed else from_missing
            sums.index_add_(0, positions.reshape(-1), inverses.reshape(-1))
        return weight, first, second, from_missing, from_observed, observed_weight, total

    chunks = workers.map(rows.blocks(k), process)
    weight, first, second, from_missing, from_observed, observed_weight, total = (
        torch.stack(tensors).sum(dim=0) for tensors in zip(*chunks, strict=True)
    )
    covariances = parameters.covariances
    conditional = observed_weight[:, None, None] * covariances
    conditional = conditional - covariances @ from_observed.reshape(k, d, d) @ covariances
    second = second + conditional + from_missing.reshape(k, d, d)
    return SufficientStatistics(weight, first, second, float(total / rows.weight.sum()))


def maximise(sums: SufficientStatistics, parameters: Parameters, n_targets: int, ridge: float) -> Parameters:
    """M-step: means, covariances of x with a ridge, and partially pooled regressions of y on x."""
    weight = sums.weight.clamp_min(1e-10)
    shift = sums.first / weight[:, None]
    scatter = sums.second - weight[:, None, None] * shift[:, :, None] * shift[:, None, :]
    scatter = (scatter + scatter.mT) / 2
    d = scatter.shape[1] - n_targets
    # The ridge adds `ridge` rows of unit variance to each component, so an empty one gets the identity.
    n_rows = (weight + ridge)[:, None, None]
    scatter_x = scatter[:, :d, :d] + ridge * _eye(d)
    covariance_x = scatter_x / n_rows
    if n_targets == 0:
        covariances, between, shared = covariance_x, parameters.log_between, parameters.log_shared
    else:
        coef, residual, between, shared = _pooled_regressions(scatter_x, scatter, parameters, n_targets)
        covariance_xy = covariance_x @ coef
        residual = (residual + ridge * 1e-2 * _eye(n_targets)) / n_rows
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

    Model for each target: the coefficients of a component are ~ N(c, τ² I), the shared ones c ~ N(0, s² I).
    Given the noise of each component, the joint posterior is Gaussian, and τ² and s² are updated as in EM for
    variance components. Components with similar coefficients are shrunk more strongly towards c.
    """
    k, d = scatter_x.shape[:2]
    scatter_xy, scatter_y = scatter[:, :d, d:], scatter[:, d:, d:]
    precision_y = _inverse(parameters.covariances)[:, d:, d:]
    noises = torch.linalg.inv(precision_y).diagonal(dim1=1, dim2=2)  # current Var[y | x], (K, t)
    # A single component has the shared coefficients.
    between = parameters.log_between.exp() if k > 1 else _zeros()
    shared = parameters.log_shared.exp()

    coefs, uncertainties, new_between, new_shared = [], [], _zeros(), _zeros()
    for noise, product in zip(noises.T, scatter_xy.permute(2, 0, 1), strict=True):
        noise = noise[:, None, None]
        # With S = XᵀX: G = (τ² S + σ² I)⁻¹, and the rows of a component determine c with precision S G.
        solve = _inverse(between * scatter_x + noise * _eye(d))
        precision_c = (scatter_x @ solve).sum(dim=0)
        covariance_c = _inverse((precision_c + precision_c.mT) / 2 + _eye(d) / shared)
        mean_c = covariance_c @ (solve @ product[:, :, None]).sum(dim=0)
        coef = mean_c + between * solve @ (product[:, :, None] - scatter_x @ mean_c)
        given_c = between * noise * solve  # Cov[coefficients | c]
        data_weight = between * solve @ scatter_x  # influence of the component's rows, as opposed to c
        shrinkage = _eye(d) - data_weight
        covariance = given_c + shrinkage @ covariance_c @ shrinkage.mT
        coefs.append(coef)
        uncertainties.append((covariance * scatter_x).sum(dim=(1, 2)))
        around_c = _trace(data_weight @ covariance_c @ data_weight.mT)
        squares = (coef - mean_c).square().sum() + _trace(given_c) + around_c
        new_between += squares / (k * d * n_targets)
        new_shared += (mean_c.square().sum() + _trace(covariance_c)) / (d * n_targets)
    coef = torch.cat(coefs, dim=2)
    cross = scatter_xy.mT @ coef
    # The uncertainty of the coefficients is part of the residual variance.
    residual = scatter_y - cross - cross.mT + coef.mT @ scatter_x @ coef
    residual = residual + torch.diag_embed(torch.stack(uncertainties, dim=1))
    log_between = new_between.clamp_min(MIN_VARIANCE).log() if k > 1 else parameters.log_between
    return coef, residual, log_between, new_shared.clamp_min(MIN_VARIANCE).log()


def _trace(matrices: torch.Tensor) -> torch.Tensor:
    """Sum of all diagonals."""
    return matrices.diagonal(dim1=-2, dim2=-1).sum()


def _inverse(matrix: torch.Tensor) -> torch.Tensor:
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix))


def _zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def _eye(n: int) -> torch.Tensor:
    return torch.eye(n, dtype=torch.float64)
