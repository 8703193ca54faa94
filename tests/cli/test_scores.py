import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, root_mean_squared_error

from stablemiss import MissingClassifier, MissingRegressor
from stablemiss.cli.scores import ClassificationScores, RegressionScores, make_scores


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_regression_scores_equal_those_of_scikit_learn_whatever_the_batches(rng):
    target = 1e6 + rng.normal(size=200)
    output = target + rng.normal(size=200)
    n_missing = rng.integers(0, 4, size=200).astype(float)
    covered, size = rng.random(200) < 0.5, rng.random(200)
    scores = RegressionScores(mean=1e6, scale=2.0)
    for rows in np.split(np.arange(200), [1, 50]):
        scores.add(target[rows], n_missing[rows], output[rows], covered[rows], size[rows])
    facts = scores.overall()
    assert facts["n_rows"] == scores.n_rows == 200
    assert facts["rmse"] == pytest.approx(root_mean_squared_error(target, output))
    assert facts["mae"] == pytest.approx(mean_absolute_error(target, output))
    assert facts["r2"] == pytest.approx(r2_score(target, output))
    assert facts["rmse_constant"] == pytest.approx(target.std())
    assert facts["coverage"] == pytest.approx(covered.mean())
    assert facts["mean_width"] == pytest.approx(size.mean())


def test_classification_scores_equal_those_of_scikit_learn(rng):
    probability = rng.dirichlet([1, 1, 1], size=300)
    target = rng.integers(0, 3, size=300)
    scores = ClassificationScores()
    scores.add(target.astype(float), np.zeros(300), probability, None, None)
    facts = scores.overall()
    assert facts["log_loss"] == pytest.approx(log_loss(target, probability))
    assert facts["accuracy"] == pytest.approx(accuracy_score(target, probability.argmax(axis=1)))
    assert facts["brier"] == pytest.approx(((probability - np.eye(3)[target]) ** 2).sum(axis=1).mean())
    frequency = np.bincount(target) / 300
    assert facts["log_loss_constant"] == pytest.approx(log_loss(target, np.tile(frequency, (300, 1))))
    assert facts["accuracy_constant"] == pytest.approx(frequency.max())
    assert facts["coverage"] is None


def test_rows_without_a_target_are_only_counted():
    scores = RegressionScores(0.0, 1.0)
    scores.add(np.array([1.0, np.nan]), np.zeros(2), np.array([2.0, 100.0]), None, None)
    scores.add(np.array([np.nan]), np.zeros(1), np.array([5.0]), None, None)
    assert scores.overall()["rmse"] == 1.0
    assert (scores.n_rows, scores.n_without_target) == (1, 2)


def test_r2_of_one_row_or_of_equal_targets_is_not_defined():
    scores = RegressionScores(0.0, 1.0)
    scores.add(np.array([1.0]), np.zeros(1), np.array([2.0]), None, None)
    assert scores.overall()["r2"] is None
    scores.add(np.array([1.0]), np.zeros(1), np.array([2.0]), None, None)
    assert scores.overall()["r2"] is None


def test_an_impossible_class_has_a_finite_log_loss():
    scores = ClassificationScores()
    scores.add(np.array([1.0]), np.zeros(1), np.array([[1.0, 0.0]]), None, None)
    assert 30 < scores.overall()["log_loss"] < 40


@pytest.mark.parametrize(
    ("n_missing", "expected"),
    [
        ([0] * 50 + [1] * 50, {(0, 0): 50, (1, 1): 50}),
        ([0] * 240 + [1] * 10, {(0, 0): 240, (1, 1): 10}),
        ([0] * 240 + [1] * 19 + [2] * 5, {(0, 0): 240, (1, 2): 24}),
        ([0] * 3 + [2] * 50 + [4] * 25 + [5] * 25, {(0, 0): 3, (2, 2): 50, (4, 4): 25, (5, 5): 25}),
        ([0] * 5 + [1] * 18 + [2] * 3 + [3] * 3, {(0, 1): 23, (2, 3): 6}),
        ([0] * 50 + [12] * 30 + [13] * 30 + [60] * 30, {(0, 0): 50, (12, 13): 60, (60, 60): 30}),
        ([2] * 5, {(2, 2): 5}),
    ],
)
def test_only_adjacent_bins_with_few_rows_are_combined(n_missing, expected):
    scores = RegressionScores(0.0, 1.0)
    zeros = np.zeros(len(n_missing))
    scores.add(zeros, np.array(n_missing, dtype=float), zeros, None, None)
    rows = {tuple(row["missing_columns"].values()): row["n_rows"] for row in scores.by_missing()}
    assert rows == expected


def test_the_constant_is_that_of_the_rows_for_both_tasks():
    X = np.arange(20.0)[:, None]
    scores = make_scores(MissingRegressor("constant", random_state=0).fit(X, X[:, 0]))
    target = np.array([100.0, 104.0])
    scores.add(target, np.zeros(2), np.full(2, 102.0), None, None)
    assert scores.overall()["rmse_constant"] == pytest.approx(2.0)
    scores = make_scores(MissingClassifier("constant", random_state=0).fit(X, X[:, 0] > 9))
    scores.add(np.ones(2), np.zeros(2), np.full((2, 2), 0.5), None, None)
    assert scores.overall()["accuracy_constant"] == 1.0
