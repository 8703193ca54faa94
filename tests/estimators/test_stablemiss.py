"""The estimators of the paper's name are MissingRegressor and MissingClassifier with that method."""

import numpy as np
import pytest

from stablemiss import MissingClassifier, MissingRegressor, StableMissClassifier, StableMissRegressor
from stablemiss.methods import StableMiss
from stablemiss.seeding import to_rng

PAIRS = [(StableMissRegressor, MissingRegressor), (StableMissClassifier, MissingClassifier)]


@pytest.mark.parametrize(("own", "general"), PAIRS)
def test_every_parameter_of_the_method_and_of_the_estimator_is_there_with_its_default(own, general):
    common = general().get_params(deep=False)
    del common["method"], common["params"]
    assert own().get_params() == StableMiss().get_params() | common


@pytest.mark.parametrize(("own", "general"), PAIRS)
@pytest.mark.parametrize("settings", [{"max_epochs": 3}, {"architecture": "mlp", "max_epochs": 3}], ids=str)
def test_they_learn_what_the_general_estimator_learns(own, general, settings):
    rng = to_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    one = own(**settings, random_state=0).fit(X, y)
    other = general(StableMiss(**settings), random_state=0).fit(X, y)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
