"""What is hidden from the models: mechanisms × levels, single columns and pairs of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from stablemiss.anymask import univariate_importance
from stablemiss.checks import is_real, shown
from stablemiss.data import Bools, Floats
from stablemiss.encoding import observed_cells, read_table
from stablemiss.evaluation.stress.rows import TestRows
from stablemiss.missingness import (
    LEVELS,
    MAR,
    MNAR,
    MCARIndependent,
    MCARWindow,
    Mechanism,
    Outage,
    Resampled,
)
from stablemiss.seeding import Rng, draw_seed, to_rng
from stablemiss.text import quoted

AS_GIVEN, OWN_MASKS, OTHER_TABLE = "as given", "own masks", "other table"
# Name of all settings together, except the table as given.
ALL = "all"
# Cells for which masks are drawn at once, but at least so many rows. Mechanisms need several times as much.
BLOCK_CELLS, MIN_BLOCK_ROWS = 50_000, 500
# Name of each default mechanism → what it hides.
DESCRIPTIONS = {
    "MCAR": "Missing completely at random: every value with the same probability.",
    "window": "In each row a window of adjacent columns, at a random position.",
    "MAR": "Depending on the values of a few columns, which stay observed (a tenth of the columns).",
    "MNAR": "Depending on the value itself: large values are more likely to be missing.",
    "outage": "The most informative columns, in all rows. The level is the share of the columns.",
    OWN_MASKS: "In each row also what is missing in another row of the table, drawn at random.",
    OTHER_TABLE: "In each row also what is missing in a row of the other table, drawn at random.",
}


@dataclass(frozen=True, eq=False)
class InformativeOutage(Mechanism):
    """Hides whole columns in all rows, the most informative ones first.

    Parameters
    ----------
    order : sequence of int
        Positions of all columns, the most informative first.
    level : float
        Share of the columns to hide, rounded, but at least one column. Raising it hides further columns.

    Examples
    --------
    >>> mechanism = InformativeOutage(order=[2, 0, 1], level=0.7)
    >>> mechanism.draw(np.zeros((1, 3)), np.random.default_rng(0)).tolist()
    [[False, True, False]]
    """

    order: Sequence[int]
    level: float

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return the mechanism itself, which has no parameters to fit."""
        return self

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        n_hidden = max(1, round(self.level * len(self.order)))
        return Outage(list(self.order[:n_hidden])).draw(table, rng)


