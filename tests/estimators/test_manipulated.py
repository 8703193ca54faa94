"""Parts of a model file that contradict each other raise an error before anything is built from them.

The files have a correct checksum. Random manipulations are in test_archive_fuzz.py.
"""

import copy
import re
from pathlib import Path

import numpy as np
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor, load_model
from stablemiss.estimators import ArchiveError
from stablemiss.estimators.archive import read_tree, write_tree
from stablemiss.seeding import to_rng

# Method → hyper-parameters of a small model.
METHODS = {
    "constant": {},
    "ols": {},
    "em_mixture": {"n_components": 1},
    "boosting": {"n_trees": 3},
    "column_net": {"width": 8, "depth": 2, "steps": 2},
    "neumiss": {"max_epochs": 1},
    "miwae": {"max_epochs": 1, "hidden": 8, "n_draws": 3, "d_latent": 2},
    "partial_vae": {"max_epochs": 1, "n_draws": 3},
    "p_bigan": {"max_epochs": 1, "n_draws": 3},
    "gain": {"max_epochs": 1, "n_draws": 3},
    "misgan": {"max_epochs": 1, "n_draws": 3},
    "dgbr": {"hidden": (8,), "max_steps": 1},
    "mirrams": {"max_epochs": 1, "hidden": (8,)},
    "mask_dro": {"max_epochs": 1, "hidden": (8,)},
    "pattern_submodels": {},
    "iterative_imputer": {"max_iter": 1, "n_trees": 3},
    "stablemiss": {"max_epochs": 1, "hidden": 8},
    "stablenet": {"max_epochs": 1},
}
HUGE = 10**9
# All tests share the models of the fixture `trees`.
pytestmark = pytest.mark.xdist_group("test_manipulated")


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Content of saved models; three columns, the last one with two categories."""
    rng = to_rng(0)
    X = np.array([[*rng.normal(size=2), "ab"[i % 2]] for i in range(200)], dtype=object)
    y = np.array([row[0] - row[1] + 3 * (row[0] > 0) for row in X])
    models = {name: MissingRegressor(name, params=params) for name, params in METHODS.items()}
    models["classes"] = MissingClassifier("em_mixture", params={"n_components": 1})
    models["regressor"] = AnyMaskRegressor(
        budget="fast", members=["mixture", "boosting"], never_missing=[0], keep_training_rows=True
    )
    models["classifier"] = AnyMaskClassifier(budget="fast", members=["mixture"])
    path = tmp_path_factory.mktemp("models") / "model"
    trees = {}
    for name, model in models.items():
        model.set_params(random_state=0).fit(X, y > 0 if hasattr(model, "predict_proba") else y).save(path)
        trees[name] = read_tree(path)
    # Otherwise the manipulations below would test nothing.
    assert trees["regressor"]["predictor"]["kinds"][-1] == "mixture_trees"
    assert trees["regressor"]["predictor"]["calibrator"]["models"][0]
    return trees


def peak_megabytes():
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def replace(tree, path, value):
    """A copy of the tree with another entry at `path`; `value` may be a function of the old one."""
    tree = copy.deepcopy(tree)
    *parents, last = path
    node = tree
    for key in parents:
        node = node[key]
    node[last] = value(node[last]) if callable(value) else value
    return tree


def predictor(*path):
    return ("predictor", *path)


def config(key):
    return predictor("config", key)


def parameter(key):
    return predictor("parameters", key)


def cycle(text):
    """A LightGBM model in which the left child of the root of each tree is the root."""
    return re.sub(r"left_child=-?\d+", "left_child=0", text)


MANIPULATIONS = [
    # Sizes that would take gigabytes, or loops that would hardly end.
    ("column_net", config("width"), 20_000),
    ("column_net", config("depth"), HUGE),
    ("column_net", config("d_output"), HUGE),
    ("regressor", ("training_rows", "n_rows"), HUGE),
    ("regressor", ("training_rows", "is_train"), lambda bits: 0 * bits),
    ("regressor", ("training_rows", "data", 0, "values"), lambda values: values[:, :1]),
    ("regressor", ("training_rows", "data", 1, "weight"), lambda weight: 0 * weight),
    ("regressor", ("training_rows", "data"), lambda data: data[::-1]),
    ("regressor", ("training_rows",), "none"),
    ("regressor", ("is_adapted",), "yes"),
    ("neumiss", config("depth"), HUGE),
    ("neumiss", config("hidden"), (20_000, 20_000)),
    ("neumiss", config("hidden"), np.full(2, 20_000)),
    ("neumiss", config("hidden"), "wide"),
    ("miwae", config("n_draws"), HUGE),
    ("miwae", config("hidden"), 20_000),
    ("partial_vae", config("d_code"), HUGE),
    ("partial_vae", config("encoder"), [1] * 1000),
    ("p_bigan", config("d_critic"), HUGE),
    ("p_bigan", config("n_draws"), 10_001),
    ("gain", config("hidden"), (20_000, 20_000)),
    ("gain", config("n_draws"), HUGE),
    ("misgan", config("hidden"), (20_000, 20_000)),
    ("misgan", config("d_latent"), HUGE),
    ("dgbr", config("hidden"), (20_000, 20_000)),
    ("mirrams", config("hidden"), (20_000, 20_000)),
    ("mirrams", config("d"), HUGE),
    ("mask_dro", config("hidden"), [HUGE]),
    ("stablemiss", config("widths"), (3, 30_000, 1)),
    ("stablemiss", config("rank"), HUGE),
    ("stablenet", config("hidden"), [HUGE]),
    # Networks whose parameters are not those of the configuration, or of the table.
    ("neumiss", config("depth"), -1),
    ("neumiss", config("d"), 4),
    ("neumiss", config("d_output"), 2),
    ("neumiss", config("unknown"), lambda old: 1),
    ("stablenet", config("use_mask"), True),
    ("neumiss", parameter("mean"), lambda old: old[:-1]),
    ("neumiss", parameter("mean"), lambda old: old * np.nan),
    ("neumiss", parameter("mean"), lambda old: old.astype(np.float64)),
    ("neumiss", parameter("mean"), "text"),
    ("neumiss", parameter("extra"), lambda old: np.zeros(3, dtype=np.float32)),
    ("column_net", parameter("piece_start"), lambda old: old[:-1]),
    ("column_net", parameter("piece_start"), lambda old: old[0]),
    # Other predictors.
    ("constant", predictor("output"), np.zeros(2)),
    ("constant", predictor("output"), np.full(1, np.inf)),
    ("ols", predictor("center"), np.zeros(4)),
    ("ols", predictor("coefficients"), np.zeros((3, 2))),
    ("ols", predictor("coefficients"), np.zeros((6, 1))),
    ("ols", predictor("use_mask"), True),
    ("ols", predictor("use_mask"), 7),
    ("ols", predictor("intercept"), [0.0]),
    ("em_mixture", predictor("mixtures"), []),
    ("em_mixture", predictor("mixtures", 0, "weights"), np.zeros(1)),
    ("em_mixture", predictor("mixtures", 0, "means"), lambda old: old[:, :-1]),
    ("em_mixture", predictor("mixtures", 0, "covariances"), lambda old: -old),
    ("em_mixture", predictor("mixtures", 0, "covariances"), lambda old: 1e300 * old),
    ("em_mixture", predictor("log_shares"), np.zeros(1)),
    ("classes", predictor("log_shares"), None),
    ("classes", predictor("inverse_temperature"), np.full(2, -1.0)),
    ("classes", predictor("mixtures"), lambda old: old[:-1]),
    ("boosting", predictor("models"), []),
    ("boosting", predictor("models"), lambda old: old * 2),
    ("boosting", predictor("models"), [b"tree"[0]]),
    ("boosting", predictor("models", 0), cycle),
    ("pattern_submodels", predictor("patterns"), lambda old: old[:-1]),
    ("pattern_submodels", predictor("patterns"), lambda old: old[:, :-1]),
    ("pattern_submodels", predictor("patterns"), lambda old: old.astype(np.float64)),
    ("pattern_submodels", predictor("patterns"), None),
    ("pattern_submodels", predictor("coefficients"), lambda old: old * np.nan),
    ("pattern_submodels", predictor("coefficients"), lambda old: old[:, :, :0]),
    ("pattern_submodels", predictor("intercepts"), lambda old: old[:-1]),
    ("pattern_submodels", predictor("mean"), lambda old: old[:-1]),
    ("pattern_submodels", predictor("covariance"), lambda old: 0 * old),
    ("pattern_submodels", predictor("covariance"), lambda old: -old),
    ("pattern_submodels", predictor("cross"), lambda old: old[:-1]),
    ("pattern_submodels", predictor("base"), np.zeros(2)),
    ("iterative_imputer", predictor("order"), lambda old: old + HUGE),
    ("iterative_imputer", predictor("order"), lambda old: old - HUGE),
    ("iterative_imputer", predictor("order"), lambda old: old[:-1]),
    ("iterative_imputer", predictor("order"), 3),
    ("iterative_imputer", predictor("coefficients"), lambda old: old[:, :-1]),
    ("iterative_imputer", predictor("coefficients"), lambda old: old + np.inf),
    ("iterative_imputer", predictor("intercepts"), lambda old: old[:, None]),
    ("iterative_imputer", predictor("mean"), lambda old: old * np.nan),
    ("iterative_imputer", predictor("add_indicator"), True),
    ("iterative_imputer", predictor("add_indicator"), "no"),
    ("iterative_imputer", predictor("trees"), {}),
    ("iterative_imputer", predictor("trees", "models"), []),
    ("iterative_imputer", predictor("trees", "models", 0), cycle),
    # The ensemble and its calibration.
    ("regressor", predictor("names"), lambda old: [old[0]] * len(old)),
    ("regressor", predictor("kinds"), lambda old: ["unknown", *old[1:]]),
    ("regressor", predictor("kinds"), lambda old: ["mixture_trees", *old[1:]]),
    ("regressor", predictor("members"), lambda old: old[:-1]),
    (
        "regressor",
        predictor("members"),
        lambda old: [*old[:-1], old[-1] | {"models": [cycle(old[-1]["models"][0])]}],
    ),
    ("regressor", predictor("members"), lambda old: [*old[:-1], old[-1] | {"is_residual": "yes"}]),
    ("regressor", predictor("members"), lambda old: [*old[:-1], old[-1] | {"is_residual": False}]),
    ("regressor", predictor("member_weights"), lambda old: old[:, :-1]),
    ("regressor", predictor("member_weights"), lambda old: -old),
    ("regressor", predictor("error_model", "slope"), np.zeros(3)),
    ("regressor", predictor("error_model", "log_level"), np.full(1, 1e3)),
    ("regressor", predictor("calibrator", "groups"), np.zeros(9, dtype=np.int64)),
    ("regressor", predictor("calibrator", "stratum"), lambda old: old + 100),
    ("regressor", predictor("calibrator", "stratum"), lambda old: old - 100),
    ("regressor", predictor("calibrator", "scores"), lambda old: old[:, :0]),
    ("regressor", predictor("calibrator", "bandwidth"), lambda old: 0 * old),
    ("regressor", predictor("calibrator", "bandwidth"), lambda old: old[:-1]),
    ("regressor", predictor("calibrator", "models"), lambda old: [*old, *old]),
    ("regressor", predictor("calibrator", "models"), [["tree"]]),
    ("regressor", predictor("calibrator", "models", 0, 0), cycle),
    ("classifier", predictor("calibrator", "edges"), lambda old: old[:-1]),
    ("classifier", predictor("calibrator", "models"), [["tree"]]),
    # The target.
    ("ols", ("task", "kind"), "ranking"),
    ("ols", ("task", "mean"), np.zeros(2)),
    ("ols", ("task", "scale"), np.zeros(1)),
    ("ols", ("task", "scale"), np.full(1, np.nan)),
    ("ols", ("task",), {"kind": "classification", "classes": np.arange(1.0)}),
    ("classes", ("task", "classes"), lambda old: old[:1]),
    ("classes", ("task", "classes"), lambda old: old[::-1].copy()),
    ("classes", ("task", "classes"), np.array([0.0, np.nan])),
    ("classes", ("task", "classes"), np.array(["a", None], dtype=object)),
    ("classes", ("task", "classes"), np.arange(3)),
    # The estimator and its method.
    ("ols", ("estimator",), "MissingClassifier"),
    ("ols", ("estimator",), "AnyMaskRegressor"),
    ("ols", ("method", "name"), "neumiss"),
    ("ols", ("method", "name"), ["ols"]),
    ("ols", ("method", "parameters", "unknown"), lambda old: 1),
    ("ols", ("parameters", "validation_fraction", "value"), "all"),
    ("ols", ("parameters", "on_unseen_missing", "value"), HUGE),
    ("regressor", ("method", "parameters", "never_missing"), HUGE),
    ("ols", ("encoder", "mean"), lambda old: old * np.nan),
    ("ols", ("encoder",), {}),
    ("ols", ("predictor",), None),
    # How the command line read the training table.
    ("ols", ("read_options",), ","),
    ("ols", ("read_options",), {"decimal": ","}),
    ("ols", ("read_options",), {"decimal": ";", "missing_values": []}),
    ("ols", ("read_options",), {"decimal": np.arange(3), "missing_values": []}),
    ("ols", ("read_options",), {"decimal": ".", "missing_values": [-999]}),
    ("ols", ("read_options",), {"decimal": ".", "missing_values": "-999"}),
]


@pytest.mark.parametrize(
    ("name", "path", "value"),
    MANIPULATIONS,
    ids=lambda part: ".".join(map(str, part)) if type(part) is tuple else None,
)
def test_a_manipulated_model_raises_an_archive_error(trees, tmp_path, name, path, value):
    if callable(value) and path[-1] in ("unknown", "extra"):
        value = value(None)
    write_tree(tmp_path / "model", replace(trees[name], path, value))
    # Resets the peak to the current memory.
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_megabytes()
    with pytest.raises(ArchiveError):
        load_model(tmp_path / "model")
    assert peak_megabytes() < before + 50


def test_a_model_without_read_options_is_loaded(trees, tmp_path):
    """Files of earlier versions do not have them."""
    tree = dict(trees["ols"])
    assert tree.pop("read_options") is None
    write_tree(tmp_path / "model", tree)
    assert load_model(tmp_path / "model").read_options_ is None


def test_the_unchanged_models_are_loaded(trees, tmp_path):
    for tree in trees.values():
        write_tree(tmp_path / "model", tree)
        load_model(tmp_path / "model").predict([[0.0, 1.0, "a"]])
