"""Numbers quoted in docs/reproduction.md and two other pages agree with the stored records.

The pages quote a statistic as ``2<!-- first.shift -->``: the number, then its name in a comment.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.published import read_published
from stablemiss.report.statistics import statistics
from stablemiss.report.summary import summarise
from stablemiss.results import Store

ROOT = Path(__file__).parents[2]
PAGES = ("reproduction.md", "images.md", "sensors.md")
QUOTE = re.compile(r"([−-]?[\d.,]*\d)(%?)<!-- ([\w. ]+) -->")


def read_quotes(page: str) -> list[tuple[str, str, str]]:
    """Every quoted statistic of a page: its digits, its unit ("%" or ""), and its name."""
    return QUOTE.findall(page)


def format_like(value: float, digits: str, unit: str) -> str:
    """A value with the unit and the number of decimals of a quote."""
    decimals = len(digits.partition(".")[2])
    return f"{value * (100 if unit else 1):z.{decimals}f}".replace("-", "−")


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
    # Tables 1, 3 and 6 to 9 have eight columns with a shift each, table 2 four, tables 10 and 11 five each.
    assert (values["columns.shift"], values["columns.same"]) == (62, 6)
    clear = [values[f"clearly.{outcome}.partial_vae"] for outcome in ("lower", "higher", "neither")]
    assert sum(clear) == 9


def test_gaps_to_another_reference_are_left_out_of_the_mean_gap(complete):
    """Table 3 is measured from StableMiss itself."""
    without = [record for record in complete if record.dataset != "house_sales"]
    values = of(complete, "standard"), of(without, "standard")
    for name in ("gap.shift", "best_other.shift", "median.optimal"):
        assert values[0][name] == values[1][name]


def test_equal_gaps_both_win(stored):
    ols = next(record for record in stored if record.label == "ols")
    values = of(at_levels([*stored, replace(ols, label="boosting")], 0.1))
    assert (values["wins.table1.all.ols"], values["wins.table1.all.boosting"]) == (1, 1)


def test_the_effect_of_weights_is_the_relative_increase_of_the_rmse(stored):
    values = of(stored)
    # RMSE 160, 225, 455 without and 150, 230, 450 with.
    assert values["weights.table1"] == pytest.approx((150 / 160 + 230 / 225 + 450 / 455 - 3) / 3)
    assert values["weights.table2"] == pytest.approx(230 / 225 - 1)
    assert (values["beaten.stablemiss_unweighted"], values["columns.stablemiss_unweighted"]) == (2, 3)


def test_a_figure_compares_the_full_variant_with_the_best_other(make_records):
    errors = {"optimal": (100.0, 100.0, 200.0), "stablemiss_full": (110.0, 120.0, 240.0)}
    errors |= {"stablemiss_intra": (120.0, 110.0, 260.0), "stablemiss_inter": (130.0, 130.0, 250.0)}
    errors["stablemiss_unweighted"] = (110.0, 120.0, 300.0)
    values = of(make_records("figure2", {label: [rmse] for label, rmse in errors.items()}))
    assert values["figure2.full"] == pytest.approx((0.1 + 0.2 + 0.2) / 3)
    assert values["figure2.best_other"] == pytest.approx((0.1 + 0.1 + 0.25) / 3)
    assert values["figure2.full.last"] == pytest.approx(0.2)
    assert values["figure2.best_other.last"] == pytest.approx(0.25)
    assert values["figure2.largest_change"] == pytest.approx(1 - 240 / 300)


def test_mean_gaps_of_other_methods_are_beside_that_of_stablemiss_in_the_same_columns(stored):
    values = of(at_levels(with_all_eight(stored), 0.1, 0.9))
    assert values["mean_gap.ols"] == pytest.approx((30 / 100 + 80 / 400) / 2)
    assert values["mean_gap.ols.stablemiss"] == values["mean_gap.stablemiss"] == values["gap.shift"]
    ols = next(record for record in stored if record.label == "ols")
    fewer = [record for record in with_all_eight(stored) if record.label != "ols"]
    values = of(at_levels([*fewer, *at_levels([ols], 0.9)], 0.1, 0.9))
    assert values["mean_gap.ols.stablemiss"] == pytest.approx(50 / 400)


def test_the_overall_effect_of_weights_has_an_interval_over_instances(make_records):
    budget = replace(BUDGETS["quick"], n_instances=3)
    with_weights = [(100.0, 100.0, 100.0), (102.0, 102.0, 102.0), (104.0, 104.0, 104.0)]
    errors = {"stablemiss": with_weights, "stablemiss_unweighted": [(100.0,) * 3] * 3}
    errors["optimal"] = [(90.0,) * 3] * 3
    values = statistics(summarise(make_records("table7", errors, budget), budget))
    low, high = ttest_1samp([0.0, 0.02, 0.04], 0).confidence_interval(0.95)
    assert values["weights.overall"] == pytest.approx(0.02)
    assert (values["weights.overall.low"], values["weights.overall.high"]) == pytest.approx((low, high))
    assert (values["weights.instances"], values["weights.tables"]) == (3, 1)


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


def test_every_statistic_of_a_complete_reproduction_is_defined(complete_summary):
    values = statistics(complete_summary)
    for name in ("first.shift", "gap.published.same", "weights.mean", "figure2.full.last", "median.optimal"):
        assert name in values
    assert values["columns.shift"] + values["columns.same"] == 68


def test_every_statistic_quoted_in_the_docs_is_that_of_the_records():
    records, late = (
        Store(ROOT / "paper" / "results" / f"{name}.jsonl").records() for name in ("standard", "as_published")
    )
    pages = ((ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES)
    quotes = [quote for page in pages for quote in read_quotes(page)]
    values = statistics(summarise(records, BUDGETS["standard"], as_published=late))
    assert len(quotes) >= 10
    assert {name for _, _, name in quotes} - values.keys() == set(), "The records do not determine these."
    wrong = {
        name: (digits, format_like(values[name], digits, unit))
        for digits, unit, name in quotes
        if format_like(values[name], digits, unit) != digits
    }
    assert wrong == {}
