"""Linear models: joined rows, centred columns, weights equivalent to repetition, and partial targets."""

from dataclasses import replace

import numpy as np
import pytest

from stablemiss.base import linear
from stablemiss.base.linear import LinearPredictor, design, draw_columns, join, least_squares, regress
from stablemiss.data import MaskedData
from stablemiss.methods import DWR, OLS, SRDO
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression


def draw(seed, n=60, d=3):
    rng = to_rng(seed)
    values = rng.normal(1.0, 2.0, size=(n, d))
    mask = rng.uniform(size=(n, d)) < 0.7
    weight = rng.integers(1, 4, size=n).astype(float)
    return rng, MaskedData.of(values, mask, rng.normal(size=(n, 1)), weight)


def test_joined_rows_are_training_rows_followed_by_validation_rows():
    _, data = draw(0)
    joined = join(data.rows(np.arange(40)), data.rows(np.arange(40, 60)))
    for name in ("values", "mask", "target", "weight", "groups"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(data, name))


@pytest.mark.parametrize("has_mask", [(True, True), (True, False), (False, True), (False, False)])
def test_joined_rows_without_a_target_mask_are_observed(has_mask):
    rng, data = draw(0)
    parts = data.rows(np.arange(40)), data.rows(np.arange(40, 60))
    seen = [
        rng.uniform(size=part.target.shape) < (0.5 if has else 2)
        for part, has in zip(parts, has_mask, strict=True)
    ]
    joined = join(
        *(
            replace(part, target_mask=mask if has else None)
            for part, mask, has in zip(parts, seen, has_mask, strict=True)
        )
    )
    if any(has_mask):
        np.testing.assert_array_equal(joined.target_mask, np.concatenate(seen))
    else:
        assert joined.target_mask is None


@pytest.mark.parametrize("seed", range(3))
def test_observed_values_of_the_design_have_weighted_mean_zero(seed):
    _, data = draw(seed)
    columns = design(data.values, data.mask, data.column_means())
    np.testing.assert_allclose(data.weight @ columns, 0.0, atol=1e-9)
    assert (columns[~data.mask] == 0).all()


def test_a_column_never_observed_has_mean_zero():
    _, data = draw(0)
    keep = np.ones_like(data.mask)
    keep[:, 1] = False
    assert data.keep_where(keep).column_means()[1] == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_classification", [False, True])
def test_weights_are_equivalent_to_repeated_rows(seed, is_classification):
    rng, data = draw(seed)
    weight = rng.integers(1, 4, size=len(data))
    if is_classification:
        task, target = Classification(np.arange(3)), rng.integers(3, size=len(data))
    else:
        task, target = Regression.of(data.target[:, 0]), data.target
    repeated = np.repeat(np.arange(len(data)), weight)
    weighted = regress(data.values, target, weight.astype(float), task, ridge=0.1)
    unweighted = regress(data.values[repeated], target[repeated], np.ones(len(repeated)), task, ridge=0.1)
    for actual, expected in zip(weighted, unweighted, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-2, atol=1e-3)


def draw_partial(seed, p, n=300, q=12, observed=0.6):
    """Correlated inputs, and targets of which a different part is observed for each output."""
    rng = to_rng(seed)
    inputs = rng.normal(1.0, 1.0, size=(n, p)) + 2 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, p))
    target = inputs @ rng.normal(size=(p, q)) / np.sqrt(p) + 2 + rng.normal(size=(n, q))
    weight = rng.uniform(0.0, 2.0, size=n)
    weight[::20] = 0.0
    # Whether a target is observed depends on the inputs, so that each output has other means.
    seen = rng.uniform(size=(n, q)) < np.where(inputs[:, :1] > 1, observed, observed / 2)
    return inputs, target, weight, seen


def solve_alone(inputs, target, weight, ridge):
    """Ridge regression of one output as least squares: intercept first, and the ridge as further rows."""
    p = inputs.shape[1]
    root = np.sqrt(weight / weight.sum())[:, None]
    rows = np.vstack([root * np.insert(inputs, 0, 1.0, axis=1), np.sqrt(ridge) * np.eye(p + 1)[1:]])
    solution = np.linalg.lstsq(rows, np.append(root[:, 0] * target, np.zeros(p)), rcond=None)[0]
    return solution[1:], solution[0]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("ridge", [1e-6, 0.1])
