"""Reference models for images and sensor networks, compared with direct computations on small data."""

import pickle

import lightgbm
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from stablemiss import StableMissRegressor
from stablemiss.architectures import CNN, GraphTemporal
from stablemiss.datasets import Graph
from stablemiss.experiments.references import (
    BoostingOnLags,
    DecayedLastValue,
    FactorAnalysisEM,
    GaussianAndNetwork,
    HourOfWeek,
    KalmanEM,
    LabelGaussian,
    LastValue,
    NetworkAndRidge,
    RidgeOnLags,
    images,
    sensors,
)

SHAPE = (2, 4)
IMAGE_MODELS = [LabelGaussian(), FactorAnalysisEM(n_factors=2, n_steps=3)]
SENSOR_MODELS = [
    HourOfWeek(),
    LastValue(),
    DecayedLastValue(),
    RidgeOnLags(),
    RidgeOnLags(carry=False, graph=Graph.from_edges("abc", [("a", "b")])),
    BoostingOnLags(masked_copies=1, n_trees=5, n_threads=1, random_state=0),
    BoostingOnLags(node_category=False, graph=Graph.none("abc"), n_trees=5, n_threads=1, random_state=0),
    KalmanEM(n_steps=3),
    KalmanEM(scope="network", n_steps=3),
]


def name_of(model):
    return type(model).__name__


def hide(values, share, rng):
    return np.where(rng.random(values.shape) < share, np.nan, values)


def conditional_mean(mean, covariance, row):
    """E[x | observed entries of x] of a Gaussian, by the textbook formula."""
    o = ~np.isnan(row)
    expected = mean.copy()
    if o.any():
        expected += covariance[:, o] @ np.linalg.solve(covariance[np.ix_(o, o)], row[o] - mean[o])
    return expected


def log_density(mean, covariance, rows):
    """Log density of the observed entries of all rows."""
    total = 0.0
    for row in rows:
        o = ~np.isnan(row)
        if o.any():
            total += multivariate_normal.logpdf(row[o], mean[o], covariance[np.ix_(o, o)])
    return total


def factor_images(n, rng):
    """Complete images of two factors, and their covariance."""
    d = int(np.prod(SHAPE))
    loadings, noise = rng.normal(size=(d, 2)), rng.uniform(0.2, 0.6, size=d)
    flat = 3.0 + rng.normal(size=(n, 2)) @ loadings.T + rng.normal(size=(n, d)) * np.sqrt(noise)
    return flat.reshape(n, *SHAPE), loadings @ loadings.T + np.diag(noise)


@pytest.fixture(scope="module")
def incomplete_images():
    rng = np.random.default_rng(0)
    Y, _ = factor_images(300, rng)
    X = hide(Y, 0.4, rng)
    X[0], X[1] = np.nan, Y[1]
    return X, Y


def test_label_gaussian_is_the_conditional_mean_of_each_image(incomplete_images):
    X, Y = incomplete_images
    predicted = LabelGaussian(ridge=0.1).fit(X, Y).predict(X)
    flat = Y.reshape(len(Y), -1)
    covariance = np.cov(flat.T, bias=True)
    covariance += 0.1 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    for x, image in zip(X.reshape(len(X), -1), predicted.reshape(len(X), -1), strict=True):
        expected = conditional_mean(flat.mean(axis=0), covariance, x)
        # Observed pixels are kept; the conditional mean of an observed value is the value itself.
        np.testing.assert_allclose(image, expected, atol=1e-9)


def test_label_gaussian_accepts_pixels_that_never_vary():
    Y = np.random.default_rng(0).normal(size=(50, 4))
    Y[:, 2] = 7.0
    predicted = LabelGaussian().fit(Y, Y).predict(np.full((1, 4), np.nan))
    np.testing.assert_allclose(predicted[0], Y.mean(axis=0))
    equal = np.ones((5, 3))
    np.testing.assert_allclose(
        LabelGaussian().fit(equal, equal).predict([[1.0, np.nan, np.nan]]), [[1, 1, 1]]
    )


