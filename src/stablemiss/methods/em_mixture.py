"""EM mixture: a Gaussian mixture on the observed cells of (x, y), asked for E[y | x_o].

For each component k the observed cells of (x, y) are Gaussian; with o the observed columns,

    E[y | x_o] = Σ_k ρ_k(x_o) · (μ_k,y + Σ_k,yo Σ_k,oo⁻¹ (x_o − μ_k,o)),   ρ_k ∝ π_k N(x_o; μ_k,o, Σ_k,oo).

For classes the densities p(x_o | class) come in two ways: `tied`, one covariance for all classes around each
class's mean, and `own`, a mixture for each class. Bayes' rule is applied to a · log tied + b · log own with
a and b chosen on the validation rows: columns are not quite Gaussian, errors of log densities add up over
columns, and taken at face value the probabilities would be far too sure of themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from stablemiss.base.method import Method, Predictor, check_at_least
from stablemiss.base.search_space import Choice, Space
from stablemiss.data import Floats, MaskedData
from stablemiss.mixture import RIDGES, GaussianMixture, MixtureFit, Rows
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task


class EMMixturePredictor(Predictor):
    """Conditional expectation under a joint mixture, or Bayes' rule over densities of the classes.

    Attributes
    ----------
    mixtures : list of GaussianMixture
        For regression one over features and targets. For classes the tied one, a component per class, then
        each class's own.
    log_shares : (n_classes,) float64 or None
        log shares of the classes; None for regression.
    inverse_temperature : (2,) float64
        What the log densities of the tied and of the own mixtures are multiplied by.
    """

    def __init__(
        self, mixtures: list[GaussianMixture], log_shares: Floats | None, inverse_temperature: Floats
    ):
        self.mixtures = mixtures
        self.log_shares = log_shares
        self.inverse_temperature = inverse_temperature

    def outputs(self, values: Floats, mask: NDArray) -> Floats:
        if self.log_shares is not None:
            return (
                np.tensordot(self.inverse_temperature, _log_densities(self.mixtures, values, mask), axes=1)
                + self.log_shares
            )
        (joint,) = self.mixtures
        n, d = values.shape
        targets = np.arange(d, joint.means.shape[1])
        blank = np.zeros((n, len(targets)))
        return joint.conditional_mean(np.hstack([values, blank]), np.hstack([mask, blank > 0]), targets)

    def joint(self) -> GaussianMixture:
        """One mixture over features and targets; for classes over the indicators of all but the first."""
        if self.log_shares is None:
            return self.mixtures[0]
        tied = self.mixtures[0]
        n_classes, d = tied.means.shape
        indicators = np.eye(n_classes)[:, 1:]
        # Densities are only trusted so far, which is as if columns scattered more.
        scatter = tied.covariances / np.clip(self.inverse_temperature.sum(), 1e-2, 1.0)
        covariances = np.zeros((n_classes, d + n_classes - 1, d + n_classes - 1))
        covariances[:, :d, :d] = scatter
        return GaussianMixture(np.exp(self.log_shares), np.hstack([tied.means, indicators]), covariances)

    def state(self) -> dict[str, Any]:
        mixtures = [
            {"weights": m.weights, "means": m.means, "covariances": m.covariances} for m in self.mixtures
        ]
        return {
            "mixtures": mixtures,
            "log_shares": self.log_shares,
            "inverse_temperature": self.inverse_temperature,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        mixtures = [GaussianMixture(**mixture) for mixture in state["mixtures"]]
        return cls(mixtures, state["log_shares"], state["inverse_temperature"])


class EMMixture(Method):
    """Gaussian mixture fitted by EM to the observed cells; unaffected by the mechanism under MCAR and MAR.

    Parameters
    ----------
    n_components : int or "auto"
        Number of Gaussians, for classes in each class's own mixture. More follow bends and clusters that one
        Gaussian cannot, and need more rows; "auto" grows until two sizes in a row do not clearly gain on the
        validation rows.
    max_components : int
        Where "auto" stops growing. Higher costs time on data far from Gaussian.
    ridge : float or "auto"
        Rows of unit variance added to each component's covariance. More steadies components with few rows
        and blurs the finest directions. "auto" starts at 0.1 and goes on to 1, 10 and 100 while one Gaussian
        predicts the validation rows clearly better; for classes it takes the one with the least loss there.
    tolerance : float
        EM stops when a step gains less log-likelihood per row. Smaller is slower and more exact; where much
        is missing EM is slow, and 2e-3 already stops far from the optimum.
    max_steps : int
        Most passes over the rows in one fit.
    refit_on_validation : bool
        Let the validation rows join in the end, when size and ridge are settled. False keeps them out, for
        whoever wants to judge by them.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> X[:, 1] += X[:, 0]
    >>> model = MissingRegressor(method="em_mixture", random_state=0).fit(X, X.sum(axis=1))
    >>> bool(abs(model.predict([[1.0, 1.0]])[0] - 2.0) < 0.05)
    True
    """

    name: ClassVar[str] = "em_mixture"
    predictor: ClassVar[type[Predictor]] = EMMixturePredictor
    space: ClassVar[Space] = {
        "n_components": Choice("auto", 1, 2, 3, 4, 6, 8),
        "ridge": Choice("auto", *RIDGES),
    }
    brief: ClassVar[Mapping[str, Any]] = {"max_components": 2, "max_steps": 30}

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        max_components: int = 8,
        ridge: float | Literal["auto"] = "auto",
        tolerance: float = 3e-4,
        max_steps: int = 150,
        refit_on_validation: bool = True,
    ):
        self.n_components = n_components
        self.max_components = max_components
        self.ridge = ridge
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.refit_on_validation = refit_on_validation

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> EMMixturePredictor:
        self._check()
        if not isinstance(task, Classification):
            rows = _joint_rows(train), _joint_rows(valid)
            fit = self._fit(*rows, task.d_output, self.n_components, self.ridge, rng, progress)
            return EMMixturePredictor([self._final(fit)], None, np.ones(2))
        target = np.concatenate([train.target, valid.target])
        weights = np.bincount(target, np.concatenate([train.weight, valid.weight]), task.d_output)
        log_shares = np.log(np.maximum(weights, 1e-12) / weights.sum())
        ridge = self.ridge
        if ridge == "auto":
            # One for all classes, or their densities could not be compared; chosen with one Gaussian each.
            losses = []
            for candidate in RIDGES:
                fits = self._fit_classes(train, valid, task, 1, candidate, rng, progress)
                losses.append(_judge(fits, log_shares, task, valid)[1])
            ridge = RIDGES[int(np.argmin(losses))]
        fits = self._fit_classes(train, valid, task, self.n_components, ridge, rng, progress)
        # Judged by the validation rows before the mixtures have learnt from them.
        inverse_temperature, _ = _judge(fits, log_shares, task, valid)
        tied, *own = (self._final(fit) for fit in fits)
        return EMMixturePredictor([_per_class(tied, task), *own], log_shares, inverse_temperature)

    def _fit_classes(
        self,
        train: MaskedData,
        valid: MaskedData,
        task: Classification,
        n_components: int | Literal["auto"],
        ridge: float,
        rng: Rng,
        progress: Progress,
    ) -> list[MixtureFit]:
        """The tied Gaussian over features and class indicators, then each class's own mixture."""
        joint = _joint_rows(train, task), _joint_rows(valid, task)
        fits = [self._fit(*joint, task.d_output - 1, 1, ridge, rng, progress)]
        for code in range(task.d_output):
            rows = _of_class(train, code), _of_class(valid, code)
            fits.append(self._fit(*rows, 0, n_components, ridge, rng, progress))
        return fits

    def _fit(
        self,
        train: Rows,
        valid: Rows,
        n_targets: int,
        n_components: int | Literal["auto"],
        ridge: float | Literal["auto"],
        rng: Rng,
        progress: Progress,
    ) -> MixtureFit:
        fit = MixtureFit(train, valid, n_targets, self.tolerance, self.max_steps, rng, progress)
        fit.fit(
            n_components=None if n_components == "auto" else n_components,
            max_components=self.max_components,
            ridge=None if ridge == "auto" else ridge,
        )
        return fit

    def _final(self, fit: MixtureFit) -> GaussianMixture:
        return fit.refresh() if self.refit_on_validation else fit.mixture

    def _check(self) -> None:
        check_at_least(self, max_components=1, max_steps=1)
        if self.n_components != "auto":
            check_at_least(self, n_components=1)
        for name in ("tolerance", "ridge"):
            number = getattr(self, name)
            if name == "ridge" and number == "auto":
                continue
            if not isinstance(number, Real) or not 0 < float(number) < np.inf:
                raise ValueError(f"{name} must be a number above 0, but is {number!r}.")


