"""Wrong values of every parameter: the error names the parameter, what was given and what is allowed."""

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.model_selection import GroupKFold

from stablemiss import (
    AnyMaskClassifier,
    AnyMaskRegressor,
    MissingClassifier,
    MissingRegressor,
    StableMissClassifier,
    StableMissRegressor,
)
from stablemiss.architectures import CNN
from stablemiss.checks import shown
from stablemiss.methods import METHODS, Boosting
from stablemiss.seeding import to_rng

ARRAY = np.array([1, 2])
WIDTHS = [None, 8, "88", (0,), (10**9,)]
COUNT = [None, "a", 0, 1.5]
PATIENCE = ["a", 0, 1.5]  # None turns early stopping off
RATE = [None, "a", -1, 0, 1e300, np.nan]
NETWORK = {
    "learning_rate": RATE,
    "weight_decay": [None, -1, 1e6],
    "batch_size": COUNT,
    "max_epochs": COUNT,
    "patience": PATIENCE,
    "device": [None, "gpu", 0],
}
HYPERNETWORK = {
    **NETWORK,
    "architecture": [None, "cnn", ARRAY],
    "hidden": [None, 0, 10**30],
    "layers": [-1, True],
    "g_hidden": WIDTHS,
    "rank": ["a", 0],
}
# Method → parameter → wrong values.
METHOD_PARAMETERS = {
    "ols": {"inputs": [None, "median", ARRAY], "ridge": ["a", -1, np.inf, 10**400]},
    "pattern_submodels": {
        "rows": [None, "all", ARRAY],
        "min_rows": COUNT,
        "ridge": ["a", -1, np.inf],
        "moment_ridge": [None, "best", 0, 1e-10, -1, np.nan],
        "refit_on_validation": [None, "no"],
    },
    "em_mixture": {
        "n_components": [None, "two", 0, 10**30, ARRAY],
        "max_components": COUNT,
        "ridge": [None, 0, "a", ARRAY],
        "tolerance": [0, np.nan],
        "max_steps": COUNT,
        "refit_on_validation": [None, "no"],
    },
    "boosting": {
        "masked_copies": [-1, 1e300],
        "n_trees": COUNT,
        "learning_rate": [*RATE, True, ARRAY],
        "n_leaves": [1, 10**30],
        "min_rows_per_leaf": COUNT,
        "patience": COUNT,
    },
    "iterative_imputer": {
        "max_iter": [None, "a", -1, 1.5],
        "tol": [None, "a", -1, np.nan],
        "n_nearest_features": ["a", 0, 1.5],
        "add_indicator": [None, "yes", 2],
        "n_trees": COUNT,
        "learning_rate": RATE,
        "n_leaves": [1],
        "min_rows_per_leaf": COUNT,
        "patience": COUNT,
    },
    "neumiss": {**NETWORK, "depth": [-1, 10**30], "hidden": WIDTHS, "start": [None, "a", ARRAY]},
    "partial_vae": {
        "d_latent": COUNT,
        "d_code": [0, 10**30],
        "d_column": [0],
        "encoder": WIDTHS,
        "decoder": WIDTHS,
        "noise": [0, "a", np.inf],
        "label_noise": [0, 1e-13],
        "drop": [None, -0.1, 1.5],
        "n_draws": COUNT,
        "weight_decay": ["a"],
        "patience": PATIENCE,
    },
    "miwae": {
        "hidden": [None, (8,)],
        "k": [0],
        "label_weight": [0, "a"],
        "use_mask": [None, "yes"],
        "patience": PATIENCE,
    },
    "p_bigan": {
        "d_critic": [0],
        "reconstruction": [None, -1],
        "penalty": ["a"],
        "critic_steps": [0],
        "use_mask": [2],
        "learning_rate": [-1],
        "patience": PATIENCE,
    },
    "gain": {
        "hidden": WIDTHS,
        "hint": [None, "both", ARRAY],
        "hint_rate": [None, "a", -0.1, 1.5, np.nan],
        "alpha": [None, -1, np.inf],
        "noise": ["a", -1, np.nan],
        "n_draws": [*COUNT, 10_001],
        "learning_rate": RATE,
        "batch_size": COUNT,
        "max_epochs": COUNT,
        "patience": PATIENCE,
        "device": ["gpu"],
    },
    "misgan": {
        "d_latent": COUNT,
        "hidden": WIDTHS,
        "alpha": [None, "a", -1],
        "beta": [None, -1, np.inf],
        "reconstruction": [None, -1],
        "penalty": ["a", np.nan],
        "critic_steps": COUNT,
        "use_mask": [None, 2],
        "n_draws": [*COUNT, 10_001],
        "learning_rate": [*RATE, 0.6],
        "batch_size": COUNT,
        "max_epochs": COUNT,
        "patience": PATIENCE,
        "device": ["gpu"],
    },
    "dwr": {
        "scale": [None, "rank"],
        "penalty": ["a", -1],
        "order": [0, 10**30],
        "max_columns": [None, 1],
        "tolerance": [None],
        "max_steps": ["a", 0],
        "learning_rate": RATE,
        "ridge": [None],
        "device": ["gpu"],
    },
    "srdo": {
        "classifier": [None, "forest"],
        "hidden": WIDTHS,
        "clip": [None, 0, 0.5, "a"],
        "n_permutations": COUNT,
        "n_folds": COUNT,
        "max_columns": [None, 1],
        "learning_rate": RATE,
        "max_epochs": COUNT,
        "ridge": [-1],
    },
    "crlr": {
        "balance": ["a", -1, np.inf],
        "penalty": [None, -1],
        "max_columns": [None, 1],
        "max_steps": COUNT,
        "learning_rate": RATE,
        "ridge": ["a", -1, 1e300],
        "device": ["gpu"],
    },
    "dgbr": {
        "hidden": WIDTHS,
        "reconstruction": [None, -1],
        "balance": ["a", -1, np.inf],
        "penalty": [None, -1],
        "n_treatments": COUNT,
        "max_steps": COUNT,
        "learning_rate": RATE,
        "ridge": ["a", -1],
        "device": ["gpu"],
    },
    "stablenet": {
        "hidden": [8],
        "use_mask": ["a"],
        "architecture": ["cnn", 1, CNN()],
        "lambda_p": ["a", 0, -70, np.nan, [70.0]],
        "q": [0, 10**30],
        "inner_steps": [-1],
        "inner_learning_rate": [None],
        "memory": ["heap", ARRAY],
        "n_memory": [None],
        "alpha": [None, 1],
        "max_columns": [1],
        "patience": PATIENCE,
        "schedule": ["cosine"],
    },
    "stablemiss": {
        **HYPERNETWORK,
        "decorrelate": [None, "all", ARRAY],
        "form": ["other"],
        "strength": [None, -1],
        "gamma": ["a", -1, [], (), {}, {0.1: 1.0}],
        "mask_augmentation": [None, 2, "yes"],
        "schedule": [None, "cosine"],
    },
    "stablemiss_plus": {"strength": ["a", -1], "n_directions": [0, 2.5], "patience": PATIENCE},
    "mirrams": {
        **NETWORK,
        "mask_ratio": [None, "a", -0.1, 1, np.nan],
        "masked_weight": [None, -1, np.inf],
        "consistency": [None, -1, np.inf],
        "form": [None, "soft", ARRAY],
        "threshold": [None, -0.1, 1.1],
        "hidden": WIDTHS,
    },
    "column_net": {
        "width": [0],
        "depth": [0],
        "n_pieces": COUNT,
        "fill": [None, -1],
        "steps": COUNT,
        "learning_rate": RATE,
    },
    "mask_dro": {
        **NETWORK,
        "levels": [None, 0.5, "a", (0.0,), (0.5, 1.5), ("a",), [np.nan]],
        "window": [None, -0.1, 1.5],
        "n_vanishing": [None, -1, 1.5, 10**30],
        "reference": [None, "best", ARRAY],
        "step_size": ["a", -1, np.inf],
        "floor": [None, -0.1, 1.5],
        "hidden": WIDTHS,
    },
    "anymask": {
        "budget": [None, "slow", []],
        "members": [None, [], "boosting", ["trees"], [None], 5],
        "may_vanish": [5, "a", [9], [0.5], {}],
        "never_missing": [5, [-1]],
    },
}
SHARED_PARAMETERS = {
    "validation_fraction": [None, "a", 0, 1, np.nan, ARRAY],
    "validation_split": ["a", 0, 1.5, GroupKFold, [0.2]],
    "random_state": ["a", -1, 1.5, True, []],
    "on_unseen_missing": [None, "shout", ARRAY],
    "on_out_of_range": [None, "shout"],
    "allow_missing_columns": [None, "a"],
    "max_one_hot": [None, "a", 1, 2.5],
    "date_features": [None, "a"],
    "verbose": ["a", 2.5],
}
TINY = {"hidden": 8, "max_epochs": 1}
# Class → settings of a quick fit, and parameter → wrong values of those that only this class has.
ESTIMATORS = {
    MissingRegressor: (
        {"method": "ols"},
        {"method": [None, "forest", 5], "params": ["a", [1], {"rigde": 1}]},
    ),
    MissingClassifier: ({"method": "ols"}, {"method": [None, [], {}], "params": [5, {5: 1}]}),
    AnyMaskRegressor: (
        {"budget": "fast", "members": ["boosting"]},
        {**METHOD_PARAMETERS["anymask"], "keep_training_rows": [None, "a"]},
    ),
    AnyMaskClassifier: (
        {"budget": "fast", "members": ["boosting"]},
        {**METHOD_PARAMETERS["anymask"], "keep_training_rows": [None, "a"]},
    ),
    StableMissRegressor: (TINY, METHOD_PARAMETERS["stablemiss"]),
    StableMissClassifier: (TINY, METHOD_PARAMETERS["stablemiss"]),
}


