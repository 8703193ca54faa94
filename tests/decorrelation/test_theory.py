"""The paper's claims about decorrelation, on small discrete distributions where every case can be enumerated.

In the realisable case, if every mask occurs in training, all weightings of the rows have the same population
minimiser: the closed form. Weights change how much training loss a wrong parameter costs, and so how reliably
a fit with regularisation or early stopping rejects it. If a mask never occurs in training, no weights can add
it. Weights must not depend on missing values. The tests show all four.
"""

import itertools

import numpy as np
import pytest
import torch

from stablemiss.decorrelation import Decorrelator, dependence
from stablemiss.networks import GeneratedMLP
from stablemiss.tasks import Regression

# The squared error that methods minimise, for a target that is not standardised.
TASK = Regression(mean=np.zeros(1), scale=np.ones(1), single=True)


def terms_of(x, m):
    """PAPER: eq. (g): all products m_i m_j m_k x_k with x_0 = m_0 = 1, (n, (d + 1)³)."""
    one = np.ones((len(x), 1))
    x, m = np.hstack([one, x]), np.hstack([one, m])
    return np.einsum("ni,nj,nk->nijk", m, m, m * x).reshape(len(x), -1)


def loss(theta, x, m, y, weight=None):
    """Weighted mean squared error of the quadratic φ with parameters θ."""
    weight = np.ones(len(x)) if weight is None else weight
    return TASK.loss(terms_of(x, m) @ theta.reshape(-1, 1), y[:, None], weight)


def minimiser(x, m, y, weight=None, shrink=0.0):
    """The θ that minimises loss + shrink · ‖θ‖²; the one of least norm if there are several."""
    terms = terms_of(x, m)
    share = np.ones(len(x)) if weight is None else weight
    share = share / share.sum()
    gram = (terms * share[:, None]).T @ terms + shrink * np.eye(terms.shape[1])
    return np.linalg.pinv(gram, rcond=1e-10) @ ((terms * share[:, None]).T @ y)


def rows_of(x_counts, mask_counts):
    """x and m (n, d), independent of each other, each value repeated according to its count."""
    pairs = [
        (x, m)
        for (x, x_count), (m, m_count) in itertools.product(x_counts.items(), mask_counts.items())
        for _ in range(x_count * m_count)
    ]
    return tuple(np.array(side, dtype=float) for side in zip(*pairs, strict=True))


# --- Theorem 2: Y = X1 + 2 X2 with fair coins; in training exactly one of them is observed ---

COINS = dict.fromkeys(itertools.product((0, 1), repeat=2), 1)
TRAIN_MASKS = {(0, 1): 1, (1, 0): 1}
TEST_MASKS = dict.fromkeys(itertools.product((0, 1), repeat=2), 1)

# PAPER: the two parameters of the proof, θ[i, j, k].
RIGHT = np.zeros((3, 3, 3))
RIGHT[0, :, 0] = [3 / 2, -1 / 2, -1]
RIGHT[0, :, 1] = [0, 1, 0]
RIGHT[0, :, 2] = [0, 0, 2]
WRONG = np.stack(
    [
        [[3 / 2, -1, -3 / 2], [-1 / 2, 1, 0], [-1 / 2, 0, 1]],
        [[0, 3 / 2, 1 / 2], [1 / 2, -1, 0], [1 / 2, 0, -1]],
        [[0, 1, 2], [1, 1, 1], [0, 1, 0]],
    ],
    axis=2,
)


def instance(masks):
    x, m = rows_of(COINS, masks)
    return x, m, x @ [1.0, 2.0]


def test_theorem_2_two_parameters_with_the_same_training_loss_and_different_test_losses():
    train, test = instance(TRAIN_MASKS), instance(TEST_MASKS)
    assert loss(RIGHT, *train) == pytest.approx(5 / 8, abs=1e-12)
    assert loss(WRONG, *train) == pytest.approx(5 / 8, abs=1e-12)
    assert loss(RIGHT, *test) == pytest.approx(5 / 8, abs=1e-12)
    assert loss(WRONG, *test) == pytest.approx(15 / 4, abs=1e-12)


