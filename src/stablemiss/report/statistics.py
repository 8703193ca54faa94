"""Numbers that the verdict of a page and the prose of the docs quote, by name."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from stablemiss.experiments.array_comparison import ArrayComparison
from stablemiss.experiments.comparison import Cell, Comparison, Published, mean_interval
from stablemiss.experiments.tables import ABLATION, LINEAR, OPTIMAL, PAPER_METHODS
from stablemiss.report.claims import SUBJECT, UNWEIGHTED, VERDICTS
from stablemiss.report.long_training import LongTraining
from stablemiss.report.summary import Summary, distinct_columns

Statistics = dict[str, float]


def statistics(summary: Summary) -> Statistics:
    """Name → value; names without enough records are absent.

    Relative gaps and differences are fractions, not percentages.

    ==============================  =========================================================================
    name                            value
    ==============================  =========================================================================
    claims.held, claims.in_part …   claims of the paper by verdict
    columns.shift                   shifted columns in which all eight methods were run
    first.shift                     of these, columns in which StableMiss has the smallest gap of the eight
    gap.shift, best_other.shift     mean relative gap in them of StableMiss, and of the best other of a column
    mean_gap.<label>                the same for one method, in the columns in which it was run
    mean_gap.<label>.stablemiss     StableMiss in the same columns
    mean.<table>.<label>            mean relative gap of a method in all columns of a table
    difference.<table>.<label>      relative difference of StableMiss's RMSE from a method's
    weights.<table>, weights.mean   relative change of StableMiss's RMSE due to its weights
    weights.overall, .low, .high    the same over the tables with most instances, with its 95% interval
    share.<label>                   effective share of the rows under the weights of a method
    rmse.<table>.<label>.<number>   RMSE in a column, counted from 1, of a table of images or sensors;
                                    rmse.<table>.<label>.retrained.<number>: trained under that missingness
    results, results.planned        results that the records have, and that all tables need
    beaten.<label>                  columns in which StableMiss has a smaller gap than a method
    clearly.lower.<label> …         tables in which StableMiss's RMSE is clearly lower, higher, or neither
    wins.<table>.eight.<label>      columns in which a method has the smallest gap of the eight, or of all
    agreement.<table>               rank correlation of our gaps and the published ones
    <figure>.full, .best_other      mean relative gap of the full variant, and of the best other of a column
    late.<table>.<label>            relative change of a method's RMSE if it is trained as published, without
                                    early stopping, mean over columns
    late.constant.<table>.<label>   columns in which it then exceeds that of predicting the mean
    late.columns.<table>            columns that were trained as published
    median.optimal                  median relative gap of the eight methods
    worse_than_constant             errors of the eight methods that exceed that of predicting the mean
    ==============================  =========================================================================

    With ``.published`` in the name, the same for the paper's numbers; ``.same`` instead of ``.shift``: in
    columns that are tested as trained.
    """
    tables = summary.tables
    values = _lead_of_subject(tables, "shift") | _lead_of_subject(tables, "same") | _sizes(tables)
    values |= _mean_gaps(tables) | _weights(tables) | _shares(summary) | _claims(summary)
    for comparison in tables:
        name = comparison.table.name
        values |= {f"difference.{name}.{pair.label}": pair.mean for pair in comparison.pairs}
        values |= _wins(comparison) | _mean_of(f"agreement.{name}", comparison.agreement)
    agreements = [comparison.agreement[number] for comparison, number in distinct_columns(tables)]
    values |= _mean_of("agreement.mean", agreements)
    for result in summary.head_to_head:
        values[f"beaten.{result.label}"] = result.n_won
        values[f"beaten_by.{result.label}"] = result.n - result.n_won
        values[f"columns.{result.label}"] = result.n
        for outcome, n in zip(("lower", "higher", "neither"), result.clear, strict=True):
            values[f"clearly.{outcome}.{result.label}"] = n
    for comparison in summary.comparisons:
        values |= _variants(comparison) if comparison.table.is_figure else {}
    for training in summary.long_trainings:
        values |= _late(training)
    for array in summary.arrays:
        values |= _errors(array)
    for label, by_table in summary.overview.items():
        for name, gap in by_table.items():
            means = {f"mean.{name}.{label}": gap.ours, f"mean.published.{name}.{label}": gap.published}
            values |= {key: mean for key, mean in means.items() if mean is not None}
    return values | {"results": summary.n_results, "results.planned": summary.n_planned}


def _errors(comparison: ArrayComparison) -> Statistics:
    """RMSEs of a table of images or sensors."""
    return {
        f"rmse.{comparison.table.name}.{line.label}{'.retrained' * line.is_retrained}.{number}": cell.rmse
        for line in comparison.lines
        for number, cell in enumerate(line.cells, start=1)
        if cell is not None
    }


def _late(training: LongTraining) -> Statistics:
    """What training without early stopping does to each method."""
    name = training.table.name
    values: Statistics = {f"late.columns.{name}": training.n_columns}
    for line in training.lines:
        pairs = zip(line.stopped, line.as_published, strict=True)
        changes = [late.rmse / stopped.rmse - 1 for stopped, late in pairs if stopped and late]
        values |= _mean_of(f"late.{name}.{line.label}", changes)
        values[f"late.constant.{name}.{line.label}"] = sum(
            late is not None and late.is_worse_than_constant for late in line.as_published
        )
    return values


def _mean_of(name: str, values: Sequence[float | None]) -> Statistics:
    known = [value for value in values if value is not None]
    return {name: fmean(known)} if known else {}


def _claims(summary: Summary) -> Statistics:
    """Verdicts on the paper's claims; what our form of the weights does is no claim of the paper."""
    verdicts = [claim.verdict for claim in summary.claims if not claim.form]
    counts = {f"claims.{verdict.replace(' ', '_')}": verdicts.count(verdict) for verdict in VERDICTS}
    return {"claims": len(verdicts), **counts}