def test_factor_analysis_predicts_the_conditional_mean_and_keeps_observed_pixels(incomplete_images):
    X, Y = incomplete_images
    model = FactorAnalysisEM(n_factors=2, n_steps=4).fit(X, Y)
    covariance = model.loadings_ @ model.loadings_.T + np.diag(model.noise_)
    predicted = model.predict(X)
    for x, image in zip(X.reshape(len(X), -1), predicted.reshape(len(X), -1), strict=True):
        np.testing.assert_allclose(image, conditional_mean(model.mean_, covariance, x), atol=1e-8)


def test_no_step_of_factor_analysis_decreases_the_log_likelihood(incomplete_images):
    X, Y = incomplete_images
    model = FactorAnalysisEM(n_factors=3, n_steps=15, min_noise=1e-6).fit(X, Y)
    assert (np.diff(model.log_likelihoods_) > 0).all()
    covariance = model.loadings_ @ model.loadings_.T + np.diag(model.noise_)
    after_15_steps = FactorAnalysisEM(n_factors=3, n_steps=16, min_noise=1e-6).fit(X, Y).log_likelihoods_[15]
    assert after_15_steps == pytest.approx(log_density(model.mean_, covariance, X.reshape(len(X), -1)))


def test_factor_analysis_recovers_the_covariance_from_incomplete_images():
    rng = np.random.default_rng(1)
    Y, covariance = factor_images(4000, rng)
    model = FactorAnalysisEM(n_factors=2, n_steps=40, min_noise=1e-6).fit(hide(Y, 0.4, rng), Y)
    fitted = model.loadings_ @ model.loadings_.T + np.diag(model.noise_)
    assert np.abs(fitted - covariance).max() < 0.08 * covariance.max()
    np.testing.assert_allclose(model.mean_, 3.0, atol=0.15)


def test_factor_analysis_does_not_use_the_complete_images(incomplete_images):
    X, Y = incomplete_images
    first, second = (FactorAnalysisEM(2, n_steps=3).fit(X, other).predict(X) for other in (Y, Y**2))
    np.testing.assert_array_equal(first, second)


def test_the_noise_of_factor_analysis_is_bounded(incomplete_images):
    X, Y = incomplete_images
    variance = np.nanvar(X.reshape(len(X), -1), axis=0).mean()
    model = FactorAnalysisEM(2, n_steps=3, min_noise=0.5).fit(X, Y)
    assert model.noise_.min() == pytest.approx(0.5 * variance)