@dataclass(frozen=True, eq=False)
class Setting:
    """One way in which values of the test rows are hidden.

    Attributes
    ----------
    mechanism : str
        Its name.
    level : float or None
        Share of values to hide; None if it is that of existing masks.
    hides : Mechanism or None
        Draws what stays observed; None hides nothing.
    seed : int
        Seed of the masks. It is the same at all levels of a mechanism, so that a value that is missing at
        one level is usually missing at the higher ones too, and curves are smooth.
    """

    mechanism: str
    level: float | None
    hides: Mechanism | None
    seed: int = 0

    def observed(self, rows: TestRows) -> Bools:
        """Mask (n, d), True = observed. Values that are missing in the table stay missing."""
        if self.hides is None:
            return rows.observed
        rng, observed = to_rng(self.seed), rows.observed.copy()
        n_block = max(MIN_BLOCK_ROWS, BLOCK_CELLS // rows.n_columns)
        for start in range(0, len(rows), n_block):
            block = slice(start, start + n_block)
            observed[block] &= self.hides.draw(rows.numbers[block], rng)
        return observed


def make_settings(
    rows: TestRows,
    mechanisms: Sequence[str] | Mapping[str, Mechanism] | None,
    levels: Sequence[float] | None,
    other: Any,
    rng: Rng,
) -> list[Setting]:
    """The settings under which models are tested, the table as given first.

    Parameters
    ----------
    rows : TestRows
    mechanisms : mapping, sequence of str or None
        Name → mechanism, names of default mechanisms, or None for all that apply to the table.
    levels : sequence of float or None
        Shares of missing values; None for 0.1, 0.2, …, 0.9.
    other : table or None
        Table whose masks are laid over the rows.
    rng : numpy Generator
        Draws the parameters of the mechanisms and the seeds of the masks.

    Examples
    --------
    >>> rows = TestRows.of(np.eye(3), np.arange(3.0), None)
    >>> settings = make_settings(rows, ["MCAR", "outage"], [0.5], None, np.random.default_rng(0))
    >>> [(setting.mechanism, setting.level) for setting in settings]
    [('as given', None), ('MCAR', 0.5), ('outage', 0.5)]
    """
    levels = check_levels(LEVELS if levels is None else levels)
    chosen = choose_mechanisms(rows, mechanisms)
    if other is not None:
        chosen[OTHER_TABLE] = Resampled(masks_of_other(rows, other))
    if not chosen:
        raise ValueError(
            "mechanisms must name at least one mechanism, or be None for the defaults; got none."
        )
    settings = [Setting(AS_GIVEN, None, None)]
    for name, mechanism in chosen.items():
        seed = draw_seed(rng)
        fitted = _fitted(mechanism, rows.numbers, rng)
        settings += [
            Setting(name, level, at_level, seed)
            for level, at_level in _at_levels(fitted, levels, is_natural_only=name == OTHER_TABLE)
        ]
    return settings


def choose_mechanisms(
    rows: TestRows, mechanisms: Sequence[str] | Mapping[str, Mechanism] | None
) -> dict[str, Mechanism]:
    """The mechanisms by name; parameters as in `make_settings`."""
    if isinstance(mechanisms, Mapping):
        for name, mechanism in mechanisms.items():
            if not isinstance(mechanism, Mechanism) or name in (AS_GIVEN, ALL):
                raise ValueError(
                    f"mechanisms must map names other than {AS_GIVEN!r} and {ALL!r} to mechanisms of "
                    f"stablemiss.missingness, such as {{'lab closed': Outage([0, 3])}}; got "
                    f"{shown(mechanism)} for {name!r}."
                )
        return {str(name): mechanism for name, mechanism in mechanisms.items()}
    defaults = default_mechanisms(rows)
    if mechanisms is None:
        return defaults
    names = [mechanisms] if isinstance(mechanisms, str) else list(mechanisms)
    for name in names:
        if name == OWN_MASKS and name not in defaults:
            raise ValueError(
                f"The mechanism {OWN_MASKS!r} needs rows that differ in what is missing, but these rows do "
                "not. Choose other mechanisms."
            )
        if name not in defaults:
            possible = quoted([*defaults])
            raise ValueError(
                f"mechanisms must be among {possible}, or map names to mechanisms of "
                f"stablemiss.missingness; got {shown(name)}."
            )
    return {name: defaults[name] for name in names}


def default_mechanisms(rows: TestRows) -> dict[str, Mechanism]:
    """All mechanisms that apply to a table, by name.

    How informative a column is does not depend on a model, so that all models are tested under the same masks
    and can be compared row by row.
    """
    order = np.argsort(-column_importance(rows), kind="stable").tolist()
    mechanisms: dict[str, Mechanism] = {
        # Without spread, so that all rows have the missing rate that the level says.
        "MCAR": MCARIndependent(0.5, spread=0),
        "window": MCARWindow(0.5, spread=0),
        "MAR": MAR(0.5, spread=0),
        "MNAR": MNAR(0.5, spread=0),
        "outage": InformativeOutage(order, 0.5),
    }
    if (rows.observed != rows.observed[0]).any():
        mechanisms[OWN_MASKS] = Resampled(rows.observed)
    return mechanisms


def masks_of_other(rows: TestRows, other: Any) -> Bools:
    """Masks of another table, in the order of the columns of the test rows.

    Columns are matched by name if both tables have names; further columns of the other table are ignored.
    """
    table = read_table(other)
    masks = observed_cells(table)
    if rows.names is not None and table.names is not None:
        absent = [name for name in rows.names if name not in table.names]
        if absent:
            raise ValueError(
                f"other must have the columns of X, but lacks {quoted(absent)}. Add them, with missing "
                "values if they are not measured there."
            )
        return masks[:, [table.names.index(name) for name in rows.names]]
    if masks.shape[1] != rows.n_columns:
        raise ValueError(
            f"other must have the {rows.n_columns} columns of X in the same order; got {masks.shape[1]}."
        )
    return masks


def check_levels(levels: Sequence[float]) -> list[float]:
    """The levels in ascending order; raises ValueError unless all are above 0 and at most 1."""
    given: list[Any] = list(levels) if isinstance(levels, Iterable) else [levels]
    wrong = [level for level in given if not is_real(level) or not 0 < level <= 1]
    if wrong or not given:
        raise ValueError(
            "levels must be shares of missing values above 0 and at most 1, such as [0.2, 0.5]; got "
            f"{shown(wrong[0] if wrong else levels)}."
        )
    return sorted({float(level) for level in given})


def column_settings(columns: Sequence[tuple[int, ...]]) -> list[Setting]:
    """Settings in each of which the columns of one tuple are missing in all rows."""
    return [Setting("columns", None, Outage(list(positions))) for positions in columns]


def _fitted(mechanism: Mechanism, numbers: NDArray, rng: Rng) -> Mechanism:
    """The mechanism, fitted to the rows unless it is fitted already: the user may have chosen its drivers."""
    try:
        mechanism.draw(numbers[:1], to_rng(0))
    except NotFittedError:
        return mechanism.fit(numbers, rng)
    return mechanism


def _at_levels(
    mechanism: Mechanism, levels: Sequence[float], is_natural_only: bool
) -> Iterator[tuple[float | None, Mechanism]]:
    if not isinstance(mechanism, Resampled):
        yield from ((level, mechanism.at(level)) for level in levels)
        return
    yield mechanism.level, mechanism
    masks = mechanism.fitted_masks if mechanism.masks is None else mechanism.masks
    assert masks is not None
    shares = (~masks).mean(axis=1)
    for level in levels:
        # Existing masks can only be mixed to shares between those of the most and the least complete row.
        if not is_natural_only and shares.min() < level < shares.max():
            yield level, mechanism.at(level)


def column_importance(rows: TestRows) -> Floats:
    """How informative each column (d,) is about the target, by itself; the sum over several outputs."""
    table = np.where(rows.observed, rows.numbers, np.nan)
    targets = rows.y.reshape(len(rows.y), -1).T
    return np.sum(
        [univariate_importance(table, target, rows.is_classification) for target in targets], axis=0
    )
