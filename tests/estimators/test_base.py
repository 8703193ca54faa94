"""What all estimators share: rows, columns, unseen missing values, parameters."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

from stablemiss import MissingClassifier, MissingRegressor
from stablemiss.estimators import (
    SuspiciousDataWarning,
    UnknownCategoryWarning,
    UnseenMissingWarning,
    load_model,
)
from stablemiss.methods import METHODS, OLS, Boosting, Method
from stablemiss.progress import ProgressBar
from stablemiss.seeding import to_rng


def draw(seed=0, n=80):
    """A frame in which `size` and the category `town` have missing values, `age` has none; and a target."""
    rng = to_rng(seed)
    size, age = rng.normal(size=n), rng.normal(size=n)
    town = rng.choice(["here", "there"], size=n)
    y = size + 2 * age + (town == "here") + 0.1 * rng.normal(size=n)
    X = pd.DataFrame({"size": size, "age": age, "town": town})
    X.loc[rng.uniform(size=n) < 0.2, "size"] = np.nan
    X.loc[rng.uniform(size=n) < 0.2, "town"] = None
    return X, y


@pytest.fixture(scope="module")
def model():
    return MissingRegressor(method="ols", random_state=0).fit(*draw())


@pytest.fixture
def without_age():
    """Rows in which `age` is missing, which was never missing in training."""
    X = draw(seed=1)[0].head(4)
    return X.assign(age=[np.nan, 1.0, np.nan, 1.0])


def test_one_warning_per_call_names_the_columns_and_points_at_the_caller(model, without_age):
    with pytest.warns(UnseenMissingWarning) as caught:
        prediction = model.predict(without_age)
    assert np.isfinite(prediction).all()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert "never missing when MissingRegressor was fitted: 'age' (2 rows)." in message
    assert 'on_unseen_missing="ignore"' in message
    with pytest.warns(UnseenMissingWarning):
        model.predict(without_age)


def test_missing_values_seen_in_training_do_not_warn(model):
    X = draw(seed=1)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)


def test_unseen_missing_values_can_raise_or_be_ignored(without_age):
    X, y = draw()
    strict = MissingRegressor(method="ols", on_unseen_missing="raise").fit(X, y)
    with pytest.raises(ValueError, match="never missing when MissingRegressor was fitted: 'age'"):
        strict.predict(without_age)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(strict.set_params(on_unseen_missing="ignore").predict(without_age)) == 4


def test_columns_without_names_are_identified_by_position():
    model = MissingRegressor(method="ols").fit([[1.0, 2.0], [2.0, 1.0], [3.0, 4.0]], [1.0, 2.0, 3.0])
    with pytest.warns(UnseenMissingWarning, match="'column 1'"):
        model.predict([[1.0, None]])


def test_columns_are_matched_by_name_in_any_order(model):
    X = draw(seed=1)[0]
    np.testing.assert_array_equal(model.predict(X[["town", "size", "age"]]), model.predict(X))


def test_absent_columns_count_as_missing_if_allowed(model):
    X, y = draw()
    tolerant = MissingRegressor(method="ols", random_state=0, allow_missing_columns=True).fit(X, y)
    np.testing.assert_array_equal(
        tolerant.predict(X.drop(columns="size")), tolerant.predict(X.assign(size=np.nan))
    )
    with pytest.raises(ValueError, match=r"absent now: 'size'.*allow_missing_columns=True"):
        model.predict(X.drop(columns="size"))
    with pytest.warns(UnseenMissingWarning, match="'age'"):
        tolerant.predict(X.drop(columns="age"))


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_every_type_of_frame_gives_the_same_predictions(model, convert):
    X, y = draw()
    other = MissingRegressor(method="ols", random_state=0).fit(convert(X), y)
    np.testing.assert_array_equal(other.predict(convert(X)), model.predict(X))
    np.testing.assert_array_equal(other.feature_names_in_, model.feature_names_in_)


def test_fitted_attributes_describe_the_table_and_the_target():
    X, y = draw()
    model = MissingRegressor(method="ols").fit(X, np.column_stack([y, -y]))
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["size", "age", "town"]
    assert model.n_outputs_ == 2
    assert model.predict(X).shape == (80, 2)
    classifier = MissingClassifier(method="ols").fit(X, np.where(y > 0, "up", "down"))
    assert classifier.classes_.tolist() == ["down", "up"]
    assert not hasattr(model, "predict_proba")
    # A later fit on a table without names removes the names.
    assert not hasattr(model.fit(X[["size", "age"]].to_numpy(), y), "feature_names_in_")
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_weight_zero_is_ignored(seed):
    X, y = draw(seed)
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    noisy = np.where(weight > 0, y, 1e6)
    model = MissingRegressor(method="ols", random_state=seed).fit(X, noisy, sample_weight=weight)
    kept = weight > 0
    without = MissingRegressor(method="ols", random_state=seed).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.predict(X), without.predict(X), rtol=1e-9)


def test_missing_values_of_a_row_of_weight_zero_do_not_count_as_seen():
    X, y = draw()
    X.loc[0, "age"] = np.nan
    weight = (np.arange(len(y)) > 0).astype(float)
    model = MissingRegressor(method="ols", random_state=0).fit(X, y, sample_weight=weight)
    with pytest.warns(UnseenMissingWarning, match="'age'"):
        model.predict(X)


def test_unknown_categories_and_missing_values_are_separate_warnings():
    X, y = draw()
    X["town"] = X["town"].fillna("here")
    model = MissingRegressor(method="ols", random_state=0).fit(X, y)
    new = X.assign(town=["nowhere", "elsewhere", None] + ["here"] * 77)
    with pytest.warns(UnseenMissingWarning) as caught:
        prediction = model.predict(new)
    messages = {warning.category: str(warning.message) for warning in caught}
    assert set(messages) == {UnseenMissingWarning, UnknownCategoryWarning}
    assert "'town' (1 row)" in messages[UnseenMissingWarning]
    assert "'town' has 'nowhere', 'elsewhere' in 2 rows" in messages[UnknownCategoryWarning]
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.raises(ValueError, match=r"Unknown categories.*'nowhere'"):
        model.set_params(on_unseen_missing="raise").predict(X.assign(town="nowhere"))
    missing = X.assign(town=[None] * 3 + ["here"] * 77)
    np.testing.assert_array_equal(prediction, model.set_params(on_unseen_missing="ignore").predict(missing))


def test_unknown_categories_warn_even_if_the_column_had_missing_values_in_training(model):
    with pytest.warns(UnknownCategoryWarning, match="'town' has 'nowhere' in 80 rows"):
        model.predict(draw(seed=1)[0].assign(town="nowhere"))


@pytest.mark.parametrize("name", ["ols", "boosting", "em_mixture"])
def test_a_column_constant_in_training_has_no_influence_later(name, tmp_path):
    X, y = draw()
    model = MissingRegressor(method=name, random_state=0).fit(X.assign(same=0.1), y)
    model.save(tmp_path / "model")
    expected = model.predict(X.assign(same=0.1))
    for fitted in (model, load_model(tmp_path / "model")):
        np.testing.assert_array_equal(fitted.predict(X.assign(same=1e4)), expected)


def test_integer_column_labels_are_matched_but_are_not_feature_names():
    """In scikit-learn only strings are feature names."""
    X, y = draw()
    X = X[["size", "age"]].set_axis([20, 10], axis=1)
    model = MissingRegressor(method="ols", random_state=0).fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.predict(X[[10, 20]]), model.predict(X))


def test_a_class_whose_rows_all_have_weight_zero_is_not_in_classes():
    X, y = draw()
    labels = np.where(y > 0, "up", "down").astype(object)
    labels[:5] = "sideways"
    weight = np.where(labels == "sideways", 0.0, 1.0)
    model = MissingClassifier(method="ols").fit(X, labels, sample_weight=weight)
    assert model.classes_.tolist() == ["down", "up"]


def test_one_warning_at_fit_names_likely_mistakes_and_points_at_the_caller():
    X, y = draw()
    with pytest.warns(SuspiciousDataWarning, match=r"'age': -999 in 4 rows may mean missing") as caught:
        model = MissingRegressor(method="ols").fit(X.assign(age=X["age"].mask(X.index < 4, -999.0)), y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [column.kind for column in model.column_report_] == ["number", "number", "category"]


def test_the_report_of_the_columns_is_saved(model, tmp_path):
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").column_report_ == model.column_report_


@pytest.mark.parametrize("name", ["ols", "boosting", "em_mixture"])
def test_dates_are_features_and_a_table_may_consist_of_ignored_columns(name):
    """The target is the weekday, which no other column contains."""
    days = pd.Timestamp("2014-01-01") + pd.to_timedelta(to_rng(0).integers(0, 700, 200), unit="D")
    X = pd.DataFrame({"day": days.strftime("%d/%m/%Y"), "id": [f"row {i}" for i in range(200)]})
    y = days.day_of_week.to_numpy(dtype=float)
    error = MissingRegressor(method=name, random_state=0).fit(X, y).predict(X) - y
    assert np.abs(error).mean() < 0.3
    only_ignored = MissingRegressor(method=name, random_state=0).fit(X[["id"]], y)
    assert np.ptp(only_ignored.predict(X[["id"]])) < 1e-9
    with pytest.raises(TypeError, match="date_features=True"):
        MissingRegressor(method=name, date_features=False).fit(X.assign(day=days), y)


@pytest.mark.parametrize("random_state", [3, np.int64(3), np.random.SeedSequence(3)])
def test_the_same_random_state_gives_the_same_model(random_state):
    X, y = draw()
    first, second = (
        MissingRegressor(method="boosting", random_state=random_state).fit(X, y).predict(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_without_a_random_state_or_with_a_generator_fits_differ():
    X, y = draw()
    generator = to_rng(0)
    for random_state in (None, generator):
        models = [MissingRegressor(method="boosting", random_state=random_state).fit(X, y) for _ in range(2)]
        assert (models[0].predict(X) != models[1].predict(X)).any()


def test_an_unknown_method_raises_and_lists_all_methods():
    X, y = draw()
    for method in ("linear", None, OLS):
        with pytest.raises(ValueError, match="method must be one of .*" + ".*".join(METHODS)):
            MissingRegressor(method=method).fit(X, y)


def test_the_method_is_copied():
    X, y = draw()
    method = OLS(inputs="mask")
    model = MissingRegressor(method=method).fit(X, y)
    method.inputs = "mean"
    assert model.method_.inputs == "mask"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"validation_fraction": 0.0}, "validation_fraction must be .* above 0 and below 1; got 0.0"),
        ({"validation_fraction": 1.5}, "validation_fraction must be .* above 0 and below 1; got 1.5"),
        ({"on_unseen_missing": "shout"}, "on_unseen_missing must be .*got 'shout'"),
        ({"max_one_hot": 1}, "max_one_hot must be an integer of at least 2, or .auto.; got 1"),
    ],
)
def test_invalid_parameters_raise_in_fit(parameters, message):
    with pytest.raises(ValueError, match=message):
        MissingRegressor(method="ols", **parameters).fit(*draw())


def test_progress_is_shown_only_if_verbose(capfd, monkeypatch):
    X, y = draw()
    shown = []
    monkeypatch.setattr(ProgressBar, "start", lambda self, what, total=None: shown.append(what))
    MissingRegressor(method="boosting").fit(X, y)
    assert (shown, capfd.readouterr()) == ([], ("", ""))
    MissingRegressor(method=Boosting(n_trees=5), verbose=True).fit(X, y)
    assert shown == ["boosted trees"]


def test_predicting_or_saving_before_fit_raises(tmp_path):
    with pytest.raises(NotFittedError):
        MissingRegressor().predict([[1.0]])
    with pytest.raises(NotFittedError):
        MissingClassifier().predict_proba([[1.0]])
    with pytest.raises(NotFittedError):
        MissingRegressor().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_method_that_load_model_does_not_know_cannot_be_saved(tmp_path):
    class Homemade(OLS):
        name = "homemade"

    model = MissingRegressor(method=Homemade()).fit(*draw())
    assert isinstance(model.method_, Method)
    with pytest.raises(ValueError, match="Homemade cannot be saved, because load_model only builds"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_fitted_estimator_can_be_pickled_for_joblib(model):
    """Parallel grid searches copy estimators by pickle, although model files never use it."""
    X = draw(seed=1)[0]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