def test_theorem_2_the_right_parameter_is_the_conditional_mean_under_every_mask():
    x, m, y = instance(TEST_MASKS)
    outputs = terms_of(x, m) @ RIGHT.ravel()
    for row, output in enumerate(outputs):
        same = ((m == m[row]) & (x * m == x[row] * m[row])).all(axis=1)
        assert output == pytest.approx(y[same].mean(), abs=1e-12)


@pytest.mark.parametrize(
    ("theta", "test_loss", "by_mask", "start"),
    [
        (RIGHT, 5 / 8, [[-1 / 2, -1], [0, 0], [0, 0]], [3 / 2, 1, 2]),
        (WRONG, 15 / 4, [[-1 / 2, -1], [0, 0], [5, 0]], [3 / 2, 1, 2]),
    ],
)
def test_theorem_2_holds_for_the_network_that_methods_train(theta, test_loss, by_mask, start):
    """For two columns the quadratic φ is linear in the mask, so a generated network without hidden layers
    can represent both parameters."""
    network = GeneratedMLP([2, 1], hidden=[]).double()
    with torch.no_grad():
        network.phi.code.last.weight.copy_(torch.tensor(by_mask))
        network.phi.code.last.bias.copy_(torch.tensor(start))
    for (x, m, y), expected in ((instance(TRAIN_MASKS), 5 / 8), (instance(TEST_MASKS), test_loss)):
        outputs = network(torch.from_numpy(x), torch.from_numpy(m)).detach().numpy()
        np.testing.assert_allclose(outputs[:, 0], terms_of(x, m) @ theta.ravel(), atol=1e-12)
        assert TASK.loss(outputs, y[:, None], np.ones(len(y))) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_theorem_2_no_weights_distinguish_the_two_if_a_mask_never_occurs(seed):
    """If exactly one of two columns is always missing, their indicators are dependent under any weights."""
    x, m, y = instance(TRAIN_MASKS)
    weight = np.random.default_rng(seed).exponential(size=len(x))
    assert loss(WRONG, x, m, y, weight) == pytest.approx(loss(RIGHT, x, m, y, weight), abs=1e-12)
    assert dependence(x, m, weight, rng=np.random.default_rng(seed))["mm"] > 0
    # The minimiser of least norm is a third parameter, which is also wrong under the test masks.
    assert loss(minimiser(x, m, y, weight), *instance(TEST_MASKS)) > 5 / 8 + 0.05


def test_theorem_2_with_a_little_overlap_decorrelating_weights_raise_the_loss_of_the_wrong_parameter():
    """In 2% of the rows both columns or none are observed.

    The weights p_test / p_train make the mask indicators independent.
    """
    x, m, y = instance({(0, 0): 1, (0, 1): 49, (1, 0): 49, (1, 1): 1})
    exact = np.where(m[:, 0] == m[:, 1], 25.0, 25 / 49)
    for weight, share in ((np.ones(len(x)), 1 / 100), (exact, 1 / 4)):
        gap = loss(WRONG, x, m, y, weight) - loss(RIGHT, x, m, y, weight)
        assert gap == pytest.approx(share * 25 / 2, abs=1e-12)
    assert loss(WRONG, x, m, y, exact) == pytest.approx(15 / 4, abs=1e-12)
    measured = dependence(x, m, exact, rng=np.random.default_rng(0))
    assert measured["mm"] == pytest.approx(0, abs=1e-12)
    # The minimiser of the weighted risk is the right one, and shrinkage changes it far less.
    test = instance(TEST_MASKS)
    assert loss(minimiser(x, m, y, exact), *test) == pytest.approx(5 / 8, abs=1e-9)
    plain, weighted = (
        loss(minimiser(x, m, y, weight, shrink=0.01), *test) - 5 / 8 for weight in (None, exact)
    )
    assert weighted < 0.05 * plain


def test_theorem_2_independent_indicators_do_not_suffice_if_one_mask_has_nearly_all_weight():
    """Bits that hardly vary are nearly independent too, and then the loss of the wrong parameter is small."""
    x, m, y = instance({(0, 0): 1, (0, 1): 49, (1, 0): 49, (1, 1): 1})
    one_mask = np.where((m == [0, 1]).all(axis=1), 1.0, 1e-3)
    equal, collapsed = (
        dependence(x, m, weight, rng=np.random.default_rng(0))["mm"] for weight in (None, one_mask)
    )
    assert collapsed < 1e-4 * equal
    assert loss(WRONG, x, m, y, one_mask) - loss(RIGHT, x, m, y, one_mask) < 0.001


