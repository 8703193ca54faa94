"""Fitted models and independent fits may be used from several threads at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stablemiss import AnyMaskRegressor, MissingRegressor

N_THREADS = 8


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X @ [1.0, 2.0, 0.0, 1.0]
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, y


@pytest.mark.slow
def test_eight_threads_predict_as_one_does(rows):
    X, y = rows
    model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, y)
    parts = [X[i::N_THREADS] for i in range(N_THREADS)] * 4
    alone = [(model.predict(part), model.predict_interval(part, coverage=0.9)) for part in parts]
    with ThreadPoolExecutor(N_THREADS) as pool:
        together = list(pool.map(lambda part: (model.predict(part), model.predict_interval(part)), parts))
    for expected, actual in zip(alone, together, strict=True):
        np.testing.assert_array_equal(expected[0], actual[0])
        np.testing.assert_array_equal(expected[1], actual[1])


@pytest.mark.parametrize(
    "method", [pytest.param("em_mixture", marks=pytest.mark.slow), "boosting", "pattern_submodels"]
)
def test_eight_threads_fit_as_one_does(rows, method):
    X, y = rows

    def fit(seed):
        return MissingRegressor(method, random_state=seed).fit(X, y).predict(X)

    alone = [fit(seed) for seed in range(N_THREADS)]
    with ThreadPoolExecutor(N_THREADS) as pool:
        together = list(pool.map(fit, range(N_THREADS)))
    np.testing.assert_array_equal(alone, together)
