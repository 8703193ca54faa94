"""Save, then load in another process: the same estimator with bit-identical predictions."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open

from stablemiss import (
    MissingClassifier,
    MissingRegressor,
    StableMissClassifier,
    StableMissRegressor,
    __version__,
    load_model,
)
from stablemiss.estimators import ArchiveError
from stablemiss.estimators.archive import read_tree, write_tree
from stablemiss.methods import METHODS, OLS
from stablemiss.seeding import to_rng

# Runs in a new interpreter, where unpickling anything after the imports is an error.
OTHER_PROCESS = """
import pickle, sys
from pathlib import Path
import numpy as np, pandas as pd, torch
import stablemiss.estimators

def refuse(*args, **kwargs):
    raise AssertionError("something was unpickled")

folder = Path(sys.argv[1])
X = pd.read_parquet(folder / "X.parquet")
pickle.load = pickle.loads = torch.load = refuse
for path in sorted(folder.glob("*.stablemiss")):
    model = stablemiss.estimators.load_model(path)
    predict = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    np.save(path.with_suffix(".npy"), predict(X))
"""


def draw(seed=0, n=90):
    rng = to_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    y = X.to_numpy() @ [1.0, 2.0, -1.0] + 0.3 * rng.normal(size=n)
    X["town"] = rng.choice([f"town {i}" for i in range(20)], size=n)
    X["kind"] = pd.Categorical(rng.choice(["x", "y"], size=n))
    for column in X:
        X.loc[rng.uniform(size=n) < 0.2, column] = None
    return X, y


# What is saved does not depend on how long a method was trained.
BRIEF = {"max_epochs": 2, "steps": 60, "budget": "fast", "max_components": 2, "n_permutations": 1}
# Arrays only, trees, and a network; the other methods are saved for one task of each type.
FOUR_TASKS = ["constant", "boosting", "stablemiss"]
# All tests share the models of the fixture `other_process`, of every method.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("test_loading")]


def models():
    """Every method for regression and classification, and the estimators of one method."""
    for name, method in METHODS.items():
        brief = {key: value for key, value in BRIEF.items() if key in method().get_params()}
        settings = {"params": {**method.brief, **brief}, "random_state": 0}
        yield f"{name}-one", MissingRegressor(name, **settings), lambda y: y
        yield (
            f"{name}-three",
            MissingClassifier(name, **settings),
            lambda y: np.array(["low", "mid", "high"], object)[np.digitize(y, [-1, 1])],
        )
        if name in FOUR_TASKS:
            yield f"{name}-two", MissingRegressor(name, **settings), lambda y: np.column_stack([y, y**2])
            yield f"{name}-binary", MissingClassifier(name, **settings), lambda y: y > 0
    yield "own-regressor", StableMissRegressor(max_epochs=2, random_state=0), lambda y: y
    yield "own-classifier", StableMissClassifier(max_epochs=2, random_state=0), lambda y: (y > 0).astype(int)
    yield "instance", MissingRegressor(OLS(inputs="mask"), random_state=to_rng(0)), lambda y: y


@pytest.fixture(scope="session")
def other_process(tmp_path_factory):
    """Folder with the saved models and the predictions of another process, and the fitted originals."""
    folder = tmp_path_factory.mktemp("models")
    X, y = draw()
    X.to_parquet(folder / "X.parquet")
    originals = {}
    for name, model, target in models():
        originals[name] = model.fit(X, target(y))
        model.save(folder / f"{name}.stablemiss")
    subprocess.run([sys.executable, "-c", OTHER_PROCESS, folder], check=True, timeout=120)
    return folder, originals


@pytest.mark.parametrize("name", [name for name, *_ in models()])
def test_predictions_of_another_process_are_bit_identical(other_process, name):
    folder, originals = other_process
    X = pd.read_parquet(folder / "X.parquet")
    model = originals[name]
    expected = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    np.testing.assert_array_equal(np.load(folder / f"{name}.npy"), expected)


@pytest.mark.parametrize("name", [name for name, *_ in models()])
def test_a_loaded_estimator_equals_the_saved_one_and_can_be_saved_again(other_process, name, tmp_path):
    folder, originals = other_process
    model, loaded = originals[name], load_model(folder / f"{name}.stablemiss")
    assert type(loaded) is type(model)
    expected = model.get_params() | ({"random_state": None} if name == "instance" else {})
    assert repr(loaded.get_params()) == repr(expected)
    assert loaded.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert loaded.n_features_in_ == model.n_features_in_
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        assert loaded.classes_.dtype == model.classes_.dtype
    loaded.save(tmp_path / "again")
    X = pd.read_parquet(folder / "X.parquet")
    np.testing.assert_array_equal(load_model(tmp_path / "again").predict(X), model.predict(X))


def test_nothing_is_pickled_or_unpickled(other_process, tmp_path, monkeypatch):
    _, originals = other_process

    def refuse(*args, **kwargs):
        raise AssertionError("pickle was used")

    for module, names in (
        (pickle, ("load", "loads", "dump", "dumps")),
        (torch, ("load", "save")),
    ):
        for attribute in names:
            monkeypatch.setattr(module, attribute, refuse)
    for name, model in originals.items():
        model.save(tmp_path / name)
        load_model(tmp_path / name)


def test_a_model_file_is_safetensors_and_names_the_version(other_process):
    folder, _ = other_process
    path = folder / "boosting-one.stablemiss"
    with safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()["document"])
        # LightGBM models are stored as tensors, so the header stays small.
        assert len(file.metadata()["document"]) < 20_000
    assert document["dict"]["stablemiss"] == __version__
    assert document["dict"]["estimator"] == "MissingRegressor"


def test_an_unknown_estimator_or_method_is_named(other_process, tmp_path):
    folder, _ = other_process
    tree = read_tree(folder / "ols-one.stablemiss")
    write_tree(tmp_path / "estimator", tree | {"estimator": "FutureRegressor"})
    with pytest.raises(
        ArchiveError, match=r"FutureRegressor, which this version of stablemiss does not have"
    ):
        load_model(tmp_path / "estimator")
    write_tree(tmp_path / "method", tree | {"method": {"name": "future", "parameters": {}}})
    with pytest.raises(
        ArchiveError, match=r"method 'future', which this version of stablemiss does not have"
    ):
        load_model(tmp_path / "method")


def test_a_tree_that_is_not_a_model_is_rejected(tmp_path):
    for number, tree in enumerate(
        ([1, 2], {}, {"estimator": ["os.system"]}, {"estimator": "MissingRegressor"})
    ):
        write_tree(tmp_path / str(number), tree)
        with pytest.raises(ArchiveError):
            load_model(tmp_path / str(number))


def test_models_that_lightgbm_cannot_read_are_rejected(other_process, tmp_path):
    folder, _ = other_process
    tree = read_tree(folder / "boosting-one.stablemiss")
    write_tree(tmp_path / "model", tree | {"predictor": tree["predictor"] | {"models": ["no tree"]}})
    with pytest.raises(ArchiveError, match="cannot rebuild"):
        load_model(tmp_path / "model")


def test_saving_replaces_an_existing_model(other_process, tmp_path):
    _, originals = other_process
    originals["ols-one"].save(tmp_path / "model")
    originals["constant-binary"].save(str(tmp_path / "model"))
    assert isinstance(load_model(tmp_path / "model"), MissingClassifier)