def test_factor_analysis_draws_images_by_the_seed(incomplete_images):
    X, Y = incomplete_images
    fits = [FactorAnalysisEM(2, 2, max_rows=100, random_state=seed).fit(X, Y).mean_ for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert (fits[0] != fits[2]).any()
    every = [FactorAnalysisEM(2, 2, max_rows=n).fit(X, Y).mean_ for n in (len(X), None)]
    np.testing.assert_array_equal(*every)


def test_factor_analysis_accepts_a_pixel_that_is_never_observed(incomplete_images):
    X, Y = incomplete_images
    X = X.copy()
    X[:, 0, 0] = np.nan
    predicted = FactorAnalysisEM(2, n_steps=5).fit(X, Y).predict(X)
    # All pixels have the mean 3, so the mean of the others is close to that of the one never seen.
    assert abs(predicted[:, 0, 0].mean() - 3.0) < 0.5


@pytest.mark.parametrize("model", IMAGE_MODELS, ids=name_of)
def test_predictions_of_images_have_the_shape_of_the_target_and_do_not_depend_on_chunks(
    model, incomplete_images, monkeypatch
):
    X, Y = incomplete_images
    expected = clone(model).fit(X, Y).predict(X)
    assert expected.shape == Y.shape
    assert np.isfinite(expected).all()
    monkeypatch.setattr(images, "CHUNK_ROWS", 7)
    fitted = clone(model).fit(X.reshape(len(X), -1), Y)
    np.testing.assert_allclose(fitted.predict(X[:10]), expected[:10], rtol=1e-9)
    assert fitted.predict(X[:0]).shape == (0, *SHAPE)


@pytest.mark.parametrize("model", IMAGE_MODELS, ids=name_of)
def test_wrong_images_are_refused(model, incomplete_images):
    X, Y = incomplete_images
    model = clone(model)
    with pytest.raises(NotFittedError, match="must be fitted"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"got shapes \(300, 2, 4\) and \(299, 2, 4\)"):
        model.fit(X, Y[1:])
    with pytest.raises(ValueError, match="Y must be complete"):
        model.fit(X, X)
    with pytest.raises(ValueError, match="infinite"):
        model.fit(np.full_like(Y, np.inf), Y)
    with pytest.raises(ValueError, match="must hold images"):
        model.fit(X[:, 0, 0], Y)
    with pytest.raises(ValueError, match=r"8 pixels, as in fit; got shape \(300, 4\)"):
        model.fit(X, Y).predict(X[:, 0])


def test_factor_analysis_needs_an_observed_pixel(incomplete_images):
    X, Y = incomplete_images
    with pytest.raises(ValueError, match="no observed pixel"):
        FactorAnalysisEM(2).fit(np.full_like(X, np.nan), Y)


@pytest.fixture(scope="module")
def windows():
    """Windows of three nodes with 4 past and 3 future times, and two features of the calendar."""
    rng = np.random.default_rng(0)
    n, n_times = 400, 7
    common = rng.normal(size=(n, 1, n_times)).cumsum(axis=2)
    own = rng.normal(size=(n, 3, 1)) + 0.3 * rng.normal(size=(n, 3, n_times))
    readings = hide(common * np.array([1.0, -0.5, 0.3])[:, None] + own, 0.35, rng)
    readings[0, :, :4] = np.nan
    readings[1, 0, :4] = np.nan
    calendar = np.repeat(rng.normal(size=(n, 2, 1)), 4, axis=2)
    return np.concatenate([readings[:, :, :4], calendar], axis=1), readings[:, :, 4:]


def test_hour_of_week_predicts_no_deviation(windows):
    X, Y = windows
    np.testing.assert_array_equal(HourOfWeek().fit(X, Y).predict(X), np.zeros(Y.shape))


def test_last_value_by_hand():
    X = [[[1.0, np.nan, 3.0], [4.0, 5.0, np.nan], [6.0, np.nan, np.nan], [np.nan, np.nan, np.nan]]]
    model = LastValue().fit(X, np.zeros((1, 4, 2)))
    assert model.predict(X).tolist() == [[[3.0, 3.0], [5.0, 5.0], [6.0, 6.0], [0.0, 0.0]]]


def test_decayed_last_value_is_least_squares_by_age_and_lead_time(windows):
    X, Y = windows
    model = DecayedLastValue().fit(X, Y)
    pairs = {}
    for x, y in zip(X[:, :3].reshape(-1, 4), Y.reshape(-1, 3), strict=True):
        seen = np.flatnonzero(~np.isnan(x))
        for lead in np.flatnonzero(~np.isnan(y)):
            if len(seen):
                pairs.setdefault((3 - seen[-1], lead), []).append((x[seen[-1]], y[lead]))
    expected = np.zeros((4, 3))
    for place, values in pairs.items():
        x, y = np.array(values).T
        expected[place] = np.linalg.lstsq(x[:, None], y, rcond=None)[0][0]
    np.testing.assert_allclose(model.factors_, expected)
    x = np.full((1, 5, 4), np.nan)
    x[0, 3:], x[0, 1, 1] = 0.0, 2.0
    np.testing.assert_allclose(model.predict(x), [[[0, 0, 0], 2.0 * expected[2], [0, 0, 0]]])


def explicit_features(window, node, carry, neighbours):
    """Features of RidgeOnLags, one by one."""
    rows = [window[node]]
    if neighbours is not None:
        rows.append(np.full(4, np.nan))
        for t in range(4):
            seen = [
                (weight, window[other, t])
                for other, weight in neighbours[node]
                if window[other, t] == window[other, t]
            ]
            if seen:
                rows[1][t] = np.average([value for _, value in seen], weights=[weight for weight, _ in seen])
    lags, mask = [], []
    for row in rows:
        for t in range(4):
            is_missing = np.isnan(row[t])
            mask.append(0.0 if is_missing else 1.0)
            before, after = row[:t][~np.isnan(row[:t])], row[t:][~np.isnan(row[t:])]
            carried = before[-1] if len(before) else after[0] if len(after) else 0.0
            lags.append(row[t] if not is_missing else carried if carry else 0.0)
    return [*lags, *mask, *window[3:, 0]]


GRAPH = Graph.from_edges("abc", [("a", "b"), ("c", "b")], weight=[1.0, 3.0])
NEIGHBOURS = {0: [(1, 1.0)], 1: [(0, 1.0), (2, 3.0)], 2: [(1, 3.0)]}


@pytest.mark.parametrize(
    ("carry", "graph", "neighbours"),
    [(True, None, None), (False, None, None), (True, GRAPH, NEIGHBOURS), (False, GRAPH, NEIGHBOURS)],
    ids=["carried", "zero", "carried, graph", "zero, graph"],
)
def test_ridge_on_lags_is_scikit_learns_ridge_on_explicit_features(windows, carry, graph, neighbours):
    X, Y = windows
    predicted = RidgeOnLags(alpha=5.0, carry=carry, graph=graph).fit(X, Y).predict(X).reshape(-1, 3)
    features = np.array([explicit_features(x, node, carry, neighbours) for x in X for node in range(3)])
    future = Y.reshape(-1, 3)
    for lead in range(3):
        seen = ~np.isnan(future[:, lead])
        ridge = Ridge(alpha=5.0).fit(features[seen], future[seen, lead])
        np.testing.assert_allclose(predicted[:, lead], ridge.predict(features), atol=1e-8)


def test_ridge_without_penalty_accepts_collinear_features(windows):
    X, Y = windows
    X = np.concatenate([X, X[:, -1:], np.ones_like(X[:, -1:])], axis=1)
    expected = RidgeOnLags(alpha=0.0).fit(X[:, :-2], Y).predict(X[:, :-2])
    np.testing.assert_allclose(RidgeOnLags(alpha=0.0).fit(X, Y).predict(X), expected, atol=1e-6)


@pytest.mark.parametrize("node_category", [True, False])
def test_boosting_on_lags_is_lightgbm_on_explicit_features(windows, node_category):
    X, Y = windows
    params = {"n_trees": 10, "learning_rate": 0.2, "n_leaves": 5, "n_threads": 1, "random_state": 0}
    model = BoostingOnLags(node_category=node_category, **params).fit(X, Y)
    predicted = model.predict(X).reshape(-1, 3)
    table = np.array([[*x[node], *x[3:, 0], node] for x in X for node in range(3)])
    table = table if node_category else table[:, :-1]
    for lead, y in enumerate(Y.reshape(-1, 3).T):
        seen = ~np.isnan(y)
        booster = lightgbm.LGBMRegressor(
            n_estimators=10, learning_rate=0.2, num_leaves=5, n_jobs=1, force_col_wise=True, verbosity=-1
        )
        booster.fit(table[seen], y[seen], categorical_feature=[6] if node_category else [])
        np.testing.assert_allclose(predicted[:, lead], booster.booster_.predict(table), atol=1e-5)


def test_boosting_separates_a_node_from_those_before_and_after_it_in_a_single_split():
    Y = np.tile(np.array([0.0, 6.0, 0.0])[:, None], (200, 1, 2))
    model = BoostingOnLags(n_trees=1, learning_rate=1.0, n_leaves=2, n_threads=1)
    first, second, third = model.fit(np.zeros((200, 3, 4)), Y).predict(np.zeros((1, 3, 4)))[0, :, 0]
    assert first == third == pytest.approx(0.0, abs=0.5)
    assert second == pytest.approx(6.0, abs=0.5)


def test_masked_copies_help_when_the_last_reading_is_missing_only_in_the_test():
    rng = np.random.default_rng(0)
    level = rng.normal(size=(600, 3, 1))
    X, Y = level + 0.1 * rng.normal(size=(600, 3, 4)), np.repeat(level, 2, axis=2)
    dark = X.copy()
    dark[:, :, 1:] = np.nan
    errors = []
    for copies in (0, 3):
        model = BoostingOnLags(copies, n_trees=60, n_threads=1, random_state=0).fit(X, Y)
        errors.append(np.sqrt(((model.predict(dark) - Y) ** 2).mean()))
    assert errors[1] < 0.5 * errors[0]


def test_boosting_draws_rows_by_the_seed(windows):
    X, Y = windows

    def predictions(**changes):
        params = {
            "n_trees": 5,
            "max_rows": 200,
            "masked_copies": 1,
            "n_threads": 1,
            "random_state": 0,
        } | changes
        return BoostingOnLags(**params).fit(X, Y).predict(X)

    np.testing.assert_array_equal(predictions(), predictions())
    for changes in ({"random_state": 1}, {"max_rows": 300}, {"masked_copies": 0}):
        assert (predictions() != predictions(**changes)).any()


def kalman_covariance(model, n_times):
    """Covariance of all readings of a sequence, time by time, (n_times · n_nodes,)²."""
    k = len(model.dynamics_)
    states = np.zeros((n_times, k, n_times, k))
    variance = model.start_
    for t in range(n_times):
        later = variance
        for s in range(t, n_times):
            states[s, :, t], states[t, :, s] = later, later.T
            later = model.dynamics_ @ later
        variance = model.dynamics_ @ variance @ model.dynamics_.T + model.disturbance_
    loadings = np.kron(np.eye(n_times), model.loadings_)
    signal = loadings @ states.reshape(n_times * k, n_times * k) @ loadings.T
    return signal + np.diag(np.tile(model.noise_, n_times))


def sequences_of(X, Y, scope):
    """Complete sequences as rows, time by time: of each window, or of each node in each window."""
    readings = np.concatenate([X[:, :3], Y], axis=2)
    return readings.reshape(-1, 7) if scope == "node" else readings.transpose(0, 2, 1).reshape(-1, 21)


@pytest.mark.parametrize("scope", ["node", "network"])
def test_kalman_filter_predicts_the_conditional_mean(windows, scope):
    X, Y = (array[:60] for array in windows)
    model = KalmanEM(scope=scope, n_steps=5).fit(*windows)
    covariance = kalman_covariance(model, 7)
    rows = sequences_of(X, np.full_like(Y, np.nan), scope)
    expected = np.array([conditional_mean(np.zeros(len(covariance)), covariance, row) for row in rows])
    if scope == "node":
        expected = expected[:, 4:].reshape(60, 3, 3)
    else:
        expected = expected[:, 12:].reshape(60, 3, 3).transpose(0, 2, 1)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-9)


