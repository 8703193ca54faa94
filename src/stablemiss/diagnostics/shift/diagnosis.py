"""`diagnose`: has the missingness shifted, how, and what will it cost?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import narwhals as nw
import numpy as np

from stablemiss.checks import check_number
from stablemiss.diagnostics.shift.findings import TITLES, Comparison, Finding, Verdict, compare_tables
from stablemiss.diagnostics.shift.forecast import Forecast, ForecastError, forecast
from stablemiss.diagnostics.shift.tables import TwoTables
from stablemiss.estimators.frames import empty_frame, make_frame
from stablemiss.pages import PageResult, to_plain
from stablemiss.seeding import one_of, to_rng
from stablemiss.text import count, show_number

# Findings of a kind that the text for a terminal lists.
MAX_LISTED = 5
# And that a dictionary and a page contain; of pairs there can be very many.
MAX_STORED = 100
# Probability to name a driver of a column's missingness in `to_frame` although there is none.
DRIVER_LEVEL = 0.05
EXIT_CODES: dict[Verdict, int] = {"no shift": 0, "shift": 1, "cannot tell": 2}


def diagnose(
    reference: Any,
    current: Any,
    model: Any = None,
    y: Any = None,
    *,
    alpha: float = 0.05,
    min_change: float = 0.01,
    random_state: Any = 0,
    rng: Any = None,
) -> Diagnosis:
    """Compare the missing values of two tables, and forecast what the difference costs a model.

    Masks are compared column by column, pair by pair, in their dependence on values, and jointly; values are
    compared apart from masks. The probability that any of these tests reports a shift of the masks although
    nothing changed is about `alpha`.

    Parameters
    ----------
    reference : table
        Rows from before, such as rows that were held out when a model was trained. numpy, pandas, polars or
        pyarrow; NaN, None and null mean missing.
    current : table
        New rows. Columns are matched by name. A column that is absent counts as missing in all rows; columns
        that the reference does not have are listed and ignored.
    model : estimator, default=None
        A fitted regressor or classifier, whose error under the masks of `current` is forecast. It should not
        have been fitted on the rows of `reference`, on which its errors would be too low.
    y : (n,), default=None
        Targets of the rows of `reference`, needed with a model. Rows whose target is missing are compared,
        but not used for the forecast.
    alpha : float, default=0.05
        Probability of a false alarm. A smaller value gives fewer false alarms and finds larger shifts only.
    min_change : float, default=0.01
        Smaller changes of missing rates, correlations and the like do not count, however certain they are.
        Raise it for large tables, in which every change is certain.
    random_state : int, Generator or None, default=0
        Draws rows of large tables, folds and permutations.
    rng : int, Generator or None, default=None
        Another name of `random_state`, which it replaces if it is given.

    Returns
    -------
    Diagnosis

    See Also
    --------
    stress_test : What missing values would cost, before any go missing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> before, after = rng.normal(size=(2, 500, 3))
    >>> before[rng.random(500) < 0.1, 0] = np.nan
    >>> after[rng.random(500) < 0.4, 0] = np.nan
    >>> result = diagnose(before, after)
    >>> result.verdict
    'shift'
    >>> result.findings[0].columns
    ('0',)
    """
    check_number({"alpha": alpha, "min_change": min_change}, alpha="(0, 1)", min_change="[0, 1)")
    if model is not None and y is None:
        raise ValueError("Pass y, the targets of the rows of reference, so that the error can be forecast.")
    rng = to_rng(one_of(random_state, rng))
    tables = TwoTables.of(reference, current)
    comparison = compare_tables(tables, alpha, min_change, rng)
    expected, notes = None, _notes(comparison)
    if model is not None:
        try:
            expected = forecast(model, reference, current, y, comparison, rng)
        except ForecastError as error:
            notes.append(str(error))
    return Diagnosis(comparison, expected, notes, empty_frame(reference))


class Diagnosis(PageResult):
    """What moved between two tables.

    Attributes
    ----------
    verdict : {"shift", "no shift", "cannot tell"}
        Whether the masks moved; "cannot tell" if there are too few rows.
    values_verdict : {"shift", "no shift", "cannot tell"}
        Whether the values moved, in a way that no change of the masks explains.
    findings : list of Finding
        What moved, the most certain first within each kind.
    absent, added : list of str
        Columns that only the reference, or only the current table, has.
    newly_missing : list of str
        Columns without missing values in the reference and with some in the current table.
    forecast : Forecast or None
        Expected error of the model, if one was given and could predict.
    notes : list of str
        What limits the result.

    See Also
    --------
    diagnose : Makes it.
    """

    def __init__(self, comparison: Comparison, expected: Forecast | None, notes: list[str], like: Any):
        self.comparison = comparison
        self.forecast = expected
        self.notes = notes
        self._like = like

    @property
    def verdict(self) -> Verdict:
        return self.comparison.verdict

    @property
    def values_verdict(self) -> Verdict:
        return self.comparison.values_verdict

    @property
    def findings(self) -> list[Finding]:
        return self.comparison.findings

    @property
    def absent(self) -> list[str]:
        return self.comparison.tables.absent

    @property
    def added(self) -> list[str]:
        return self.comparison.tables.added

    @property
    def newly_missing(self) -> list[str]:
        tables = self.comparison.tables
        is_new = tables.reference.all(axis=0) & ~tables.current.all(axis=0)
        return [tables.names[j] for j in np.flatnonzero(is_new) if tables.names[j] not in tables.absent]

    @property
    def exit_code(self) -> int:
        """0 without a shift of the masks, 1 with one, 2 if there are too few rows to tell."""
        return EXIT_CODES[self.verdict]

    @property
    def summary(self) -> str:
        """The verdict in one sentence, with the number that matters most."""
        masks, values = self.verdict, self.values_verdict
        if masks == "cannot tell":
            sentence = "Too few rows to tell whether the missingness shifted"
            if (change := self.comparison.detectable_change) < 1:
                sentence += (
                    f": to be noticed, a missing rate would have to change by about {100 * change:.0f} "
                    "percentage points"
                )
            sentence += "."
        elif masks == "no shift":
            sentence = "No shift of the missingness was found."
        else:
            sentence = f"The missingness shifted: {_decapitalise(self._main_change())}"
        if values == "shift":
            moved = [finding.columns[0] for finding in self.findings if finding.kind == "value"]
            also = " as well" if masks == "shift" else ""
            sentence += f" The values of {_listed(moved)} moved{also}, which no change of the masks explains."
        elif masks == "shift" and values == "no shift":
            sentence += " The observed values did not move."
        if self.forecast is not None:
            sentence += " " + self._cost()
        return sentence

    def _main_change(self) -> str:
        if self.absent:
            rates = [one for one in self.findings if one.kind == "rate" and one.columns[0] not in self.absent]
            more = f"; {count(len(rates), 'more missing rate')} changed" if rates else ""
            return f"{_listed(self.absent)} {'is' if len(self.absent) == 1 else 'are'} absent{more}."
        rates = [one for one in self.findings if one.kind == "rate"]
        if rates:
            largest = max(rates, key=lambda one: abs(one.after - one.before))
            more = f"; {count(len(rates) - 1, 'more rate')} changed" if len(rates) > 1 else ""
            return largest.sentence[:-1] + more + "."
        return self.findings[0].sentence

    def _cost(self) -> str:
        assert self.forecast is not None
        before, after, metric = self.forecast.before, self.forecast.after, self.forecast.metric
        if not self.forecast.is_clear:
            sentence = f"The masks do not clearly change the model's {metric}, {show_number(before)}."
        else:
            low, high = self.forecast.interval
            change = f": {self.forecast.change:+.0%}" if before > 0 else ""
            sentence = (
                f"Under the new masks the model's {metric} is expected to be {show_number(after)} (95% "
                f"interval {show_number(low)} to {show_number(high)}) instead of "
                f"{show_number(before)}{change}."
            )
        if after >= self.forecast.constant:
            sentence += " That is no better than a constant prediction."
        return sentence

    def to_frame(self) -> Any:
        """One row per column: missing rates, p-values, whether its rate, its links or its values moved.

        Returns
        -------
        data frame
            In the library of `reference`, or for arrays in the first of pandas, polars and pyarrow that is
            installed. "rate_p_value" and "value_p_value" are adjusted for the number of columns. "driver" is
            the column on whose value its missingness depends most in the current table, None if on none.
        """
        columns = self.to_dict()["columns"]
        keys = list(columns[0])
        text = {key for key in keys if key in ("column", "driver", "driver_before")}
        flags = {key for key in keys if key.startswith("is_")}
        arrays = {
            key: np.array([one[key] for one in columns], dtype=object if key in text | flags else float)
            for key in keys
        }
        types = dict.fromkeys(text, nw.String) | dict.fromkeys(flags, nw.Boolean)
        return make_frame(arrays, types, like=self._like, keep_index=False)

    def to_dict(self) -> dict[str, Any]:
        comparison, tables = self.comparison, self.comparison.tables
        forecast = self.forecast
        return to_plain(
            {
                "verdict": self.verdict,
                "values_verdict": self.values_verdict,
                "summary": self.summary,
                "notes": self.notes,
                "n_reference": len(tables.reference),
                "n_current": len(tables.current),
                "alpha": comparison.alpha,
                "min_change": comparison.min_change,
                "detectable_change": comparison.detectable_change,
                "absent": self.absent,
                "added": self.added,
                "newly_missing": self.newly_missing,
                "retyped": tables.retyped,
                "sequential": tables.sequential,
                "unseen_masks": vars(comparison.unseen),
                "joint": vars(comparison.joint),
                "n_findings": dict(Counter(one.kind for one in self.findings)),
                "findings": [
                    one
                    for kind in TITLES
                    for one in [one for one in self.findings if one.kind == kind][:MAX_STORED]
                ],
                "columns": self._columns(),
                "forecast": None
                if forecast is None
                else {
                    **vars(forecast),
                    "change": forecast.change,
                    "is_clear": forecast.is_clear,
                },
            }
        )

    def _columns(self) -> list[dict[str, Any]]:
        comparison, tables = self.comparison, self.comparison.tables
        moved = {(one.kind, name) for one in self.findings for name in (*one.columns[:1], *one.alike)}
        rows = []
        for j, name in enumerate(tables.names):
            drivers = [comparison.links.driver(j, is_current, DRIVER_LEVEL) for is_current in (False, True)]
            before, after = (None if k is None else tables.names[k] for k in drivers)
            rows.append(
                {
                    "column": name,
                    "missing_before": float(1 - tables.reference[:, j].mean()),
                    "missing_now": float(1 - tables.current[:, j].mean()),
                    "rate_p_value": float(comparison.rate_p[j]),
                    "is_rate_shifted": ("rate", name) in moved,
                    "driver_before": before,
                    "driver": after,
                    "is_link_shifted": ("link", name) in moved,
                    "value_p_value": float(comparison.value_p[j]),
                    "is_value_shifted": ("value", name) in moved,
                }
            )
        return rows

    def to_html(self) -> str:
        from stablemiss.diagnostics.shift.page import render_diagnosis

        return render_diagnosis(self)

    def __str__(self) -> str:
        tables = self.comparison.tables
        lines = [
            self.summary,
            "",
            f"Compared: {len(tables.reference):,} reference and {len(tables.current):,} current rows, "
            f"{len(tables.names)} columns.",
        ]
        for title, names in (
            ("Absent now", self.absent),
            ("New, ignored", self.added),
            ("Missing for the first time", self.newly_missing),
            ("Other type than before, values not compared", tables.retyped),
            ("Times or running numbers, values not compared", tables.sequential),
        ):
            if names:
                lines.append(f"{title}: {_listed(names)}.")
        lines += self.notes
        for kind, title in TITLES.items():
            found = [one for one in self.findings if one.kind == kind]
            if found:
                lines += ["", title, *(f"  {one.sentence}" for one in found[:MAX_LISTED])]
                if len(found) > MAX_LISTED:
                    lines.append(f"  … and {len(found) - MAX_LISTED} more.")
        unseen = self.comparison.unseen
        lines += [
            "",
            f"{unseen.share:.1%} of the current rows have a mask that no reference row has; "
            f"{unseen.expected_share:.1%} would be usual.",
        ]
        if self.forecast is not None and self.forecast.own_estimate is not None:
            estimate = f"{self.forecast.metric} {show_number(self.forecast.own_estimate)}"
            lines += ["", f"The model's own estimate for the current rows is {estimate}."]
        if self.forecast is not None and self.forecast.causes:
            lines += ["", "Error if only the missing rate of one column had changed"]
            metric = self.forecast.metric
            for cause in self.forecast.causes:
                alike = f" and {cause.n_alike} more, missing in the same rows" if cause.n_alike else ""
                lines.append(f"  {cause.column!r}{alike}: {metric} {show_number(cause.error)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict}, {len(self.findings)} findings>"


def _notes(comparison: Comparison) -> list[str]:
    """What limits the result."""
    if not comparison.has_runs:
        return []
    return [
        "Values go missing in runs of successive rows, so rows are not independent. Tests allow for this "
        "roughly; masks of all columns together are not tested."
    ]


def _listed(names: list[str], limit: int = 3) -> str:
    shown = [repr(name) for name in names[:limit]]
    if len(names) > limit:
        shown.append(f"{len(names) - limit} more")
    return ", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 else shown[0]


def _decapitalise(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
