"""The shift suite: what its mechanisms hide, and what regret means."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from stablemiss import MissingClassifier, MissingRegressor
from stablemiss.evaluation.suite import REFERENCE, TRAIN_MECHANISM, regret_under_shift, shift_suite
from stablemiss.methods import Boosting

QUICK = Boosting(n_trees=20)


def draw(seed, n=400, d=10):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    return X, 5 * X[:, 3] + 2 * X[:, 7] + rng.normal(size=n)


@pytest.mark.parametrize("seed", range(3))
def test_mechanisms_hide_what_they_say(seed):
    X, y = draw(seed, n=4000)
    rng = np.random.default_rng(seed)
    suite = shift_suite(X, y, rng)
    hidden = {name: np.isnan(mechanism.hide(X, rng)).mean(axis=0) for name, mechanism in suite.items()}
    seen = hidden[TRAIN_MECHANISM] > 0
    assert seen.sum() == 5
    assert (hidden["clean"] == 0).all()
    for name, columns, rate in [
        (TRAIN_MECHANISM, seen, 0.3),
        ("heavier", seen, 0.8),
        ("unseen light", ~seen, 0.3),
        ("unseen heavy", ~seen, 0.8),
        ("all 50", seen | ~seen, 0.5),
        ("all 80", seen | ~seen, 0.8),
        ("window", seen | ~seen, 0.5),
    ]:
        np.testing.assert_allclose(hidden[name][columns], rate, atol=0.05, err_msg=name)
        assert (hidden[name][~columns] == 0).all()
    assert hidden["MAR"].mean() == pytest.approx(0.45, abs=0.03)
    assert np.flatnonzero(hidden["informative outage"]).tolist() == [3, 7]
    assert set(hidden["informative outage"]) == {0.0, 1.0}


def test_regret_is_the_error_over_that_of_the_retrained_reference_less_one():
    X, y = draw(0)
    models = {"boosting": MissingRegressor(Boosting(), random_state=0, on_unseen_missing="ignore")}
    rows = regret_under_shift(X, y, models, dataset="toy", seed=0)
    assert len(rows) == 20
    for row in rows:
        assert row["regret"] == pytest.approx(row["error"] / row["reference_error"] - 1)
        assert (row["model"] == REFERENCE) <= (row["regret"] == 0)
    by_mechanism = {row["mechanism"]: row for row in rows if row["model"] == "boosting"}
    # The same method, rows and holes as the reference: under the train mechanism nothing can differ.
    assert by_mechanism[TRAIN_MECHANISM]["regret"] == 0
    assert max(row["regret"] for row in by_mechanism.values()) > 0.03
    again = regret_under_shift(X, y, models, dataset="toy", seed=0)
    assert [row["error"] for row in again] == [row["error"] for row in rows]


def test_classifiers_of_others_are_scored_by_log_loss():
    X, y = draw(1)
    labels = np.where(y > 0, "high", "low")
    models = {
        "constant": MissingClassifier("constant", on_unseen_missing="ignore"),
        "sklearn": HistGradientBoostingClassifier(max_iter=20),
    }
    rows = regret_under_shift(X, labels, models, dataset="toy", mechanisms=["clean", "all 80"])
    assert {row["metric"] for row in rows} == {"log loss"}
    clean = {row["model"]: row["error"] for row in rows if row["mechanism"] == "clean"}
    assert clean["constant"] == pytest.approx(np.log(2), abs=0.01)
    assert clean["sklearn"] < 0.5 * clean["constant"]


def test_what_cannot_be_compared_is_refused():
    X, y = draw(0, n=50)
    both = {"a": MissingRegressor(QUICK), "b": MissingClassifier(QUICK)}
    with pytest.raises(ValueError, match="all regressors or all classifiers"):
        regret_under_shift(X, y, both, dataset="toy")
    with pytest.raises(ValueError, match="but not gone"):
        regret_under_shift(X, y, {"a": MissingRegressor(QUICK)}, dataset="toy", mechanisms=["gone"])
