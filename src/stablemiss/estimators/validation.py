"""Choosing validation rows, and the scores of a fitted model on them."""

from __future__ import annotations

import warnings
from collections import deque
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from stablemiss.base.method import Predictor
from stablemiss.checks import is_real, shown
from stablemiss.data import MaskedData, missing_cells
from stablemiss.encoding import SuspiciousDataWarning
from stablemiss.encoding.dates import DateFormat
from stablemiss.estimators.arrays import array_scores
from stablemiss.estimators.rows import split_rows
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Regression, Task
from stablemiss.text import RowError, count, is_number

Indices = NDArray[np.int64]
# A fraction of the rows, or a splitter of scikit-learn, which has a method `split`.
ValidationSplit = Any
# With fewer validation rows, `fit` warns.
MIN_VALIDATION_ROWS = 10


def check_validation_split(split: Any) -> None:
    """Raise ValueError unless `split` is None, a fraction, or an object with a method `split`."""
    has_split = callable(getattr(split, "split", None)) and not isinstance(split, type | str | bytes)
    if split is None or has_split or (is_real(split) and 0 < split < 1):
        return
    raise ValueError(
        "validation_split must be a fraction above 0 and below 1, a scikit-learn splitter such as "
        f"GroupKFold(5), or None; got {shown(split)}."
    )


def choose_validation_rows(
    target: NDArray,
    split: ValidationSplit,
    rng: Rng,
    groups: NDArray | None = None,
    time: NDArray | None = None,
    stratify: bool = False,
) -> tuple[Indices, Indices]:
    """Positions of the training rows and of the validation rows.

    Parameters
    ----------
    target : (n,) or (n, d_output)
        Targets; a splitter may stratify by them.
    split : float or splitter
        Share of the validation rows, or a splitter, whose last split is used: the last split of a
        ``TimeSeriesSplit`` has most training rows.
    rng : numpy Generator
        Draws rows or groups.
    groups : (n,), default=None
        With a fraction, all rows of a group are on the same side. A splitter receives them.
    time : (n,), default=None
        With a fraction, the latest rows are the validation rows. A splitter receives the rows in this order.
    stratify : bool, default=False
        Whether the target holds classes. Every class must then occur in the training rows.

    See Also
    --------
    validation_scores : Scores of a fitted model on the validation rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> time = np.array([5, 1, 4, 2, 3])
    >>> choose_validation_rows(np.zeros(5), 0.4, rng, time=time)
    (array([1, 3, 4]), array([0, 2]))
    """
    if hasattr(split, "split"):
        # Splitters for time series expect the rows in order.
        order = np.arange(len(target)) if time is None else np.argsort(time, kind="stable")
        labels = None if groups is None else groups[order]
        train, valid = (np.sort(order[rows]) for rows in _last_split(split, target[order], labels))
    elif groups is not None and time is not None:
        raise ValueError(
            "fit takes groups or time to choose validation rows, not both; got both. Pass one of them, or a "
            "scikit-learn splitter as validation_split."
        )
    elif groups is not None:
        train, valid = _whole_groups(groups, split, rng)
    elif time is not None:
        train, valid = _latest_rows(time, split)
    else:
        return split_rows(target if stratify else np.zeros(len(target)), split, rng)
    if stratify:
        _check_classes(target, train)
    return train, valid


def warn_if_few(n_validation: int, n_rows: int) -> None:
    """Warn if there are fewer than `MIN_VALIDATION_ROWS` validation rows.

    Parameters
    ----------
    n_validation : int
        Number of validation rows.
    n_rows : int
        Number of training and validation rows.
    """
    if n_validation < MIN_VALIDATION_ROWS:
        # Level 3 is the user's call: 1 is this function, 2 `fit`.
        warnings.warn(
            f"Only {count(n_validation, 'validation row')} among {count(n_rows, 'row')}: with fewer than "
            f"{MIN_VALIDATION_ROWS}, early stopping, validation scores and the confidence of predictions are "
            "unreliable. Pass more rows to fit, or hold out a larger share of them (validation_fraction).",
            SuspiciousDataWarning,
            stacklevel=3,
        )