@pytest.mark.parametrize("p", [5, 80])
def test_each_output_is_fitted_to_the_rows_in_which_it_is_observed(p, ridge, seed):
    """Exactly for few columns, by conjugate gradients for many."""
    inputs, target, weight, seen = draw_partial(seed, p)
    coefficients, intercept = least_squares(inputs, target, weight, ridge, seen)
    for output, rows in enumerate(seen.T):
        alone = solve_alone(inputs[rows], target[rows, output], weight[rows], ridge)
        np.testing.assert_allclose(coefficients[:, output], alone[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(intercept[output], alone[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("observed", [0.6, 0.3])
def test_outputs_that_do_not_converge_are_solved_one_by_one(observed, monkeypatch):
    """With 0.3 there are more columns than observed rows."""
    monkeypatch.setattr(linear, "MAX_ITERATIONS", 3)
    inputs, target, weight, seen = draw_partial(0, 80, observed=observed)
    coefficients, intercept = least_squares(inputs, target, weight, 1e-3, seen)
    for output, rows in enumerate(seen.T):
        alone = solve_alone(inputs[rows], target[rows, output], weight[rows], 1e-3)
        np.testing.assert_allclose(coefficients[:, output], alone[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(intercept[output], alone[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("p", [5, 80])
def test_targets_that_are_not_observed_have_no_influence(p):
    inputs, target, weight, seen = draw_partial(0, p)
    expected = least_squares(inputs, target, weight, 1e-6, seen)
    for garbage in (0.0, -1e9, np.nan):
        actual = least_squares(inputs, np.where(seen, target, garbage), weight, 1e-6, seen)
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("p", [5, 80])
def test_an_output_that_is_never_observed_gets_zeros(p):
    """Nor does it change the others. Observed in rows of weight zero only, it counts as never observed."""
    inputs, target, weight, seen = draw_partial(0, p)
    seen[:, 3] = False
    seen[:, 7] = weight == 0
    coefficients, intercept = least_squares(inputs, target, weight, 1e-6, seen)
    assert not coefficients[:, [3, 7]].any()
    assert not intercept[[3, 7]].any()
    others = np.delete(np.arange(12), [3, 7])
    alone = least_squares(inputs, target[:, others], weight, 1e-6, seen[:, others])
    np.testing.assert_array_equal(coefficients[:, others], alone[0])
    np.testing.assert_array_equal(intercept[others], alone[1])


@pytest.mark.parametrize("p", [5, 80])
def test_without_any_observed_target_all_outputs_are_zero(p):
    inputs, target, weight, seen = draw_partial(0, p)
    for part in least_squares(inputs, target, weight, 1e-6, np.zeros_like(seen)):
        assert not part.any()


@pytest.mark.parametrize("p", [5, 80])
def test_complete_targets_with_and_without_a_mask_are_bit_identical(p):
    inputs, target, weight, seen = draw_partial(0, p)
    expected = least_squares(inputs, target, weight, 1e-6)
    for a, b in zip(least_squares(inputs, target, weight, 1e-6, np.ones_like(seen)), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_outputs_observed_in_the_same_rows_are_solved_like_complete_targets():
    inputs, target, weight, seen = draw_partial(0, 80)
    seen[:, :6], seen[:, 6:] = seen[:, :1], seen[:, 6:7]
    coefficients, intercept = least_squares(inputs, target, weight, 1e-6, seen)
    for outputs in (slice(0, 6), slice(6, 12)):
        rows = seen[:, outputs.start] & (weight > 0)
        alone = least_squares(inputs[rows], target[rows, outputs], weight[rows], 1e-6)
        np.testing.assert_allclose(coefficients[:, outputs], alone[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(intercept[outputs], alone[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 1e-6])
@pytest.mark.parametrize("kind", ["copied", "constant", "zero"])
def test_partial_targets_accept_columns_without_a_unique_solution(kind, ridge):
    inputs, target, weight, seen = draw_partial(0, 80)
    if kind == "copied":
        inputs[:, 40:] = inputs[:, :40]
    else:
        inputs[:, 10:] = 3.0 if kind == "constant" else 0.0
    coefficients, intercept = least_squares(inputs, target, weight, ridge, seen)
    used = 40 if kind == "copied" else 10
    for output, rows in enumerate(seen.T):
        alone = solve_alone(inputs[rows, :used], target[rows, output], weight[rows], ridge)
        expected = inputs[:, :used] @ alone[0] + alone[1]
        np.testing.assert_allclose(inputs @ coefficients[:, output] + intercept[output], expected, atol=1e-4)


def test_a_constant_target_has_no_coefficients():
    inputs, target, weight, seen = draw_partial(0, 80)
    target[:, 2], target[:, 5] = 0.0, 7.0
    coefficients, intercept = least_squares(inputs, target, weight, 1e-6, seen)
    np.testing.assert_allclose(coefficients[:, [2, 5]], 0.0, atol=1e-9)
    np.testing.assert_allclose(intercept[[2, 5]], [0.0, 7.0], atol=1e-9)


def test_columns_are_drawn_only_if_there_are_too_many():
    rng = to_rng(0)
    state = rng.bit_generator.state
    inputs, groups = np.arange(12.0).reshape(2, 6), np.array([0, 0, 1, 2, 3, 3])
    columns, kept = draw_columns(inputs, groups, 6, rng)
    assert columns is inputs
    assert kept is groups
    assert rng.bit_generator.state == state
    columns, kept = draw_columns(inputs, groups, 3, rng)
    np.testing.assert_array_equal(kept, groups[columns[0].astype(int)])
    assert (np.diff(columns[0]) > 0).all()


@pytest.mark.parametrize("method", [DWR(max_columns=5), SRDO("logistic", max_columns=5)], ids=str)
def test_weights_are_learned_from_a_subset_of_many_columns(method):
    """The regression uses all columns, and the same seed draws the same subset."""
    rng, n = to_rng(0), 200
    values = rng.normal(size=(n, 20)) + rng.normal(size=(n, 1))
    data = MaskedData.of(values, np.ones_like(values), values[:, :1])
    task = Regression.of(values[:, 0])
    fits = [method.fit(data, data.rows(np.arange(0)), task, to_rng(s), NullProgress()) for s in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0].weight, fits[1].weight)
    assert not np.array_equal(fits[0].weight, fits[2].weight)
    expected = least_squares(
        design(data.values, data.mask, data.column_means()), data.target, fits[0].weight, 1e-6
    )
    np.testing.assert_array_equal(fits[0].coefficients, expected[0])


def test_fitted_weights_are_not_part_of_the_archive():
    """They belong to the training rows, which are not archived either."""
    predictor = LinearPredictor(np.zeros(1), np.ones((1, 1)), np.zeros(1), use_mask=False, weight=np.ones(9))
    assert LinearPredictor.from_state(predictor.state(), 1, Regression.of(np.zeros(2))).weight is None


@pytest.mark.parametrize("method", [DWR(), SRDO("logistic")], ids=lambda method: method.name)
def test_the_effective_share_is_that_of_the_fitted_weights(method):
    rng = to_rng(0)
    values = rng.normal(size=(200, 3)) + rng.normal(size=(200, 1))
    data = MaskedData.of(values, np.ones_like(values), values[:, :1])
    task = Regression.of(values[:, 0])
    predictor = method.fit(
        data.rows(np.arange(150)), data.rows(np.arange(150, 200)), task, rng, NullProgress()
    )
    weight = predictor.weight
    # The validation rows are training rows too.
    assert predictor.effective_share == pytest.approx(sum(weight) ** 2 / (200 * sum(weight**2)))
    assert 0.1 < predictor.effective_share < 0.99
    assert LinearPredictor.from_state(predictor.state(), 3, task).effective_share is None


def test_without_fitted_weights_there_is_no_effective_share():
    """Also with sample weights, which are not fitted."""
    _, data = draw(0)
    task = Regression.of(data.target[:, 0])
    assert OLS().fit(data, data.rows(np.arange(0)), task, to_rng(0), NullProgress()).effective_share is None
