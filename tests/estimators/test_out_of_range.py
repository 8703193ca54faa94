"""Values far outside the training range: one warning per call, bounded predictions, wider intervals."""

import warnings

import numpy as np
import pandas as pd
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingRegressor, OutOfRangeWarning
from stablemiss.methods import METHODS

CODES = [-999.0, 1e9]


def draw(n=300):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, 2 * X["a"] + X["b"] + 0.2 * rng.normal(size=n)


def with_codes(X):
    """The first two rows with values in column `a` that are far outside the range."""
    return X.head(2).assign(a=CODES)


@pytest.mark.parametrize("name", METHODS)
def test_one_warning_names_the_column_and_predictions_stay_near_the_target(name):
    X, y = draw()
    model = MissingRegressor(method=name, params=METHODS[name].brief, random_state=0).fit(X, y)
    with pytest.warns(OutOfRangeWarning) as caught:
        prediction = model.predict(with_codes(X))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "'a' (-999 to 1e+09 in 2 rows; " in str(caught[0].message)
    assert np.abs(prediction).max() < 3 * np.abs(y).max()


def test_values_out_of_range_can_count_as_missing():
    X, y = draw()
    X.loc[5:20, "a"] = np.nan
    model = MissingRegressor(method="ols", random_state=0, on_out_of_range="missing").fit(X, y)
    with pytest.warns(OutOfRangeWarning, match="count as missing"):
        prediction = model.predict(with_codes(X))
    np.testing.assert_array_equal(prediction, model.predict(with_codes(X).assign(a=np.nan)))


def test_values_out_of_range_can_raise():
    X, y = draw()
    model = MissingRegressor(method="ols", on_out_of_range="raise").fit(X, y)
    with pytest.raises(ValueError, match=r"far outside the range in training: 'a'"):
        model.predict(with_codes(X))
    assert len(model.predict(X)) == len(X)


def test_new_rows_of_the_same_population_do_not_warn():
    X, y = draw()
    model = MissingRegressor(method="ols").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(pd.DataFrame(np.random.default_rng(1).normal(size=(3000, 3)), columns=X.columns))


@pytest.mark.filterwarnings("ignore::stablemiss.OutOfRangeWarning")
def test_intervals_include_those_of_the_row_without_the_value():
    X, y = draw()
    model = AnyMaskRegressor(budget="fast", random_state=0, members=["mixture"]).fit(X, y)
    new = pd.concat([with_codes(X), X.tail(2)])
    lower, upper = model.predict_interval(new).T
    hidden = model.predict_interval(new.assign(a=[np.nan, np.nan, *X["a"].tail(2)]))
    assert (lower[:2] <= hidden[:2, 0]).all()
    assert (upper[:2] >= hidden[:2, 1]).all()
    assert (
        model.predict_quantile(new, 0.95)[:2] >= model.predict_quantile(new.assign(a=np.nan), 0.95)[:2]
    ).all()
    prediction = model.predict(new)
    assert ((lower <= prediction) & (prediction <= upper)).all()
    # Other rows have the same interval as without values out of range in the table.
    np.testing.assert_allclose(np.column_stack([lower, upper])[2:], model.predict_interval(X.tail(2)))


@pytest.mark.filterwarnings("ignore::stablemiss.OutOfRangeWarning")
def test_sets_include_those_of_the_row_without_the_value():
    X, y = draw()
    model = AnyMaskClassifier(budget="fast", random_state=0, members=["mixture"]).fit(X, y > 0)
    new = with_codes(X)
    hidden = model.predict_set(new.assign(a=np.nan))
    assert hidden.all(axis=1).any()
    assert (model.predict_set(new) >= hidden).all()


@pytest.mark.filterwarnings("ignore::stablemiss.OutOfRangeWarning")
def test_the_expected_error_is_at_least_that_of_the_row_without_the_value():
    X, y = draw()
    model = AnyMaskRegressor(budget="fast", random_state=0, members=["mixture"]).fit(X, y)
    explanation = model.explain_missing(with_codes(X))
    hidden = model.explain_missing(with_codes(X).assign(a=np.nan))
    usual = model.explain_missing(X.head(2))
    for column in ("error", "error_low", "error_high"):
        np.testing.assert_allclose(explanation[column], hidden[column])
        assert (explanation[column] > 2 * usual[column]).all()