def fit_inverse_temperature(
    log_densities: Floats, log_shares: Floats, task: Classification, valid: MaskedData
) -> tuple[Floats, float]:
    """How far to believe the tied and the own densities, (2,), and the loss that is left.

    Parameters
    ----------
    log_densities : (2, n, n_classes)
        Tied and own, for the validation rows.
    log_shares : (n_classes,)
    task, valid
        What is predicted, and the rows.

    Notes
    -----
    A normal prior around one half each, with standard deviation one half, decides where rows are few.
    """
    if not len(valid):
        return np.full(2, 0.5), 0.0

    def loss(inverse_temperature: Floats) -> float:
        outputs = np.tensordot(inverse_temperature, log_densities, axes=1) + log_shares
        misfit = task.loss(outputs, valid.target, valid.weight) * valid.weight.sum()
        return misfit + 2 * float(((inverse_temperature - 0.5) ** 2).sum())

    found = minimize(loss, np.full(2, 0.1), method="L-BFGS-B", bounds=[(0.0, 3.0)] * 2)
    return found.x, float(found.fun)


def _judge(
    fits: list[MixtureFit], log_shares: Floats, task: Classification, valid: MaskedData
) -> tuple[Floats, float]:
    """`fit_inverse_temperature` for fits as they stand."""
    tied, *own = (fit.mixture for fit in fits)
    densities = _log_densities([_per_class(tied, task), *own], valid.values, valid.mask)
    return fit_inverse_temperature(densities, log_shares, task, valid)