def draw(n=24):
    X = to_rng(0).normal(size=(n, 2))
    return X, X[:, 0] + X[:, 1]


def cases():
    """Test cases: a class, its settings, and a parameter with a wrong value."""
    for name, parameters in METHOD_PARAMETERS.items():
        for parameter, values in parameters.items():
            for value in values:
                settings = {"method": name, "params": {**METHODS[name].brief, parameter: value}}
                identifier = f"{name}-{parameter}={shown(value, 30)}"
                yield pytest.param(MissingRegressor, settings, parameter, value, id=identifier)
    for kind, (settings, parameters) in ESTIMATORS.items():
        for parameter, values in {**parameters, **SHARED_PARAMETERS}.items():
            for value in values:
                identifier = f"{kind.__name__}-{parameter}={shown(value, 30)}"
                yield pytest.param(kind, {**settings, parameter: value}, parameter, value, id=identifier)


@pytest.mark.parametrize(("kind", "settings", "parameter", "value"), list(cases()))
def test_a_wrong_value_is_refused(kind, settings, parameter, value, refuses):
    estimator = kind(**settings)
    X, y = draw()
    # An unknown hyper-parameter is named itself, not with the dictionary in which it was passed.
    is_unknown_name = parameter == "params" and isinstance(value, dict)
    facts = [shown(next(iter(value)))] if is_unknown_name else [parameter, shown(value)]
    refuses(lambda: estimator.fit(X, y > 0 if is_classifier(estimator) else y), *facts)


