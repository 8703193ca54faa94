"""Iterative imputation, then boosted trees: stored regressions impute as scikit-learn does."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer as SklearnIterativeImputer

from stablemiss.data import MaskedData
from stablemiss.methods.constant import Constant
from stablemiss.methods.iterative_imputer import Imputation, IterativeImputer, IterativeImputerPredictor
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression

QUICK = {"n_trees": 60, "learning_rate": 0.1}


def fit(method, values, mask, y, weight=None):
    """Fit with the last fifth of the rows as validation rows."""
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y), weight)
    n = len(data)
    train, valid = data.rows(np.arange(n - n // 5)), data.rows(np.arange(n - n // 5, n))
    return method.fit(train, valid, task, to_rng(0), NullProgress()), task


def draw(seed, n=400, d=5, observed=0.7, noise=0.5):
    """Strongly correlated columns."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, 1)) + noise * rng.normal(size=(n, d))
    return rng, values, rng.uniform(size=(n, d)) < observed


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_nearest_features", [None, 2])
@pytest.mark.parametrize("max_iter", [1, 10])
@pytest.mark.parametrize("seed", range(3))
def test_stored_regressions_impute_as_scikit_learn_does(seed, max_iter, n_nearest_features):
    """Rows of training, and new rows with more missing values, a row without any value among them."""
    _, values, mask = draw(seed)
    _, new, new_mask = draw(seed + 100, observed=0.4)
    new_mask[0] = False
    settings = {"max_iter": max_iter, "tol": 1e-3, "n_nearest_features": n_nearest_features}
    imputation = Imputation.fit(MaskedData.of(values, mask), *settings.values(), seed=seed)
    reference = SklearnIterativeImputer(**settings, random_state=seed).fit(np.where(mask, values, np.nan))
    for table, observed in ((values, mask), (new, new_mask)):
        expected = reference.transform(np.where(observed, table, np.nan))
        assert np.abs(imputation.complete(table, observed) - expected).max() < 1e-10
        np.testing.assert_array_equal(imputation.complete(table, observed)[observed], table[observed])


def test_the_arrays_that_are_stored_are_all_that_prediction_needs():
    _, values, mask = draw(0)
    predictor, task = fit(IterativeImputer(**QUICK), values, mask, values[:, 0])
    rebuilt = IterativeImputerPredictor.from_state(predictor.state(), 5, task)
    np.testing.assert_array_equal(rebuilt.predict(values, mask), predictor.predict(values, mask))
    assert {type(part) for part in predictor.state().values()} == {np.ndarray, bool, dict}


def test_without_rounds_it_is_mean_imputation():
    _, values, mask = draw(0)
    imputation = Imputation.fit(MaskedData.of(values, mask), 0, 1e-3, None, seed=0)
    means = [values[mask[:, j], j].mean() for j in range(5)]
    np.testing.assert_allclose(imputation.complete(values, mask), np.where(mask, values, means))


@pytest.mark.parametrize("seed", range(3))
def test_regressions_impute_correlated_columns_better_than_means_and_the_target_gains(seed):
    _, values, mask = draw(seed, n=1000)
    y = values.mean(axis=1)
    _, new, new_mask = draw(seed + 100, n=1000)
    errors, target_errors = [], []
    for max_iter in (0, 10):
        predictor, task = fit(IterativeImputer(max_iter, **QUICK), values, mask, y)
        imputed = predictor.imputation.complete(new, new_mask)
        errors.append(np.std((imputed - new)[~new_mask]))
        target_errors.append(np.std(task.decode(predictor.predict(new, new_mask)) - new.mean(axis=1)))
    # The standard deviation of a column given all others is 0.55, that of a column is 1.1.
    assert errors[0] > 1.0
    assert errors[1] < 0.65
    assert target_errors[1] < 0.9 * target_errors[0]


def test_a_row_is_imputed_identically_alone_and_in_a_table():
    """Bit by bit, because a tree may split between two values that differ in the last digit."""
    _, values, mask = draw(0)
    imputation = Imputation.fit(MaskedData.of(values, mask), 10, 0.0, None, seed=0)
    mask[::7] = False
    together = imputation.complete(values, mask)
    for row in range(0, 400, 7):
        alone = imputation.complete(values[row : row + 1], mask[row : row + 1])
        np.testing.assert_array_equal(alone[0], together[row])


