import numpy as np
import pandas as pd
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingRegressor
from stablemiss.methods import AnyMask


def draw(n=150):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, X["a"] + X["b"]


def test_columns_can_be_named_or_counted():
    X, y = draw()
    named = AnyMaskRegressor(budget="fast", never_missing=["c", "a"], random_state=0).fit(X, y)
    counted = AnyMaskRegressor(budget="fast", may_vanish=[1], random_state=0).fit(X, y)
    np.testing.assert_array_equal(named.predict(X), counted.predict(X))
    general = MissingRegressor(AnyMask("fast", may_vanish=[1]), random_state=0).fit(X, y)
    np.testing.assert_array_equal(named.predict(X), general.predict(X))


def test_columns_that_are_not_there_are_refused():
    X, y = draw(50)
    with pytest.raises(
        ValueError, match="never_missing names 'd', but the table has the columns 'a', 'b', 'c'"
    ):
        AnyMaskRegressor(never_missing=["d"]).fit(X, y)
    with pytest.raises(ValueError, match="no column names; give positions"):
        AnyMaskRegressor(may_vanish=["a"]).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="must be a list of columns"):
        AnyMaskRegressor(may_vanish="a").fit(X, y)


def test_a_column_that_was_never_missing_may_go_without_a_word():
    X, y = draw()
    model = AnyMaskClassifier(budget="fast", random_state=0).fit(X, y > 0)
    assert model.predict_proba(X.assign(a=np.nan)).shape == (150, 2)
