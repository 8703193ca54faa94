"""Model cards: what a fitted model is, what it was fitted to, and where its limits are."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from stablemiss.anymask import AnyMaskPredictor
from stablemiss.anymask.plan import MIXTURE
from stablemiss.data import Bools, Floats
from stablemiss.encoding import TableEncoder
from stablemiss.estimators.frames import make_frame
from stablemiss.methods.em_mixture import EMMixturePredictor
from stablemiss.mixture import GaussianMixture
from stablemiss.pages import PageResult, make_environment, to_plain
from stablemiss.tasks import Classification, Regression
from stablemiss.text import count, quoted, show_number

if TYPE_CHECKING:
    from stablemiss.estimators.base import MissingEstimator

# Shares of missing columns for which errors are expected, and the number of rows drawn for each.
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
N_ROWS = 400
PACKAGES = ("stablemiss", "numpy", "scikit-learn", "scipy", "torch", "lightgbm")
LIMITS = (
    "Errors are expected or measured on rows like those of the training table. If the relation between "
    "columns and "
    "target changes, they are too small, whatever is missing.",
    "If a value goes missing because of the value itself or of the target (MNAR), no model that knows "
    "only the "
    "observed values can correct for it; predictions may then be biased.",
    "Numbers far outside the range of the training rows and unknown categories cause warnings, and are "
    "clipped or "
    "count as missing.",
)


@dataclass(frozen=True)
class ExpectedError:
    """Expected error of a model at one share of missing columns.

    Attributes
    ----------
    share_missing : float
    error, low, high : float
        RMSE or Brier score, and a 90% interval of it.
    """

    share_missing: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class MeasuredError:
    """Error of the model in a stress test.

    Attributes
    ----------
    mechanism : str
    share_missing, error, relative_increase : float
        Share of missing values; the error; its increase relative to the table as given.
    """

    mechanism: str
    share_missing: float
    error: float
    relative_increase: float


@dataclass(frozen=True)
class CardColumn:
    """A column of the training table: its name, how it was read, its categories and its missing values.

    Attributes
    ----------
    name, kind : str
    n_levels : int or None
    n_missing : int
    remarks : str
    """

    name: str
    kind: str
    n_levels: int | None
    n_missing: int
    remarks: str


@dataclass(frozen=True, eq=False)
class ModelCard(PageResult):
    """What `model_card` returns: `print` it as Markdown, or `save_html`.

    Attributes
    ----------
    title : str
    model, scores, versions : dict
        Name → text: of the model, of its errors on validation rows, and of packages.
    columns : list of CardColumn
        The training table.
    masks : list of str
        Sentences on the missing values in training.
    metric : str
        The error of `expected`: "RMSE" or "Brier score".
    expected : list of ExpectedError
        Empty unless the method is AnyMask with its mixture.
    measured : list of MeasuredError
        From a stress test; empty without one.
    measured_metric : str
    limits : list of str
        Sentences.
    """

    title: str
    model: dict[str, str]
    columns: list[CardColumn]
    masks: list[str]
    scores: dict[str, str]
    metric: str
    expected: list[ExpectedError]
    measured: list[MeasuredError]
    measured_metric: str
    limits: list[str]
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {name: to_plain(value) for name, value in vars(self).items()}

    def to_frame(self) -> Any:
        """Expected errors by share of missing columns, or those measured by a stress test."""
        rows: list[Any] = list(self.expected or self.measured)
        names = list(vars(rows[0])) if rows else ["share_missing", "error"]
        columns = {
            name: np.array(
                [getattr(row, name) for row in rows], dtype=object if name == "mechanism" else float
            )
            for name in names
        }
        return make_frame(columns, {"mechanism": nw.String} if "mechanism" in columns else {}, like=[])

    def to_html(self) -> str:
        environment = make_environment("stablemiss.estimators")
        environment.filters.update(number=show_number, percent="{:.0%}".format)
        return environment.get_template("model_card.html.j2").render(card=self)

    def to_markdown(self) -> str:
        """The card as Markdown."""
        lines = [f"# {_cell(self.title)}", "", "## Model", "", *_table(("", ""), self.model.items())]
        lines += ["", "## Data", ""]
        rows = [
            (c.name, c.kind, "" if c.n_levels is None else c.n_levels, c.n_missing, c.remarks)
            for c in self.columns
        ]
        lines += _table(("column", "kind", "categories", "missing", "remarks"), rows)
        lines += ["", "## Masks seen in training", "", *(f"- {_cell(line)}" for line in self.masks)]
        lines += ["", "## Errors", "", *_table(("on validation rows", ""), self.scores.items())]
        if self.expected:
            lines += [
                "",
                f"Expected {self.metric} if columns are missing at random, with a 90% interval:",
                "",
            ]
            errors = [
                (
                    f"{e.share_missing:.0%}",
                    show_number(e.error),
                    f"{show_number(e.low)} to {show_number(e.high)}",
                )
                for e in self.expected
            ]
            lines += _table(("missing", "error", "interval"), errors)
        lines += ["", "## Mechanisms tried", ""]
        if self.measured:
            measured = [
                (m.mechanism, f"{m.share_missing:.0%}", show_number(m.error), f"{m.relative_increase:+.0%}")
                for m in self.measured
            ]
            lines += _table(("mechanism", "missing", self.measured_metric, "increase"), measured)
        else:
            lines.append("None: no stress test was passed to `model_card`.")
        lines += ["", "## Limits", "", *(f"- {_cell(line)}" for line in self.limits)]
        lines += ["", "## Versions", "", *_table(("package", "version"), self.versions.items())]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.to_markdown()


def make_card(estimator: MissingEstimator, stress: Any = None) -> ModelCard:
    """The card of a fitted estimator.

    Parameters
    ----------
    estimator : MissingEstimator
    stress : StressResult, default=None
        A stress test of this estimator alone.
    """
    if stress is not None and len(stress.models) != 1:
        raise ValueError(
            f"stress must be a stress test of this model alone, but it has {len(stress.models)} models: "
            f"{quoted(stress.models)}."
        )
    name, task = type(estimator).__name__, estimator.task_
    target = estimator.target_name_ or "the target"
    parameters = {
        key: value
        for key, value in estimator.get_params(deep=False).items()
        if value != type(estimator)().get_params(deep=False).get(key)
    }
    rows = getattr(estimator, "training_rows_", None)
    model = {
        "estimator": name,
        "method": estimator.method_.name,
        "target": target,
        "task": f"{len(task.classes)} classes: {quoted([str(c) for c in task.classes])}"
        if isinstance(task, Classification)
        else f"regression, {count(task.d_output, 'output')}",
        "parameters": ", ".join(f"{key}={value!r}" for key, value in parameters.items()) or "defaults",
    }
    if rows is not None:
        model["rows"] = f"{rows.is_train.sum():,} for training, {rows.is_valid.sum():,} for validation"
    metric, expected = "", []
    if isinstance(estimator.predictor_, AnyMaskPredictor):
        metric = "Brier score" if isinstance(task, Classification) else "RMSE"
        expected = expected_by_share(estimator)
    scores = estimator.validation_scores_ or {}
    return ModelCard(
        title=f"{name} for {target}",
        model=model,
        columns=[
            CardColumn(c.name, c.kind, c.n_levels, c.n_missing, ", ".join(c.remarks))
            for c in estimator.column_report_
        ],
        masks=_mask_sentences(estimator),
        scores={key.replace("_", " "): show_number(score) for key, score in scores.items()}
        or {"none": "the method also trains on the validation rows"},
        metric=metric,
        expected=expected,
        measured=[]
        if stress is None
        else [
            MeasuredError(s.mechanism, s.missing_share, s.error, s.relative_increase) for s in stress.scores
        ],
        measured_metric="" if stress is None else stress.metric,
        limits=_limits(estimator),
        versions={"Python": platform.python_version()} | {package: _version(package) for package in PACKAGES},
    )


def expected_by_share(estimator: MissingEstimator) -> list[ExpectedError]:
    """Expected errors of AnyMask if columns are missing at random, on rows drawn from its mixture.

    Needs no data, so that it works for a model loaded from a file. Empty without a mixture.
    """
    predictor, task, groups = estimator.predictor_, estimator.task_, estimator.encoder_.groups
    assert isinstance(predictor, AnyMaskPredictor)
    mixture = predictor.members.get(MIXTURE)
    if predictor.error_model is None or not isinstance(mixture, EMMixturePredictor):
        return []
    rng = np.random.default_rng(0)
    values = _draw(mixture.joint(), len(groups), rng)
    chance = rng.random((N_ROWS, estimator.encoder_.n_features))[:, groups]
    unit, weight = 1.0, np.ones(task.d_output)
    if isinstance(task, Regression):
        # In units of the largest scale, so that squares do not overflow.
        unit = float(task.scale.max())
        weight = (task.scale / unit) ** 2 / task.d_output
    errors = []
    for share in SHARES:
        mask: Bools = chance >= share
        squared = predictor.expected_error(values, mask, groups, weight).error
        means = [e.sum(axis=1).mean() for e in (squared, *predictor.error_model.interval(squared))]
        error, low, high = (
            unit * float(np.sqrt(mean)) if isinstance(task, Regression) else float(mean) for mean in means
        )
        errors.append(ExpectedError(share, error, low, high))
    return errors


def _draw(mixture: GaussianMixture, d: int, rng: np.random.Generator) -> Floats:
    """Rows (N_ROWS, d) of the features of a mixture."""
    component = rng.choice(mixture.n_components, N_ROWS, p=mixture.weights / mixture.weights.sum())
    factors = np.linalg.cholesky(mixture.covariances[:, :d, :d])
    noise = rng.normal(size=(N_ROWS, d))
    return mixture.means[component, :d] + np.einsum("nij,nj->ni", factors[component], noise)


def _mask_sentences(estimator: MissingEstimator) -> list[str]:
    encoder = estimator.encoder_
    if not isinstance(encoder, TableEncoder):
        return ["Rows are arrays; masks of their cells are not summarised."]
    names = [encoder.column_name(j) for j in range(encoder.n_features)]
    missing = [name for name, is_missing in zip(names, encoder.ever_missing, strict=True) if is_missing]
    complete = [name for name, is_missing in zip(names, encoder.ever_missing, strict=True) if not is_missing]
    sentences = [
        f"Sometimes missing in the training table: {quoted(missing, 20) if missing else 'no column'}."
    ]
    sentences.append(f"Never missing in it: {quoted(complete, 20) if complete else 'no column'}.")
    method = estimator.method_
    if method.hides_values:
        kept = getattr(method, "never_missing", None)
        kept_names = "" if kept is None else f", except in {quoted([names[j] for j in kept], 20)}"
        chosen = getattr(method, "may_vanish", None)
        if chosen is not None:
            kept_names = f", only in {quoted([names[j] for j in chosen], 20)}"
        sentences.append(
            f"In training, further values were hidden at random (mask augmentation){kept_names}."
        )
    else:
        sentences.append(
            "No further values were hidden in training: other masks than these are new to the model."
        )
    if getattr(estimator, "is_adapted_", False):
        sentences.append(
            "The model was adapted to the masks of new rows; its errors and intervals refer to them."
        )
    return sentences


def _limits(estimator: MissingEstimator) -> list[str]:
    limits = list(LIMITS)
    if isinstance(estimator.predictor_, AnyMaskPredictor):
        what = "prediction sets" if isinstance(estimator.task_, Classification) else "intervals"
        limits.append(
            f"The coverage of {what} holds on average over masks as in training and calibration, not "
            "for every "
            "single mask."
        )
        limits.append(
            "Expected errors assume that columns are missing at random; a stress test measures other cases."
        )
    n_rows = (estimator.validation_scores_ or {}).get("n_rows")
    if n_rows is not None and n_rows < 100:
        limits.append(f"Only {count(int(n_rows), 'row')} were held out, so all errors here are uncertain.")
    return limits


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _table(header: Any, rows: Any) -> list[str]:
    lines = [[_cell(entry) for entry in row] for row in rows]
    return [
        f"| {' | '.join(cells)} |" for cells in ([_cell(h) for h in header], ["---"] * len(header), *lines)
    ]


def _cell(entry: Any) -> str:
    """Text that cannot break a table or become a tag."""
    text = " ".join(str(entry).split())
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
