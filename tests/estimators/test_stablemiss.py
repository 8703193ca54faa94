"""The StableMiss estimators equal MissingRegressor and MissingClassifier with that method."""

import numpy as np
import pytest

from stablemiss import MissingClassifier, MissingRegressor, StableMissClassifier, StableMissRegressor
from stablemiss.methods import StableMiss
from stablemiss.seeding import to_rng

PAIRS = [(StableMissRegressor, MissingRegressor), (StableMissClassifier, MissingClassifier)]


@pytest.mark.parametrize(("estimator", "general"), PAIRS)
def test_parameters_and_defaults_are_those_of_the_method_and_of_the_general_estimator(estimator, general):
    common = general().get_params(deep=False)
    del common["method"], common["params"]
    assert estimator().get_params() == StableMiss().get_params() | common


@pytest.mark.parametrize(("estimator", "general"), PAIRS)
@pytest.mark.parametrize("settings", [{"max_epochs": 3}, {"architecture": "mlp", "max_epochs": 3}], ids=str)
def test_predictions_equal_those_of_the_general_estimator(estimator, general, settings):
    rng = to_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    model = estimator(**settings, random_state=0).fit(X, y)
    expected = general(StableMiss(**settings), random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
