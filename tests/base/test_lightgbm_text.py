"""Manipulated LightGBM models raise an error before LightGBM reads them, and intact ones predict the same."""

import re

import lightgbm
import numpy as np
import pytest

from stablemiss.base.lightgbm_text import load_booster, model_text
from stablemiss.seeding import to_rng

N_FEATURES = 3
PARAMS = {"verbosity": -1, "num_leaves": 7, "min_data_in_leaf": 5, "num_threads": 1}
OBJECTIVES = {
    "regression": "regression",
    "quantile": "quantile",
    "binary": "binary sigmoid:1",
    "multiclass": "multiclass num_class:3",
}


def rows(n=300):
    rng = to_rng(0)
    X = rng.normal(size=(n, N_FEATURES))
    # A split between missing and observed values has an infinite threshold.
    X[rng.uniform(size=n) < 0.3, 2] = np.nan
    X[rng.uniform(size=n) < 0.3, 1] = 0.0
    return X, X[:, 0] + 3 * np.isnan(X[:, 2]) + X[:, 1] ** 2


def train(objective="regression", n_trees=4):
    X, y = rows()
    target = {"binary": y > 2, "multiclass": np.digitize(y, [1, 3])}.get(objective, y)
    params = PARAMS | {"objective": objective, "num_class": 3 if objective == "multiclass" else 1}
    return lightgbm.train(params, lightgbm.Dataset(X, target), num_boost_round=n_trees)


@pytest.fixture(
    scope="module", params=[lightgbm.Booster.model_to_string, model_text], ids=["full", "reduced"]
)
def text(request):
    return request.param(train())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_intact_model_predicts_bit_identically(objective):
    X, _ = rows()
    booster = train(objective, n_trees=20)
    expected = booster.predict(X, raw_score=True)
    for text in (booster.model_to_string(), model_text(booster)):
        loaded = load_booster(text, N_FEATURES, OBJECTIVES[objective])
        np.testing.assert_array_equal(loaded.predict(X), expected)
        np.testing.assert_array_equal(loaded.predict(X, raw_score=True), expected)
        assert loaded.num_trees() == booster.num_trees()


def test_the_reduced_text_has_the_given_number_of_iterations_and_no_statistics():
    X, _ = rows()
    booster = train("multiclass", n_trees=20)
    text = model_text(booster, n_iterations=5)
    loaded = load_booster(text, N_FEATURES, OBJECTIVES["multiclass"])
    np.testing.assert_array_equal(loaded.predict(X), booster.predict(X, raw_score=True, num_iteration=5))
    assert not re.search("tree_sizes|leaf_count|internal_value|parameters", text)


def test_trees_without_splits_are_read():
    X, y = rows()
    booster = lightgbm.train(PARAMS, lightgbm.Dataset(X, np.full(len(y), 5.0)), num_boost_round=2)
    np.testing.assert_array_equal(load_booster(booster.model_to_string(), 3, "regression").predict(X), 5.0)


def test_infinite_thresholds_occur():
    assert re.search(r"threshold=.*\binf\b", train(n_trees=20).model_to_string())


def test_a_very_deep_tree_is_read(text):
    """A tree that is a single path has as many levels as nodes."""
    n = 20_000
    fields = {
        "num_leaves": n + 1,
        "split_feature": "0 " * n,
        "threshold": "0.5 " * n,
        "decision_type": "2 " * n,
        "left_child": " ".join(str(-1 - i) for i in range(n)),
        "right_child": " ".join(str(i) for i in [*range(1, n), -n - 1]),
        "leaf_value": " ".join(["0.0"] * n + ["7.0"]),
    }
    head, tail = text[: text.index("Tree=1")], text[text.index("end of trees") :]
    for key, value in fields.items():
        head = re.sub(rf"^{key}=.*$", f"{key}={str(value).strip()}", head, flags=re.M)
    booster = load_booster(head + tail, N_FEATURES, "regression")
    np.testing.assert_array_equal(booster.predict([[0.0, 0, 0], [1.0, 0, 0]]), [0.0, 7.0])


def replace(key, value, tree=0):
    """A function that replaces the line `key` of a model; `value` may be a function of its numbers."""

    def change(text):
        found = list(re.finditer(rf"^{key}=(.*)$", text, re.M))[tree]
        new = value(found[1].split()) if callable(value) else [value]
        return text[: found.start(1)] + " ".join(new) + text[found.end(1) :]

    return change


def first(value):
    return lambda numbers: [value, *numbers[1:]]


