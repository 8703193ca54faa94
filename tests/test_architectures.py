"""Architectures are values: they can be compared, copied, searched and stored."""

import copy
from dataclasses import FrozenInstanceError

import pytest
from sklearn.base import clone

from stablemiss import StableMissClassifier, StableMissRegressor
from stablemiss.architectures import ARCHITECTURES, CNN, check_architecture
from stablemiss.base.search_space import Choice
from stablemiss.methods import StableMiss, StableMissPlus


@pytest.fixture(params=ARCHITECTURES)
def architecture(request):
    return ARCHITECTURES[request.param]()


def test_equal_parameters_make_equal_objects_that_cannot_be_changed(architecture):
    twin = type(architecture).from_parameters(architecture.parameters())
    assert twin == architecture == copy.deepcopy(architecture)
    assert hash(twin) == hash(architecture)
    with pytest.raises(FrozenInstanceError):
        architecture.rank = 1


@pytest.mark.parametrize("owner", [StableMiss, StableMissPlus, StableMissRegressor, StableMissClassifier])
def test_an_architecture_is_a_parameter_like_any_other(architecture, owner):
    estimator = owner(architecture=architecture)
    assert clone(estimator).get_params()["architecture"] == architecture
    assert estimator.set_params(architecture="mlp").architecture == "mlp"
    assert estimator.set_params(architecture=CNN(kernel=5)).architecture.kernel == 5


def test_architectures_can_be_searched():
    space = Choice(CNN(kernel=3), CNN(kernel=13), "mlp")
    assert CNN() in space
    assert CNN(kernel=5) not in space


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("channels", (16, 32)),
        ("channels", 16),
        ("channels", (0, 1, 1)),
        ("kernel", 4),
        ("kernel", 1),
        ("kernel", 15),
        ("kernel", 3.0),
        ("generate", "all"),
        ("generate", None),
        ("rank", 0),
        ("rank", "a"),
    ],
)
def test_a_wrong_parameter_is_named(parameter, value):
    with pytest.raises(ValueError, match=parameter):
        CNN(**{parameter: value})


def test_a_list_of_channels_equals_a_tuple():
    assert CNN(channels=[16, 32, 64]) == CNN()


@pytest.mark.parametrize("wrong", [None, "cnn", CNN, 5])
def test_other_objects_are_refused(wrong):
    with pytest.raises(ValueError, match=r"architecture must be .*CNN\(\)"):
        check_architecture(wrong)


@pytest.mark.parametrize("shape", [(8, 8), (3, 8, 8)])
@pytest.mark.parametrize("output_shape", [(8, 8), (2, 8, 8)])
@pytest.mark.parametrize("generate", ["global", "local"])
def test_channels_of_images_come_before_height_and_width(shape, output_shape, generate):
    network = CNN(channels=(2, 2, 2), generate=generate).build(shape, output_shape)
    assert network.config["shape"] == (3 if len(shape) == 3 else 1, 8, 8)
    assert network.config["d_out"] == (2 if len(output_shape) == 3 else 1)


@pytest.mark.parametrize(
    ("shape", "output_shape", "fact"),
    [
        ((8, 9, 3), (8, 9, 3), "moveaxis"),
        ((64,), (1,), "Reshape X"),
        ((8, 8), (1,), "y must have shape"),
        ((8, 8), (8, 9), "y must have shape"),
    ],
)
def test_shapes_that_are_not_images_are_refused_with_advice(shape, output_shape, fact):
    with pytest.raises(ValueError, match=fact):
        CNN().check(shape, output_shape)
