"""Architectures are values: they can be compared, copied, searched and stored."""

import copy
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from sklearn.base import clone

from stablemiss import StableMissClassifier, StableMissRegressor, load_model
from stablemiss.architectures import ARCHITECTURES, CNN, GraphTemporal, check_architecture
from stablemiss.base.search_space import Choice
from stablemiss.datasets import Graph
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


GRAPH = Graph.from_edges(["a", "b", "c"], [("a", "b")])


@pytest.mark.parametrize(
    ("parameters", "facts"),
    [
        ({"graph": [("a", "b")]}, "graph must be a Graph"),
        ({"channels": 6, "heads": 4}, "channels must be a multiple of heads; got channels=6 and heads=4"),
        ({"generate": "partial"}, "generate must be"),
        ({"rank": 0}, "rank"),
        ({"heads": 0}, "heads"),
    ],
)
def test_a_wrong_parameter_of_a_sensor_network_is_named(parameters, facts):
    with pytest.raises(ValueError, match=facts):
        GraphTemporal(**parameters)


@pytest.mark.parametrize(
    ("shape", "output_shape", "facts"),
    [
        ((3,), (3, 8), r"windows of shape \(n, nodes, times\)"),
        ((3, 8), (24,), r"one row of y \(24,\)"),
        ((4, 8), (4, 8), "The graph has 3 nodes, but y has 4"),
        ((2, 8), (3, 8), "X has only 2 rows per window"),
    ],
)
def test_windows_that_do_not_fit_the_graph_are_refused(shape, output_shape, facts):
    with pytest.raises(ValueError, match=facts):
        GraphTemporal(GRAPH).check(shape, output_shape)


def test_a_graph_is_part_of_the_value_of_an_architecture():
    one = GraphTemporal(GRAPH)
    assert one == GraphTemporal(Graph.from_edges(["a", "b", "c"], [("a", "b")])) != GraphTemporal()
    assert GraphTemporal.from_parameters(one.parameters()) == one
    assert len({one, GraphTemporal(GRAPH), GraphTemporal()}) == 2


@pytest.mark.parametrize("generate", ["global", "local", "input", "none"])
def test_a_model_of_a_sensor_network_is_the_same_after_loading(generate, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4, 6)), rng.normal(size=(50, 3, 2))
    X[rng.random(X.shape) < 0.3] = np.nan
    y[rng.random(y.shape) < 0.3] = np.nan
    architecture = GraphTemporal(GRAPH, channels=4, heads=2, generate=generate)
    model = StableMissRegressor(architecture, max_epochs=1, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.architecture == architecture
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_mask_augmentation_hides_whole_sensors_and_never_the_calendar():
    keep = GraphTemporal(GRAPH).augmentation((5, 4), (3, 8)).draw(200, np.random.default_rng(0))
    sensors = keep.reshape(200, 5, 4)
    assert (sensors.all(axis=2) | ~sensors.any(axis=2)).all()
    assert sensors[:, 3:].all()
    assert not sensors[:, :3].all()
    pixels = CNN().augmentation((4, 4), (4, 4)).draw(200, np.random.default_rng(0))
    assert 0 < pixels[:, 0].mean() < 1
    assert (pixels[:, 0] != pixels[:, 1]).any()
