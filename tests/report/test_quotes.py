"""Numbers quoted in the conclusions of docs/reproduction.md agree with the stored records.

The page quotes a statistic as ``2<!-- first.shift -->``: the number, then its name in a comment.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.comparison import Comparison
from stablemiss.experiments.published import read_published
from stablemiss.experiments.tables import ABLATION, LINEAR, OPTIMAL, PAPER_METHODS
from stablemiss.report.summary import SUBJECT, Summary, distinct_columns, summarise
from stablemiss.results import Store

ROOT = Path(__file__).parents[2]
UNWEIGHTED = "stablemiss_unweighted"
QUOTE = re.compile(r"([−-]?[\d.,]*\d)(%?)<!-- ([\w. ]+) -->")
Statistics = dict[str, float]


def statistics(summary: Summary) -> Statistics:
    """Name → value. Relative gaps and differences are fractions, not percentages."""
    tables = summary.tables
    values = _lead_of_subject(tables, "shift") | _lead_of_subject(tables, "same") | _sizes(tables)
    for comparison in tables:
        name = comparison.table.name
        values |= _wins(comparison)
        # The pairs give the unweighted variant relative to StableMiss, hence the sign.
        values |= {f"weights.{name}": -pair.mean for pair in comparison.pairs if pair.label == UNWEIGHTED}
        values |= _mean_of(f"agreement.{name}", comparison.agreement)
    values |= _mean_of("weights.mean", [v for key, v in values.items() if key.startswith("weights.")])
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
    return values


def read_quotes(page: str) -> list[tuple[str, str, str]]:
    """Every quoted statistic of a page: its digits, its unit ("%" or ""), and its name."""
    return QUOTE.findall(page)


def format_like(value: float, digits: str, unit: str) -> str:
    """A value with the unit and the number of decimals of a quote."""
    decimals = len(digits.partition(".")[2])
    return f"{value * (100 if unit else 1):z.{decimals}f}".replace("-", "−")


def _mean_of(name: str, values: Sequence[float | None]) -> Statistics:
    known = [value for value in values if value is not None]
    return {name: fmean(known)} if known else {}


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


def _lead_of_subject(tables: Sequence[Comparison], name: str) -> Statistics:
    """How often StableMiss is best of the paper's methods, and its mean gap and that of the best other one.

    Computed over the columns with a shift if `name` is "shift", and over those without one if it is "same".
    """
    columns = []
    for comparison, number in distinct_columns(tables):
        cells = {
            label: cell
            for label, cell in comparison.column(number).items()
            if label in PAPER_METHODS and cell.published is not None
        }
        if len(cells) == len(PAPER_METHODS) and cells[SUBJECT].is_as_trained == (name == "same"):
            columns.append((comparison.table.reference == OPTIMAL, cells))
    values: Statistics = {f"columns.{name}": len(columns)}
    for suffix, gap, relative_gap in (
        ("", "gap", "relative_gap"),
        (".published", "published", "published_relative_gap"),
    ):
        is_first = [
            getattr(cells[SUBJECT], gap) == min(getattr(cell, gap) for cell in cells.values())
            for _, cells in columns
        ]
        values[f"first{suffix}.{name}"] = sum(is_first)
        # Relative gaps are averaged only where the reference is Optimal.
        relative_gaps = [
            {label: getattr(cell, relative_gap) for label, cell in cells.items()}
            for has_optimal, cells in columns
            if has_optimal
        ]
        values |= _mean_of(f"gap{suffix}.{name}", [gaps[SUBJECT] for gaps in relative_gaps])
        best_others = [min(gaps[label] for label in gaps if label != SUBJECT) for gaps in relative_gaps]
        values |= _mean_of(f"best_other{suffix}.{name}", best_others)
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
        (comparison.table.reference == OPTIMAL, cell)
        for comparison, number in distinct_columns(tables)
        for label, cell in comparison.column(number).items()
        if label in PAPER_METHODS
    ]
    known = [cell for _, cell in cells if cell.published_is_worse_than_constant is not None]
    values: Statistics = {
        "errors": len(known),
        "worse_than_constant": sum(cell.is_worse_than_constant for cell in known),
        "worse_than_constant.published": sum(bool(c.published_is_worse_than_constant) for c in known),
    }
    relative_gaps = [
        (cell.relative_gap, cell.published_relative_gap)
        for has_optimal, cell in cells
        if has_optimal and cell.published_relative_gap is not None
    ]
    if relative_gaps:
        values["median.optimal"] = median(ours for ours, _ in relative_gaps)
        values["median.optimal.published"] = median(published for _, published in relative_gaps)
    return values


def test_statistics_of_a_small_table(stored):
    values = statistics(summarise(stored, BUDGETS["quick"]))
    # At 10, 50 and 90% OLS has gaps 30, 60, 80, StableMiss 50, 30, 50, NeuMiss 40, 40, 120.
    assert (values["wins.table1.all.ols"], values["wins.table1.all.stablemiss_unweighted"]) == (1, 1)
    assert (values["wins.table1.eight.neumiss"], values["wins.table1.eight.stablemiss"]) == (1, 2)
    assert (values["beaten.neumiss"], values["columns.neumiss"]) == (2, 3)
    assert values["beaten_by.ols"] == 1


def at_levels(records, *levels):
    """The records with the scores of some test levels alone."""
    return [
        replace(one, scores=tuple(score for score in one.scores if score.level in levels)) for one in records
    ]


def with_all_eight(stored):
    """Table 1 with all eight methods; those that are not in `stored` have an RMSE of 499 everywhere."""
    neumiss = next(record for record in stored if record.label == "neumiss")
    scores = tuple(replace(score, error=499.0) for score in neumiss.scores)
    labels = {"partial_vae", "miwae", "p_bigan", "dwr", "srdo", "stablenet"}
    kept = [record for record in stored if record.label not in labels]
    return [*kept, *(replace(neumiss, label=label, scores=scores) for label in labels)]


def of(records, budget="quick"):
    return statistics(summarise(records, BUDGETS[budget]))


def test_the_paper_s_method_against_the_best_other_in_columns_with_a_shift(stored):
    values = of(at_levels(with_all_eight(stored), 0.1, 0.9))
    assert (values["first.shift"], values["first.published.shift"], values["columns.shift"]) == (1, 2, 2)
    # Gaps of 50 and 50 where Optimal has 100 and 400; NeuMiss 40 and 120, the others 399 and 99.
    assert values["gap.shift"] == pytest.approx((50 / 100 + 50 / 400) / 2)
    assert values["best_other.shift"] == pytest.approx((40 / 100 + 99 / 400) / 2)
    assert (values["beaten.neumiss"], values["beaten.srdo"], values["columns.srdo"]) == (1, 2, 2)


def test_columns_with_and_without_a_shift_are_counted_separately(complete):
    values = of(complete, "standard")
    # Tables 1, 2, 3 and 6 to 9 have eight columns with a shift each, tables 10 and 11 nine each.
    assert (values["columns.shift"], values["columns.same"]) == (74, 6)
    clear = [values[f"clearly.{verdict}.partial_vae"] for verdict in ("lower", "higher", "neither")]
    assert sum(clear) == 6


def test_gaps_to_another_reference_are_left_out_of_the_mean_gap(complete):
    """Table 3 is measured from StableMiss itself."""
    without = [record for record in complete if record.dataset != "house_sales"]
    for name in ("gap.shift", "best_other.shift", "median.optimal"):
        assert of(complete, "standard")[name] == of(without, "standard")[name]


def test_equal_gaps_both_win(stored):
    ols = next(record for record in stored if record.label == "ols")
    values = of(at_levels([*stored, replace(ols, label="boosting")], 0.1))
    assert (values["wins.table1.all.ols"], values["wins.table1.all.boosting"]) == (1, 1)


def test_the_effect_of_weights_is_the_relative_increase_of_the_rmse(stored):
    values = of(stored)
    # RMSE 160, 225, 455 without and 150, 230, 450 with: +6.67%, −2.17% and +1.11% without them.
    assert values["weights.table1"] == pytest.approx(-(160 / 150 + 225 / 230 + 455 / 450 - 3) / 3)
    assert values["weights.table2"] == pytest.approx(-(225 / 230 - 1))
    assert (values["beaten.stablemiss_unweighted"], values["columns.stablemiss_unweighted"]) == (2, 3)


def test_a_figure_compares_the_full_variant_with_the_best_other(complete):
    values = of(complete, "standard")
    assert values["figure2.full"] == pytest.approx(0.243, abs=0.0005)
    assert values["figure2.best_other"] == pytest.approx(0.264, abs=0.0005)
    assert values["figure2.full.last"] == pytest.approx(0.207, abs=0.0005)
    assert values["figure2.best_other.last"] == pytest.approx(0.226, abs=0.0005)
    assert values["figure2.largest_change"] == pytest.approx(0.049, abs=0.0005)


def test_published_errors_worse_than_a_constant_and_median_gaps(stored):
    values = of(at_levels(stored, 0.9))
    # Ours: 120 and 50 of 400; published: 680.13 and 468.12 of 1706.
    assert values["median.optimal"] == pytest.approx((120 + 50) / 2 / 400)
    assert values["median.optimal.published"] == pytest.approx((680.13 + 468.12) / 2 / 1706, abs=1e-4)
    assert values["errors"] == 2
    assert (values["worse_than_constant"], values["worse_than_constant.published"]) == (1, 2)


def test_the_rank_correlation_is_minus_one_for_the_reversed_order(stored):
    published = read_published("table1")
    neumiss, optimal = (next(one for one in stored if one.label == k) for k in ("neumiss", "optimal"))
    reversed_order = [
        replace(
            neumiss,
            label=label,
            scores=tuple(
                replace(score, error=9000.0 - published[label, score.level])
                for score in neumiss.scores
                if score.level != 0.5
            ),
        )
        for label in {key[0] for key in published} - {"reference"}
    ]
    assert of([optimal, *reversed_order])["agreement.mean"] == pytest.approx(-1)


def test_quotes_are_read_with_their_unit_and_compared_at_their_precision():
    page = "first in 2<!-- first.shift --> columns, −0.13<!-- agreement.table6 -->, 27.0%<!-- gap.shift -->"
    quotes = read_quotes(page)
    assert quotes == [("2", "", "first.shift"), ("−0.13", "", "agreement.table6"), ("27.0", "%", "gap.shift")]
    values = {"first.shift": 2, "agreement.table6": -0.127, "gap.shift": 0.2701}
    assert all(format_like(values[name], digits, unit) == digits for digits, unit, name in quotes)
    assert format_like(0.2751, "27.0", "%") != "27.0"


def test_every_statistic_of_a_complete_reproduction_is_defined(complete):
    values = statistics(summarise(complete, BUDGETS["standard"]))
    for name in ("first.shift", "gap.published.same", "weights.mean", "figure2.full.last", "median.optimal"):
        assert name in values
    assert values["columns.shift"] + values["columns.same"] == 80


def test_every_statistic_quoted_in_the_docs_is_that_of_the_records():
    records = Store(ROOT / "paper" / "results" / "standard.jsonl").records()
    quotes = read_quotes((ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8"))
    values = of(records, "standard")
    assert len(quotes) >= 40
    wrong = {
        name: (digits, format_like(values[name], digits, unit))
        for digits, unit, name in quotes
        if format_like(values[name], digits, unit) != digits
    }
    assert wrong == {}