def _weights(tables: Sequence[Comparison]) -> Statistics:
    """What the weights of StableMiss change, by table and overall."""
    pairs = {
        comparison.table.name: pair
        for comparison in tables
        for pair in comparison.pairs
        if pair.label == UNWEIGHTED
    }
    if not pairs:
        return {}
    values = {f"weights.{name}": pair.mean for name, pair in pairs.items()}
    values["weights.mean"] = fmean(pair.mean for pair in pairs.values())
    # The interval needs instances that all have the same tables.
    n_instances = max(len(pair.by_instance) for pair in pairs.values())
    largest = [pair.by_instance for pair in pairs.values() if len(pair.by_instance) == n_instances]
    shared = set.intersection(*(set(one) for one in largest))
    means = [fmean(one[i] for one in largest) for i in sorted(shared)]
    if means:
        values |= {"weights.overall": fmean(means), "weights.tables": len(largest)}
        values["weights.instances"] = len(means)
    if interval := mean_interval(means):
        values["weights.overall.low"], values["weights.overall.high"] = interval
    return values


def _shares(summary: Summary) -> Statistics:
    """Mean over tables of the effective share of the rows, by method."""
    shares: dict[str, list[float]] = {}
    for comparison in summary.tables:
        for weights in summary.weights.get(comparison.table.name, ()):
            if weights.share is not None:
                shares.setdefault(weights.label, []).append(weights.share)
    return {f"share.{label}": fmean(values) for label, values in shares.items()}


def _wins(comparison: Comparison) -> Statistics:
    """Number of columns in which a label has the smallest gap: of all labels, and of the paper's methods."""
    wins: Statistics = {}
    for number in range(len(comparison.columns)):
        cells = comparison.column(number)
        gaps = {label: cell.gap for label, cell in cells.items() if label != LINEAR}
        of_paper = {label: gap for label, gap in gaps.items() if label in PAPER_METHODS}
        for group, ranked in (("all", gaps), ("eight", of_paper)):
            for label, gap in ranked.items():
                if gap == min(ranked.values()):
                    key = f"wins.{comparison.table.name}.{group}.{label}"
                    wins[key] = wins.get(key, 0) + 1
    return wins


def _compared(tables: Sequence[Comparison], is_same: bool) -> list[tuple[Comparison, int]]:
    """Columns with or without a shift in which all eight methods have our result and a published one."""
    return [
        (comparison, number)
        for comparison, number in distinct_columns(tables)
        if (number not in comparison.shifted) == is_same
        and set(PAPER_METHODS) <= comparison.column(number).keys()
        and set(PAPER_METHODS) <= comparison.published_column(number).keys()
    ]


