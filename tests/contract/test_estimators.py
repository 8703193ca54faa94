"""The contract of every public estimator: scikit-learn's checks, and helpful errors for invalid input."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from stablemiss import (
    AnyMaskClassifier,
    AnyMaskRegressor,
    MissingClassifier,
    MissingRegressor,
    StableMissClassifier,
    StableMissRegressor,
    load_model,
)
from stablemiss.methods import METHODS
from stablemiss.seeding import to_rng

# One estimator per public class, with its fastest method: input checks belong to the class, not to the
# method. What methods may do differently is checked for each of them in `test_methods.py`.
TINY = {"hidden": 32, "learning_rate": 0.01, "max_epochs": 8}
ESTIMATORS = [
    MissingRegressor("ols"),
    MissingClassifier("ols"),
    AnyMaskRegressor(budget="fast", members=["boosting"]),
    AnyMaskClassifier(budget="fast", members=["boosting"]),
    StableMissRegressor(**TINY),
    StableMissClassifier(**TINY),
]


def expected_failures(estimator):
    """Checks that cannot hold, with the reason."""
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "the columns' scales and early stopping use a random subset of the rows: a row of weight two is "
            "either in it or not, but only one of two copies may be"
        )
    }


# The tables of the checks cause this warning on purpose; scikit-learn's runner ignores it too.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(params=ESTIMATORS, ids=str)
def estimator(request):
    return clone(request.param).set_params(random_state=0)


def draw(estimator, seed=0, n=40):
    """A complete frame of two numeric columns and a categorical one, and a target for the estimator."""
    rng = to_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["size", "age"])
    X["town"] = rng.choice(["here", "there"], size=n)
    y = X["size"] + X["age"]
    return X, pd.Series(np.where(y > 0, "up", "down") if is_classifier(estimator) else y, name="price")


def assert_raises(facts, call, *args, error=ValueError):
    """The call fails with a message that states all the facts, in any order."""
    with pytest.raises(error) as caught:
        call(*args)
    message = str(caught.value).lower()
    assert [fact for fact in facts if fact.lower() not in message] == [], message


def test_errors_about_training_tables_name_the_column_and_the_remedy(estimator):
    X, y = draw(estimator)
    invalid = [
        (["inf", "'age'", "replace"], X.assign(age=np.inf)),
        (["number", "string", "'age'"], X.assign(age=["old", *[1.0] * 39])),
        (["rename", "drop", "'age'"], X.set_axis(["age", "age", "town"], axis=1)),
        (["0 sample(s)", "minimum of 1", "check"], X.head(0)),
        (["0 feature(s)", "minimum of 1", "check"], X[[]]),
    ]
    for facts, table in invalid:
        assert_raises(facts, estimator.fit, table, y.head(len(table)))
    dates = X.assign(age=pd.Timestamp("2020-01-01"))
    without_dates = clone(estimator).set_params(date_features=False)
    assert_raises(["date", "'age'", "days since"], without_dates.fit, dates, y, error=TypeError)
    assert_raises(["at least 2", "1 sample", "more rows"], estimator.fit, X.head(1), y.head(1))


def test_errors_about_targets_name_the_column_and_the_remedy(estimator):
    X, y = draw(estimator)
    incomplete = y.where(np.arange(40) != 3)
    assert_raises(["missing", "1 of 40", "row 3", "'price'", "remove"], estimator.fit, X, incomplete)
    all_missing = incomplete.where(incomplete.isna())
    assert_raises(["target", "missing", "check", "column"], estimator.fit, X, all_missing)
    assert_raises(["40 rows", "39", "one target per row"], estimator.fit, X, y.head(39))
    if is_classifier(estimator):
        assert_raises(["at least 2 classes", "1 class", "'up'"], estimator.fit, X, ["up"] * 40)
    else:
        infinite = y.where(np.arange(40) != 3, np.inf)
        assert_raises(["inf", "row 3", "'price'", "remove"], estimator.fit, X, infinite)
        assert_raises(["must be numeric", "classifier"], estimator.fit, X, ["up"] * 40)


def test_errors_about_tables_to_predict_name_the_estimator_or_the_column(estimator):
    X, y = draw(estimator)
    estimator.fit(X, y)
    name = type(estimator).__name__
    invalid = [
        (["inf", "'age'", "replace"], X.assign(age=np.inf)),
        (["number", "'age'", "'old'"], X.assign(age="old")),
        ([name, "'years'", "'age'"], X.rename(columns={"age": "years"})),
        ([name, "'age'", "allow_missing_columns=True"], X.drop(columns="age")),
        (["2 features", name, "3 features"], X[["size", "age"]].to_numpy()),
        (["0 sample(s)"], X.head(0)),
    ]
    for facts, table in invalid:
        assert_raises(facts, estimator.predict, table)


@pytest.mark.parametrize("kind", [MissingRegressor, MissingClassifier])
@pytest.mark.parametrize("name", METHODS)
def test_missing_rows_missing_columns_and_few_rows_are_accepted(name, kind):
    # Whether it works does not depend on how long a network is trained.
    params = {key: 2 if key == "max_epochs" else value for key, value in METHODS[name].brief.items()}
    # With few training rows some categories are unknown.
    estimator = kind(name, params=params, random_state=0, on_unseen_missing="ignore")
    X, y = draw(estimator)
    if is_classifier(estimator):
        y = pd.Series(np.where(np.arange(40) % 2, "up", "down"))
    incomplete = X.assign(age=np.nan)
    incomplete.iloc[::5] = None
    for table in (incomplete, incomplete.assign(size=np.nan, town=None)):
        for n_rows in (2, 5, 40):
            prediction = estimator.fit(table.head(n_rows), y.head(n_rows)).predict(table)
            assert prediction.shape == (40,)
            assert is_classifier(estimator) or np.isfinite(prediction).all()


def test_a_loaded_estimator_predicts_bit_identically(estimator, tmp_path):
    X, y = draw(estimator)
    estimator.fit(X, y).save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), estimator.predict(X))


@pytest.mark.parametrize("seed", range(4))
def test_sample_weights_count_for_training_and_validation_rows_alike(seed):
    """The weighted mean and weighted least squares, for any split into training and validation rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=40)
    weight = np.where(np.arange(40) == 7, 50.0, rng.uniform(0.5, 2.0, size=40))
    constant = MissingRegressor("constant", random_state=seed).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(constant.predict(X[:1]), np.average(y, weights=weight))
    ours = MissingRegressor("ols", random_state=seed).fit(X, y, sample_weight=weight)
    theirs = LinearRegression().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4, atol=1e-4)
    labels = y > 0
    classes = MissingClassifier("constant", random_state=seed).fit(X, labels, sample_weight=weight)
    np.testing.assert_allclose(classes.predict_proba(X[:1])[0, 1], np.average(labels, weights=weight))
