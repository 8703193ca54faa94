"""The verdict on a claim follows a stated rule, checked on results small enough to do by hand."""

from dataclasses import replace
from statistics import fmean

import pytest
from scipy.stats import ttest_1samp

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.comparison import compare
from stablemiss.experiments.published import read_published
from stablemiss.experiments.tables import ABLATION, PAPER_METHODS, TABLES, WEIGHTED_ABLATION
from stablemiss.report.claims import OUR_FORM, judge_claims

# Columns 10%, 50% (tested as trained) and 90%.
BUDGET = replace(BUDGETS["quick"], n_instances=3)


@pytest.fixture
def judge(make_records):
    def claims(name, errors):
        records = make_records(name, {"optimal": [(1.0, 1.0, 1.0)] * 3, **errors}, BUDGET)
        return judge_claims([compare(TABLES[name], records, BUDGET)])

    return claims


def eight(stablemiss, neumiss=((10.0, 10.0, 10.0),) * 3):
    """All eight methods of table 1; those that are not given have 30 everywhere."""
    errors = {label: [(30.0, 30.0, 30.0)] * 3 for label in PAPER_METHODS}
    return errors | {"stablemiss": stablemiss, "neumiss": list(neumiss)}


@pytest.mark.parametrize(
    ("stablemiss", "n_first", "verdict"),
    [
        # Lowest in both shifted columns; 50% does not count.
        ([(9.0, 99.0, 9.0)] * 3, 2, "held"),
        # Lowest at 10% alone, and clearly worse on average.
        ([(9.0, 9.0, 20.0)] * 3, 1, "in part"),
        # Lowest nowhere and worse on average: that 5% above, 1% below and 5% above NeuMiss is not clear does
        # not make the claim true.
        ([(10.5, 9.0, 10.5), (9.9, 9.0, 9.9), (10.5, 9.0, 10.5)], 0, "not held"),
        # Lowest nowhere, and clearly worse, although lowest at 50%.
        ([(11.0, 1.0, 11.0), (11.1, 1.0, 11.1), (11.2, 1.0, 11.2)], 0, "not held"),
    ],
)
def test_a_table_is_judged_in_its_shifted_columns(judge, stablemiss, n_first, verdict):
    [claim] = judge("table1", eight(stablemiss))
    assert claim.verdict == verdict
    assert (claim.measured.n_first, claim.measured.n) == (n_first, 2)
    assert claim.measured.best_other == "neumiss"


def test_lowest_on_average_is_in_part_without_being_lowest_anywhere(judge):
    """A different method is lowest in each column."""
    errors = eight([(11.0, 1.0, 11.0)] * 3, [(10.0, 1.0, 30.0)] * 3)
    errors["dwr"] = [(30.0, 1.0, 10.0)] * 3
    [claim] = judge("table1", errors)
    assert (claim.measured.n_first, claim.verdict) == (0, "in part")
    assert claim.measured.mean < 0


def test_the_difference_is_to_the_best_other_on_average_with_its_interval_over_instances(judge):
    """At 10% NeuMiss is lower than DWR, but on average DWR is."""
    stablemiss = [(20.0, 1.0, 20.0), (20.0, 1.0, 21.0), (20.0, 1.0, 22.0)]
    errors = eight(stablemiss, [(18.0, 1.0, 29.0)] * 3) | {"dwr": [(19.0, 1.0, 16.0)] * 3}
    lead = judge("table1", errors)[0].measured
    differences = [fmean((20 / 19 - 1, last / 16 - 1)) for last in (20, 21, 22)]
    assert lead.best_other == "dwr"
    assert lead.mean == pytest.approx(fmean(differences))
    assert lead.interval == pytest.approx(tuple(ttest_1samp(differences, 0).confidence_interval(0.95)))


