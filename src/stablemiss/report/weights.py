"""How uneven the fitted row weights of a table are, and the γ that was chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.comparison import records_of
from stablemiss.experiments.tables import ABLATION, WEIGHTED_ABLATION, PaperTable
from stablemiss.results import Record

# Labels with row weights.
WEIGHTED = (
    "dwr",
    "srdo",
    "stablenet",
    "stablemiss",
    "stablemiss_weighted",
    "crlr",
    "dgbr",
    *ABLATION[:-1],
    *WEIGHTED_ABLATION,
)


@dataclass(frozen=True)
class RowWeights:
    """Row weights of one method in one table, over its records. Values that no record has are None."""

    label: str
    n: int  # records
    share: float | None  # effective sample size divided by the number of rows, mean
    gamma: tuple[float, float] | None  # smallest and largest chosen γ
    critical_gamma: tuple[float, float] | None  # smallest and largest γ above which weights stay equal


def row_weights(table: PaperTable, records: Iterable[Record], budget: Budget) -> list[RowWeights]:
    """Row weights of each method of a table that has them and was run.

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.tables import TABLES
    >>> record = Record("quick", "gaussian_mix", "mar", 0.5, 0, "dwr", seed=0, extra={"effective_share": 0.5})
    >>> row_weights(TABLES["table1"], [record], BUDGETS["quick"])[0].share
    0.5
    """
    levels = {column.train_level for column in budget.columns(table)}
    done = [
        record
        for record in records_of(table, records, budget)
        if record.level in levels and record.failure is None
    ]
    weights = []
    for label in table.methods:
        fits = [record for record in done if record.label == label]
        if label in WEIGHTED and fits:
            shares = _measured(fits, "effective_share")
            weights.append(
                RowWeights(
                    label,
                    len(fits),
                    fmean(shares) if shares else None,
                    _range(_measured(fits, "gamma")),
                    _range(_measured(fits, "critical_gamma")),
                )
            )
    return weights


def _measured(records: Sequence[Record], name: str) -> list[float]:
    return [record.extra[name] for record in records if record.extra.get(name) is not None]


def _range(values: Sequence[float]) -> tuple[float, float] | None:
    return (min(values), max(values)) if values else None
