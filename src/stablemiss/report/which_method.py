"""All methods on all data sets in one table: mean and worst error, and the time of a fit."""

from __future__ import annotations

from statistics import fmean

from stablemiss.experiments.array_tables import BERLIN, MNIST
from stablemiss.experiments.tables import DATA_TITLES, PAPER_METHODS
from stablemiss.report.markdown import markdown_table
from stablemiss.report.summary import Summary, distinct_columns
from stablemiss.report.text import as_percent, number, title_of

ARRAY_TITLES = {MNIST: "MNIST", BERLIN: "Berlin traffic"}
# label → data set → errors of its columns, relative to a reference.
Errors = dict[str, dict[str, list[float]]]


def which_method_markdown(summary: Summary) -> str:
    """Mean and, in brackets, worst error of every method on each data set, and the median time of a fit.

    Errors are relative to the reference of the tables, and on images and sensors to the lowest error of the
    column. Only columns in which all eight methods of the paper were run are counted, and of images and
    sensors only the instances on which they were. Methods that were not run in all of them say so, and come
    last.

    Parameters
    ----------
    summary : Summary
    """
    blocks = [
        _block(summary, _table_errors(summary), DATA_TITLES, ("tables",)),
        _block(summary, _array_errors(summary), ARRAY_TITLES, ("images", "sensors")),
    ]
    return "\n\n".join(block for block in blocks if block)


def _table_errors(summary: Summary) -> Errors:
    errors: Errors = {}
    for comparison, position in distinct_columns(summary.tables):
        column = comparison.column(position)
        if column.keys() >= set(PAPER_METHODS):
            for label, cell in column.items():
                by_data = errors.setdefault(label, {})
                by_data.setdefault(comparison.table.dataset, []).append(cell.relative_gap)
    return errors


def _array_errors(summary: Summary) -> Errors:
    errors: Errors = {}
    for comparison in summary.arrays:
        for position in range(len(comparison.columns)):
            means = comparison.common_means(position)
            for label, rmse in means.items():
                by_data = errors.setdefault(label, {})
                by_data.setdefault(comparison.table.dataset, []).append(rmse / min(means.values()) - 1)
    return errors


def _block(summary: Summary, errors: Errors, titles: dict[str, str], kinds: tuple[str, ...]) -> str:
    """One table; methods in the order of their mean error over data sets, incomplete ones last."""
    data = [name for name in titles if any(name in by_data for by_data in errors.values())]
    if not data:
        return ""
    n_columns = {name: max(len(by_data.get(name, ())) for by_data in errors.values()) for name in data}
    seconds = {
        (timing.label, timing.data): timing.median_fit for timing in summary.timings if timing.data in kinds
    }
    rows = []
    for label, by_data in errors.items():
        known = [by_data.get(name, []) for name in data]
        n_absent = sum(len(values) < n_columns[name] for name, values in zip(data, known, strict=True))
        order = (n_absent, fmean(fmean(values) for values in known if values))
        cells = [_mean_and_worst(values, n_columns[name]) for name, values in zip(data, known, strict=True)]
        times = [seconds.get((label, kind)) for kind in kinds]
        cells += ["–" if time is None else f"{number(time, 1 if time < 10 else 0)} s" for time in times]
        rows.append((order, [title_of(label), *cells]))
    rows.sort(key=lambda row: row[0])
    names = [titles[name].partition(" (")[0] for name in data]
    fits = [f"fit, {kind}" for kind in kinds] if len(kinds) > 1 else ["fit"]
    return markdown_table(["", *names, *fits], [cells for _, cells in rows], "--:")


def _mean_and_worst(errors: list[float], n_columns: int) -> str:
    """Such as "3.1% (7.0%)", or "3.1% (7.0%) in 2 of 9" if a method was not run in all columns."""
    if not errors:
        return "–"
    part = "" if len(errors) == n_columns else f" in {len(errors)} of {n_columns}"
    return f"{as_percent(fmean(errors))} ({as_percent(max(errors))}){part}"
