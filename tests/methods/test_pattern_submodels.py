"""Pattern submodels: least squares per mask, and an answer from moments for every other mask."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression

from stablemiss.data import MaskedData
from stablemiss.methods.constant import Constant
from stablemiss.methods.ols import OLS
from stablemiss.methods.pattern_submodels import Moments, PatternSubmodels, PatternSubmodelsPredictor
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression


def fit(method, values, mask, y, task=None, weight=None):
    """Fit with the last fifth of the rows as validation rows, which become training rows."""
    task = task or Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y), weight)
    n = len(data)
    train, valid = data.rows(np.arange(n - n // 5)), data.rows(np.arange(n - n // 5, n))
    return method.fit(train, valid, task, to_rng(0), NullProgress()), task


def draw(seed, n=1200, d=4, observed=0.7):
    """Correlated columns, and a target whose dependence on them is another one for each mask."""
    rng = to_rng(seed)
    values = rng.normal(1.0, 2.0, size=(n, d)) + rng.normal(size=(n, 1))
    mask = rng.uniform(size=(n, d)) < observed
    signal = (values * (1 + mask.sum(axis=1, keepdims=True))).sum(axis=1) + 3 * mask[:, 0]
    return rng, values, mask, signal + rng.normal(size=n)


def with_pattern(mask, pattern):
    return np.flatnonzero((mask == pattern).all(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_each_mask_has_the_least_squares_fit_of_its_own_rows(seed):
    rng, values, mask, y = draw(seed)
    y = np.column_stack([y, values[:, 0] ** 2])
    weight = rng.uniform(0.5, 2.0, size=len(y))
    predictor, task = fit(PatternSubmodels(min_rows=2, ridge=0.0), values, mask, y, weight=weight)
    prediction = task.decode(predictor.predict(values, mask))
    assert len(predictor.patterns) >= 10
    for pattern in predictor.patterns:
        rows, columns = with_pattern(mask, pattern), np.flatnonzero(pattern)
        if len(columns):
            own = values[np.ix_(rows, columns)]
            expected = LinearRegression().fit(own, y[rows], weight[rows]).predict(own)
        else:
            expected = np.tile(np.average(y[rows], axis=0, weights=weight[rows]), (len(rows), 1))
        np.testing.assert_allclose(prediction[rows], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_complete_case_submodels_are_fitted_to_all_rows_in_which_their_columns_are_observed(seed):
    _, values, mask, y = draw(seed)
    predictor, task = fit(PatternSubmodels("complete_cases", ridge=0.0), values, mask, y)
    prediction = task.decode(predictor.predict(values, mask))
    for pattern in predictor.patterns[predictor.patterns.any(axis=1)]:
        rows, columns = np.flatnonzero(mask[:, pattern].all(axis=1)), np.flatnonzero(pattern)
        model = LinearRegression().fit(values[np.ix_(rows, columns)], y[rows])
        own = with_pattern(mask, pattern)
        expected = model.predict(values[np.ix_(own, columns)])
        np.testing.assert_allclose(prediction[own], expected, rtol=1e-8, atol=1e-8)
    assert len(predictor.patterns) > len(fit(PatternSubmodels(ridge=0.0), values, mask, y)[0].patterns)


@pytest.mark.parametrize("seed", range(2))
def test_each_mask_has_the_logistic_regression_of_its_own_rows(seed):
    _, values, mask, y = draw(seed)
    classes = (y > np.median(y)).astype(int)
    task = Classification(np.array([0, 1]))
    predictor, _ = fit(PatternSubmodels(), values, mask, classes, task)
    outputs = predictor.predict(values, mask)
    assert len(predictor.patterns) >= 3
    for pattern in predictor.patterns[predictor.patterns.any(axis=1)]:
        rows = with_pattern(mask, pattern)
        own = values[np.ix_(rows, np.flatnonzero(pattern))]
        expected = LogisticRegression().fit(own, classes[rows]).predict_proba(own)
        np.testing.assert_allclose(task.probabilities(outputs[rows]), expected, atol=1e-3)


def test_a_submodel_needs_the_minimum_number_of_rows_per_coefficient():
    _, values, mask, y = draw(0)
    for min_rows in (2, 10, 30):
        predictor, _ = fit(PatternSubmodels(min_rows=min_rows), values, mask, y)
        expected = {
            tuple(pattern)
            for pattern in np.unique(mask, axis=0)
            if len(with_pattern(mask, pattern)) >= min_rows * (1 + pattern.sum())
        }
        assert set(map(tuple, predictor.patterns)) == expected
    assert len(expected) < 16


def test_a_mask_in_which_a_class_does_not_occur_has_no_submodel():
    _, values, mask, y = draw(0)
    classes = (y > np.median(y)).astype(int)
    complete = mask.all(axis=1)
    classes[complete] = 1
    predictor, task = fit(PatternSubmodels(), values, mask, classes, Classification(np.array([0, 1])))
    assert not predictor.patterns.all(axis=1).any()
    assert len(predictor.patterns) > 0
    assert task.probabilities(predictor.predict(values, mask)).min() > 1e-9


def all_masks(d):
    return np.array([[bit >> j & 1 for j in range(d)] for bit in range(2**d)], dtype=bool)


@pytest.mark.parametrize("seed", range(3))
def test_after_training_on_complete_rows_a_new_mask_gets_the_least_squares_fit_of_its_columns(seed):
    """Moments of complete rows contain the submodels of all masks."""
    _, values, mask, _ = draw(seed)
    y = np.column_stack([values @ np.arange(4.0) + values[:, 0] ** 2, values[:, 1] ** 2])
    complete = np.ones_like(mask)
    predictor, task = fit(PatternSubmodels(ridge=0.0, moment_ridge=1e-9), values, complete, y)
    assert len(predictor.patterns) == 1
    for pattern in all_masks(4)[1:]:
        columns = np.flatnonzero(pattern)
        expected = LinearRegression().fit(values[:, columns], y).predict(values[:, columns])
        prediction = task.decode(predictor.predict(values, np.tile(pattern, (len(values), 1))))
        np.testing.assert_allclose(prediction, expected, rtol=1e-7, atol=1e-7)
    nothing = task.decode(predictor.predict(values[:1], np.zeros((1, 4))))
    np.testing.assert_allclose(nothing[0], y.mean(axis=0))


@pytest.mark.parametrize("seed", range(3))
def test_classes_of_a_new_mask_get_linear_discriminant_analysis_of_its_columns(seed):
    rng, values, mask, _ = draw(seed, n=600)
    classes = rng.integers(3, size=len(values))
    values = values + 2 * np.eye(4)[classes]
    task = Classification(np.arange(3))
    predictor, _ = fit(PatternSubmodels(moment_ridge=1e-9), values, np.ones_like(mask), classes, task)
    for pattern in all_masks(4)[1:-1]:
        own = values[:, np.flatnonzero(pattern)]
        expected = LinearDiscriminantAnalysis(solver="lsqr").fit(own, classes).predict_proba(own)
        outputs = predictor.predict(values, np.tile(pattern, (len(values), 1)))
        np.testing.assert_allclose(task.probabilities(outputs), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_covariances_are_those_over_jointly_observed_rows(seed):
    _, values, mask, y = draw(seed)
    task = Regression.of(y)
    moments = Moments.of(MaskedData.of(values, mask, task.encode(y)), task)
    for j in range(4):
        column = values[mask[:, j], j]
        assert moments.mean[j] == pytest.approx(column.mean())
        assert moments.cross[j, 0] == pytest.approx(
            np.mean((column - column.mean()) * task.encode(y)[mask[:, j], 0])
        )
        for k in range(4):
            both = mask[:, j] & mask[:, k]
            products = (values[both, j] - moments.mean[j]) * (values[both, k] - moments.mean[k])
            assert moments.covariance[j, k] == pytest.approx(products.mean())


def test_covariances_of_few_rows_have_no_negative_eigenvalue_and_are_closer_to_the_true_ones():
    for seed in range(3):
        rng = to_rng(seed)
        values = rng.normal(size=(60, 20))
        mask = rng.uniform(size=values.shape) < 0.4
        y = values[:, 0]
        task = Regression.of(y)
        moments = Moments.of(MaskedData.of(values, mask, task.encode(y)), task)
        centred = np.where(mask, values - moments.mean, 0.0)
        raw = centred.T @ centred / np.maximum(mask.T.astype(float) @ mask, 1)
        assert np.linalg.eigvalsh(raw)[0] < -0.1
        assert np.linalg.eigvalsh(moments.covariance)[0] > -1e-12
        assert np.linalg.norm(moments.covariance - np.eye(20)) < np.linalg.norm(raw - np.eye(20))


def test_blocks_of_masks_give_the_same_outputs(monkeypatch):
    """Many masks and rows are computed in several blocks."""
    _, values, mask, y = draw(0, n=300, d=6)
    predictor, _ = fit(PatternSubmodels(min_rows=1000), values, mask, y)
    assert len(predictor.patterns) == 0
    together = predictor.predict(values, mask)
    monkeypatch.setattr("stablemiss.methods.pattern_submodels.MAX_BLOCK_CELLS", 40)
    np.testing.assert_allclose(predictor.predict(values, mask), together, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_relation_that_depends_on_the_mask_is_fitted(seed):
    """The paper's point: the slope of x₁ depends on whether x₀ is missing, which OLS cannot express."""
    errors = []
    for method in (PatternSubmodels(), OLS("mask")):
        rng = to_rng(seed)
        values, mask = rng.normal(size=(2, 2000, 2))
        mask[:, 1] = 1.0
        y = np.sign(mask[:, 0]) * values[:, 1] + 0.1 * rng.normal(size=2000)
        predictor, task = fit(method, values[:1000], mask[:1000] > 0, y[:1000])
        prediction = task.decode(predictor.predict(values[1000:], mask[1000:] > 0))
        errors.append(np.sqrt(np.mean((prediction - y[1000:]) ** 2)))
    assert errors[0] < 0.12
    assert errors[1] > 0.9