def test_the_published_lead_is_that_of_the_printed_numbers(judge):
    printed = read_published("table1")
    errors = {
        (label, level): printed[label, level] + printed["reference", level]
        for label in ("stablemiss", "neumiss")
        for level in (0.1, 0.9)
    }
    expected = fmean(errors["stablemiss", level] / errors["neumiss", level] - 1 for level in (0.1, 0.9))
    # Also without any record of ours.
    [claim] = judge("table1", {})
    assert claim.published.mean == pytest.approx(expected)
    assert (claim.published.best_other, claim.published.n_first, claim.published.n) == ("neumiss", 2, 2)
    assert claim.published.interval is None


def test_a_missing_method_or_column_leaves_a_claim_open(judge, make_records):
    errors = eight([(9.0, 9.0, 9.0)] * 3)
    without = {label: rmse for label, rmse in errors.items() if label != "miwae"}
    assert judge("table1", without)[0].verdict == "not enough records"
    records = make_records("table1", {"optimal": [(1.0,) * 3] * 3, **errors}, BUDGET)
    cut = [replace(one, scores=one.scores[:2]) if one.label == "dwr" else one for one in records]
    [claim] = judge_claims([compare(TABLES["table1"], cut, BUDGET)])
    assert (claim.verdict, claim.measured) == ("not enough records", None)


def variants(full, intra, inter, unweighted, names=ABLATION):
    """RMSE of each variant in all columns of three instances, which differ by a hundredth."""
    values = zip((*names[:3], "stablemiss_unweighted"), (full, intra, inter, unweighted), strict=True)
    return {label: [(rmse + 0.01 * i,) * 3 for i in range(3)] for label, rmse in values}


@pytest.mark.parametrize("names", [ABLATION, WEIGHTED_ABLATION])
@pytest.mark.parametrize(
    ("rmse", "verdict"),
    [((9, 10, 10, 10), "held"), ((9, 8, 10, 10), "in part"), ((9, 10, 10, 9), "not held")],
)
def test_figure_2_holds_if_all_terms_are_clearly_lower_than_every_other_variant(judge, names, rmse, verdict):
    claims = {claim.form: claim.verdict for claim in judge("figure2", variants(*rmse, names))}
    form = "" if names == ABLATION else OUR_FORM
    assert claims[form] == verdict
    # The other form was not run.
    assert [claims[other] for other in claims if other != form] == ["not enough records"]


def test_figure_2_needs_several_instances(make_records):
    one = BUDGETS["quick"]
    errors = {label: rmse[:1] for label, rmse in variants(9, 10, 10, 10).items()}
    records = make_records("figure2", {"optimal": [(1.0,) * 3], **errors}, one)
    claim = judge_claims([compare(TABLES["figure2"], records, one)])[0]
    assert claim.verdict == "not enough records"


@pytest.mark.parametrize(("full", "verdict"), [(10.09, "held"), (9.91, "held"), (10.2, "not held")])
def test_figure_3_holds_if_weights_change_little_in_every_column(judge, full, verdict):
    errors = variants(10.0, 10.0, 10.0, 10.0)
    # In a single column, and every instance.
    errors["stablemiss_full"] = [(a, b, full + 0.01 * i) for i, (a, b, _) in enumerate(errors[ABLATION[0]])]
    claim = judge("figure3", errors)[0]
    assert claim.verdict == verdict
    assert claim.largest_change == pytest.approx(abs(full - 10) / 10.01)
    assert claim.measured.best_other == "stablemiss_unweighted"


def test_every_claim_of_the_paper_is_judged_once_and_figures_also_with_our_weights(complete):
    standard = BUDGETS["standard"]
    claims = judge_claims(compare(table, complete, standard) for table in TABLES.values())
    assert [claim.name for claim in claims if not claim.form] == list(TABLES)
    assert [claim.name for claim in claims if claim.form] == ["figure2", "figure3"]
    assert all(claim.text == TABLES[claim.name].claim for claim in claims)
    assert "not enough records" not in {claim.verdict for claim in claims}
