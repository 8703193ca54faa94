"""The models of a stress test: fitted ones as they are, others cross-fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from stablemiss.base.boosted_trees import MIN_CELLS_FOR_THREADS
from stablemiss.checks import shown
from stablemiss.data import Floats
from stablemiss.encoding import SuspiciousDataWarning, take_rows
from stablemiss.estimators import OutOfRangeWarning
from stablemiss.evaluation.stress.rows import TestRows
from stablemiss.evaluation.stress.settings import Setting
from stablemiss.missingness import MCARIndependent
from stablemiss.row_losses import Metric
from stablemiss.seeding import Rng, draw_seed

N_FOLDS = 5
# Rows on which every model is tried first.
N_TRIAL_ROWS = 100
# Fewer rows are predicted by one thread.
MIN_ROWS_FOR_THREADS = 20_000
CANNOT_PREDICT_MISSING = "it cannot predict rows with missing values"


@dataclass(frozen=True, eq=False)
class StressedModel:
    """A model that predicts the test rows: one estimator, or one for each fold.

    Attributes
    ----------
    name : str
    estimators : tuple of estimators
        Fitted.
    fold : (n,) int
        Position of the estimator that predicts each test row.
    """

    name: str
    estimators: tuple[Any, ...]
    fold: NDArray[np.int64]

    @property
    def is_cross_fitted(self) -> bool:
        return len(self.estimators) > 1

    def at_rows(self, index: NDArray) -> StressedModel:
        """The same model for a selection of the test rows."""
        return replace(self, fold=self.fold[index])

    def row_losses(self, X: Any, y: NDArray, metric: Metric) -> Floats:
        """Losses (n,) of the test rows, X, with whatever is missing in them."""
        if not self.is_cross_fitted:
            return metric.row_losses(self.estimators[0], X, y)
        losses = np.empty(len(y))
        for fold, estimator in enumerate(self.estimators):
            index = np.flatnonzero(self.fold == fold)
            if len(index):
                losses[index] = metric.row_losses(estimator, take_rows(X, index), y[index])
        return losses


def name_models(models: Any) -> dict[str, Any]:
    """Models by name: those of the mapping, or the class names of estimators.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> list(name_models([DummyRegressor(), DummyRegressor()]))
    ['DummyRegressor', 'DummyRegressor 2']
    """
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    else:
        named = {}
        for model in models if isinstance(models, list | tuple) else [models]:
            # The class of a pipeline says nothing about the model at its end.
            steps = getattr(model, "steps", None)
            kind = type(steps[-1][1] if steps else model).__name__
            n_before = sum(name == kind or name.startswith(f"{kind} ") for name in named)
            named[f"{kind} {n_before + 1}" if n_before else kind] = model
    for name, model in named.items():
        if isinstance(model, type) or not hasattr(model, "predict"):
            raise ValueError(
                "models must be an estimator with `predict`, a list of them, or a mapping from names to "
                f"them, such as {{'trees': HistGradientBoostingRegressor()}}; got {shown(model)}"
                + (f" for {name!r}." if isinstance(models, Mapping) else ".")
            )
    if not named:
        raise ValueError(f"models must contain at least one estimator; got {shown(models)}.")
    return named


def is_fitted(model: Any) -> bool:
    """Whether a model can predict. Objects that cannot be fitted can."""
    if not hasattr(model, "fit"):
        return True
    # CatBoost has its own way to say it.
    if callable(getattr(model, "is_fitted", None)):
        return bool(model.is_fitted())
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def fit_models(
    models: Mapping[str, Any], X: Any, y: NDArray, selected: NDArray, n_jobs: int | None, rng: Rng
) -> tuple[list[StressedModel], dict[str, str]]:
    """Cross-fit the models that are not fitted.

    Parameters
    ----------
    models : mapping
        Name → estimator. They are not modified.
    X, y
        All rows. The estimator of a fold is fitted to the rows of the other folds.
    selected : (n_selected,) int
        Positions of the test rows.
    n_jobs : int or None
        Number of parallel fits, as in joblib.
    rng : numpy Generator
        Draws the folds, the same for all models.

    Returns
    -------
    list of StressedModel
    dict
        Name → why it could not be fitted.
    """
    fitted = [
        StressedModel(name, (model,), np.zeros(len(selected), np.int64)) for name, model in models.items()
    ]
    unfitted = [model.name for model in fitted if not is_fitted(models[model.name])]
    if not unfitted:
        return fitted, {}
    fold = _folds(y, is_classifier(models[unfitted[0]]), draw_seed(rng))
    tasks = [(name, k) for name in unfitted for k in range(fold.max() + 1)]
    fits = Parallel(n_jobs=n_jobs)(
        delayed(_fit)(models[name], X, y, np.flatnonzero(fold != k)) for name, k in tasks
    )
    by_model: dict[str, list[Any]] = {name: [] for name in unfitted}
    for (name, _), fit in zip(tasks, fits, strict=True):
        by_model[name].append(fit)
    failures = {
        name: next(fit for fit in parts if isinstance(fit, str))
        for name, parts in by_model.items()
        if any(isinstance(fit, str) for fit in parts)
    }
    stressed = [
        replace(model, estimators=tuple(by_model[model.name]), fold=fold[selected])
        if model.name in by_model
        else model
        for model in fitted
        if model.name not in failures
    ]
    return stressed, {name: f"it could not be fitted: {reason}" for name, reason in failures.items()}


def _folds(y: NDArray, is_classification: bool, seed: int) -> NDArray[np.int64]:
    """Fold of each row, (n,)."""
    n_folds = min(N_FOLDS, len(y))
    is_stratified = is_classification and np.unique(y, return_counts=True)[1].max() >= n_folds
    splitter = (StratifiedKFold if is_stratified else KFold)(n_folds, shuffle=True, random_state=seed)
    fold = np.empty(len(y), dtype=np.int64)
    with warnings.catch_warnings():
        # A class with fewer rows than folds is unknown to some of the estimators, which costs them accuracy.
        warnings.filterwarnings("ignore", "The least populated class")
        for k, (_, held_out) in enumerate(splitter.split(np.zeros(len(y)), y)):
            fold[held_out] = k
    return fold


def _fit(model: Any, X: Any, y: NDArray, index: NDArray) -> Any:
    """A fitted clone, or the reason why it could not be fitted."""
    train = take_rows(X, index)
    n_columns = train.shape[1] if hasattr(train, "shape") else len(train.schema)
    is_small = len(index) * n_columns < MIN_CELLS_FOR_THREADS
    with warnings.catch_warnings(), one_thread_if(is_small):
        # Each fold would say the same about the table.
        warnings.simplefilter("ignore", SuspiciousDataWarning)
        warnings.simplefilter("ignore", OutOfRangeWarning)
        try:
            return clone(model).fit(train, y[index])
        except Exception as error:  # Models of any library may raise anything; the others continue.
            return _reason(error)


def losses_under(
    rows: TestRows, models: list[StressedModel], metric: Metric, setting: Setting
) -> tuple[float, list[Floats | str]]:
    """Share of missing values under a setting, and each model's losses or the reason of its failure.

    The masked table is made once for all models and dropped at the end.
    """
    observed = setting.observed(rows)
    X = rows.X if setting.hides is None else rows.masked(observed)
    losses: list[Floats | str] = []
    with warnings.catch_warnings(), one_thread_if(len(rows) < MIN_ROWS_FOR_THREADS):
        # Those about missing values: they are intended here.
        warnings.simplefilter("ignore")
        for model in models:
            try:
                losses.append(model.row_losses(X, rows.y, metric))
            except Exception as error:  # As above.
                losses.append(_reason(error))
    return float(1 - observed.mean()), losses


def try_models(
    rows: TestRows, models: list[StressedModel], metric: Metric, rng: Rng
) -> tuple[list[StressedModel], dict[str, str]]:
    """The models that predict a few rows as given and with missing values; why the others do not.

    Parameters
    ----------
    rows : TestRows
    models : list of StressedModel
    metric : Metric
    rng : numpy Generator
        Draws the rows and what is missing in them.
    """
    index = np.sort(rng.permutation(len(rows))[:N_TRIAL_ROWS])
    trial = rows.rows(index)
    failures: dict[str, str] = {}
    half = Setting("trial", 0.5, MCARIndependent(0.5, spread=0), draw_seed(rng))
    for setting in (Setting("as given", None, None), half):
        what = "it cannot predict these rows" if setting.hides is None else CANNOT_PREDICT_MISSING
        _, losses = losses_under(trial, [model.at_rows(index) for model in models], metric, setting)
        for model, loss in zip(models, losses, strict=True):
            if isinstance(loss, str):
                failures.setdefault(model.name, f"{what}: {loss}")
    return [model for model in models if model.name not in failures], failures


def failure_sentence(name: str, reason: str) -> str:
    """Why a model is left out, and what to do about it.

    Examples
    --------
    >>> failure_sentence("ridge", "it cannot predict rows with missing values: Input X contains NaN.")
    "'ridge' is left out, because it cannot predict rows with missing values: Input X contains NaN. A pipeline
    with an imputer can: make_pipeline(SimpleImputer(), model)."
    """
    # Estimators of this library accept missing values; they refuse them only if asked to.
    is_about_missing = any(word in reason for word in ("NaN", "unknown categories")) or (
        CANNOT_PREDICT_MISSING in reason and "on_unseen_missing" not in reason
    )
    advice = " A pipeline with an imputer can: make_pipeline(SimpleImputer(), model)."
    return f"{name!r} is left out, because {reason}{advice if is_about_missing else ''}"


def one_thread_if(is_small: bool) -> AbstractContextManager[Any]:
    """Context manager in which small tables are processed by one thread.

    There, more threads save little time, and on a busy machine they can wait for each other far longer than
    they compute. Settings run in parallel instead (`n_jobs`).
    """
    return threadpool_limits(1) if is_small else nullcontext()


def _reason(error: Exception) -> str:
    """The first sentence of an error message, because those of scikit-learn have whole paragraphs."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return shown_text(text if text.endswith((".", "!", "?")) else f"{text}.")


def shown_text(text: str, max_length: int = 300) -> str:
    """A message that is not longer than a few lines."""
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."