MANIPULATIONS = {
    # Reads memory behind the row.
    "feature": replace("split_feature", first("3")),
    "distant feature": replace("split_feature", first("99999999")),
    "negative feature": replace("split_feature", first("-1")),
    # Never ends.
    "root as child": replace("left_child", first("0")),
    "parent as child": replace("right_child", lambda numbers: [*numbers[:-1], "0"]),
    "child occurs twice": replace("right_child", lambda numbers: [*numbers[:-1], numbers[-2]]),
    # Returns memory behind the leaves.
    "leaf": replace("left_child", lambda numbers: [n if n[0] != "-" else "-90" for n in numbers]),
    "node": replace("right_child", first("6")),
    "fewer leaves": replace("num_leaves", "6"),
    "more leaves": replace("num_leaves", "8"),
    "many leaves": replace("num_leaves", "100000000"),
    "no leaf": replace("num_leaves", "0"),
    "negative number of leaves": replace("num_leaves", "-5"),
    "missing leaf value": replace("leaf_value", lambda numbers: numbers[1:]),
    "additional threshold": replace("threshold", lambda numbers: [*numbers, "0"]),
    "two spaces": replace("threshold", lambda numbers: [*numbers[:-2], "", numbers[-1]]),
    "NaN as leaf": replace("leaf_value", first("nan")),
    "infinite leaf": replace("leaf_value", first("inf")),
    "overflowing leaf": replace("leaf_value", first("1e+308")),
    "long leaf": replace("leaf_value", first("9" * 400)),
    "NaN as threshold": replace("threshold", first("nan")),
    "text as threshold": replace("threshold", first("x")),
    "categorical": replace("decision_type", first("1")),
    "unknown split": replace("decision_type", first("12")),
    "categories": replace("num_cat", "1"),
    "linear": replace("is_linear", "1"),
    # Divides by zero.
    "no score": replace("num_tree_per_iteration", "0"),
    "many scores": replace("num_class", "1000000000"),
    "features": replace("max_feature_idx", "1000000000"),
    "objective": replace("objective", "multiclass num_class:1000000000"),
    "unknown key": lambda text: text.replace("label_index", "average_output\nlabel_index"),
    "key twice": lambda text: text.replace("label_index=0", "label_index=0\nlabel_index=0"),
    "key missing": lambda text: text.replace("label_index=0\n", ""),
    "no tree": lambda text: text[: text.index("Tree=0")] + text[text.index("end of trees") :],
    "cut": lambda text: text[: text.index("Tree=3")],
    "begun tree": lambda text: text.replace("end of trees", "Tree=4end of trees"),
    "line missing": lambda text: text.replace("right_child=", "", 1),
    "text between trees": lambda text: text.replace("Tree=1", "x\nTree=1"),
    "two empty lines": lambda text: text.replace("Tree=1", "\n\nTree=1"),
    "letter": replace("left_child", first("é")),
    "two signs": replace("left_child", first("--1")),
    "sign in a number": replace("left_child", lambda numbers: ["1-2", "", *numbers[2:]]),
    "sign alone": replace("left_child", first("-")),
    "exponent of a leaf": replace("leaf_value", first("1e308")),
    "null": lambda text: text.replace("Tree=1", "\0Tree=1"),
    "nothing": lambda text: "",
    "other text": lambda text: "no tree\n" * 9,
}


@pytest.mark.parametrize("name", MANIPULATIONS)
def test_manipulated_models_are_refused(text, name):
    manipulated = MANIPULATIONS[name](text)
    assert manipulated != text
    with pytest.raises(ValueError, match="A LightGBM model is invalid"):
        load_booster(manipulated, N_FEATURES, "regression")


def test_what_predictions_do_not_need_is_not_passed_to_lightgbm():
    """The sizes of the trees make LightGBM read anywhere; statistics and parameters have no influence."""
    X, _ = rows()
    text = train().model_to_string()
    expected = load_booster(text, N_FEATURES, "regression").predict(X)
    manipulations = [
        replace("tree_sizes", "99999999 1 1 1"),
        lambda text: re.sub(r"tree_sizes=.*\n", "", text),
        replace("leaf_count", "1"),
        replace("split_gain", "x"),
        replace("feature_infos", "none"),
        lambda text: text[: text.index("end of trees\n") + len("end of trees\n")] + "parameters:\n[x: 1]\n",
    ]
    for manipulate in manipulations:
        booster = load_booster(manipulate(text), N_FEATURES, "regression")
        np.testing.assert_array_equal(booster.predict(X), expected)


def test_another_number_of_features_or_scores_is_refused(text):
    for n_features, objective in ((2, "regression"), (4, "regression"), (3, "multiclass num_class:3")):
        with pytest.raises(ValueError, match="must be"):
            load_booster(text, n_features, objective)
    three = train("multiclass").model_to_string()
    cut = three[: three.index("Tree=11")] + three[three.index("end of trees") :]
    with pytest.raises(ValueError, match="11 trees"):
        load_booster(cut, 3, "multiclass num_class:3")
