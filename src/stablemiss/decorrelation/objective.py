"""Row weights as parameters, and the penalised objective that they minimise.

    min over w > 0 with mean one:  measure(w) + γ · std(w) / mean(w)

The measure is a dependence or a distance. The penalty is not squared, so γ has a critical value γ_c. If
γ ≥ γ_c, no small deviation from uniform weights lowers the objective; if γ < γ_c, some deviation does. The
same fraction of γ_c has a similar effect on every table, which is not true of the same γ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from stablemiss.data import Floats
from stablemiss.decorrelation.dependence import Dependence
from stablemiss.seeding import Rng

# Function from weights (n,) of mean one to the losses by name and the gradient (n,) of their sum.
Measure = Callable[[Tensor], tuple[dict[str, float], Tensor]]


@dataclass(frozen=True, eq=False)
class Weighting:
    """Fitted row weights, with the effective sample size and the dependence before and after weighting.

    Attributes
    ----------
    weight : (n,) float64
        Mean one; positive, except for rows that had weight zero before.
    effective_rows : float
        Effective sample size (Σw)² / Σw²: the number of equally weighted rows that give estimates of the same
        variance.
    gamma, critical_gamma : float
        The penalty used, and the penalty above which the weights stay uniform.
    before, after : dict
        Dependence of each term under the initial and the fitted weights, measured with random features that
        were not used for learning.

    See Also
    --------
    learn_weights : Returns the weights alone.
    Decorrelator : Makes it.
    """

    weight: Floats
    effective_rows: float
    gamma: float
    critical_gamma: float
    before: dict[str, float]
    after: dict[str, float]

    @classmethod
    def of(
        cls,
        weights: tuple[Tensor, Tensor],
        rows: Tensor,
        measure: Dependence,
        scale: float,
        gamma: float,
        critical: float,
    ) -> Weighting:
        """Build from the fitted weights.

        Parameters
        ----------
        weights : tuple of two (n,) tensors
            The initial and the fitted weights.
        rows : (k,) int tensor
            The rows that `measure` was built from.
        measure : Dependence
            With random features that were not used for learning.
        scale : float
            The losses are multiplied by this.
        gamma, critical : float
        """
        before, after = (
            {term: scale * loss for term, loss in measure(weight[rows] / weight[rows].mean())[0].items()}
            for weight in weights
        )
        fitted = weights[1].double().cpu().numpy()
        effective = float(fitted.sum() ** 2 / (fitted**2).sum())
        return cls(fitted / fitted.mean(), effective, gamma, critical, before, after)


class RowWeights(nn.Module):
    """Positive weights of mean one: base · softmax(θ), rescaled.

    Parameters
    ----------
    base : (n,) tensor
        Weights that the rows already have.
    rng : numpy Generator
        Draws the initial θ.
    """

    base: Tensor

    def __init__(self, base: Tensor, rng: Rng):
        super().__init__()
        self.register_buffer("base", base / base.mean())
        # The standard deviation is not differentiable where all weights are equal, so θ starts with noise.
        self.theta = nn.Parameter(torch.from_numpy(0.05 * rng.normal(size=len(base))).to(base))

    @property
    def ratio(self) -> Tensor:
        """Factors (n,) by which the base weights are multiplied; mean one."""
        return len(self.theta) * self.theta.softmax(dim=0)

    def forward(self) -> Tensor:
        weight = self.base * self.ratio
        return weight / weight.mean()


@dataclass(frozen=True)
class Objective:
    """A measure of the weighted table plus a penalty on the spread of the weights.

    Attributes
    ----------
    gamma : float
        Penalty. A larger value makes the weights more uniform.
    scale : float, default=1.0
        The measure is multiplied by this.
    """

    gamma: float
    scale: float = 1.0

    def __call__(self, weights: RowWeights, measure: Measure, rows: Tensor | None = None) -> Tensor:
        """Evaluate the objective at the current weights.

        Parameters
        ----------
        weights : RowWeights
        measure : Measure
        rows : (k,) int tensor, default=None
            Rows that `measure` was built from; None for all rows.
        """
        weight, ratio = weights(), weights.ratio
        if rows is not None:
            weight, ratio = weight[rows], ratio[rows]
        # PAPER: γ · Std(w) / mean(w) prevents single rows from taking all the weight.
        return self._measured(weight, measure) + self.gamma * ratio.std(correction=0) / ratio.mean()

    def best(self, weights: RowWeights, measure: Measure, rows: Tensor | None = None) -> Tensor:
        """The fitted weights (n,), or the base weights if the fitted ones are not better.

        The parameters are the same as in `__call__`.
        """
        with torch.no_grad():
            base = weights.base if rows is None else weights.base[rows]
            at_base = self._measured(base, measure)
            # Better by more than rounding errors; otherwise the noise of the initial θ would be kept.
            is_better = self(weights, measure, rows) < (1 - 1e-5) * at_base
            return weights() if is_better else weights.base

    def _measured(self, weight: Tensor, measure: Measure) -> Tensor:
        return self.scale * _MeasureFunction.apply(weight / weight.mean(), measure)


class _MeasureFunction(torch.autograd.Function):
    """Evaluates a measure that computes its own gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, measure: Measure) -> Tensor:
        losses, gradient = measure(weight)
        ctx.save_for_backward(gradient)
        return weight.new_tensor(sum(losses.values()))

    @staticmethod
    def backward(ctx: Any, *grad_output: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return grad_output[0] * gradient, None


def critical_gamma(measure: Dependence, base: Tensor | None = None) -> float:
    """The critical γ, above which the weights stay uniform: √n · ‖g − mean of g‖.

    g is the gradient of the dependence at uniform weights. If the weights change by ε v, with v of mean zero,
    the dependence changes by ε g·v and the penalty by γ ε ‖v‖ / √n.

    Parameters
    ----------
    measure : Dependence
    base : (n,) tensor, default=None
        Weights of mean one that the rows already have; None for equal weights. If given, "uniform" weights
        are proportional to these.

    See Also
    --------
    critical_gamma_from_gradient : The same for any loss, from its gradient.
    """
    start = measure.equal_weights() if base is None else base
    return critical_gamma_from_gradient(measure(start)[1], start)


def critical_gamma_from_gradient(gradient: Tensor, base: Tensor) -> float:
    """The critical γ of a loss, from its gradient (n,) at the weights `base` (n,) of mean one.

    See Also
    --------
    critical_gamma : The same for a `Dependence`.
    """
    # Weights are divided by their mean, so a common factor of all weights changes nothing.
    ratio_gradient = base * (gradient - (gradient * base).mean())
    return math.sqrt(len(base)) * float((ratio_gradient - ratio_gradient.mean()).norm())
