"""MissingRegressor and MissingClassifier with scikit-learn's tools."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stablemiss import MissingClassifier, MissingRegressor, UnseenMissingWarning, load_model
from stablemiss.anymask import AnyMask
from stablemiss.methods import METHODS, OLS, Boosting
from stablemiss.seeding import to_rng


def draw(seed=0, n=150):
    rng = to_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=n)
    return np.where(rng.uniform(size=X.shape) < 0.1, np.nan, X), y


def test_clone_and_set_params_include_the_parameters_of_the_method():
    model = MissingRegressor(method=OLS(ridge=0.5), random_state=3)
    copy = clone(model).set_params(method__ridge=2.0, verbose=False)
    assert copy.get_params()["method__ridge"] == 2.0
    assert model.method.ridge == 0.5
    assert repr(model) == "MissingRegressor(method=OLS(ridge=0.5), random_state=3)"


def test_grid_search_over_methods_and_over_a_methods_parameters():
    X, y = draw()
    grid = GridSearchCV(
        MissingRegressor(random_state=0),
        [{"method": ["constant", "ols"]}, {"method": [OLS()], "method__ridge": [1e-6, 1e3]}],
        cv=3,
    ).fit(X, y)
    assert grid.best_score_ > 0.7
    assert grid.best_params_ != {"method": "constant"}
    assert grid.cv_results_["mean_test_score"][3] < 0.2


def test_cross_validation_scores_and_predicts():
    X, y = draw()
    assert cross_val_score(MissingRegressor("ols"), X, y, cv=3).min() > 0.6
    labels = np.where(y > 0, "up", "down")
    scores = cross_val_score(MissingClassifier("ols"), X, labels, cv=3, scoring="neg_log_loss")
    assert scores.min() > -0.5
    probabilities = cross_val_predict(MissingClassifier("ols"), X, labels, cv=3, method="predict_proba")
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_pipelines_work_with_every_type_of_output(output):
    X, y = draw()
    with config_context(transform_output=output):
        model = make_pipeline(StandardScaler(), MissingRegressor("ols")).fit(X, y)
        assert model.score(X, y) > 0.8


def test_a_method_by_name_has_its_default_parameters():
    X, y = draw()
    by_name = MissingRegressor("boosting", random_state=0).fit(X, y)
    by_object = MissingRegressor(Boosting(), random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_name.predict(X), by_object.predict(X))


def test_a_method_by_name_takes_its_parameters_from_params():
    X, y = draw()
    by_name = MissingRegressor("ols", params={"ridge": 5.0}, random_state=0).fit(X, y)
    by_object = MissingRegressor(OLS(ridge=5.0), random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_name.predict(X), by_object.predict(X))
    assert by_name.method_.get_params() == OLS(ridge=5.0).get_params()


@pytest.mark.parametrize("kind", [MissingRegressor, MissingClassifier])
def test_params_are_unchanged_by_clone_set_params_and_a_file(kind, tmp_path):
    X, y = draw()
    params = {"n_leaves": 4, "n_trees": 30}
    model = kind("boosting", params=params, random_state=0)
    assert model.get_params()["params"] is params
    assert clone(model).params == params
    assert clone(model).set_params(params={"n_leaves": 8}).params == {"n_leaves": 8}
    model.fit(X, y > 0).save(tmp_path / "model")
    assert params == {"n_leaves": 4, "n_trees": 30}
    loaded = load_model(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_grid_search_over_params():
    X, y = draw()
    grid = {"params": [None, {"ridge": 1e3}]}
    search = GridSearchCV(MissingRegressor("ols", random_state=0), grid, cv=3).fit(X, y)
    assert search.best_params_ == {"params": None}


def test_single_hyper_parameters_are_searched_as_items_of_params():
    X, y = draw()
    params = {"n_trees": 20}
    model = MissingRegressor("boosting", params=params, random_state=0)
    grid = {"params__n_leaves": [2, 16]}
    for search in (GridSearchCV(model, grid, cv=3), RandomizedSearchCV(model, grid, n_iter=2, cv=3)):
        search.fit(X, y)
        assert search.best_params_ == {"params__n_leaves": 16}
        assert search.best_estimator_.params == {"n_trees": 20, "n_leaves": 16}
        assert search.best_estimator_.method_.get_params()["n_leaves"] == 16
    assert model.params is params
    assert params == {"n_trees": 20}


def test_single_hyper_parameters_are_searched_inside_a_pipeline():
    X, y = draw()
    pipeline = make_pipeline(StandardScaler(), MissingRegressor("ols"))
    search = GridSearchCV(pipeline, {"missingregressor__params__ridge": [1e3, 1e-6]}, cv=3).fit(X, y)
    assert search.best_params_ == {"missingregressor__params__ridge": 1e-6}
    assert search.best_estimator_[-1].params == {"ridge": 1e-6}


def test_set_params_changes_single_items_of_params():
    model = MissingRegressor("boosting").set_params(params__n_leaves=4)
    assert model.params == {"n_leaves": 4}
    model.set_params(params__n_trees=9, params__n_leaves=5)
    assert model.params == {"n_leaves": 5, "n_trees": 9}
    # Items are applied after the whole dictionary and after the method, in any order of the arguments.
    model.set_params(params__ridge=2.0, params={"inputs": "mask"}, method="ols", verbose=True)
    assert model.params == {"inputs": "mask", "ridge": 2.0}
    assert model.verbose
    copy = clone(model)
    assert copy.params == model.params
    assert copy.set_params(**model.get_params()).get_params() == model.get_params()


def test_a_search_over_unknown_hyper_parameters_fails_before_the_first_fit():
    X, y = draw()
    with pytest.raises(ValueError, match=r"'boosting' has no hyper-parameter 'depth'.*'n_leaves'"):
        GridSearchCV(MissingRegressor("boosting"), {"params__depth": [3, 6]}, cv=3).fit(X, y)


def test_params_that_do_not_fit_the_method_raise():
    X, y = draw()
    with pytest.raises(ValueError, match=r"'ols' has no hyper-parameter 'rigde'; .*: 'inputs', 'ridge'\."):
        MissingRegressor("ols", params={"rigde": 1.0}).fit(X, y)
    with pytest.raises(
        ValueError, match=r"'constant' has no hyper-parameter 'ridge'; its hyper-parameters are: none\."
    ):
        MissingRegressor("constant", params={"ridge": 1.0}).fit(X, y)
    with pytest.raises(ValueError, match=r"given by name, but method is OLS\(\).*method='ols' and params"):
        MissingRegressor(OLS(), params={}).fit(X, y)
    with pytest.raises(ValueError, match=r"must be a dictionary.*or None; got \['ridge'\]"):
        MissingRegressor("ols", params=["ridge"]).fit(X, y)


def test_the_default_method_is_in_methods():
    assert MissingRegressor().method in METHODS
    assert MissingClassifier().method in METHODS


def test_regressor_and_classifier_have_the_same_parameters():
    assert MissingRegressor().get_params().keys() == MissingClassifier().get_params().keys()


@pytest.mark.parametrize(
    "labels", [np.array([3, 7, 9]), np.array(["a", "b", "c"]), np.array(["a", "b", "c"], object)]
)
def test_predictions_have_the_labels_of_the_target(labels):
    X, y = draw()
    coded = np.digitize(y, [-1.0, 1.0])
    model = MissingClassifier("ols", random_state=0).fit(X, labels[coded])
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.score(X, labels[coded]) > 0.7
    prediction = model.predict(X)
    assert prediction.dtype == labels.dtype
    np.testing.assert_array_equal(prediction, labels[model.predict_proba(X).argmax(axis=1)])


def test_two_labels_true_and_false():
    X, y = draw()
    model = MissingClassifier("boosting", random_state=0).fit(X, y > 0)
    assert model.predict(X).dtype == bool
    assert model.score(X, y > 0) > 0.8


def test_a_class_with_a_single_row_is_in_classes():
    X, y = draw()
    labels = np.where(y > 0, "up", "down").astype(object)
    labels[7] = "once"
    model = MissingClassifier("boosting", random_state=0).fit(X, labels)
    assert model.classes_.tolist() == ["down", "once", "up"]
    assert model.predict_proba(X).shape == (150, 3)


def test_the_default_method_gives_intervals_and_explanations():
    X, y = draw()
    model = MissingRegressor(params={"budget": "fast"}, random_state=0).fit(X, y)
    bounds = model.predict_interval(X)
    assert (bounds[:, 0] < bounds[:, 1]).all()
    assert (model.explain_missing(X)["error"] > 0).all()


def test_other_methods_say_that_they_have_no_intervals():
    X, y = draw()
    model = MissingRegressor("ols").fit(X, y)
    assert not hasattr(model, "predict_interval")
    with pytest.raises(AttributeError) as caught:
        model.predict_interval(X)
    assert "AnyMask" in str(caught.value.__cause__)


def test_missing_estimators_with_anymask_have_its_attributes_and_warnings():
    X = np.random.default_rng(0).normal(size=(200, 2))
    method = AnyMask(budget="fast", members=["boosting"], never_missing=[0])
    model = MissingRegressor(method, random_state=0).fit(X, 1e200 * X[:, 0])
    assert set(model.member_weights_) >= {"boosting"}
    assert model.validation_loss_ == pytest.approx(model.validation_scores_["rmse"], rel=0.1)
    with pytest.warns(UnseenMissingWarning, match="column 0"):
        model.predict([[np.nan, 0.0]])
    assert not hasattr(MissingRegressor("ols").fit(X, X[:, 0]), "member_weights_")
