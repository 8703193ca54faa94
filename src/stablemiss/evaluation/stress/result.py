"""The result of a stress test."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import narwhals as nw
import numpy as np

from stablemiss.estimators.frames import make_frame
from stablemiss.evaluation.stress.settings import AS_GIVEN
from stablemiss.pages import PageResult, to_plain

# Level at which the verdict describes a model.
HEADLINE_LEVEL = 0.5


@dataclass(frozen=True)
class StressScore:
    """Error of a model under one mechanism at one level.

    Attributes
    ----------
    model, mechanism : str
    level : float or None
        Share of values that the mechanism hides (of columns for "outage"); None for the table as given and
        for existing masks.
    missing_share : float
        Share of values that were missing in all, including those that are missing in the table.
    error, standard_error : float
        On the test rows; the standard error is that of a sample of rows, with the model fixed.
    increase, low, high : float
        Error minus the error on the table as given, and its 95% interval.
    relative_increase : float
        The increase divided by the error on the table as given.
    worse_than_constant : bool
        Whether a constant has a lower error on the same rows.
    n_rows : int
    """

    model: str
    mechanism: str
    level: float | None
    missing_share: float
    error: float
    standard_error: float
    increase: float
    low: float
    high: float
    relative_increase: float
    worse_than_constant: bool
    n_rows: int


@dataclass(frozen=True)
class ColumnCost:
    """Cost to a model of losing one column, that is, of its values missing in all rows.

    Attributes
    ----------
    model, column : str
    cost, low, high : float
        Error without the column minus the error on the table as given, and its 95% interval.
    reliance : float
        Share of this column in the sum of the positive costs of all columns, from 0 to 1.
    """

    model: str
    column: str
    cost: float
    low: float
    high: float
    reliance: float


@dataclass(frozen=True)
class PairCost:
    """Cost to a model of losing two columns at once.

    Attributes
    ----------
    model, first, second : str
    cost, low, high : float
        Error without both columns minus the error on the table as given, and its 95% interval.
    excess : float
        Cost minus the sum of the costs of both columns alone. Positive if one replaces the other.
    """

    model: str
    first: str
    second: str
    cost: float
    low: float
    high: float
    excess: float


@dataclass(frozen=True)
class ModelComparison:
    """Error of one model minus that of another on the same rows and masks.

    Attributes
    ----------
    model, other : str
    mechanism : str
        All levels of it are pooled; "all" pools all settings except the table as given.
    error, other_error : float
        Errors over all rows and levels.
    difference, low, high : float
        Error minus the other error, and its 95% interval. Negative if `model` is better.
    """

    model: str
    other: str
    mechanism: str
    error: float
    other_error: float
    difference: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class StressResult(PageResult):
    """Result of `stress_test`: `print` it, or use `to_frame`, `to_dict`, `to_html` and `save_html`.

    Attributes
    ----------
    models : list of str
        Names of the models that were tested, the lowest error over all settings first.
    metric : str
        "RMSE", "log loss" or "error rate".
    constant : float
        Error of always predicting the mean of the target, or the class frequencies, on the same rows.
    scores : list of StressScore
    columns : list of ColumnCost
        For each model, the most important column first.
    pairs : list of PairCost
        Pairs of the most important columns; for each model, the most important pair first.
    comparisons : list of ModelComparison
        The first model with each other one.
    cross_fitted : list of str
        Models that were given unfitted.
    n_rows, n_column_rows, n_rows_given : int
        Rows on which models were tested under the mechanisms, and without columns; rows of the table.
    notes : list of str
        What was left out, and why.

    See Also
    --------
    stress_test : Creates it.
    """

    models: list[str]
    metric: str
    constant: float
    scores: list[StressScore]
    columns: list[ColumnCost]
    pairs: list[PairCost]
    comparisons: list[ModelComparison]
    cross_fitted: list[str]
    n_rows: int
    n_column_rows: int
    n_rows_given: int
    n_columns: int
    notes: list[str]
    like: Any = None

    @property
    def mechanisms(self) -> list[str]:
        """Names of the mechanisms, without the table as given."""
        return list(dict.fromkeys(score.mechanism for score in self.scores if score.mechanism != AS_GIVEN))

    def baseline(self, model: str) -> StressScore:
        """Score of a model on the table as given."""
        return next(s for s in self.scores if s.model == model and s.mechanism == AS_GIVEN)

    def curve(self, model: str, mechanism: str) -> list[StressScore]:
        """Scores of a model under a mechanism, the fewest missing values first."""
        found = [s for s in self.scores if s.model == model and s.mechanism == mechanism]
        return sorted(found, key=lambda score: score.missing_share)

    def headline(self, model: str, mechanism: str) -> StressScore:
        """The score of a curve whose level is nearest to one half."""

        def distance(score: StressScore) -> float:
            return abs((score.missing_share if score.level is None else score.level) - HEADLINE_LEVEL)

        return min(self.curve(model, mechanism), key=distance)

    def first_worse(self, model: str, mechanism: str) -> StressScore | None:
        """The score with the fewest missing values at which a constant is better than the model, if any."""
        return next((score for score in self.curve(model, mechanism) if score.worse_than_constant), None)

    def lost_share(self, score: StressScore) -> float | None:
        """Share of the model's advantage over a constant that is lost; above 1 if it is worse than it.

        None if the model has no advantage on the table as given.
        """
        advantage = self.constant - self.baseline(score.model).error
        return score.increase / advantage if advantage > 0 else None

    def column_costs(self, model: str) -> list[ColumnCost]:
        """Costs of losing each column, the most important first."""
        return [cost for cost in self.columns if cost.model == model]

    def pair_costs(self, model: str) -> list[PairCost]:
        """Costs of losing two columns, the most important pair first."""
        return [cost for cost in self.pairs if cost.model == model]

    def number(self, error: float) -> str:
        """An error or a difference of errors as text, with the decimals that the constant has.

        The same decimals everywhere make columns of numbers comparable.
        """
        magnitude = math.floor(math.log10(self.constant)) if self.constant > 0 else 0
        text = f"{error:,.{min(8, max(0, 3 - magnitude))}f}"
        return text.removeprefix("-") if not text.strip("-0.") else text

    @property
    def verdict(self) -> str:
        """What the result says, in a few sentences, the most important one first."""
        from stablemiss.evaluation.stress.verdict import sentences

        return " ".join(sentences(self))

    def to_frame(self) -> Any:
        """One row for each model, mechanism and level: error, standard error, increase and its interval.

        The frame is of the library of X, or of pandas, polars or pyarrow if X is an array.
        """
        return self._frame(StressScore, self.scores)

    def columns_frame(self) -> Any:
        """One row for each model and column: cost of losing it, its interval, and the model's reliance."""
        return self._frame(ColumnCost, self.columns)

    def pairs_frame(self) -> Any:
        """One row for each model and pair of columns: cost, its interval, and excess over single costs."""
        return self._frame(PairCost, self.pairs)

    def comparisons_frame(self) -> Any:
        """One row for each other model and mechanism: difference from the first model and its interval."""
        return self._frame(ModelComparison, self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was computed, in types that the json module can write; None for NaN."""
        names = [field.name for field in fields(self) if field.name != "like"]
        return {"verdict": self.verdict} | {name: to_plain(getattr(self, name)) for name in names}

    def to_html(self) -> str:
        from stablemiss.evaluation.stress.page import render

        return render(self)

    def __str__(self) -> str:
        from stablemiss.evaluation.stress.text import to_text

        return to_text(self)

    def _frame(self, kind: type[Any], rows: Iterable[Any]) -> Any:
        rows = list(rows)
        columns, types = {}, {}
        for field in fields(kind):
            entries = [getattr(row, field.name) for row in rows]
            if field.type in ("str", "bool", "int"):
                dtype, narwhals_type = {
                    "str": (object, nw.String),
                    "bool": (bool, nw.Boolean),
                    "int": (np.int64, nw.Int64),
                }[field.type]
                columns[field.name] = np.array(entries, dtype=dtype)
                types[field.name] = narwhals_type
            else:
                columns[field.name] = np.array(
                    [math.nan if entry is None else entry for entry in entries], dtype=np.float64
                )
        return make_frame(columns, types, self.like, keep_index=False)
