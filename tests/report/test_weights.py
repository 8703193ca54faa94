from dataclasses import replace

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.tables import TABLES
from stablemiss.report.weights import row_weights

TABLE, BUDGET = TABLES["table1"], replace(BUDGETS["quick"], n_instances=2)


def test_shares_are_means_and_gammas_ranges_over_the_records_of_a_table(make_records):
    records = make_records("table1", {"stablemiss": [(1.0,) * 3] * 2, "ols": [(1.0,) * 3]}, BUDGET)
    measured = [{"effective_share": 0.8, "gamma": 5.0, "critical_gamma": 40.0}]
    measured += [{"effective_share": 0.6, "gamma": 0.1, "critical_gamma": 50.0}]
    records = [replace(one, extra=measured[one.instance]) for one in records]
    # A fit of another table.
    records.append(replace(records[0], level=0.1, extra={"effective_share": 0.1}))
    [weights] = row_weights(TABLE, records, BUDGET)
    assert (weights.label, weights.n) == ("stablemiss", 2)
    assert weights.share == pytest.approx(0.7)
    assert (weights.gamma, weights.critical_gamma) == ((0.1, 5.0), (40.0, 50.0))


def test_old_records_without_measurements_have_no_share(make_records):
    [weights] = row_weights(TABLE, make_records("table1", {"dwr": [(1.0,) * 3]}), BUDGETS["quick"])
    assert (weights.label, weights.share, weights.gamma, weights.critical_gamma) == ("dwr", None, None, None)


def test_every_variant_of_a_figure_with_weights_is_listed(complete):
    weights = row_weights(TABLES["figure2"], complete, BUDGETS["standard"])
    assert len(weights) == 6
    assert "stablemiss_unweighted" not in {one.label for one in weights}
