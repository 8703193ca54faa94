import json
import os

import numpy as np
import pytest
from safetensors.numpy import save

from stablemiss import (
    AnyMaskClassifier,
    AnyMaskRegressor,
    MissingClassifier,
    MissingRegressor,
    StableMissClassifier,
    StableMissRegressor,
)
from stablemiss.cli.models import (
    MethodChoice,
    check_replaces_model,
    choose_method,
    is_model,
    params_file,
    read_params,
)
from stablemiss.methods import METHODS, StableMiss


@pytest.mark.parametrize(
    ("method", "regressor", "classifier"),
    [
        ("anymask", AnyMaskRegressor, AnyMaskClassifier),
        ("stablemiss", StableMissRegressor, StableMissClassifier),
        ("ols", MissingRegressor, MissingClassifier),
        ("stablemiss_plus", MissingRegressor, MissingClassifier),
    ],
)
def test_a_method_is_fitted_with_the_estimator_that_it_has_in_python(method, regressor, classifier):
    assert type(MethodChoice(method).estimator(False)) is regressor
    assert type(MethodChoice(method).estimator(True, random_state=3)) is classifier


def test_hyper_parameters_reach_the_method():
    assert (
        MethodChoice("anymask", {"budget": "fast", "members": ["boosting"]}).estimator(False).budget == "fast"
    )
    assert MethodChoice("ols", {"ridge": 2.5}).estimator(False).params == {"ridge": 2.5}
    assert MethodChoice("stablemiss", {"hidden": 7}).estimator(False).hidden == 7


@pytest.mark.parametrize("name", METHODS)
def test_all_methods_and_all_their_hyper_parameters_are_accepted(name):
    params = METHODS[name]().get_params(deep=False)
    estimator = MethodChoice(name, params).estimator(False)
    assert name in ("anymask", "stablemiss") or estimator.params == params


def test_stablemiss_has_the_hyper_parameters_of_its_estimator():
    """Otherwise the command line would reject parameters that Python accepts."""
    assert StableMiss().get_params().keys() <= StableMissRegressor().get_params().keys()


@pytest.mark.parametrize(
    ("method", "budget", "params", "expected"),
    [
        (None, None, None, MethodChoice("anymask", None)),
        (None, "fast", None, MethodChoice("anymask", {"budget": "fast"})),
        ("ols", None, {"ridge": 1}, MethodChoice("ols", {"ridge": 1})),
        (None, None, {"method": "ols", "params": {"ridge": 1}}, MethodChoice("ols", {"ridge": 1})),
        ("ols", None, {"method": "ols", "params": {}}, MethodChoice("ols", {})),
        (None, "best", {"members": ["net"]}, MethodChoice("anymask", {"members": ["net"], "budget": "best"})),
        (None, "best", {"budget": "best"}, MethodChoice("anymask", {"budget": "best"})),
    ],
)
def test_options_are_combined(method, budget, params, expected):
    assert choose_method(method, budget, None if params is None else json.dumps(params)) == expected


@pytest.mark.parametrize(
    ("method", "budget", "params", "facts"),
    [
        ("ols", "fast", None, ["--budget", "'ols'"]),
        (None, "slow", None, ["fast, default or best", "'slow'"]),
        ("ols", None, '{"method": "boosting", "params": {}}', ["'boosting'", "'ols'", "omit --method"]),
        (None, "fast", '{"budget": "best"}', ["'best'", "'fast'"]),
        (None, None, "{ridge: 1}", ["not valid JSON"]),
        (None, None, "absent.json", ["no file absent.json"]),
    ],
)
def test_contradictions_raise(method, budget, params, facts):
    with pytest.raises(ValueError) as caught:
        choose_method(method, budget, params)
    assert all(fact in str(caught.value) for fact in facts), caught.value


@pytest.mark.parametrize("choice", [MethodChoice("olz"), MethodChoice("anymask", {"trees": 3})])
def test_unknown_methods_and_hyper_parameters_raise(choice):
    with pytest.raises(ValueError, match=r"'olz'|'trees'"):
        choice.estimator(False)


def test_hyper_parameters_can_be_in_a_file(tmp_path):
    (tmp_path / "params.json").write_text('{"ridge": 2.5}')
    (tmp_path / "list.json").write_text("[1]")
    assert read_params(str(tmp_path / "params.json")) == {"ridge": 2.5}
    assert params_file(str(tmp_path / "params.json")) == tmp_path / "params.json"
    assert params_file('{"ridge": 2.5}') is None
    with pytest.raises(ValueError, match="must be a JSON object"):
        read_params(str(tmp_path / "list.json"))


def test_only_a_model_or_an_empty_file_is_replaced(tmp_path):
    path = tmp_path / "model"
    check_replaces_model(path)
    os.mkfifo(tmp_path / "pipe")
    assert not is_model(tmp_path / "pipe")
    path.touch()
    check_replaces_model(path)
    MissingRegressor("constant").fit([[1.0], [2.0]], [1.0, 2.0]).save(path)
    assert is_model(path)
    check_replaces_model(path)
    for content in (b"x,y\n1,2\n", save({"x": np.zeros(2)}), path.read_bytes()[:-1]):
        path.write_bytes(content)
        assert not is_model(path)
        with pytest.raises(ValueError, match=r"--model .* is not a model"):
            check_replaces_model(path)