def _log_densities(mixtures: list[GaussianMixture], values: Floats, mask: NDArray) -> Floats:
    """Tied and own log densities, (2, n, n_classes)."""
    tied, *own = mixtures
    return np.stack(
        [
            tied.log_joint(values, mask) - np.log(tied.weights),
            np.stack([mixture.log_likelihood(values, mask) for mixture in own], axis=1),
        ]
    )


def _per_class(joint: GaussianMixture, task: Classification) -> GaussianMixture:
    """A component per class from one Gaussian over features and the indicators of all classes but the first.

    Given the indicators the mean of x is linear in them, that is free for each class, and its covariance the
    same for all.
    """
    n_classes = task.d_output
    d = joint.means.shape[1] - (n_classes - 1)
    (mean,), (covariance,) = joint.means, joint.covariances
    gain = np.linalg.solve(covariance[d:, d:], covariance[d:, :d])
    indicators = np.eye(n_classes)[:, 1:]
    within = covariance[:d, :d] - covariance[:d, d:] @ gain
    return GaussianMixture(
        np.full(n_classes, 1 / n_classes),
        mean[:d] + (indicators - mean[d:]) @ gain,
        np.repeat((within + within.T)[None] / 2, n_classes, axis=0),
    )


def _of_class(data: MaskedData, code: int) -> Rows:
    """The features of one class's rows."""
    rows = np.flatnonzero((data.target == code) & (data.weight > 0))
    return Rows(data.values[rows], data.mask[rows], data.weight[rows])


def _joint_rows(data: MaskedData, task: Classification | None = None) -> Rows:
    """Features and targets side by side, targets always observed: numbers, or indicators of classes."""
    target = data.target if task is None else np.eye(task.d_output)[data.target][:, 1:]
    observed = np.ones(target.shape, dtype=bool)
    return Rows(np.hstack([data.values, target]), np.hstack([data.mask, observed]), data.weight)