def test_a_column_without_values_in_training_has_no_influence():
    _, values, mask = draw(0)
    mask[:, 2] = False
    predictor, _ = fit(IterativeImputer(**QUICK), values, mask, values[:, 0])
    shown = mask.copy()
    shown[:, 2] = True
    np.testing.assert_array_equal(predictor.predict(values, shown), predictor.predict(values, mask))
    without = np.delete(values, 2, axis=1), np.delete(mask, 2, axis=1)
    smaller, _ = fit(IterativeImputer(**QUICK), *without, values[:, 0])
    np.testing.assert_allclose(
        np.delete(predictor.imputation.complete(values, mask), 2, axis=1),
        smaller.imputation.complete(*without),
        atol=1e-10,
    )


def test_rows_of_weight_zero_are_not_imputed_from():
    rng, values, mask = draw(0)
    weight = (rng.uniform(size=400) < 0.7).astype(float)
    other = np.where(weight[:, None] > 0, values, 100 * values)
    predictors = [
        fit(IterativeImputer(**QUICK), table, mask, values[:, 0], weight)[0] for table in (values, other)
    ]
    np.testing.assert_array_equal(*(predictor.imputation.coefficients for predictor in predictors))


def test_only_with_the_indicator_informative_missingness_is_used():
    for seed in range(2):
        rng, values, mask = draw(seed, n=1000)
        y = np.where(mask[:, 0], 1.0, -1.0) + 0.1 * rng.normal(size=1000)
        errors = []
        for add_indicator in (False, True):
            method = IterativeImputer(max_iter=3, add_indicator=add_indicator, **QUICK)
            predictor, task = fit(method, values, mask, y)
            errors.append(np.std(task.decode(predictor.predict(values, mask)) - y))
        assert errors[1] < 0.2 < errors[0]


def test_no_warning_if_the_rounds_do_not_converge(recwarn):
    _, values, mask = draw(0)
    fit(IterativeImputer(max_iter=1, tol=0.0, **QUICK), values, mask, values[:, 0])
    assert not [warning for warning in recwarn if warning.category is ConvergenceWarning]


@pytest.mark.parametrize(
    ("name", "manipulate"),
    [
        ("order", lambda order: order + 5),
        ("order", lambda order: order[:-1]),
        ("order", lambda order: order.astype(float)),
        ("coefficients", lambda coefficients: coefficients[:, :-1]),
        ("intercepts", lambda intercepts: np.full_like(intercepts, np.nan)),
        ("add_indicator", lambda add_indicator: not add_indicator),
        ("mean", lambda mean: mean[:-1]),
    ],
)
def test_manipulated_regressions_are_refused(name, manipulate):
    _, values, mask = draw(0)
    predictor, task = fit(IterativeImputer(max_iter=1, n_trees=2), values, mask, values[:, 0])
    state = predictor.state()
    with pytest.raises(ValueError):
        IterativeImputerPredictor.from_state({**state, name: manipulate(state[name])}, 5, task)


@pytest.mark.parametrize("seed", range(3))
def test_on_independent_columns_it_is_better_than_the_constant(seed, errors_on_gaussian_ind):
    methods = {"imputer": IterativeImputer(max_iter=1, **QUICK), "constant": Constant()}
    errors = errors_on_gaussian_ind(methods, seed, n_rows=2048)
    assert errors["imputer"][0] < 0.97 * errors["constant"][0]


@pytest.mark.accuracy
@pytest.mark.parametrize("seed", range(3))
def test_with_default_parameters_it_is_better_than_the_constant_at_all_levels(seed, errors_on_gaussian_ind):
    methods = {"imputer": IterativeImputer(), "constant": Constant()}
    errors = errors_on_gaussian_ind(methods, seed, test_levels=(0.1, 0.5, 0.9), n_rows=16_384)
    assert all(own < constant for own, constant in zip(errors["imputer"], errors["constant"], strict=True))
    assert errors["imputer"][1] < 1.15 * errors["optimal"][1]