@pytest.mark.parametrize("scope", ["node", "network"])
def test_no_step_of_kalman_em_decreases_the_log_likelihood(windows, scope):
    X, Y = (array[:150] for array in windows)
    model = KalmanEM(scope=scope, n_steps=15).fit(X, Y)
    assert (np.diff(model.log_likelihoods_) > 0).all()
    after_15_steps = KalmanEM(scope=scope, n_steps=16).fit(X, Y).log_likelihoods_[15]
    covariance = kalman_covariance(model, 7)
    expected = log_density(np.zeros(len(covariance)), covariance, sequences_of(X, Y, scope))
    assert after_15_steps == pytest.approx(expected)


def test_kalman_em_fits_at_least_as_well_as_the_model_that_made_the_readings():
    rng = np.random.default_rng(3)
    n, n_times, n_nodes = 400, 8, 5
    planted = KalmanEM()
    planted.dynamics_ = np.array([[0.9, 0.2], [-0.2, 0.8]])
    planted.disturbance_, planted.start_ = np.diag([0.3, 0.5]), np.diag([1.5, 2.0])
    planted.loadings_, planted.noise_ = rng.normal(size=(n_nodes, 2)), rng.uniform(0.2, 0.5, n_nodes)
    covariance = kalman_covariance(planted, n_times)
    rows = hide(rng.multivariate_normal(np.zeros(n_nodes * n_times), covariance, size=n), 0.3, rng)
    readings = rows.reshape(n, n_times, n_nodes).transpose(0, 2, 1)
    model = KalmanEM(scope="network", n_steps=60).fit(readings[:, :, :5], readings[:, :, 5:])
    assert model.log_likelihoods_[-1] > log_density(np.zeros(n_nodes * n_times), covariance, rows)
    sizes = [np.abs(np.linalg.eigvals(fitted.dynamics_)) for fitted in (model, planted)]
    np.testing.assert_allclose(*sizes, atol=0.08)


