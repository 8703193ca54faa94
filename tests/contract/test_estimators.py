"""What every public estimator promises: scikit-learn's own checks, and a sentence for every bad input."""

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
from stablemiss.base.network import NetworkPredictor
from stablemiss.methods import METHODS, AnyMask
from stablemiss.seeding import to_rng

# Scikit-learn asks about the estimator, which is the same for all networks: two of them are asked, small and
# briefly. `tests/contract/test_methods.py` asks all.
OTHERS = [
    name
    for name, method in METHODS.items()
    if method is not AnyMask and not issubclass(method.predictor, NetworkPredictor)
]
QUICK = {"dwr": {"max_steps": 50}, "srdo": {"n_permutations": 1, "max_epochs": 20}}
ESTIMATORS = [
    *(MissingRegressor(name, params=QUICK.get(name)) for name in OTHERS),
    *(MissingClassifier(name, params=QUICK.get(name)) for name in OTHERS),
    MissingRegressor("neumiss", params={"depth": 3, "learning_rate": 0.01, "max_epochs": 8}),
    AnyMaskRegressor(budget="fast", members=["boosting"]),
    AnyMaskClassifier(budget="fast", members=["boosting"]),
    StableMissRegressor(hidden=32, learning_rate=0.01, max_epochs=8),
    StableMissClassifier(hidden=32, learning_rate=0.01, max_epochs=8),
]


def expected_failures(estimator):
    """Checks that cannot hold, each with its reason."""
    if estimator.get_params().get("method") == "constant":
        check = "check_classifiers_train" if is_classifier(estimator) else "check_regressors_train"
        return {check: "the constant learns nothing from X; it is there to be beaten"}
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "a random part of the rows scales the columns and stops the fit; a row of double weight is in it "
            "or not, while of two copies one may be"
        )
    }


# The checks' own tables draw such warnings on purpose; scikit-learn's runner does not mind them either.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(params=ESTIMATORS, ids=str)
def estimator(request):
    return clone(request.param).set_params(random_state=0)


def draw(estimator, seed=0, n=40):
    """A frame of two number columns and a category, all complete, and a target that suits the estimator."""
    rng = to_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["size", "age"])
    X["town"] = rng.choice(["here", "there"], size=n)
    y = X["size"] + X["age"]
    return X, pd.Series(np.where(y > 0, "up", "down") if is_classifier(estimator) else y, name="price")


def test_bad_tables_are_refused_in_a_sentence_that_names_the_column_and_what_to_do(estimator):
    X, y = draw(estimator)
    bad = {
        r"infinite values \(inf\) in column 'age'.*Replace them": X.assign(age=np.inf),
        r"Numbers and strings are mixed in column 'age'.*into numbers": X.assign(age=["old", *[1.0] * 39]),
        r"(?s)Rename or drop the repeated columns.*'age'": X.set_axis(["age", "age", "town"], axis=1),
        r"0 sample\(s\).*minimum of 1.*Check": X.head(0),
        r"0 feature\(s\).*minimum of 1.*Check": X[[]],
    }
    for message, table in bad.items():
        with pytest.raises(ValueError, match=message):
            estimator.fit(table, y.head(len(table)))
    with pytest.raises(TypeError, match=r"Dates.*column 'age' holds .*days since"):
        estimator.fit(X.assign(age=pd.Timestamp("2020-01-01")), y)
    with pytest.raises(ValueError, match=r"needs at least 2 rows.*but got 1 sample.*Pass more rows"):
        estimator.fit(X.head(1), y.head(1))


def test_bad_targets_are_refused_in_a_sentence_that_names_the_column_and_what_to_do(estimator):
    X, y = draw(estimator)
    holed = y.where(np.arange(40) != 3)
    with pytest.raises(
        ValueError, match=r"missing in 1 of 40 rows \(first in row 3 of column 'price'\).*remove"
    ):
        estimator.fit(X, holed)
    with pytest.raises(ValueError, match=r"every target is missing.*Check which column holds the target"):
        estimator.fit(X, holed.where(holed.isna()))
    with pytest.raises(ValueError, match=r"X has 40 rows but y has 39.*one target per row"):
        estimator.fit(X, y.head(39))
    if is_classifier(estimator):
        with pytest.raises(ValueError, match="at least 2 classes, but the target has 1 class: 'up'"):
            estimator.fit(X, ["up"] * 40)
    else:
        with pytest.raises(ValueError, match=r"contains infinity .first in row 3 of column 'price'.*Remove"):
            estimator.fit(X, y.where(np.arange(40) != 3, np.inf))
        with pytest.raises(ValueError, match=r"must be numeric.*use a classifier"):
            estimator.fit(X, ["up"] * 40)


def test_bad_tables_to_predict_are_refused_in_a_sentence(estimator):
    X, y = draw(estimator)
    estimator.fit(X, y)
    owner = type(estimator).__name__
    bad = {
        r"infinite values \(inf\) in column 'age'.*Replace them": X.assign(age=np.inf),
        r"Numbers were expected in column 'age'.*'old'.*into numbers": X.assign(age="old"),
        f"not those that {owner} was fitted with .*'years'.*'age'.*old names": X.rename(
            columns={"age": "years"}
        ),
        f"{owner} was fitted with .*absent now: 'age'.*allow_missing_columns=True": X.drop(columns="age"),
        f"X has 2 features, but {owner} is expecting 3 features.*in their order": X[
            ["size", "age"]
        ].to_numpy(),
        r"0 sample\(s\)": X.head(0),
    }
    for message, table in bad.items():
        with pytest.raises(ValueError, match=message):
            estimator.predict(table)


@pytest.mark.parametrize("n", [2, 5])
def test_all_missing_rows_columns_and_tables_and_few_rows_just_work(estimator, n):
    X, y = draw(estimator)
    if is_classifier(estimator):
        y = pd.Series(np.where(np.arange(40) % 2, "up", "down"))
    holed = X.assign(age=np.nan)
    holed.iloc[::5] = None
    for table in (holed, holed.assign(size=np.nan, town=None)):
        for rows in (n, 40):
            prediction = estimator.fit(table.head(rows), y.head(rows)).predict(table)
            assert prediction.shape == (40,)
            assert is_classifier(estimator) or np.isfinite(prediction).all()


def test_what_stands_in_the_file_is_what_predicts(estimator, tmp_path):
    X, y = draw(estimator)
    estimator.fit(X, y).save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), estimator.predict(X))


@pytest.mark.parametrize("seed", range(4))
def test_weights_count_as_they_are_however_the_rows_are_split(seed):
    """The weighted mean, and weighted least squares, for every split into learning and validating rows."""
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