def read_row_labels(labels: Any, n_rows: int, name: str) -> NDArray | None:
    """Read `groups` or `time`, one label per row, without missing values; None if there are none.

    Text of dates or numbers is converted if it is read as `time`, because its order is not that of letters.

    Parameters
    ----------
    labels : array-like, series or None
        Labels of the rows.
    n_rows : int
        Number of rows of the table.
    name : str
        Name of the argument, for error messages.
    """
    if labels is None:
        return None
    series = nw.from_native(labels, series_only=True, pass_through=True)
    array = series.to_numpy() if isinstance(series, nw.Series) else np.asarray(labels)
    if array.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one entry for each of the {n_rows} rows of X, but has shape {array.shape}. "
            "Pass one column of the same table."
        )
    missing = missing_cells(array)
    if missing.any():
        raise RowError(
            f"{name} is missing in {missing.sum()} of {n_rows} rows (first in row ",
            int(missing.argmax()),
            "), so these rows cannot be assigned to training or validation. Fill in the entries or remove "
            "the rows.",
        )
    try:
        np.unique(array)
    except TypeError as error:
        raise ValueError(
            f"{name} must contain entries of one type that can be sorted, such as numbers, text or dates; "
            f"got a mixture ({error}). Convert them to one type."
        ) from error
    return _to_times(array) if name == "time" and array.dtype.kind in "OUT" else array


def _to_times(array: NDArray) -> NDArray:
    """Convert text (n,) to dates or numbers; other objects are returned unchanged."""
    entries = np.unique(array).tolist()
    if not all(isinstance(entry, str) for entry in entries):
        return array
    text_format = DateFormat.infer(entries)
    if text_format is not None:
        return text_format.parse_column(array.astype(object))[0]
    try:
        return array.astype(np.float64)
    except ValueError:
        example = next(entry for entry in entries if not is_number(entry))
        raise ValueError(
            "time must contain numbers or dates, so that rows can be sorted by it, but contains "
            f"{shown(example)}. Convert all of them to numbers, or to dates such as 2014-10-13."
        ) from None


def validation_scores(
    predictor: Predictor, train: MaskedData, valid: MaskedData, task: Task
) -> dict[str, float] | None:
    """Errors on the validation rows, beside those of the best constant prediction for the training rows.

    Parameters
    ----------
    predictor : Predictor
        The fitted model.
    train, valid : MaskedData
        Encoded rows with targets; the constant is computed from `train`.
    task : Task
        Decodes targets and predictions.

    Returns
    -------
    dict
        For numbers "rmse", "r2" and "rmse_constant" (in the target's units, over all outputs; of arrays, over
        all observed cells); for classes
        "log_loss", "accuracy", "log_loss_constant" and "accuracy_constant". "n_rows" counts the rows.
        None if a prediction is not finite.

    See Also
    --------
    choose_validation_rows : Chooses these rows.
    """
    # Imported late, so that the estimators can be imported quickly.
    from sklearn.metrics import accuracy_score, log_loss, r2_score

    outputs, weight = predictor.predict(valid.values, valid.mask), valid.weight
    if not np.isfinite(outputs).all():
        return None
    if isinstance(task, Regression) and len(task.output_shape) > 1:
        return array_scores(outputs, train, valid, task)
    scores: dict[str, float] = {"n_rows": len(valid)}
    if isinstance(task, Classification):
        codes = np.arange(task.d_output)
        frequency = np.bincount(train.target, train.weight, task.d_output) / train.weight.sum()
        constant = np.tile(frequency, (len(valid), 1))
        for suffix, probability in (("", task.probabilities(outputs)), ("_constant", constant)):
            hits = codes[probability.argmax(axis=1)]
            # Clipped as in scikit-learn, so that one impossible class does not make the loss infinite.
            probability = np.clip(probability, np.finfo(np.float64).eps, None)
            probability = probability / probability.sum(axis=1, keepdims=True)
            scores[f"log_loss{suffix}"] = log_loss(
                valid.target, probability, sample_weight=weight, labels=codes
            )
            scores[f"accuracy{suffix}"] = accuracy_score(valid.target, hits, sample_weight=weight)
        return scores
    assert isinstance(task, Regression)
    # In units of the largest scale, whose square cannot overflow.
    unit = task.scale.max()
    target, prediction = (rows * (task.scale / unit) for rows in (valid.target, outputs))
    mean = np.average(train.target, axis=0, weights=train.weight) * (task.scale / unit)
    scores["rmse"] = _rmse(target, prediction, weight) * unit
    scores["rmse_constant"] = _rmse(target, np.tile(mean, (len(valid), 1)), weight) * unit
    # R² of a single row, or of equal targets, is not defined.
    is_defined = len(valid) > 1 and bool((np.ptp(target, axis=0) > 0).all())
    scores["r2"] = r2_score(target, prediction, sample_weight=weight) if is_defined else float("nan")
    return {name: float(score) for name, score in scores.items()} | {"n_rows": len(valid)}