def test_without_refitting_validation_rows_choose_the_ridge_and_nothing_else():
    """Also not the submodels; and with a given ridge they have no influence at all."""
    _, values, mask, y = draw(0, n=600)
    is_valid = np.arange(600) >= 480
    other = np.where(is_valid, 100.0, y)
    task = Regression.of(y[~is_valid])
    for moment_ridge in ("auto", 0.1):
        method = PatternSubmodels(min_rows=2, moment_ridge=moment_ridge, refit_on_validation=False)
        assert not method.trains_on_validation
        first, second = (fit(method, values, mask, target, task)[0] for target in (y, other))
        np.testing.assert_array_equal(first.coefficients, second.coefficients)
        np.testing.assert_array_equal(first.moments.cross, second.moments.cross)
        is_equal = np.array_equal(first.moments.covariance, second.moments.covariance)
        assert is_equal == (moment_ridge != "auto")
    refitted = fit(PatternSubmodels(min_rows=2), values, mask, other, task)[0]
    assert not np.array_equal(refitted.moments.cross, first.moments.cross)


def test_a_manipulated_covariance_is_refused():
    _, values, mask, y = draw(0, n=200)
    predictor, task = fit(PatternSubmodels(), values, mask, y)
    for matrix in (np.zeros((4, 4)), -np.eye(4), np.eye(3), np.tri(4)):
        with pytest.raises(ValueError, match="covariance"):
            PatternSubmodelsPredictor.from_state({**predictor.state(), "covariance": matrix}, 4, task)


@pytest.mark.parametrize("seed", range(3))
def test_on_independent_columns_it_is_nearly_optimal(seed, errors_on_gaussian_ind):
    """Gaussian-Ind, where nearly all masks of the test are new, also with more and fewer missing values."""
    methods = {"submodels": PatternSubmodels(), "constant": Constant()}
    errors = errors_on_gaussian_ind(methods, seed, test_levels=(0.1, 0.5, 0.9))
    for submodels, constant, optimal in zip(
        *(errors[k] for k in ("submodels", "constant", "optimal")), strict=True
    ):
        assert submodels < constant
        assert submodels < 1.06 * optimal