def test_kalman_em_of_nodes_recovers_a_fast_and_a_slow_deviation():
    rng = np.random.default_rng(0)
    planted = KalmanEM()
    planted.dynamics_, planted.start_ = np.diag([0.4, 0.98]), np.eye(2)
    planted.disturbance_ = np.eye(2) - planted.dynamics_**2
    planted.loadings_, planted.noise_ = np.array([[2.0, 3.0]]), np.array([0.5])
    readings = rng.multivariate_normal(np.zeros(7), kalman_covariance(planted, 7), size=(500, 3))
    X, Y = hide(readings[:, :, :4], 0.3, rng), readings[:, :, 4:]
    model = KalmanEM(n_steps=30).fit(X, Y)
    fitted, expected = kalman_covariance(model, 7), kalman_covariance(planted, 7)
    assert np.abs(fitted - expected).max() < 0.1 * expected.max()


@pytest.mark.parametrize("scope", ["node", "network"])
def test_kalman_em_draws_sequences_by_the_seed(windows, scope):
    X, Y = windows
    fits = [
        KalmanEM(scope=scope, n_steps=2, max_sequences=n, random_state=seed).fit(X, Y).noise_
        for n, seed in ((100, 0), (100, 0), (100, 1), (3 * len(X), 0), (20_000, 1))
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert (fits[0] != fits[2]).any()
    np.testing.assert_array_equal(fits[3], fits[4])


def test_nodes_are_predicted_from_their_own_readings_unless_states_are_common(windows):
    X, Y = windows
    changed = X.copy()
    changed[:, 0] += 1.0
    node, network = (KalmanEM(scope=scope, n_steps=3).fit(X, Y) for scope in ("node", "network"))
    np.testing.assert_array_equal(node.predict(changed)[:, 1:], node.predict(X)[:, 1:])
    assert (node.predict(changed)[:, 0] != node.predict(X)[:, 0]).any()
    assert (network.predict(changed)[:, 1:] != network.predict(X)[:, 1:]).any()


def test_a_node_without_readings_has_no_part_in_common_states(windows):
    X, Y = (array.copy() for array in windows)
    X[:, 1], Y[:, 1] = np.nan, np.nan
    model = KalmanEM(n_states=3, scope="network", n_steps=5).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X)[:, 1], 0.0)
    assert np.abs(model.predict(X)[:, 0]).max() > 0.5
    assert model.fit(windows[0], windows[1]).predict(X)[:, 1].any()


