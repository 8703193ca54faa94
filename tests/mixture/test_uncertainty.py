import numpy as np
import pytest

from stablemiss.data import zero_where_missing
from stablemiss.mixture import ConditionalVariance, GaussianMixture, Uncertainty


def make_mixture(rng, n_components=3, d=6, n_targets=1):
    """Overlapping components with different regressions."""
    n_columns = d + n_targets
    root = rng.normal(size=(n_components, n_columns, n_columns // 2 + 1))
    weights = rng.random(n_components) + 0.3
    covariances = root @ root.transpose(0, 2, 1) / n_columns + 0.2 * np.eye(n_columns)
    means = 0.7 * rng.normal(size=(n_components, n_columns))
    return GaussianMixture(weights / weights.sum(), means, covariances)


def draw(mixture, n, rng):
    component = rng.choice(mixture.n_components, size=n, p=mixture.weights)
    factors = np.linalg.cholesky(mixture.covariances)[component]
    noise = rng.normal(size=(n, mixture.means.shape[1], 1))
    return mixture.means[component] + (factors @ noise)[..., 0]


def condition(mixture, row, observed):
    """Mixture of the missing columns given the observed ones, by the textbook formulas."""
    log_joint, means, covariances = [], [], []
    o, m = observed, ~observed
    for weight, mean, covariance in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        block, deviation = covariance[np.ix_(o, o)], row[o] - mean[o]
        coef = np.linalg.solve(block, covariance[np.ix_(o, m)]).T
        log_det = np.linalg.slogdet(block)[1] if o.any() else 0.0
        log_joint.append(np.log(weight) - 0.5 * (log_det + deviation @ np.linalg.solve(block, deviation)))
        means.append(mean[m] + coef @ deviation)
        covariances.append(covariance[np.ix_(m, m)] - coef @ covariance[np.ix_(o, m)])
    share = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    return GaussianMixture(share, np.array(means), np.array(covariances))


def overall_covariance(mixture):
    shift = mixture.means - mixture.weights @ mixture.means
    return np.tensordot(mixture.weights, mixture.covariances, axes=1) + (shift.T * mixture.weights) @ shift


def explained(covariance, columns, n_targets):
    """Variance of the last columns that a regression on `columns` explains."""
    targets = np.arange(len(covariance) - n_targets, len(covariance))
    cross = covariance[np.ix_(columns, targets)]
    return np.diag(cross.T @ np.linalg.solve(covariance[np.ix_(columns, columns)], cross))


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_error_and_gain_agree_with_the_textbook_formulas(n_components, n_targets, seed):
    """For all masks and for grouped columns; `error_if_complete` too if there is one component."""
    rng = np.random.default_rng(seed)
    groups = np.array([0, 1, 1, 2, 4, 4, 4])
    mixture = make_mixture(rng, n_components, d=7, n_targets=n_targets)
    rows = draw(mixture, 60, rng)
    mask = (rng.random((60, 5)) < rng.random((60, 1)))[:, groups]
    mask[:2] = [[False] * 7, [True] * 7]
    uncertainty = Uncertainty.of(mixture, rows[:, :7], mask, groups)
    assert uncertainty.gain.shape == (60, 4)
    for i, (row, observed) in enumerate(zip(rows, mask, strict=True)):
        conditional = condition(mixture, row, np.append(observed, [False] * n_targets))
        covariance = overall_covariance(conditional)
        error = np.diag(covariance)[-n_targets:]
        np.testing.assert_allclose(uncertainty.error[i], error, rtol=1e-9)
        missing = np.flatnonzero(~observed)
        for j, group in enumerate(np.unique(groups)):
            columns = np.flatnonzero(groups[missing] == group)
            gain = explained(covariance, columns, n_targets).sum() if len(columns) else 0.0
            np.testing.assert_allclose(uncertainty.gain[i, j], gain, rtol=1e-9, atol=1e-12)
        if n_components == 1:
            all_missing = np.arange(len(missing))
            complete = error - (explained(covariance, all_missing, n_targets) if len(missing) else 0.0)
            np.testing.assert_allclose(uncertainty.error_if_complete[i], complete, rtol=1e-9)


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_gains_are_non_negative_and_at_most_the_gain_of_all_columns(n_components, seed):
    rng = np.random.default_rng(seed)
    mixture = make_mixture(rng, n_components, d=8)
    rows, mask = draw(mixture, 500, rng)[:, :8], rng.random((500, 8)) < rng.random((500, 1))
    uncertainty = Uncertainty.of(mixture, rows, mask)
    total_gain = (uncertainty.error - uncertainty.error_if_complete).sum(axis=1)
    assert (uncertainty.gain >= 0).all()
    assert (uncertainty.gain.max(axis=1) <= total_gain + 1e-12).all()
    np.testing.assert_array_equal(uncertainty.gain[mask], 0.0)
    is_incomplete = ~mask.all(axis=1)
    assert (total_gain[is_incomplete] > 0).all()
    np.testing.assert_array_equal(
        uncertainty.most_informative_missing, np.where(is_incomplete, uncertainty.gain.argmax(axis=1), -1)
    )


def test_a_complete_row_has_no_gain():
    rng = np.random.default_rng(0)
    mixture = make_mixture(rng)
    uncertainty = Uncertainty.of(mixture, rng.normal(size=(50, 6)), np.ones((50, 6), dtype=bool))
    np.testing.assert_array_equal(uncertainty.error, uncertainty.error_if_complete)
    np.testing.assert_array_equal(uncertainty.gain, 0.0)
    np.testing.assert_array_equal(uncertainty.most_informative_missing, -1)


@pytest.mark.parametrize("seed", range(3))
def test_expected_errors_of_three_components_agree_with_simulation(seed):
    """The missing values of single rows are simulated many times and predicted with and without columns."""
    rng = np.random.default_rng(seed)
    d, n = 6, 20_000
    mixture = make_mixture(rng, d=d)
    predicted, simulated = [], []
    for _ in range(6):
        row, observed = draw(mixture, 1, rng)[0], np.append(rng.random(d) < 0.4, False)
        observed[rng.integers(d)] = False
        rows = np.tile(row, (n, 1))
        rows[:, ~observed] = draw(condition(mixture, row, observed), n, rng)

        def simulated_error(mask, rows=rows):
            mask = np.broadcast_to(mask, rows.shape)
            return np.mean((rows[:, [d]] - mixture.conditional_mean(rows, mask, [d])) ** 2)

        uncertainty = Uncertainty.of(mixture, row[None, :d], observed[None, :d])
        error = simulated_error(observed)
        assert uncertainty.error[0, 0] == pytest.approx(error, rel=0.05)
        assert uncertainty.error_if_complete[0, 0] == pytest.approx(
            simulated_error(np.arange(d + 1) < d), rel=0.12
        )
        for j in np.flatnonzero(~observed[:d]):
            predicted.append(uncertainty.gain[0, j] / error)
            simulated.append(1 - simulated_error(observed | (np.arange(d + 1) == j)) / error)
    assert np.corrcoef(predicted, simulated)[0, 1] > 0.9
    # The gain of the best linear prediction is a lower bound.
    assert (np.array(predicted) < np.array(simulated) + 0.02).all()


def test_the_expected_error_of_complete_rows_is_unbiased():
    rng = np.random.default_rng(5)
    mixture = make_mixture(rng, n_components=4, d=8)
    rows = draw(mixture, 4000, rng)
    mask = rng.random((4000, 8)) < 0.4
    uncertainty = Uncertainty.of(mixture, rows[:, :8], mask)
    of_complete_rows = Uncertainty.of(mixture, rows[:, :8], np.ones_like(mask))
    assert uncertainty.error_if_complete.mean() == pytest.approx(of_complete_rows.error.mean(), rel=0.05)
    assert uncertainty.error.mean() == pytest.approx(
        np.mean((rows[:, 8] - predict(mixture, rows[:, :8], mask)) ** 2), rel=0.05
    )


def predict(mixture, values, mask):
    target = np.zeros((len(values), 1))
    return mixture.conditional_mean(np.hstack([values, target]), np.hstack([mask, target > 0]), [-1])[:, 0]


def test_errors_of_class_indicators_are_brier_scores():
    """With one component per class and constant indicators, the error of each class is p (1 − p)."""
    rng = np.random.default_rng(1)
    features, d = make_mixture(rng, d=4, n_targets=0), 4
    indicators = np.eye(3)[:, 1:]
    covariances = np.zeros((3, d + 2, d + 2))
    covariances[:, :d, :d] = features.covariances
    joint = GaussianMixture(features.weights, np.hstack([features.means, indicators]), covariances)
    values, mask = rng.normal(size=(100, d)), rng.random((100, d)) < 0.5
    all_classes = np.hstack([-np.ones((2, 1)), np.eye(2)])
    uncertainty = Uncertainty.of(joint, values, mask, outputs=all_classes)
    probability = features.responsibilities(values, mask)
    np.testing.assert_allclose(uncertainty.error, probability * (1 - probability), atol=1e-12)
    assert (uncertainty.error_if_complete <= uncertainty.error).all()
    assert (uncertainty.error_if_complete >= 0).all()


def test_errors_are_proportional_to_the_square_of_the_unit_of_the_outputs():
    rng = np.random.default_rng(2)
    mixture = make_mixture(rng, n_targets=2)
    values, mask = rng.normal(size=(30, 6)), rng.random((30, 6)) < 0.5
    plain = Uncertainty.of(mixture, values, mask)
    scaled = Uncertainty.of(mixture, values, mask, outputs=np.diag([10.0, 0.0]))
    np.testing.assert_allclose(scaled.error, plain.error * [100.0, 0.0])
    np.testing.assert_allclose(scaled.error_if_complete, plain.error_if_complete * [100.0, 0.0], rtol=1e-6)
    alone = Uncertainty.of(mixture, values, mask, outputs=np.array([[10.0], [0.0]]))
    np.testing.assert_allclose(scaled.gain, alone.gain)


def test_redundant_columns_of_a_group_do_not_change_the_gain():
    """Columns that determine each other, as in a one-hot encoding, do not cause a division by zero."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(4, 4))
    root[2] = -root[1]  # column 2 is minus column 1
    covariance = root @ root.T + np.diag([0.1, 0.0, 1e-14, 0.1])
    mixture = GaussianMixture(np.ones(1), np.zeros((1, 4)), covariance[None])
    mask = np.array([[True, False, False], [False, False, False]])
    uncertainty = Uncertainty.of(mixture, np.zeros((2, 3)), mask, np.array([0, 1, 1]))
    without = GaussianMixture(np.ones(1), np.zeros((1, 3)), covariance[None][:, [0, 1, 3]][:, :, [0, 1, 3]])
    expected = Uncertainty.of(without, np.zeros((2, 2)), mask[:, :2])
    np.testing.assert_allclose(uncertainty.gain, expected.gain, rtol=1e-3)


def test_the_result_of_a_row_depends_neither_on_other_rows_nor_on_hidden_values():
    """Hidden values may be NaN."""
    rng = np.random.default_rng(4)
    mixture, values = make_mixture(rng), rng.normal(size=(300, 6))
    mask = rng.random((300, 6)) < 0.5
    together = Uncertainty.of(mixture, np.where(mask, values, np.nan), mask)
    for row in (0, 120, 299):
        alone = Uncertainty.of(mixture, zero_where_missing(values, mask)[[row]], mask[[row]])
        for name in ("error", "error_if_complete", "gain"):
            np.testing.assert_allclose(getattr(alone, name)[0], getattr(together, name)[row], rtol=1e-9)


def test_a_table_without_rows_and_a_single_column_work():
    rng = np.random.default_rng(6)
    empty = Uncertainty.of(make_mixture(rng), np.zeros((0, 6)), np.zeros((0, 6), dtype=bool))
    assert (empty.error.shape, empty.gain.shape, empty.most_informative_missing.shape) == (
        (0, 1),
        (0, 6),
        (0,),
    )
    single = Uncertainty.of(make_mixture(rng, d=1), np.ones((2, 1)), np.array([[True], [False]]))
    assert single.most_informative_missing.tolist() == [-1, 0]
    assert 0 < single.error_if_complete[1, 0] < single.error[1, 0]


@pytest.mark.parametrize(
    "changed", [{"values": np.zeros((2, 5))}, {"groups": np.arange(5)}, {"outputs": np.eye(3)}]
)
def test_inconsistent_shapes_raise(changed):
    arguments = {"values": np.zeros((2, 6)), "mask": np.zeros((2, 6), dtype=bool), **changed}
    with pytest.raises(ValueError, match="must agree"):
        Uncertainty.of(make_mixture(np.random.default_rng(0)), **arguments)


def test_a_mixture_without_targets_raises():
    with pytest.raises(ValueError, match="followed by the targets"):
        Uncertainty.of(make_mixture(np.random.default_rng(0)), np.zeros((2, 7)), np.zeros((2, 7), dtype=bool))


def test_expected_errors_of_a_target_without_noise_are_not_negative():
    """Callers take their square roots."""
    rng = np.random.default_rng(7)
    features = make_mixture(rng, d=5, n_targets=0)
    line = np.hstack([np.eye(5), rng.normal(size=(5, 1))])
    joint = GaussianMixture(
        features.weights, features.means @ line, line.T @ features.covariances @ line
    )  # y is a sum of features
    values, mask = rng.normal(size=(400, 5)), rng.random((400, 5)) < 0.7
    uncertainty = Uncertainty.of(joint, values, mask)
    assert min(uncertainty.error.min(), uncertainty.error_if_complete.min()) >= 0
    np.testing.assert_allclose(uncertainty.error_if_complete, 0.0, atol=1e-12)
    np.testing.assert_allclose(uncertainty.error[mask.all(axis=1)], 0.0, atol=1e-12)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_conditional_variance_alone_is_the_error(n_targets):
    rng = np.random.default_rng(0)
    mixture = make_mixture(rng, n_targets=n_targets)
    values = draw(mixture, 50, rng)[:, :6]
    mask = rng.random(values.shape) < 0.6
    mask[:2] = [[True], [False]]
    values = zero_where_missing(values, mask)
    expected = Uncertainty.of(mixture, values, mask).error
    np.testing.assert_allclose(ConditionalVariance(mixture, 6).of(values, mask), expected, rtol=1e-12)
