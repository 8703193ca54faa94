import numpy as np
import pyarrow
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor
from stablemiss.cli.predictions import Predictions, Wanted


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    x[::5, 0] = np.nan
    return pyarrow.table({"a": pyarrow.array(x[:, 0], from_pandas=True), "b": x[:, 1]})


@pytest.fixture(scope="module")
def target(features):
    return np.nan_to_num(features.column("a").to_numpy()) + features.column("b").to_numpy()


@pytest.fixture(scope="module")
def regressor(features, target):
    return AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0).fit(features, target)


@pytest.fixture(scope="module")
def classifier(features, target):
    labels = np.where(target > 0, "up", "down")
    return AnyMaskClassifier(budget="fast", members=["mixture"], random_state=0).fit(features, labels)


def test_columns_of_a_regression(regressor, features, target):
    predictions = Predictions.of(regressor, features, Wanted(coverage=0.8, explain=True))
    columns = predictions.columns(probabilities=False)
    assert list(columns)[:3] == ["prediction", "lower", "upper"]
    assert "most_informative_missing" in columns
    np.testing.assert_array_equal(columns["prediction"], regressor.predict(features))
    bounds = regressor.predict_interval(features, 0.8)
    np.testing.assert_array_equal(np.stack([columns["lower"], columns["upper"]], axis=1), bounds)
    covered, size = predictions.coverage(target)
    np.testing.assert_array_equal(covered, (bounds[:, 0] <= target) & (target <= bounds[:, 1]))
    np.testing.assert_array_equal(size, bounds[:, 1] - bounds[:, 0])


def test_columns_of_a_classification(classifier, features, target):
    predictions = Predictions.of(classifier, features, Wanted(coverage=0.9))
    columns = predictions.columns(probabilities=True)
    assert list(columns) == ["prediction", "prediction_set", "probability of down", "probability of up"]
    np.testing.assert_array_equal(columns["prediction"], classifier.predict(features))
    assert {"down|up", "down", "up"} >= set(columns["prediction_set"])
    sets = classifier.predict_set(features, 0.9)
    assert [len(text.split("|")) for text in columns["prediction_set"]] == sets.sum(axis=1).tolist()
    code = (target > 0).astype(float)
    covered, size = predictions.coverage(np.where(np.arange(200) == 0, np.nan, code))
    np.testing.assert_array_equal(covered[1:], sets[np.arange(1, 200), code[1:].astype(int)])
    np.testing.assert_array_equal(size, sets.sum(axis=1))


def test_without_requests_there_is_only_the_prediction(regressor, classifier, features, target):
    for model in (regressor, classifier):
        predictions = Predictions.of(model, features, Wanted())
        assert list(predictions.columns(probabilities=False)) == ["prediction"]
        assert predictions.coverage(target) == (None, None)


@pytest.mark.parametrize(
    ("wanted", "fact"),
    [
        (Wanted(probabilities=True), "no class probabilities"),
        (Wanted(coverage=0.9), "--interval needs a model fitted with the method 'anymask'"),
        (Wanted(explain=True), "--explain needs"),
        (Wanted(coverage=1.5), "between 0 and 1"),
    ],
)
def test_what_a_model_does_not_have_raises(wanted, fact):
    model = MissingRegressor("ols", random_state=0).fit(np.arange(9.0)[:, None], np.arange(9.0))
    with pytest.raises(ValueError, match=fact):
        wanted.check(model, "model.stablemiss")


def test_what_a_model_has_does_not_raise(regressor, features, target):
    Wanted(coverage=0.9, explain=True).check(regressor, "model.stablemiss")
    classifier = MissingClassifier("ols", random_state=0).fit(features, target > 0)
    Wanted(probabilities=True).check(classifier, "model.stablemiss")
