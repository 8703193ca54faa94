"""Fit once, score under many mechanisms."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss

from stablemiss import MissingRegressor
from stablemiss.evaluation import TestSets, TestSetting, fit_and_score
from stablemiss.progress import NullProgress

CLEAN, OUTAGE = TestSetting("clean"), TestSetting("outage", 0.5)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X.sum(axis=1)
    without_first = X.copy()
    without_first[:, 0] = np.nan
    return X, y, TestSets({CLEAN: X, OUTAGE: without_first}, y)


def test_a_model_is_fitted_once_and_scored_under_every_setting(data):
    X, y, tests = data
    fits = []

    class Counting(LinearRegression):
        def fit(self, X, y):
            fits.append(len(X))
            return super().fit(X, y)

        def predict(self, X):
            return super().predict(np.nan_to_num(X))

    result = fit_and_score(Counting(), X, y, tests)
    assert fits == [300]
    assert [(score.mechanism, score.level) for score in result.scores] == [("clean", None), ("outage", 0.5)]
    assert result.metric == "rmse"
    # If a missing column is filled with zero, the error is the root mean square of the column.
    assert result.scores[0].error == pytest.approx(0, abs=1e-9)
    assert result.scores[1].error == pytest.approx(np.sqrt(np.mean(X[:, 0] ** 2)))
    assert result.predict_seconds == pytest.approx(sum(score.predict_seconds for score in result.scores))


def test_classifiers_are_scored_by_log_loss(data):
    X, y, tests = data
    labels = np.where(y > 0, "high", "low")
    model = HistGradientBoostingClassifier(max_iter=10)
    result = fit_and_score(model, X, labels, TestSets(tests.X, labels))
    assert result.metric == "log loss"
    assert result.scores[0].error == pytest.approx(log_loss(labels, model.predict_proba(X)))


def test_progress_is_updated_after_each_setting(data):
    X, y, tests = data
    updates = []

    class Listener(NullProgress):
        def update(self, done, note=""):
            updates.append((done, note))

    model = MissingRegressor("ols", random_state=0, on_unseen_missing="ignore")
    fit_and_score(model, X, y, tests, Listener())
    assert updates == [(1, "tested under clean"), (2, "tested under outage")]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_predictions_that_are_not_finite_or_too_large_raise(data, value):
    X, y, tests = data

    class Broken(LinearRegression):
        def predict(self, X):
            return np.full(len(X), value)

    with pytest.raises(FloatingPointError, match="not finite"):
        fit_and_score(Broken(), X, y, tests)