@pytest.mark.parametrize("decorrelate", ["full", "none"])
@pytest.mark.parametrize("wrong", [-1, "a", np.nan, np.inf, True, [0.1], 1e31], ids=shown)
def test_a_wrong_value_in_a_list_of_penalties_is_named(wrong, decorrelate, refuses):
    """Before any of them is used, and even if none is used."""
    X, y = draw()
    for gamma in ([0.1, wrong], (wrong, 0.1)):
        estimator = StableMissRegressor(gamma=gamma, decorrelate=decorrelate, **TINY)
        refuses(lambda e=estimator: e.fit(X, y), "gamma", shown(wrong))


@pytest.mark.parametrize("name", METHODS)
def test_every_hyper_parameter_refuses_an_object(name, refuses):
    X, y = draw()
    for parameter in METHODS[name]().get_params(deep=False):
        params = {**METHODS[name].brief, parameter: object()}
        refuses(lambda params=params: MissingRegressor(name, params=params).fit(X, y), parameter, "object")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_parameter_of_an_estimator_refuses_an_object(kind, refuses):
    X, y = draw()
    for parameter in kind().get_params(deep=False):
        estimator = kind(**{**ESTIMATORS[kind][0], parameter: object()})
        refuses(lambda e=estimator: e.fit(X, y > 0 if is_classifier(e) else y), parameter, "object")


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name]().get_params()])
def test_numbers_of_numpy_are_accepted(name):
    """Equal to Python's numbers, if they have the same digits."""
    X, y = draw()
    params = {**METHODS[name]().get_params(deep=False), **METHODS[name].brief}
    params |= {parameter: 2 for parameter in ("max_epochs", "steps", "max_steps") if parameter in params}
    converted = {
        parameter: np.int64(value)
        if type(value) is int
        else np.float64(value)
        if type(value) is float
        else np.bool_(value)
        if type(value) is bool
        else value
        for parameter, value in params.items()
    }
    plain, numpy = (MissingRegressor(name, params=p, random_state=0).fit(X, y) for p in (params, converted))
    np.testing.assert_array_equal(plain.predict(X), numpy.predict(X))
    single = {p: np.float32(v) if isinstance(v, np.float64) else v for p, v in converted.items()}
    assert np.isfinite(MissingRegressor(name, params=single).fit(X, y).predict(X)).all()


