"""EM mixture: a Gaussian mixture fitted to the observed values of (x, y), which predicts E[y | x_o].

In each component k the observed values of (x, y) are Gaussian; with o the observed columns,

    E[y | x_o] = Σ_k ρ_k(x_o) · (μ_k,y + Σ_k,yo Σ_k,oo⁻¹ (x_o − μ_k,o)),   ρ_k ∝ π_k N(x_o; μ_k,o, Σ_k,oo).

For classification there are two models of the densities p(x_o | class): `tied`, with a mean for each class
and one covariance for all classes, and `separate`, with one mixture for each class. Bayes' rule is applied to
a · log tied + b · log separate. The inverse temperatures a and b are chosen on the validation rows. With
a = b = 1 the probabilities would be far too confident, because columns are not exactly Gaussian and the
errors of the log densities add up over columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from scipy.optimize import minimize

from stablemiss.base.method import Method, Predictor
from stablemiss.base.row_stream import RowStream
from stablemiss.base.search_space import Choice, Space
from stablemiss.checks import check_bool, check_integer, check_number
from stablemiss.data import Bools, Floats, MaskedData, zero_where_missing
from stablemiss.mixture import (
    RIDGES,
    ClassDensities,
    ConditionalVariance,
    EMRows,
    GaussianMixture,
    MixtureFit,
    numbers_of_components,
)
from stablemiss.mixture.em import Parameters, SufficientStatistics, expect
from stablemiss.mixture.workers import ThreadWorkers
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.stored import check_stored, stored_array, stored_list
from stablemiss.tasks import Classification, Task

# One EM step on all rows of a stream, in addition to those on a sample, for this many of `max_steps`. The
# sample already gives a converged mixture, so that few steps remain; each reads all rows.
STEPS_PER_PASS = 20


# Expected values are rounded to this many decimals of a standard deviation. They are computed in blocks of
# rows whose rounding errors differ; without it, trees could split between values that differ only by these.
DECIMALS = 6


class CompletedRows(NamedTuple):
    """Rows as the mixture completes them.

    Attributes
    ----------
    outputs : (n, d_output)
        The mixture's predictions.
    values : (n, d)
        Observed values as they are, and E[x | observed values] for missing ones, in encoded units.
    """

    outputs: Floats
    values: Floats


class EMMixturePredictor(Predictor):
    """Conditional expectation under a joint mixture, or Bayes' rule over class densities.

    Attributes
    ----------
    mixtures : list of GaussianMixture
        For regression, a single mixture over features and targets. For classification, the tied mixture with
        one component per class, followed by the separate mixture of each class.
    log_shares : (n_classes,) float64 or None
        Logarithms of the class frequencies; None for regression.
    inverse_temperature : (2,) float64
        Factors of the log densities of the tied and of the separate mixtures.
    """

    def __init__(
        self, mixtures: list[GaussianMixture], log_shares: Floats | None, inverse_temperature: Floats
    ):
        self.mixtures = mixtures
        self.log_shares = log_shares
        self.inverse_temperature = inverse_temperature
        self._variance: ConditionalVariance | None = None  # computed when it is first needed

    def _predict(self, values: Floats, mask: Bools) -> Floats:
        if self.log_shares is not None:
            log_densities = self._class_densities.log_densities(values, mask)
            return np.tensordot(self.inverse_temperature, log_densities, axes=1) + self.log_shares
        (joint,) = self.mixtures
        n, d = values.shape
        targets = np.arange(d, joint.means.shape[1])
        blank = np.zeros((n, len(targets)))
        return joint.conditional_mean(np.hstack([values, blank]), np.hstack([mask, blank > 0]), targets)

    def complete(self, values: Floats, mask: Bools) -> CompletedRows:
        """The outputs of `predict`, and the rows with the expectation of what is missing.

        Parameters
        ----------
        values, mask : (n, d)
            As in `predict`.
        """
        mask = mask.astype(bool)
        values = zero_where_missing(values, mask)
        d = values.shape[1]
        if self.log_shares is None:
            (joint,) = self.mixtures
            blank = np.zeros((len(values), joint.means.shape[1] - d))
            expected = joint.conditional_mean(np.hstack([values, blank]), np.hstack([mask, blank > 0]))
            outputs = expected[:, d:]
        else:
            outputs, expected = self._predict(values, mask), self.tied.conditional_mean(values, mask)
        return CompletedRows(outputs, np.where(mask, values, expected[:, :d].round(DECIMALS)))

    @cached_property
    def _class_densities(self) -> ClassDensities:
        return ClassDensities(self.mixtures)

    @cached_property
    def tied(self) -> GaussianMixture:
        """The tied mixture of classes, with their frequencies as weights."""
        assert self.log_shares is not None
        return replace(self.mixtures[0], weights=np.exp(self.log_shares))

    def standard_deviation(self, values: Floats, mask: Bools) -> Floats:
        """Standard deviation (n, d_output) of encoded numeric targets, given the observed values."""
        if self._variance is None:
            (joint,) = self.mixtures
            self._variance = ConditionalVariance(joint, values.shape[1])
        return np.sqrt(self._variance.of(values, mask))

    def expected_error(self, values: Floats, mask: Bools) -> Floats:
        """Expected squared errors (n, d_output) of the mixture's own predictions, or Brier scores (n, 1).

        Parameters
        ----------
        values, mask : (n, d)
            As in `predict`.
        """
        if self.log_shares is None:
            return self.standard_deviation(values, mask) ** 2
        joint, d = self.joint(), values.shape[1]
        features = GaussianMixture(joint.weights, joint.means[:, :d], joint.covariances[:, :d, :d])
        # Σ p (1 − p) over the classes, of which each has one component.
        return 1 - (features.responsibilities(values, mask) ** 2).sum(axis=1, keepdims=True)

    def joint(self) -> GaussianMixture:
        """A mixture over features and targets (for classes: indicators of all classes except the first)."""
        if self.log_shares is None:
            return self.mixtures[0]
        tied = self.mixtures[0]
        n_classes, d = tied.means.shape
        indicators = np.eye(n_classes)[:, 1:]
        # An inverse temperature below one is equivalent to a larger covariance.
        widened = tied.covariances / np.clip(self.inverse_temperature.sum(), 1e-2, 1.0)
        covariances = np.zeros((n_classes, d + n_classes - 1, d + n_classes - 1))
        covariances[:, :d, :d] = widened
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
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        is_classes = isinstance(task, Classification)
        n_mixtures, width = (1 + task.d_output, n_columns) if is_classes else (1, n_columns + task.d_output)
        mixtures = [
            _stored_mixture(mixture, width) for mixture in stored_list(state, "mixtures", dict, n_mixtures)
        ]
        if not is_classes:
            check_stored(state["log_shares"] is None, "log_shares is only for classes")
            log_shares = None
        else:
            check_stored(
                mixtures[0].n_components == task.d_output, "the tied mixture has one component per class"
            )
            log_shares = stored_array(state, "log_shares", (task.d_output,), highest=1e-9)
        return cls(mixtures, log_shares, stored_array(state, "inverse_temperature", (2,), lowest=0.0))


class EMMixture(Method):
    """Gaussian mixture fitted by EM to observed values; independent of the mechanism under MCAR and MAR.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of Gaussians; for classification, in the separate mixture of each class. More components fit
        non-linear relations and clusters and need more rows; there are at most as many as training rows, and
        in a class at most one for as many rows as there are columns.
        For regression, "auto" adds components until two consecutive sizes do not clearly improve the
        likelihood of the validation rows; for classification, as long as the validation loss decreases.
    max_components : int, default=8
        Maximum number of components for "auto", which tries 1, 2, 3, 5, 8 and so on, and the maximum. Raising
        it costs time on data far from Gaussian.
    ridge : float or "auto", default="auto"
        Regularisation: number of pseudo-rows of unit variance added to the covariance of each component. A
        larger value stabilises components with few rows and blurs directions of small variance. For
        regression, "auto" starts at 0.1 and continues with 1, 10 and 100 as long as a single Gaussian
        predicts the validation rows clearly better; for classification, it takes the value with the lowest
        validation loss.
    tolerance : float, default=3e-4
        EM stops when a step improves the log-likelihood per row by less than this. A lower value is slower
        and more exact. With many missing values EM converges slowly, and 2e-3 stops far from the optimum.
    max_steps : int, default=150
        Maximum number of EM steps in one fit.
    refit_on_validation : bool, default=True
        Whether to include the validation rows in the last EM steps, after the number of components and the
        ridge have been chosen. False keeps them out, for callers that need rows on which the model was not
        trained.

    See Also
    --------
    stablemiss.anymask.AnyMask : Combines the mixture with boosting and a network.

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
    predictor_class: ClassVar[type[Predictor]] = EMMixturePredictor
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

    @property
    def trains_on_validation(self) -> bool:
        return self.refit_on_validation

    def fit(
        self,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
        stream: RowStream | None = None,
    ) -> EMMixturePredictor:
        """Fit to `train`; see `Method.fit`.

        Parameters
        ----------
        train, valid, task, rng, progress
            As in `Method.fit`.
        stream : RowStream, default=None
            All training rows, if `train` is a sample of them. The mixture is fitted to the sample, and then
            by EM steps whose sufficient statistics are added up over all rows.
        """
        self._check()
        try:
            return self._fit_task(train, valid, task, rng, progress, stream)
        except (torch.linalg.LinAlgError, np.linalg.LinAlgError) as error:
            raise ValueError(
                f"A covariance matrix is singular with ridge={self.ridge!r}, because some columns are almost "
                "copies of others. Remove such columns, or raise ridge, for instance to 1.0."
            ) from error

    def _fit_task(
        self,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
        stream: RowStream | None,
    ) -> EMMixturePredictor:
        if not isinstance(task, Classification):
            rows = _joint_rows(train), _joint_rows(valid)
            fit = self._fit(*rows, task.d_output, self.n_components, self.ridge, rng, progress)
            if stream is not None:
                self._update_on_stream([fit], stream, task, progress)
            return EMMixturePredictor([self._final(fit)], None, np.ones(2))
        target = np.concatenate([train.target, valid.target])
        weights = np.bincount(target, np.concatenate([train.weight, valid.weight]), task.d_output)
        log_shares = np.log(np.maximum(weights, 1e-12) / weights.sum())
        fits = self._select_classes(train, valid, task, log_shares, rng, progress)
        if stream is not None:
            self._update_on_stream(fits, stream, task, progress)
        # Before the validation rows are used for refitting.
        inverse_temperature, _ = _calibrate(fits, log_shares, task, valid)
        tied, *separate = (self._final(fit) for fit in fits)
        return EMMixturePredictor([_per_class(tied, task), *separate], log_shares, inverse_temperature)

    def _select_classes(
        self,
        train: MaskedData,
        valid: MaskedData,
        task: Classification,
        log_shares: Floats,
        rng: Rng,
        progress: Progress,
    ) -> list[MixtureFit]:
        """A tied Gaussian and separate mixtures, whose ridge and number of components have the lowest loss.

        Both are the same for all classes, except that small classes have fewer components, so that their
        densities are comparable. They are chosen by the validation loss, because components that improve the
        densities need not improve the classification: first the ridge, with one Gaussian per class if the
        number of components is "auto", and then components are added as long as the loss decreases.
        """
        best, best_loss = None, np.inf
        n_components = 1 if self.n_components == "auto" else self.n_components
        tied_rows = _joint_rows(train, task), _joint_rows(valid, task)
        for ridge in RIDGES if self.ridge == "auto" else (self.ridge,):
            # The tied Gaussian over features and class indicators, then a separate mixture for each class.
            tied = self._fit(*tied_rows, task.d_output - 1, 1, ridge, rng, progress)
            fits = [tied, *self._fit_separate(train, valid, task, n_components, ridge, rng, progress)]
            _, loss = _calibrate(fits, log_shares, task, valid)
            if best is None or loss < best_loss:
                best, best_tied, best_loss, best_ridge = fits, tied, loss, ridge
        assert best is not None
        # Without validation rows there is no loss to compare.
        max_components = self.max_components if self.n_components == "auto" and len(valid) else 1
        largest_class = int(np.bincount(train.target).max())
        max_components = min(max_components, largest_class // max(10, train.n_columns))
        for n_components in numbers_of_components(max_components):
            separate = self._fit_separate(train, valid, task, n_components, best_ridge, rng, progress)
            fits = [best_tied, *separate]
            _, loss = _calibrate(fits, log_shares, task, valid)
            if loss >= best_loss:
                break
            best, best_loss = fits, loss
        return best

    def _fit_separate(
        self,
        train: MaskedData,
        valid: MaskedData,
        task: Classification,
        n_components: int,
        ridge: float,
        rng: Rng,
        progress: Progress,
    ) -> list[MixtureFit]:
        """A mixture for each class."""
        fits = []
        for code in range(task.d_output):
            rows = _of_class(train, code), _of_class(valid, code)
            # A covariance cannot be estimated from fewer rows per component than columns.
            n_class = min(n_components, max(1, len(rows[0]) // max(10, train.n_columns)))
            fits.append(self._fit(*rows, 0, n_class, ridge, rng, progress))
        return fits

    def _fit(
        self,
        train: EMRows,
        valid: EMRows,
        n_targets: int,
        n_components: int | Literal["auto"],
        ridge: float | Literal["auto"],
        rng: Rng,
        progress: Progress,
    ) -> MixtureFit:
        fit = MixtureFit(train, valid, n_targets, self.tolerance, self.max_steps, rng, progress)
        fit.fit(
            n_components=None if n_components == "auto" else min(n_components, max(1, len(train))),
            max_components=self.max_components,
            ridge=None if ridge == "auto" else ridge,
        )
        return fit

    def _update_on_stream(
        self, fits: list[MixtureFit], stream: RowStream, task: Task, progress: Progress
    ) -> None:
        """EM steps on all rows, in one pass over them for each step; the fits are changed in place."""
        n_steps, previous = max(2, self.max_steps // STEPS_PER_PASS), -np.inf
        progress.start("Gaussian mixture, all rows", total=n_steps)
        for step in range(n_steps):
            function = partial(_statistics, task, [fit.parameters for fit in fits])
            totals: list[SufficientStatistics | None] = [None] * len(fits)
            for batch in stream.map(function):
                # In the order of the batches, so that the sums do not depend on the number of workers.
                totals = [
                    total if sums is None else sums if total is None else total.merged(sums)
                    for total, sums in zip(totals, batch, strict=True)
                ]
            present = [(fit, sums) for fit, sums in zip(fits, totals, strict=True) if sums is not None]
            for fit, sums in present:
                fit.update(sums)
            log_likelihood = sum(sums.log_likelihood for _, sums in present)
            progress.update(step + 1, f"log-likelihood {log_likelihood:.3f}")
            if log_likelihood - previous < self.tolerance:
                break
            previous = log_likelihood
        progress.finish()

    def _final(self, fit: MixtureFit) -> GaussianMixture:
        return fit.update_on_all_rows() if self.refit_on_validation else fit.mixture

    def _check(self) -> None:
        check_integer(self, max_components=1, max_steps=1)
        check_integer(self, n_components=1, unless="auto")
        check_number(self, ridge="(0, inf)", unless="auto")
        check_number(self, tolerance="(0, inf)")
        check_bool(self, "refit_on_validation")


def fit_inverse_temperature(
    log_densities: Floats, log_shares: Floats, task: Classification, valid: MaskedData
) -> tuple[Floats, float]:
    """Inverse temperatures of the tied and the separate densities, (2,), and the penalised loss.

    Parameters
    ----------
    log_densities : (2, n, n_classes)
        Tied and separate log densities of the validation rows.
    log_shares : (n_classes,)
        Logarithms of the class frequencies.
    task : Classification
    valid : MaskedData
        Validation rows.

    Notes
    -----
    A normal prior with mean and standard deviation one half regularises the fit; it dominates if there are
    few rows.
    """
    if not len(valid):
        return np.full(2, 0.5), 0.0

    def loss(inverse_temperature: Floats) -> float:
        outputs = np.tensordot(inverse_temperature, log_densities, axes=1) + log_shares
        misfit = task.loss(outputs, valid.target, valid.weight) * valid.weight.sum()
        return misfit + 2 * float(((inverse_temperature - 0.5) ** 2).sum())

    result = minimize(loss, np.full(2, 0.1), method="L-BFGS-B", bounds=[(0.0, 3.0)] * 2)
    return result.x, float(result.fun)


def _calibrate(
    fits: list[MixtureFit], log_shares: Floats, task: Classification, valid: MaskedData
) -> tuple[Floats, float]:
    """`fit_inverse_temperature` for the current mixtures of the fits."""
    tied, *separate = (fit.mixture for fit in fits)
    mixtures = [_per_class(tied, task), *separate]
    densities = ClassDensities(mixtures).log_densities(valid.values, valid.mask)
    return fit_inverse_temperature(densities, log_shares, task, valid)


def _statistics(
    task: Task, parameters: list[Parameters], data: MaskedData, number: int
) -> list[SufficientStatistics | None]:
    """Sufficient statistics of a batch of rows for each mixture; None for classes that do not occur in it."""
    if isinstance(task, Classification):
        rows = [_joint_rows(data, task), *(_of_class(data, code) for code in range(task.d_output))]
    else:
        rows = [_joint_rows(data)]
    with ThreadWorkers() as workers:
        return [
            expect(some_rows, own, workers) if len(some_rows) else None
            for some_rows, own in zip(rows, parameters, strict=True)
        ]


def _stored_mixture(state: dict[str, Any], width: int) -> GaussianMixture:
    """A mixture over `width` columns from a model file."""
    weights = stored_array(state, "weights", (None,), lowest=0.0, highest=1.0 + 1e-9)
    # Columns are standardised, so larger numbers cannot occur; their squares would not be finite.
    means, covariances = (
        stored_array(state, name, (len(weights), *shape), lowest=-1e20, highest=1e20)
        for name, shape in (("means", (width,)), ("covariances", (width, width)))
    )
    check_stored(weights.any(), "the weights of a mixture must not be all zero")
    # Raises LinAlgError unless all are positive definite.
    np.linalg.cholesky(covariances)
    return GaussianMixture(weights, means, covariances)


def _per_class(joint: GaussianMixture, task: Classification) -> GaussianMixture:
    """A mixture with one component per class, from a Gaussian over features and class indicators.

    The indicators are those of all classes except the first. Given the indicators, the mean of x is linear in
    them, so each class can have any mean, and the covariance of x is the same for all classes.
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


def _of_class(data: MaskedData, code: int) -> EMRows:
    """The features of the rows of one class."""
    rows = np.flatnonzero((data.target == code) & (data.weight > 0))
    return EMRows(data.values[rows], data.mask[rows], data.weight[rows])


def _joint_rows(data: MaskedData, task: Classification | None = None) -> EMRows:
    """Features followed by observed targets: numbers, or indicators of all classes except the first."""
    target = data.target if task is None else np.eye(task.d_output)[data.target][:, 1:]
    observed = np.ones(target.shape, dtype=bool)
    return EMRows(np.hstack([data.values, target]), np.hstack([data.mask, observed]), data.weight)