@pytest.mark.slow
def test_theorem_2_with_a_little_overlap_fitted_weights_usually_lower_the_test_loss():
    """`Decorrelator` knows neither mechanism nor target. It always makes the mask indicators less dependent
    and raises the loss of the wrong parameter. It usually distributes the weight over all masks; some runs
    approach the other solution, in which one mask has all the weight, hence the median."""
    x, m, y = instance({(0, 0): 4, (0, 1): 196, (1, 0): 196, (1, 1): 4})
    test = instance(TEST_MASKS)
    plain_gap = loss(WRONG, x, m, y) - loss(RIGHT, x, m, y)
    plain_excess = loss(minimiser(x, m, y, shrink=0.01), *test) - 5 / 8
    gap_ratios, excess_ratios = [], []
    for seed in range(5):
        weighting = Decorrelator(strength=0.1, q=20).learn_weights(
            2 * x - 1, m, rng=np.random.default_rng(seed)
        )
        assert weighting.after["mm"] < 0.2 * weighting.before["mm"]
        gap = loss(WRONG, x, m, y, weighting.weight) - loss(RIGHT, x, m, y, weighting.weight)
        gap_ratios.append(gap / plain_gap)
        excess = loss(minimiser(x, m, y, weighting.weight, shrink=0.01), *test) - 5 / 8
        excess_ratios.append(excess / plain_excess)
    assert min(gap_ratios) > 1
    assert np.median(gap_ratios) > 4
    assert np.median(excess_ratios) < 0.25


# --- Two equal columns: Y = α1 X1 + α2 X2 + α3 X3 with X2 = X1 except in a fraction δ of rows ---

ALPHA = np.array([2.0, -1.0, 1.5])
MASKS = list(itertools.product((0, 1), repeat=3))


def closed_form(m, mean, delta):
    """PAPER: eq. (example), φ of each mask, (n, 4). For fair coins that differ with probability δ,
    E[X2 | X1] = δ + (1 − 2δ) X1; the paper's equal columns are δ = 0."""
    m = np.asarray(m, dtype=float)
    alike = 1 - 2 * delta
    slope_1 = (ALPHA[0] + alike * ALPHA[1] * (1 - m[:, 1])) * m[:, 0]
    slope_2 = (ALPHA[1] + alike * ALPHA[0] * (1 - m[:, 0])) * m[:, 1]
    slope_3 = ALPHA[2] * m[:, 2]
    slopes = np.stack([slope_1, slope_2, slope_3], axis=1)
    return np.hstack([(ALPHA @ mean - slopes @ mean)[:, None], slopes])


def phi(theta):
    """φ of each of the eight masks under θ, (8, 4): the value of g at zero, and its slopes where observed."""
    m = np.array(MASKS, dtype=float)
    at_zero = terms_of(np.zeros((8, 3)), m) @ theta
    slopes = [terms_of(np.tile(unit, (8, 1)), m) @ theta - at_zero for unit in np.eye(3)]
    return np.stack([at_zero, *slopes], axis=1)


def predict(coefficients, x, m):
    """φ0 + Σ φ_k x_k m_k of each row."""
    return coefficients[:, 0] + (coefficients[:, 1:] * x * m).sum(axis=1)


EQUAL = {(0, 0, 0): 1, (0, 0, 1): 2, (1, 1, 0): 3, (1, 1, 1): 6}
TOGETHER = {mask: 1 for mask in MASKS if mask[0] == mask[1]}


def test_equal_columns_the_paper_s_formula_is_the_conditional_mean():
    x, m = rows_of(EQUAL, dict.fromkeys(MASKS, 1))
    y = x @ ALPHA
    predictions = predict(closed_form(m, x.mean(axis=0), delta=0.0), x, m)
    for row, prediction in enumerate(predictions):
        same = ((m == m[row]) & (x * m == x[row] * m[row])).all(axis=1)
        assert prediction == pytest.approx(y[same].mean(), abs=1e-12)


