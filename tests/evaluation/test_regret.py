"""The shift suite: its mechanisms, and what regret means."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from stablemiss import MissingClassifier, MissingRegressor
from stablemiss.evaluation.regret import REFERENCE, TRAIN, regret, score_under_suite, shift_suite
from stablemiss.methods import Boosting

QUICK = Boosting(n_trees=20)


def draw(seed, n=400, d=10):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    return X, 5 * X[:, 3] + 2 * X[:, 7] + rng.normal(size=n)


@pytest.mark.parametrize("seed", range(3))
def test_mechanisms_have_the_documented_rates(seed):
    X, y = draw(seed, n=4000)
    rng = np.random.default_rng(seed)
    suite = shift_suite(X, y, rng)
    hidden = {name: np.isnan(mechanism.hide(X, rng)).mean(axis=0) for name, mechanism in suite.items()}
    seen = hidden[TRAIN] > 0
    assert seen.sum() == 5
    assert (hidden["clean"] == 0).all()
    for name, columns, rate in [
        (TRAIN, seen, 0.3),
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


def errors(records):
    return {(one.label, score.mechanism): score.error for one in records for score in one.scores}


def test_regret_is_the_error_over_that_of_the_retrained_reference_minus_one():
    X, y = draw(0)
    models = {"boosting": MissingRegressor(Boosting(), random_state=0, on_unseen_missing="ignore")}
    records = score_under_suite(X, y, models, "toy", seed=0)
    assert len(records) == 11
    error, regrets = errors(records), regret(records)["boosting"]
    assert len(regrets) == 10
    for mechanism, value in regrets.items():
        assert value == pytest.approx(error["boosting", mechanism] / error[REFERENCE, mechanism] - 1)
    # The same method, rows and masks as the reference: nothing can differ under "train".
    assert regrets[TRAIN] == 0
    assert max(regrets.values()) > 0.03
    assert errors(score_under_suite(X, y, models, "toy", seed=0)) == error


def test_classifiers_of_other_libraries_are_scored_by_log_loss():
    X, y = draw(1)
    labels = np.where(y > 0, "high", "low")
    models = {
        "constant": MissingClassifier("constant", on_unseen_missing="ignore"),
        "sklearn": HistGradientBoostingClassifier(max_iter=20),
    }
    records = score_under_suite(X, labels, models, "toy", mechanisms=["clean", "all 80"])
    assert {record.metric for record in records} == {"log loss"}
    error = errors(records)
    assert error["constant", "clean"] == pytest.approx(np.log(2), abs=0.01)
    assert error["sklearn", "clean"] < 0.5 * error["constant", "clean"]


def test_mixing_regressors_and_classifiers_and_unknown_mechanisms_raise():
    X, y = draw(0, n=50)
    both = {"a": MissingRegressor(QUICK), "b": MissingClassifier(QUICK)}
    with pytest.raises(ValueError, match="all regressors or all classifiers"):
        score_under_suite(X, y, both, "toy")
    with pytest.raises(ValueError, match="got typo"):
        score_under_suite(X, y, {"a": MissingRegressor(QUICK)}, "toy", mechanisms=["typo"])