def _lead_of_subject(tables: Sequence[Comparison], name: str) -> Statistics:
    """How often StableMiss is best of the paper's methods, and its mean gap and that of the best other one.

    Computed over the columns with a shift if `name` is "shift", and over those without one if it is "same".
    """
    columns = _compared(tables, name == "same")
    values: Statistics = {f"columns.{name}": len(columns)}
    for suffix in ("", ".published"):
        cells: list[tuple[bool, dict[str, Cell] | dict[str, Published]]] = [
            (
                comparison.table.reference == OPTIMAL,
                comparison.published_column(number) if suffix else comparison.column(number),
            )
            for comparison, number in columns
        ]
        values[f"first{suffix}.{name}"] = sum(
            column[SUBJECT].gap == min(column[label].gap for label in PAPER_METHODS) for _, column in cells
        )
        # Relative gaps are averaged only where the reference is Optimal.
        gaps = [
            {label: column[label].relative_gap or 0.0 for label in PAPER_METHODS}
            for has_optimal, column in cells
            if has_optimal and column[SUBJECT].relative_gap is not None
        ]
        values |= _mean_of(f"gap{suffix}.{name}", [gap[SUBJECT] for gap in gaps])
        best_others = [min(gap[label] for label in gap if label != SUBJECT) for gap in gaps]
        values |= _mean_of(f"best_other{suffix}.{name}", best_others)
    return values


def _mean_gaps(tables: Sequence[Comparison]) -> Statistics:
    """Mean relative gap to Optimal under a shift of every method, and of StableMiss in the same columns."""
    columns = [
        comparison.column(number)
        for comparison, number in _compared(tables, False)
        if comparison.table.reference == OPTIMAL
    ]
    values: Statistics = {}
    for label in sorted({label for column in columns for label in column}):
        both = [(column[label], column[SUBJECT]) for column in columns if label in column]
        values[f"mean_gap.{label}"] = fmean(cell.relative_gap for cell, _ in both)
        values[f"mean_gap.{label}.{SUBJECT}"] = fmean(cell.relative_gap for _, cell in both)
    return values


def _variants(figure: Comparison) -> Statistics:
    """Gaps of the full variant and the best other one, and the largest change of the RMSE due to weights."""
    columns = [figure.column(number) for number in range(len(figure.columns))]
    columns = [column for column in columns if column.keys() >= set(ABLATION)]
    if not columns:
        return {}
    name, subject = figure.table.name, figure.table.subject
    full = [column[subject].relative_gap for column in columns]
    others = [min(column[label].relative_gap for label in ABLATION if label != subject) for column in columns]
    changes = [abs(column[subject].rmse / column[UNWEIGHTED].rmse - 1) for column in columns]
    return {
        f"{name}.full": fmean(full),
        f"{name}.full.last": full[-1],
        f"{name}.best_other": fmean(others),
        f"{name}.best_other.last": others[-1],
        f"{name}.largest_change": max(changes),
    }


def _sizes(tables: Sequence[Comparison]) -> Statistics:
    """Median gaps, ours and published, and numbers of errors that exceed that of a constant."""
    cells = [
        (comparison.table.reference == OPTIMAL, cell, published)
        for comparison, number in distinct_columns(tables)
        for label, cell in comparison.column(number).items()
        if label in PAPER_METHODS and (published := comparison.published_column(number).get(label))
    ]
    known = [
        (cell, published) for _, cell, published in cells if published.is_worse_than_constant is not None
    ]
    values: Statistics = {
        "errors": len(known),
        "worse_than_constant": sum(cell.is_worse_than_constant for cell, _ in known),
        "worse_than_constant.published": sum(bool(one.is_worse_than_constant) for _, one in known),
    }
    relative_gaps = [
        (cell.relative_gap, published.relative_gap)
        for has_optimal, cell, published in cells
        if has_optimal and published.relative_gap is not None
    ]
    if relative_gaps:
        values["median.optimal"] = median(ours for ours, _ in relative_gaps)
        values["median.optimal.published"] = median(published for _, published in relative_gaps)
    return values
