"""`stress_test`: error of any model against the mechanism and the share of missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from scipy.sparse import issparse

from stablemiss.checks import check_integer
from stablemiss.data import to_array
from stablemiss.encoding import read_table
from stablemiss.estimators.frames import empty_frame
from stablemiss.evaluation.stress.columns import column_costs, pair_costs
from stablemiss.evaluation.stress.models import (
    StressedModel,
    failure_sentence,
    fit_models,
    name_models,
    try_models,
)
from stablemiss.evaluation.stress.result import StressResult
from stablemiss.evaluation.stress.rows import TestRows
from stablemiss.evaluation.stress.scores import Bench, score_settings
from stablemiss.evaluation.stress.settings import make_settings
from stablemiss.missingness import Mechanism
from stablemiss.progress import NullProgress, Progress
from stablemiss.row_losses import Metric, choose_metric, read_target
from stablemiss.seeding import Rng, draw_seed, one_of, to_rng
from stablemiss.text import quoted


def stress_test(
    models: Any,
    X: Any,
    y: Any,
    mechanisms: Sequence[str] | Mapping[str, Mechanism] | None = None,
    levels: Sequence[float] | None = None,
    *,
    other: Any = None,
    max_rows: int = 10_000,
    n_jobs: int | None = None,
    random_state: Any = 0,
    rng: Any = None,
    progress: Progress | None = None,
) -> StressResult:
    """Measure how much accuracy any model loses when values go missing.

    Values of the test rows are hidden in several ways and amounts, and the models predict the rows that are
    left. All models see the same rows and masks, so that they can be compared row by row. In addition, each
    column is hidden in all rows, and so is each pair of the most important columns.

    Parameters
    ----------
    models : estimator, list of estimators, or mapping
        Regressors or classifiers with the interface of scikit-learn, such as pipelines; a mapping names them.
        Fitted ones are tested as they are: then X must be rows to which they were not fitted. Others are
        cross-fitted: five clones each predict the fifth of the rows to which they were not fitted.
    X : array-like or data frame, (n, d)
        Table, which may have missing values; these stay missing in all settings. It is not modified.
    y : (n,) or (n, n_outputs)
        Target.
    mechanisms : sequence of str, or mapping, default=None
        Some of the default mechanisms by name, or a mapping from names to mechanisms of
        `stablemiss.missingness`. None uses all defaults that apply to the table:

        - "MCAR": every value with the same probability,
        - "window": in each row a window of adjacent columns,
        - "MAR": depending on the values of a few columns that stay observed,
        - "MNAR": depending on the value itself, large values first,
        - "outage": the most informative columns in all rows,
        - "own masks": in each row also what is missing in another row, if rows differ in that.
    levels : sequence of float, default=None
        Shares of values that the mechanisms hide (of columns for "outage"), above 0 and at most 1. More
        levels give finer curves and take proportionally longer. None uses 0.1, 0.2, …, 0.9.
    other : array-like or data frame, default=None
        A second table with the columns of X, such as rows from production. What is missing in its rows is
        also hidden in those of X, as the mechanism "other table".
    max_rows : int, default=10000
        Largest number of test rows; more are sampled. Raising it makes the intervals narrower and takes
        proportionally longer. Unfitted models are fitted to all rows in any case.
    n_jobs : int, default=None
        Number of parallel jobs, as in joblib; -1 uses all cores. With ``joblib.parallel_config`` the jobs run
        on Dask or Ray.
    random_state : int, Generator or None, default=0
        Draws the masks, folds and test rows. The same seed gives the same result if the models are
        deterministic.
    rng : int, Generator or None, default=None
        Another name of `random_state`, which it replaces if it is given.
    progress : Progress, default=None
        Updated while settings are tested.

    Returns
    -------
    StressResult
        `print` it; `to_frame`, `columns_frame`, `pairs_frame` and `comparisons_frame` have the numbers, and
        `save_html` writes a page.

    See Also
    --------
    stablemiss.missingness : Mechanisms.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> y = 3 * X[:, 0] + X[:, 1]
    >>> model = HistGradientBoostingRegressor(max_iter=30, random_state=0).fit(X[:300], y[:300])
    >>> result = stress_test(model, X[300:], y[300:], mechanisms=["MCAR"], levels=[0.5])
    >>> [cost.column for cost in result.columns]
    ['0', '1', '2']
    >>> result.scores[1].error > 2 * result.scores[0].error
    True
    """
    check_integer({"max_rows": max_rows}, max_rows=2)
    named, rng, progress = name_models(models), to_rng(one_of(random_state, rng)), progress or NullProgress()
    metric = choose_metric(named)
    X = X if _has_columns(X) or issparse(X) else to_array(X)
    target = read_target(y, _n_rows(X), metric.is_classification)
    selected = _select_rows(len(target), max_rows, rng)
    # A generator of its own, so that the folds do not depend on the mechanisms.
    fold_rng = np.random.default_rng(draw_seed(rng))
    is_sampled = len(selected) < len(target)
    rows = TestRows.of(X, target, selected if is_sampled else None, metric.is_classification)
    _check_varies(rows.y, metric)
    settings = make_settings(rows, mechanisms, levels, other, rng)

    stressed, failures = _usable_models(named, X, target, selected, rows, metric, n_jobs, fold_rng)
    notes = [failure_sentence(name, reason) for name, reason in failures.items()]
    empty = [rows.column_name(j) for j in np.flatnonzero(~rows.observed.any(axis=0)).tolist()]
    if failures and empty:
        notes.append(f"Some models cannot be fitted to columns without any value; drop {quoted(empty)}.")
    if not stressed:
        raise ValueError("No model can be tested. " + " ".join(notes))
    is_cross_fitted = {model.is_cross_fitted for model in stressed}
    if len(is_cross_fitted) > 1:
        notes.append(
            "Some models were fitted before and others are cross-fitted here. If the former were fitted to "
            "these rows, their errors are too low, and the comparison is not fair."
        )
    if is_sampled:
        notes.append(f"Tested on {len(rows):,} of {len(target):,} rows, drawn at random.")

    bench = Bench(rows, stressed, metric, n_jobs, progress)
    tested = score_settings(bench, settings)
    costs = column_costs(bench, rng)
    pairs = pair_costs(costs)
    return StressResult(
        models=tested.order,
        metric=metric.name,
        constant=metric.error(metric.constant_losses(rows.y)),
        scores=tested.scores,
        columns=costs.ordered(tested.order),
        pairs=sorted(pairs, key=lambda cost: (tested.order.index(cost.model), -cost.cost)),
        comparisons=tested.comparisons,
        cross_fitted=[model.name for model in stressed if model.is_cross_fitted],
        n_rows=len(rows),
        n_column_rows=len(costs.bench.rows),
        n_rows_given=len(target),
        n_columns=rows.n_columns,
        notes=[*notes, *tested.notes, *costs.notes],
        like=empty_frame(X),
    )


def _usable_models(
    named: Mapping[str, Any],
    X: Any,
    target: NDArray,
    selected: NDArray,
    rows: TestRows,
    metric: Metric,
    n_jobs: int | None,
    rng: Rng,
) -> tuple[list[StressedModel], dict[str, str]]:
    """Models that can be tested, and why the others cannot."""
    fitted, not_fitted = fit_models(named, X, target, selected, n_jobs, rng)
    stressed, refused = try_models(rows, fitted, metric, rng)
    return stressed, not_fitted | refused


def _select_rows(n: int, max_rows: int, rng: Rng) -> NDArray[np.int64]:
    """Positions of the test rows, in their order."""
    return np.arange(n) if n <= max_rows else np.sort(rng.choice(n, max_rows, replace=False))


def _check_varies(y: NDArray, metric: Metric) -> None:
    labels = np.unique(y, axis=0)
    if len(labels) < 2:
        what = "one class" if metric.is_classification else "one value"
        raise ValueError(
            f"y has only {what} in the {len(y):,} test rows, {quoted([str(labels[0])])}, so that a constant "
            "predicts it without error and there is nothing to lose. Use rows in which the target varies."
        )


def _has_columns(X: Any) -> bool:
    """Whether a table is a data frame of any library."""
    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError:
        read_table(X)  # raises an error that says what to do
        raise
    return isinstance(frame, nw.DataFrame | nw.LazyFrame) or hasattr(X, "__arrow_c_stream__")


def _n_rows(X: Any) -> int:
    """Number of rows; raises an error that says why if X is not a table."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return int(shape[0]) if len(shape) == 2 else read_table(X).n_rows