def _rmse(target: NDArray, prediction: NDArray, weight: NDArray) -> float:
    """Root mean squared error over all outputs."""
    from sklearn.metrics import root_mean_squared_error

    per_output = root_mean_squared_error(target, prediction, sample_weight=weight, multioutput="raw_values")
    return float(np.sqrt(np.mean(per_output**2)))


def _last_split(splitter: Any, target: NDArray, groups: NDArray | None) -> tuple[Indices, Indices]:
    n = len(target)
    try:
        # Splitters only use the number of rows of X.
        last = deque(splitter.split(np.zeros((n, 1)), target, groups), maxlen=1)
        train, valid = (np.asarray(rows, dtype=np.int64) for rows in last.pop())
    except IndexError as error:
        raise ValueError(
            f"validation_split={shown(splitter)} returns no split. Use another splitter."
        ) from error
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"validation_split={shown(splitter)} cannot split the {n} rows: {error} Pass groups to fit if "
            "the splitter needs them, or another splitter."
        ) from error
    chosen = np.concatenate([train, valid])
    if not len(train) or not len(valid) or len(np.unique(chosen)) < len(chosen):
        raise ValueError(
            f"The last split of validation_split={shown(splitter)} has {len(train)} training and "
            f"{len(valid)} validation rows, {len(chosen) - len(np.unique(chosen))} of them repeated; each "
            "side needs at least one row, and no row may occur twice. Use another splitter."
        )
    if chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(
            f"The last split of validation_split={shown(splitter)} has rows from {chosen.min()} to "
            f"{chosen.max()}, but X has {n} rows. Use a splitter for these rows."
        )
    return train, valid


def _whole_groups(groups: NDArray, fraction: float, rng: Rng) -> tuple[Indices, Indices]:
    _, group, size = np.unique(groups, return_inverse=True, return_counts=True)
    if len(size) < 2:
        raise ValueError(
            "groups must contain at least 2 groups, one for training and one for validation; all rows have "
            f"{shown(groups[0])}. Leave groups out to choose rows at random."
        )
    order = rng.permutation(len(size))
    # Groups are added until their rows reach the fraction; the last group always remains for training.
    n_before = np.cumsum(size[order]) - size[order]
    n_chosen = min(int((n_before < fraction * len(groups)).sum()), len(size) - 1)
    is_valid = np.isin(group, order[:n_chosen])
    return np.flatnonzero(~is_valid), np.flatnonzero(is_valid)


def _latest_rows(time: NDArray, fraction: float) -> tuple[Indices, Indices]:
    n_train = len(time) - max(1, round(fraction * len(time)))
    times = np.sort(time)
    # Rows of the same time are on the same side, so the split may be moved to an earlier time.
    is_valid = time >= times[n_train]
    if is_valid.all():
        is_valid = time > times[0]
    if not is_valid.any():
        raise ValueError(
            "time must contain at least 2 different times, the later ones for validation; all rows have "
            f"{shown(times[0])}. Leave time out to choose rows at random."
        )
    return np.flatnonzero(~is_valid), np.flatnonzero(is_valid)


def _check_classes(target: NDArray, train: Indices) -> None:
    """Raise ValueError if a class occurs only in rows that are not training rows."""
    absent = np.setdiff1d(target, target[train])
    if len(absent):
        raise ValueError(
            f"The class {absent.tolist()[0]!r} of the target does not occur in any training row with this "
            "choice of validation rows, so no model can predict it. Change groups, time or validation_split, "
            "or remove the rows of this class."
        )
