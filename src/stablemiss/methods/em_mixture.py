"""EM mixture: a Gaussian mixture on the observed cells of (x, y), asked for E[y | x_o].

For each component k the observed cells of (x, y) are Gaussian; with o the observed columns,

    E[y | x_o] = Σ_k ρ_k(x_o) · (μ_k,y + Σ_k,yo Σ_k,oo⁻¹ (x_o − μ_k,o)),   ρ_k ∝ π_k N(x_o; μ_k,o, Σ_k,oo).

For classes the densities p(x_o | class) come in two ways: `tied`, one covariance for all classes around each
class's mean, and `own`, a mixture for each class. Bayes' rule is applied to a · log tied + b · log own with
a and b chosen on the validation rows: columns are not quite Gaussian, errors of log densities add up over
columns, and taken at face value the probabilities would be far too sure of themselves.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from stablemiss.data import Floats, MaskedData
from stablemiss.methods.base import Method, Predictor
from stablemiss.mixture import GaussianMixture, MixtureFit, Rows
from stablemiss.progress import Silence
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
    trust : (2,) float64
        What the log densities of the tied and of the own mixtures are multiplied by.
    """

    def __init__(self, mixtures: list[GaussianMixture], log_shares: Floats | None, trust: Floats):
        self.mixtures = mixtures
        self.log_shares = log_shares
        self.trust = trust

    def outputs(self, values: Floats, mask: NDArray) -> Floats:
        if self.log_shares is not None:
            return (
                np.tensordot(self.trust, _log_densities(self.mixtures, values, mask), axes=1)
                + self.log_shares
            )
        (joint,) = self.mixtures
        n, d = values.shape
        targets = np.arange(d, joint.means.shape[1])
        blank = np.zeros((n, len(targets)))
        return joint.conditional_mean(np.hstack([values, blank]), np.hstack([mask, blank > 0]), targets)

    def state(self) -> dict[str, Any]:
        mixtures = [
            {"weights": m.weights, "means": m.means, "covariances": m.covariances} for m in self.mixtures
        ]
        return {"mixtures": mixtures, "log_shares": self.log_shares, "trust": self.trust}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        mixtures = [GaussianMixture(**mixture) for mixture in state["mixtures"]]
        return cls(mixtures, state["log_shares"], state["trust"])


class EMMixture(Method):
    """Gaussian mixture on observed cells by EM; the same whatever law hid the others (under MCAR and MAR).

    Parameters
    ----------
    n_components : int or "auto"
        Number of Gaussians, for classes in each class's own mixture. More follow bends and clusters that one
        Gaussian cannot, and need more rows; "auto" grows until the likelihood of the validation rows falls.
    max_components : int
        Where "auto" stops growing. Higher costs time on data far from Gaussian.
    ridge : float or "auto"
        Rows of unit variance added to each component's covariance. More steadies components with few rows
        and blurs the finest directions; "auto" takes the best of 0.1, 1, 10, 100 on the validation rows.
    tolerance : float
        EM stops when a step gains less log-likelihood per row. Smaller is slower and more exact; where much
        is missing EM is slow, and 2e-3 already stops far from the optimum.
    max_steps : int
        Most passes over the rows in one fit.

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

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        max_components: int = 8,
        ridge: float | Literal["auto"] = "auto",
        tolerance: float = 3e-4,
        max_steps: int = 150,
    ):
        self.n_components = n_components
        self.max_components = max_components
        self.ridge = ridge
        self.tolerance = tolerance
        self.max_steps = max_steps

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Silence
    ) -> EMMixturePredictor:
        if not isinstance(task, Classification):
            fit = self._fit(
                _joint_rows(train), _joint_rows(valid), task.d_output, self.n_components, rng, progress
            )
            return EMMixturePredictor([fit.refresh()], None, np.ones(2))
        tied = self._fit(
            _joint_rows(train, task), _joint_rows(valid, task), task.d_output - 1, 1, rng, progress
        )
        classes = [(_of_class(train, code), _of_class(valid, code)) for code in range(task.d_output)]
        own = [self._fit(*rows, 0, self.n_components, rng, progress) for rows in classes]
        weights = np.array([float(ours.weight.sum() + held.weight.sum()) for ours, held in classes])
        log_shares = np.log(np.maximum(weights, 1e-12) / weights.sum())
        # Judged by the validation rows before the mixtures have learnt from them.
        judged = [_per_class(tied.mixture, task), *(fit.mixture for fit in own)]
        trust = learn_trust(_log_densities(judged, valid.values, valid.mask), log_shares, task, valid)
        refreshed = [_per_class(tied.refresh(), task), *(fit.refresh() for fit in own)]
        return EMMixturePredictor(refreshed, log_shares, trust)

    def _fit(
        self,
        train: Rows,
        valid: Rows,
        n_targets: int,
        n_components: int | Literal["auto"],
        rng: Rng,
        progress: Silence,
    ) -> MixtureFit:
        fit = MixtureFit(train, valid, n_targets, self.tolerance, self.max_steps, rng, progress)
        fit.fit(
            n_components=None if n_components == "auto" else n_components,
            max_components=self.max_components,
            ridge=None if self.ridge == "auto" else self.ridge,
        )
        return fit


def learn_trust(log_densities: Floats, log_shares: Floats, task: Classification, valid: MaskedData) -> Floats:
    """How far to believe the tied and the own densities, (2,), so that validation rows are predicted best.

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
        return np.full(2, 0.5)

    def loss(trust: Floats) -> float:
        outputs = np.tensordot(trust, log_densities, axes=1) + log_shares
        misfit = task.loss(outputs, valid.target, valid.weight) * valid.weight.sum()
        return misfit + 2 * float(((trust - 0.5) ** 2).sum())

    return minimize(loss, np.full(2, 0.1), method="L-BFGS-B", bounds=[(0.0, 3.0)] * 2).x


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
