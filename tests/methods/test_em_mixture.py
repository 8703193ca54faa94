"""What is specific to the EM mixture: it is close to optimal at every level, and its class probabilities."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.datasets import make_gaussian, make_gaussian_mix
from stablemiss.estimators import MissingRegressor
from stablemiss.methods import EMMixture
from stablemiss.missingness import LEVELS, MAR, MCARIndependent, MCARWindow
from stablemiss.mixture import Uncertainty
from stablemiss.progress import NullProgress
from stablemiss.tasks import Classification, Regression


def gap_shares(population, mechanism, train_level, n_rows, n_test, seed, **settings):
    """RMSE of the fitted mixture over the Bayes-optimal RMSE, minus one, at each test level."""
    rng = np.random.default_rng(seed)
    X, y = population.draw(n_rows, rng)
    mechanism = mechanism(train_level).fit(X, rng)
    model = MissingRegressor(EMMixture(**settings), random_state=seed, on_unseen_missing="ignore")
    model.fit(mechanism.hide(X, rng), y)
    shares = []
    for level in LEVELS:
        X, y = population.draw(n_test, rng)
        X = mechanism.at(level).hide(X, rng)
        rmse, optimal = (np.sqrt(np.mean((p - y) ** 2)) for p in (model.predict(X), population.bayes(X)))
        shares.append(rmse / optimal - 1)
    return shares


@pytest.mark.parametrize("mechanism", [MAR, MCARWindow])
def test_close_to_optimal_at_every_level_on_a_small_mixture(mechanism):
    population = make_gaussian_mix(n_features=10, random_state=1)
    shares = gap_shares(population, mechanism, 0.3, n_rows=4000, n_test=4000, seed=1)
    assert max(shares) < 0.05


def test_one_gaussian_is_enough_for_gaussian_data():
    population = make_gaussian(n_features=8, random_state=0)
    shares = gap_shares(population, MCARIndependent, 0.5, n_rows=3000, n_test=3000, seed=0, n_components=1)
    assert max(shares) < 0.03


@pytest.mark.accuracy
@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize("level", [0.1, 0.5])
@pytest.mark.parametrize("mechanism", [MAR, MCARWindow])
def test_within_three_percent_of_optimal_at_full_size(mechanism, level, seed):
    """16,384 rows, 50 features, the number of components unknown: at most 3% above Optimal at every level."""
    population = make_gaussian_mix(random_state=seed)
    assert max(gap_shares(population, mechanism, level, n_rows=16384, n_test=16384, seed=seed)) <= 0.03


def test_classes_with_equal_means_and_different_covariances_are_distinguished():
    """A quadratic boundary, which no linear classifier finds."""
    rng = np.random.default_rng(0)
    target = rng.integers(2, size=2000)
    values = rng.normal(size=(2000, 2)) * np.where(target[:, None] == 1, 3.0, 0.5)
    mask = rng.random(values.shape) > 0.2
    data = MaskedData.of(values, mask, target)
    task = Classification(np.array([0, 1]))
    fitted = EMMixture().fit(
        data.rows(np.arange(1700)), data.rows(np.arange(1700, 2000)), task, rng, NullProgress()
    )
    accuracy = np.mean(fitted.predict(values, mask).argmax(axis=1) == target)
    assert accuracy > 0.8


def test_an_all_missing_row_gets_the_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X.sum(axis=1) + 5
    model = MissingRegressor("em_mixture", random_state=0, on_unseen_missing="ignore").fit(X, y)
    assert model.predict(np.full((1, 3), np.nan))[0] == pytest.approx(5, abs=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_are_not_overconfident_on_heavy_tails(seed):
    """Gaussian densities are wrong for heavy tails; the inverse temperatures must correct them."""
    rng = np.random.default_rng(seed)
    target = rng.integers(2, size=1500)
    values = rng.standard_t(3, size=(1500, 8)) + 0.5 * target[:, None]
    data = MaskedData.of(values / values.std(axis=0), rng.random(values.shape) > 0.1, target)
    train, valid, test = (data.rows(index) for index in np.split(np.arange(1500), [800, 1000]))
    task = Classification(np.array([0, 1]))
    fitted = EMMixture().fit(train, valid, task, rng, NullProgress())
    loss = task.loss(fitted.predict(test.values, test.mask), test.target, test.weight)
    assert loss < np.log(2)


def test_tied_densities_equal_those_of_class_means_and_pooled_covariance():
    """On complete rows the tied Gaussians have the class means and the pooled covariance."""
    rng = np.random.default_rng(0)
    target = np.repeat([0, 1, 2], 400)
    values = rng.normal(size=(1200, 2)) @ [[1.0, 0.6], [0.0, 0.8]] + 2 * np.eye(3)[target][:, :2]
    data = MaskedData.of(values, np.ones(values.shape), target)
    empty = data.rows(np.arange(0))
    fitted = EMMixture(ridge=0.01).fit(data, empty, Classification(np.arange(3)), rng, NullProgress())
    tied = fitted.mixtures[0]
    means = np.stack([values[target == c].mean(axis=0) for c in range(3)])
    pooled = (values - means[target]).T @ (values - means[target]) / len(values)
    np.testing.assert_allclose(tied.means, means, atol=0.02)
    np.testing.assert_allclose(tied.covariances[1], pooled, atol=0.02)


def test_more_components_than_rows_of_a_class_work():
    rng = np.random.default_rng(0)
    target = np.repeat([0, 1], [60, 6])
    data = MaskedData.of(rng.normal(size=(66, 2)) + target[:, None], np.ones((66, 2)), target)
    task = Classification(np.array([0, 1]))
    fitted = EMMixture(n_components=10).fit(data, data, task, rng, NullProgress())
    assert np.isfinite(fitted.predict(data.values, data.mask)).all()


def draw_rows(is_classes, n=300):
    """Rows with three correlated columns, a third of the values missing, and a numeric or binary target."""
    rng = np.random.default_rng(4)
    values = rng.normal(size=(n, 3)) @ [[1.0, 0.5, 0.2], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]
    mask = rng.random(values.shape) < 0.67
    mask[:2] = [[False] * 3, [True] * 3]
    score = values[:, :1] + 0.3 * rng.normal(size=(n, 1))
    target = (score[:, 0] > 0).astype(np.int64) if is_classes else score
    task = Classification(np.arange(2)) if is_classes else Regression.of(target)
    return MaskedData.of(values, mask, target if is_classes else task.encode(target)), task


@pytest.mark.parametrize("is_classes", [False, True])
def test_completed_rows_keep_observed_values_and_expect_missing_ones_from_them(is_classes):
    data, task = draw_rows(is_classes)
    predictor = EMMixture(n_components=1).fit(data, data, task, np.random.default_rng(0), NullProgress())
    completed = predictor.complete(np.where(data.mask, data.values, np.nan), data.mask)
    np.testing.assert_array_equal(completed.outputs, predictor.predict(data.values, data.mask))
    np.testing.assert_array_equal(completed.values[data.mask], data.values[data.mask])
    mixture = predictor.tied if is_classes else predictor.mixtures[0]
    d = data.n_columns
    for row in (0, 1, *np.flatnonzero(~data.mask.all(axis=1))[:20]):
        o, m = np.flatnonzero(data.mask[row]), np.flatnonzero(~data.mask[row])
        means, densities = [], []
        for weight, mean, full in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
            mean, covariance = mean[:d], full[:d, :d]
            difference = data.values[row, o] - mean[o]
            solved = np.linalg.solve(covariance[np.ix_(o, o)], difference)
            means.append(mean[m] + covariance[np.ix_(m, o)] @ solved)
            log_det = np.linalg.slogdet(covariance[np.ix_(o, o)])[1]
            densities.append(weight * np.exp(-0.5 * (difference @ solved + log_det)))
        expected = np.average(means, axis=0, weights=densities)
        np.testing.assert_allclose(completed.values[row, m], expected, atol=1e-6)


@pytest.mark.parametrize("is_classes", [False, True])
def test_expected_errors_equal_those_of_the_full_computation(is_classes):
    """`Uncertainty` computes the same number together with what each missing column is worth."""
    data, task = draw_rows(is_classes)
    predictor = EMMixture(n_components=1).fit(data, data, task, np.random.default_rng(0), NullProgress())
    # The indicators of both classes from that of the second.
    outputs = np.array([[-1.0, 1.0]]) if is_classes else None
    errors = Uncertainty.of(predictor.joint(), data.values, data.mask, outputs=outputs).error
    np.testing.assert_allclose(
        predictor.expected_error(data.values, data.mask)[:, 0], errors.sum(axis=1), atol=1e-10
    )


def test_components_of_classes_are_added_only_if_they_lower_the_loss():
    """Rings around each other need several components each; for two equal Gaussians one is enough.

    By chance a second one may lower the loss of the validation rows a little.
    """
    rng = np.random.default_rng(0)
    n, task = 1200, Classification(np.arange(2))
    target = rng.integers(2, size=n)
    angle = rng.uniform(0, 2 * np.pi, n)
    ring = (1 + 1.5 * target)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    gaussian = rng.normal(size=(n, 2)) + 1.5 * target[:, None]
    sizes = []
    for values in (ring + 0.1 * rng.normal(size=ring.shape), gaussian):
        data = MaskedData.of(values, np.ones(values.shape, bool), target)
        train, valid = data.rows(np.arange(800)), data.rows(np.arange(800, n))
        fit = EMMixture().fit(train, valid, task, np.random.default_rng(1), NullProgress())
        sizes.append(max(mixture.n_components for mixture in fit.mixtures[1:]))
    assert sizes[0] > 1
    assert sizes[1] <= 2
