"""Row weights that lower the dependence between columns and mask indicators.

The dependence is measured through random Fourier features (`Dependence`) and minimised together with a
penalty on the spread of the weights (`Objective`), which prevents a few rows from taking all the weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stablemiss.checks import check_bool, check_choice, check_integer, check_number
from stablemiss.data import Floats, MaskedData
from stablemiss.decorrelation.dependence import TERMS, Dependence, Form, check_terms
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.decorrelation.objective import (
    Measure,
    Objective,
    RowWeights,
    Weighting,
    critical_gamma_from_gradient,
)
from stablemiss.decorrelation.permuting import draw_orders
from stablemiss.progress import Progress, to_progress
from stablemiss.seeding import Rng, check_rng
from stablemiss.training import Rows, Stage, Step, minimise, run_stages, to_device

# Steps per epoch. After each epoch the score is computed and the random features of the loss are redrawn.
STEPS_PER_EPOCH = 20
# Maximum number of rows used for the score and the report if the weights are fitted in batches.
MAX_SCORE_ROWS = 16384
# Tables with fewer columns are scored with several draws of features, because a single draw over few pairs of
# columns is noisy.
MIN_SCORE_COLUMNS = 32


@dataclass(frozen=True)
class Decorrelator:
    """Learns row weights that lower the dependence between columns and mask indicators.

    Parameters
    ----------
    terms : subset of {"xx", "mm", "xm"}, default=("xx", "mm", "xm")
        Dependences to lower: "xx" between columns, "mm" between mask indicators, "xm" between columns and
        mask indicators.
    form : {"weighted", "paper"}, default="weighted"
        How dependence is measured, see `dependence`.
    strength : float, default=0.25
        Strength of the penalty on uneven weights: its coefficient γ as a fraction of the critical value, at
        which all weights stay equal. Larger values therefore decorrelate less; towards 0 dependence falls
        further and fewer rows carry the weight. With `redraw`, the fraction is at least √(a / b), where a is
        the dependence of independently permuted columns and b the dependence of the table, so that
        independent columns keep uniform weights.
    gamma : float, default=None
        γ itself, as in the paper; `strength` is then ignored.
    q : int, default=5
        Number of random features per column. A larger value detects more kinds of dependence; the cost
        grows with its square.
    redraw : bool, default=True
        Draw new random features for the loss after every 20 steps, and use separate ones for early stopping,
        so that the weights cannot overfit the features. False uses a single draw for both, as in the paper;
        without batches the objective is then fixed and minimised by L-BFGS, in `max_epochs` · 20 steps at
        most.
    batch_size : int, default=None
        Number of rows per step, for tables too large to be used as a whole; None uses all rows. A larger
        value has less sampling noise.
    max_columns : int, default=128
        Maximum number of columns per step. In a wider table, a random subset is drawn together with the
        features, and losses are scaled to all pairs. A larger value covers more pairs at once; the cost grows
        with its square.
    max_epochs : int, default=15
        Maximum number of epochs of 20 steps. Learning ends earlier when the score stops falling.
    learning_rate : float, default=0.03
        Initial step size, lowered twice before the end. A larger value learns faster and less reliably.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".

    See Also
    --------
    learn_weights : The same as a function that returns the weights.
    TransportDecorrelator : Minimises an optimal-transport distance instead of covariances.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> table = np.hstack([x + rng.normal(size=(500, 1)), x + rng.normal(size=(500, 1))])
    >>> weighting = Decorrelator(terms=("xx",)).learn_weights(table, np.ones((500, 2)), rng=rng)
    >>> weighting.after["xx"] < weighting.before["xx"]
    True
    """

    terms: Sequence[str] = TERMS
    form: Form = "weighted"
    strength: float = 0.25
    gamma: float | None = None
    q: int = 5
    redraw: bool = True
    batch_size: int | None = None
    max_columns: int = 128
    max_epochs: int = 15
    learning_rate: float = 0.03
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_terms(self.terms)
        check_choice(self, form=get_args(Form))
        check_number(self, strength="[0, 1e30]", learning_rate="(0, 1]")
        check_number(self, gamma="[0, 1e30]", unless=None)
        check_integer(self, q=(1, 1000), max_columns=2, max_epochs=1)
        check_integer(self, batch_size=2, unless=None)
        check_bool(self, "redraw")

    def learn_weights(
        self,
        values: NDArray,
        mask: NDArray,
        *,
        rng: Rng,
        weight: NDArray | None = None,
        groups: NDArray | None = None,
        progress: Progress | None = None,
    ) -> Weighting:
        """Learn the weights of the rows of a table.

        Parameters
        ----------
        values, mask : (n, d)
            Standardised columns and 1 = observed; missing values have no influence.
        rng : numpy Generator
        weight : (n,), default=None
            Weights that the rows already have; the fitted weights multiply them. None for equal weights.
        groups : (d,) int, default=None
            Columns with the same group number encode the same original column; their dependence is ignored.
            None gives every column its own group.
        progress : Progress, default=None
            Receives the score of each epoch.

        Returns
        -------
        Weighting
        """
        check_rng(rng)
        data = MaskedData.of(values, mask, None, weight, groups)
        data.check_has_rows()
        # Rows of weight zero are excluded.
        used = np.flatnonzero(data.weight > 0)
        weighting = _Problem(self, data.rows(used), rng).solve(to_progress(progress))
        all_weights = np.zeros(len(data))
        all_weights[used] = weighting.weight
        return replace(weighting, weight=all_weights / all_weights.mean())


def learn_weights(
    values: NDArray,
    mask: NDArray,
    terms: Sequence[str] = TERMS,
    form: Form = "weighted",
    strength: float = 0.25,
    *,
    rng: Rng,
    weight: NDArray | None = None,
    groups: NDArray | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Floats:
    """Learn row weights that lower the dependence between columns and mask indicators.

    Parameters
    ----------
    values, mask : (n, d)
        Standardised columns and 1 = observed; missing values have no influence.
    terms : subset of {"xx", "mm", "xm"}, default=("xx", "mm", "xm")
        Dependences to lower: "xx" between columns, "mm" between mask indicators, "xm" between columns and
        mask indicators.
    form : {"weighted", "paper"}, default="weighted"
        How dependence is measured, see `dependence`.
    strength : float, default=0.25
        Strength of the penalty on uneven weights: its coefficient γ as a fraction of the critical value, at
        which all weights stay equal. Larger values therefore decorrelate less; towards 0 dependence falls
        further and fewer rows carry the weight.
    rng : numpy Generator
    weight : (n,), default=None
        Weights that the rows already have; the fitted weights multiply them. None for equal weights.
    groups : (d,) int, default=None
        Columns with the same group number encode the same original column; their dependence is ignored. None
        gives every column its own group.
    progress : Progress, default=None
        Reports each epoch. None reports nothing.
    **settings
        Further parameters of `Decorrelator`.

    Returns
    -------
    (n,) float64
        Mean one, and positive where `weight` is.

    See Also
    --------
    Decorrelator : Also reports the effective sample size and the dependence before and after.
    dependence : Measure the dependence under given weights.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> weight = learn_weights(rng.normal(size=(200, 2)), np.ones((200, 2)), rng=rng)
    >>> bool((weight > 0).all()), round(float(weight.mean()), 6)
    (True, 1.0)
    """
    known = [field.name for field in fields(Decorrelator)]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise TypeError(
            f"learn_weights has no parameter {unknown[0]!r}; those of Decorrelator are: {', '.join(known)}."
        )
    decorrelator = Decorrelator(terms, form, strength, **settings)
    weighting = decorrelator.learn_weights(
        values, mask, rng=rng, weight=weight, groups=groups, progress=progress
    )
    return weighting.weight


# Indices of the columns used, and the random features of these columns.
_Draw = tuple[Tensor, RandomFeatures]


@dataclass(frozen=True)
class _MeanMeasure:
    """The mean of several measures."""

    measures: Sequence[Measure]

    def __call__(self, weight: Tensor) -> tuple[dict[str, float], Tensor]:
        results = [measure(weight) for measure in self.measures]
        losses = {term: float(np.mean([terms[term] for terms, _ in results])) for term in results[0][0]}
        return losses, torch.stack([gradient for _, gradient in results]).mean(dim=0)


class _Problem:
    """The optimisation problem for the row weights of one table.

    The loss uses the random features `draw`, which are redrawn after each epoch. The score uses
    `score_measure`, which is fixed. It is computed on `sample`: all rows, or a random sample of them if the
    weights are fitted in batches.
    """

    def __init__(self, settings: Decorrelator, data: MaskedData, rng: Rng):
        self.settings = settings
        self.rng = rng
        self.rows = Rows.of(data, to_device(settings.device))
        self.groups = torch.as_tensor(data.groups, device=self.rows.values.device)
        n, d = data.values.shape
        self.is_full_batch = settings.batch_size is None or settings.batch_size >= n
        self.n_columns, self.width = d, min(d, settings.max_columns)
        # Factor from the number of pairs among `width` columns to the number of pairs among all columns.
        self.scale = d * (d - 1) / (self.width * (self.width - 1)) if self.width > 1 else 1.0
        self.sample = self.rows if self.is_full_batch else self._draw_sample()
        self.base = self.sample.weight / self.sample.weight.mean()
        self.draw = self._draw_features()
        self.loss_measure = self._measure(self.sample, self.draw)
        self.score_measure: Measure = self.loss_measure
        if settings.redraw:
            n_draws = -(-MIN_SCORE_COLUMNS // self.width)
            self.score_measure = _MeanMeasure([self._draw_measure() for _ in range(n_draws)])

    def solve(self, progress: Progress) -> Weighting:
        """Choose γ, minimise the objective, and measure the result with new features."""
        critical = self._critical_gamma()
        gamma = self.settings.gamma
        if gamma is None:
            gamma = self._fraction_of_critical() * critical
        weights = RowWeights(self.rows.weight, self.rng)
        objective = Objective(gamma, self.scale)
        self._minimise(objective, weights, progress)
        fitted = objective.best(weights, self.score_measure, self.sample.index)
        report_measure = self._draw_measure(TERMS)
        return Weighting.of(
            (weights.base, fitted), self.sample.index, report_measure, self.scale, gamma, critical
        )

    def _draw_sample(self) -> Rows:
        size = max(self.settings.batch_size or 0, MAX_SCORE_ROWS)
        chosen = self.rng.permutation(len(self.rows))[:size]
        return self.rows.take(torch.as_tensor(chosen, device=self.rows.index.device))

    def _draw_features(self) -> _Draw:
        columns = np.sort(self.rng.permutation(self.n_columns)[: self.width])
        features = RandomFeatures.draw(self.width, self.settings.q, self.rng)
        return torch.as_tensor(columns, device=self.groups.device), features

    def _measure(self, rows: Rows, draw: _Draw, terms: Sequence[str] | None = None) -> Dependence:
        columns, features = draw
        return Dependence(
            rows.values[:, columns],
            rows.mask[:, columns] > 0,
            features,
            self.settings.terms if terms is None else terms,
            self.settings.form,
            self.groups[columns],
        )

    def _draw_measure(self, terms: Sequence[str] | None = None) -> Dependence:
        return self._measure(self.sample, self._draw_features(), terms)

    def _critical_gamma(self) -> float:
        """The critical γ, averaged over draws of features (and of columns, in wide tables)."""
        gradients = [self.loss_measure(self.base)[1]]
        is_wide = self.width < self.n_columns
        if self.settings.redraw:
            n_draws = 11 if is_wide else 3
            gradients += [self._draw_measure()(self.base)[1] for _ in range(n_draws)]
        if is_wide:
            # Each draw uses other columns; the mean estimates the gradient over all columns.
            gradients = [torch.stack(gradients).mean(dim=0)]
        return self.scale * float(
            np.mean([critical_gamma_from_gradient(gradient, self.base) for gradient in gradients])
        )

    def _fraction_of_critical(self) -> float:
        """`strength`, but at least √(a / b); see `Decorrelator`."""
        strength = self.settings.strength
        if not self.settings.redraw:
            return strength
        # A copy of rng, so that later draws do not depend on this step.
        order = torch.from_numpy(draw_orders(len(self.sample), self.groups.cpu().numpy(), deepcopy(self.rng)))
        order = order.to(self.groups.device)
        values, mask = (table.gather(0, order) for table in (self.sample.values, self.sample.mask))
        permuted = self._measure(replace(self.sample, values=values, mask=mask), self.draw)
        by_chance, total = (sum(measure(self.base)[0].values()) for measure in (permuted, self.loss_measure))
        # γ_c is the norm of the gradient, which is linear in the covariances; the dependence is quadratic in
        # them, hence the square root.
        return max(strength, math.sqrt(by_chance / total)) if total > 0 else 1.0

    def _minimise(self, objective: Objective, weights: RowWeights, progress: Progress) -> None:
        settings = self.settings
        if self.is_full_batch and not settings.redraw:
            max_steps = settings.max_epochs * STEPS_PER_EPOCH
            progress.start("row weights", total=max_steps)
            try:
                minimise(
                    lambda: objective(weights, self.loss_measure),
                    weights.theta,
                    max_steps,
                    report=lambda step: progress.update(step, ""),
                )
            finally:
                progress.finish()
            return

        def loss(batch: Rows) -> Tensor:
            if self.is_full_batch:
                return objective(weights, self.loss_measure)
            return objective(weights, self._measure(batch, self.draw), batch.index)

        def score() -> float:
            # Called once per epoch, so new features for the loss are drawn here.
            if settings.redraw:
                self.draw = self._draw_features()
                if self.is_full_batch:
                    self.loss_measure = self._measure(self.sample, self.draw)
            return float(objective(weights, self.score_measure, self.sample.index))

        stage = Stage(
            name="row weights",
            module=weights,
            rows=self.rows,
            steps=[
                Step(loss, [weights.theta], partial(torch.optim.Adam, lr=settings.learning_rate), math.inf)
            ],
            score=score,
            batch_size=len(self.rows) if settings.batch_size is None else settings.batch_size,
            max_epochs=settings.max_epochs,
            patience=2,
            lr_reductions=2,
            min_batches=STEPS_PER_EPOCH,
        )
        run_stages([stage], self.rng, progress)