def test_equal_columns_quadratic_phi_recovers_the_formula_only_if_indicators_are_independent():
    """With X1 = X2 only the sum of their slopes is determined, so predictions are compared."""
    x, m = rows_of(EQUAL, dict.fromkeys(MASKS, 1))
    expected = predict(closed_form(m, x.mean(axis=0), delta=0.0), x, m)
    fitted = terms_of(x, m) @ minimiser(x, m, x @ ALPHA)
    np.testing.assert_allclose(fitted, expected, atol=1e-8)
    # If both are always missing together, the fit is correct under these masks and wrong elsewhere.
    x_train, m_train = rows_of(EQUAL, TOGETHER)
    theta = minimiser(x_train, m_train, x_train @ ALPHA)
    error = np.abs(terms_of(x, m) @ theta - expected)
    occurs = m[:, 0] == m[:, 1]
    assert error[occurs].max() < 1e-8
    assert error[~occurs].min() > 0.25


DELTA = 0.05
NEARLY_EQUAL = {(*pair, third): 19 if pair[0] == pair[1] else 1 for *pair, third in MASKS}
NEARLY_TOGETHER = {(*pair, third): {(1, 1): 14, (0, 0): 9}.get(tuple(pair), 1) for *pair, third in MASKS}


@pytest.mark.parametrize("seed", range(3))
def test_nearly_equal_columns_fitted_weights_bring_a_regularised_fit_closer_to_the_formula(seed):
    """X2 differs from X1 in 5% of rows, and in 8% of rows only one of them is observed, so that weights can
    make columns and indicators less dependent. Each slope is determined, so parameters are compared. Without
    shrinkage, the fit equals the formula with and without weights: weights do not change the optimum."""
    x, m = rows_of(NEARLY_EQUAL, NEARLY_TOGETHER)
    y = x @ ALPHA
    expected = closed_form(MASKS, np.full(3, 0.5), DELTA)
    weighting = Decorrelator(q=20).learn_weights((2 * x - 1) * m, m, rng=np.random.default_rng(seed))
    assert weighting.after["xx"] < 0.1 * weighting.before["xx"]
    assert weighting.after["mm"] < 0.5 * weighting.before["mm"]
    # Up to the noise of the initial weights, fitted weights depend only on observed values.
    np.testing.assert_allclose(phi(minimiser(x, m, y)), expected, atol=1e-6)
    np.testing.assert_allclose(phi(minimiser(x, m, y, weighting.weight)), expected, atol=0.05)
    plain, weighted = (
        np.sqrt(np.mean((phi(minimiser(x, m, y, weight, shrink=0.01)) - expected) ** 2))
        for weight in (None, weighting.weight)
    )
    assert weighted < 0.75 * plain


def test_nearly_equal_columns_exact_weights_of_observed_values_help_most():
    x, m = rows_of(NEARLY_EQUAL, NEARLY_TOGETHER)
    y = x @ ALPHA
    expected = closed_form(MASKS, np.full(3, 0.5), DELTA)
    by_mask = 1 / np.array([NEARLY_TOGETHER[tuple(mask)] for mask in m])
    by_values = 10 / np.array([NEARLY_EQUAL[tuple(row)] for row in x])
    # Weights may depend on whether the two columns differ only where both are observed.
    weight = by_mask * np.where(m[:, :2].all(axis=1), by_values, 1.0)
    assert sum(dependence(2 * x - 1, m, weight, rng=np.random.default_rng(0)).values()) < 1e-12
    np.testing.assert_allclose(phi(minimiser(x, m, y, weight)), expected, atol=1e-6)
    plain, weighted = (
        np.sqrt(np.mean((phi(minimiser(x, m, y, w, shrink=0.01)) - expected) ** 2)) for w in (None, weight)
    )
    assert weighted < 0.5 * plain


def test_nearly_equal_columns_weights_that_depend_on_missing_values_change_the_optimum():
    """They make the complete columns independent, so that a column no longer predicts its missing copy: the
    fit becomes that of independent columns, which is wrong for the actual rows."""
    x, m = rows_of(NEARLY_EQUAL, NEARLY_TOGETHER)
    weight = 1 / np.array([NEARLY_EQUAL[tuple(row)] for row in x])
    fitted = phi(minimiser(x, m, x @ ALPHA, weight))
    np.testing.assert_allclose(fitted, closed_form(MASKS, np.full(3, 0.5), delta=0.5), atol=1e-6)
    assert np.abs(fitted - closed_form(MASKS, np.full(3, 0.5), DELTA)).max() > 0.5