COVERAGE = [None, "a", 0, 1, 1.5, np.nan, ARRAY]


@pytest.fixture(scope="module")
def fitted():
    X, y = draw()
    settings = {"budget": "fast", "members": ["boosting"], "random_state": 0}
    return AnyMaskRegressor(**settings).fit(X, y), AnyMaskClassifier(**settings).fit(X, y > 0)


@pytest.mark.parametrize("coverage", COVERAGE, ids=shown)
def test_a_wrong_coverage_is_refused(coverage, fitted, refuses):
    regressor, classifier = fitted
    refuses(lambda: regressor.predict_interval([[0.0, 0.0]], coverage=coverage), "coverage", shown(coverage))
    refuses(lambda: classifier.predict_set([[0.0, 0.0]], coverage=coverage), "coverage", shown(coverage))
    refuses(lambda: regressor.predict_quantile([[0.0, 0.0]], quantile=coverage), "quantile", shown(coverage))


@pytest.mark.parametrize(
    ("estimator", "settings", "facts"),
    [
        (MissingRegressor("boosting"), {"params__depth": 3}, ["'boosting'", "'depth'", "'n_leaves'"]),
        (
            MissingRegressor("boosting"),
            {"method__n_leaves": 3},
            ["method__n_leaves", "'boosting'", "params__n_leaves"],
        ),
        (
            MissingRegressor(Boosting()),
            {"params__n_leaves": 3},
            ["params__n_leaves", "Boosting()", "method__n_leaves"],
        ),
        (MissingRegressor("forest"), {"params__n_leaves": 3}, ["method", "'forest'"]),
        (
            MissingRegressor("ols", params=["ridge"]),
            {"params__ridge": 3},
            ["params", "['ridge']", "dictionary"],
        ),
    ],
    ids=["unknown name", "method by name", "method object", "unknown method", "no dictionary"],
)
def test_set_params_refuses_what_fit_would_refuse(estimator, settings, facts, refuses):
    refuses(lambda: estimator.set_params(**settings), *facts)
