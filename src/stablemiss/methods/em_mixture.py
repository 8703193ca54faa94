"""EM mixture: a Gaussian mixture on the observed cells of (x, y), asked for E[y | x_o].

For each component k the observed cells of (x, y) are Gaussian; with o the observed columns,

    E[y | x_o] = Σ_k ρ_k(x_o) · (μ_k,y + Σ_k,yo Σ_k,oo⁻¹ (x_o − μ_k,o)),   ρ_k ∝ π_k N(x_o; μ_k,o, Σ_k,oo).

Classification fits one mixture to the rows of each class and applies Bayes' rule.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats, MaskedData
from stablemiss.methods.base import Method, Predictor
from stablemiss.mixture import GaussianMixture, MixtureFit, Rows
from stablemiss.progress import Silence
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task


class EMMixturePredictor(Predictor):
    """Conditional expectation under one joint mixture (regression) or Bayes' rule over several (classes)."""

    def __init__(self, mixtures: list[GaussianMixture], log_shares: Floats | None):
        self.mixtures = mixtures
        self.log_shares = log_shares

    def outputs(self, values: Floats, mask: NDArray) -> Floats:
        if self.log_shares is not None:
            densities = [mixture.log_likelihood(values, mask) for mixture in self.mixtures]
            return np.stack(densities, axis=1) + self.log_shares
        (joint,) = self.mixtures
        n, d = values.shape
        targets = np.arange(d, joint.means.shape[1])
        blank = np.zeros((n, len(targets)))
        return joint.conditional_mean(np.hstack([values, blank]), np.hstack([mask, blank > 0]), targets)

    def state(self) -> dict[str, Any]:
        mixtures = [
            {"weights": m.weights, "means": m.means, "covariances": m.covariances} for m in self.mixtures
        ]
        return {"mixtures": mixtures, "log_shares": self.log_shares}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls([GaussianMixture(**mixture) for mixture in state["mixtures"]], state["log_shares"])


class EMMixture(Method):
    """Gaussian mixture on observed cells by EM; the same whatever law hid the others (under MCAR and MAR).

    Parameters
    ----------
    n_components : int or "auto"
        Number of Gaussians, for each class in classification. More follow bends and clusters that one
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
            joint = self._mixture(_with_target(train), _with_target(valid), task.d_output, rng, progress)
            return EMMixturePredictor([joint], None)
        mixtures, shares = [], []
        for code in range(task.d_output):
            ours, held_out = _of_class(train, code), _of_class(valid, code)
            mixtures.append(self._mixture(ours, held_out, 0, rng, progress))
            shares.append(float(ours.weight.sum() + held_out.weight.sum()))
        return EMMixturePredictor(mixtures, np.log(np.maximum(shares, 1e-12) / np.sum(shares)))

    def _mixture(
        self, train: Rows, valid: Rows, n_targets: int, rng: Rng, progress: Silence
    ) -> GaussianMixture:
        fit = MixtureFit(train, valid, n_targets, self.tolerance, self.max_steps, rng, progress)
        return fit.fit(
            n_components=None if self.n_components == "auto" else self.n_components,
            max_components=self.max_components,
            ridge=None if self.ridge == "auto" else self.ridge,
        )


def _of_class(data: MaskedData, code: int) -> Rows:
    """The features of one class's rows."""
    rows = np.flatnonzero((data.target == code) & (data.weight > 0))
    return Rows(data.values[rows], data.mask[rows], data.weight[rows])


def _with_target(data: MaskedData) -> Rows:
    """Features and target side by side; the target is always observed."""
    observed = np.ones(data.target.shape, dtype=bool)
    return Rows(np.hstack([data.values, data.target]), np.hstack([data.mask, observed]), data.weight)