def test_common_states_are_at_most_as_many_as_nodes(windows):
    with pytest.raises(ValueError, match="n_states must be an integer from 1 to 3; got 4"):
        KalmanEM(n_states=4, scope="network").fit(*windows)


@pytest.mark.parametrize("model", SENSOR_MODELS, ids=name_of)
def test_predictions_of_sensors_are_finite_and_do_not_depend_on_chunks(model, windows, monkeypatch):
    X, Y = windows
    expected = clone(model).fit(X, Y).predict(X)
    assert expected.shape == Y.shape
    # The first window has no reading at all.
    assert np.isfinite(expected).all()
    monkeypatch.setattr(sensors, "CHUNK_READINGS", 80)
    fitted = clone(model).fit(X, Y)
    np.testing.assert_allclose(fitted.predict(X[:10]), expected[:10], rtol=1e-7, atol=1e-9)
    assert fitted.predict(X[:0]).shape == (0, *Y.shape[1:])


@pytest.mark.parametrize("model", SENSOR_MODELS, ids=name_of)
def test_wrong_windows_are_refused(model, windows):
    X, Y = windows
    model = clone(model)
    with pytest.raises(NotFittedError, match="must be fitted"):
        model.predict(X)
    with pytest.raises(
        ValueError, match=r"same number of windows.*got shapes \(400, 5, 4\) and \(399, 3, 3\)"
    ):
        model.fit(X, Y[1:])
    with pytest.raises(ValueError, match="at least as many rows"):
        model.fit(X[:, :2], Y)
    with pytest.raises(ValueError, match=r"must hold windows, \(n, nodes, times\); got shape \(400, 5\)"):
        model.fit(X[:, :, 0], Y)
    with pytest.raises(ValueError, match="infinite"):
        model.fit(np.where(np.isnan(X), np.inf, X), Y)
    with pytest.raises(ValueError, match="observed reading at each time"):
        model.fit(X, np.where([True, False, True], Y, np.nan))
    with pytest.raises(ValueError, match="rows from 3 on"):
        model.fit(np.where(np.arange(5)[:, None] == 4, np.nan, X), Y)
    with pytest.raises(ValueError, match=r"windows of shape \(5, 4\), as in fit; got shape \(400, 4, 4\)"):
        model.fit(X, Y).predict(X[:, 1:])


@pytest.mark.parametrize("model_class", [RidgeOnLags, BoostingOnLags])
def test_a_graph_of_other_nodes_is_refused(model_class, windows):
    for graph in (Graph.none(4), [(0, 1)]):
        with pytest.raises(ValueError, match="Graph of the 3 nodes"):
            model_class(graph=graph).fit(*windows)


def small_network(architecture):
    return StableMissRegressor(architecture, max_epochs=2, random_state=0, on_unseen_missing="ignore")


def test_the_network_beside_a_gaussian_learns_what_it_leaves():
    """A blob at a random place is not Gaussian, so that the Gaussian alone leaves something."""
    rng = np.random.default_rng(0)
    row, column = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    y, x = rng.uniform(1, 7, size=(2, 400, 1, 1))
    blobs = np.exp(-((row - y) ** 2 + (column - x) ** 2) / 4)
    incomplete, train, test = hide(blobs, 0.7, rng), slice(0, 300), slice(300, None)
    network = small_network(CNN((8, 8, 8), generate="local"))
    network.set_params(
        max_epochs=15, schedule="one_cycle", learning_rate=1e-2, weight_decay=0.1, batch_size=16
    )
    both = GaussianAndNetwork(network).fit(incomplete[train], blobs[train])
    left = blobs[test] - both.gaussian_.predict(incomplete[test])
    assert np.square(blobs[test] - both.predict(incomplete[test])).mean() < 0.85 * np.square(left).mean()


def test_network_and_ridge_predict_their_mean(windows):
    history, future = windows
    network = small_network(GraphTemporal(channels=4, heads=2, generate="local"))
    both = NetworkAndRidge(network).fit(history, future)
    ridge = RidgeOnLags().fit(history, future).predict(history)
    np.testing.assert_allclose(2 * both.predict(history) - ridge, both.network_.predict(history), atol=1e-8)
    assert both.network is network
    assert not hasattr(network, "predictor_")


def test_combined_models_say_which_shapes_they_read(windows):
    images = np.zeros((10, 3, 6, 6))
    with pytest.raises(ValueError, match=r"^GaussianAndNetwork reads images of one channel.*\(10, 3, 6, 6\)"):
        GaussianAndNetwork().fit(images, images)
    both = GaussianAndNetwork(StableMissRegressor(CNN((4, 4, 4)), max_epochs=1, random_state=0))
    both.fit(images[:, 0], images[:, 0])
    with pytest.raises(ValueError, match=r"^X must hold images of one channel.*got \(10, 36\)"):
        both.predict(images[:, 0].reshape(10, -1))
    with pytest.raises(ValueError, match=r"^NetworkAndRidge reads windows.*\(10, 3, 6, 6\)"):
        NetworkAndRidge().fit(images, images)


def test_combined_models_can_be_kept_by_pickle(windows):
    history, future = windows
    network = small_network(GraphTemporal(channels=4, heads=2, generate="local"))
    both = NetworkAndRidge(network).fit(history, future)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(both)).predict(history), both.predict(history))
