"""The contract of methods and architectures for rows and targets that are arrays."""

import random
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.base import clone

from stablemiss.architectures import ARCHITECTURES, CNN, Architecture, GraphTemporal
from stablemiss.base.method import Method
from stablemiss.data import MaskedData
from stablemiss.datasets import Graph
from stablemiss.methods import METHODS, Constant, StableMiss, StableNet
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression


@dataclass(frozen=True)
class Case:
    """A method that is fitted in a fraction of a second, and shapes that it accepts."""

    method: Method
    shape: tuple[int, ...]
    output_shape: tuple[int, ...]


def stablemiss(architecture, augmented=False):
    return StableMiss(architecture, max_epochs=3, learning_rate=0.01, mask_augmentation=augmented)


def stablenet(architecture):
    return StableNet(architecture=architecture, inner_steps=2, max_epochs=3)


# The last node is isolated.
GRAPH = Graph.from_edges(["a", "b", "c", "d"], [("a", "b"), ("b", "c")])
CASES = {
    **{
        name: Case(method(**method.brief), (2, 3), (2, 2))
        for name, method in METHODS.items()
        if method.reads_arrays
    },
    "CNN global": Case(stablemiss(CNN((3, 3, 3), rank=3)), (6, 5), (6, 5)),
    "CNN full": Case(stablemiss(CNN((3, 3, 3), rank=None)), (6, 5), (6, 5)),
    "CNN local": Case(stablemiss(CNN((3, 3, 3), generate="local")), (6, 5), (6, 5)),
    "CNN input": Case(stablemiss(CNN((3, 3, 3), generate="input")), (6, 5), (6, 5)),
    "CNN none": Case(stablemiss(CNN((3, 3, 3), generate="none")), (6, 5), (6, 5)),
    "CNN partial": Case(stablemiss(CNN((3, 3, 3), generate="partial")), (2, 6, 5), (6, 5)),
    "StableNet CNN": Case(stablenet(CNN((4, 3, 3), generate="none")), (6, 5), (6, 5)),
    "StableNet GraphTemporal": Case(stablenet(GraphTemporal(GRAPH, 4, 2, generate="none")), (5, 6), (4, 3)),
    "CNN augmented": Case(stablemiss(CNN((3, 3, 3), generate="local"), augmented=True), (6, 5), (6, 5)),
    "GraphTemporal augmented": Case(
        stablemiss(GraphTemporal(GRAPH, 4, 2, generate="local"), augmented=True), (5, 6), (4, 3)
    ),
    "CNN channels": Case(stablemiss(CNN((3, 3, 3), kernel=5, generate="local")), (2, 6, 5), (3, 6, 5)),
    "GraphTemporal global": Case(stablemiss(GraphTemporal(GRAPH, 4, 2, rank=3)), (4, 6), (4, 3)),
    "GraphTemporal full": Case(stablemiss(GraphTemporal(GRAPH, 4, 2, rank=None)), (4, 5), (4, 3)),
    "GraphTemporal local": Case(stablemiss(GraphTemporal(GRAPH, 4, 2, generate="local")), (4, 6), (4, 6)),
    "GraphTemporal input": Case(stablemiss(GraphTemporal(GRAPH, 4, 2, generate="input")), (4, 6), (4, 3)),
    "GraphTemporal none": Case(stablemiss(GraphTemporal(GRAPH, 4, 2, generate="none")), (5, 6), (4, 3)),
    "GraphTemporal calendar": Case(stablemiss(GraphTemporal(None, 4, 2, generate="local")), (5, 6), (3, 4)),
}


# Variants of what the others cover, for the slow suite.
VARIANTS = {
    "StableNet GraphTemporal",
    "CNN full",
    "CNN channels",
    "CNN augmented",
    "CNN input",
    "CNN none",
    "CNN partial",
}
VARIANTS |= {f"GraphTemporal {kind}" for kind in ("full", "calendar", "augmented", "input", "none")}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in VARIANTS else []) for name in CASES]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def architecture_of(case):
    return getattr(case.method, "architecture", None)


def test_every_architecture_has_a_case():
    architectures = {type(architecture_of(case)) for case in CASES.values()}
    assert set(ARCHITECTURES.values()) <= architectures


def draw(name, n=60, seed=0, observed=0.7, seen=0.8):
    """Arrays that are the outer product of one random number with a pattern, and targets that repeat it."""
    case, rng = CASES[name], to_rng(seed)
    d, d_output = int(np.prod(case.shape)), int(np.prod(case.output_shape))
    signal = rng.normal(size=(n, 1))
    values = signal + 0.1 * rng.normal(size=(n, d))
    y = 5.0 + 3.0 * signal + 0.1 * rng.normal(size=(n, d_output))
    y[rng.uniform(size=y.shape) >= seen] = np.nan
    task = Regression.of(y, common_scale=True, shape=case.output_shape)
    mask = rng.uniform(size=(n, d)) < observed
    target = task.encode(y)
    return MaskedData.of(values, mask, target, None, None, ~np.isnan(target), case.shape), task


def fit(name, data, task, **settings):
    is_valid = np.arange(len(data)) % 5 == 2
    train, valid = data.rows(np.flatnonzero(~is_valid)), data.rows(np.flatnonzero(is_valid))
    method = clone(CASES[name].method)
    known = {key: value for key, value in settings.items() if key in method.get_params()}
    return method.set_params(**known).fit(train, valid, task, to_rng(0), NullProgress())


def predict(predictor, data):
    return predictor.predict(data.values, data.mask)


@cache
def fitted(name):
    return fit(name, *draw(name))


def test_the_same_seed_gives_the_same_result_and_global_random_states_are_unchanged(name):
    def states():
        return str(np.random.get_state()), random.getstate(), torch.get_rng_state().tolist()  # noqa: NPY002

    data, task = draw(name)
    fitted(name)  # Modules that are imported by a first fit may change random states.
    before = states()
    again = predict(fit(name, data, task), data)
    assert states() == before
    np.testing.assert_array_equal(again, predict(fitted(name), data))


def test_hidden_values_and_targets_that_are_not_observed_have_no_influence(name):
    data, task = draw(name)
    values = np.where(data.mask, data.values, np.nan)
    target = np.where(data.target_mask, data.target, -1e9)
    garbage = MaskedData.of(values, data.mask, target, None, None, data.target_mask, data.row_shape)
    np.testing.assert_array_equal(fitted(name).predict(values, data.mask), predict(fitted(name), data))
    np.testing.assert_array_equal(predict(fit(name, garbage, task), data), predict(fitted(name), data))
    # Nor if the garbage reaches the loss.
    refitted = fit(name, replace(data, target=target), task)
    np.testing.assert_array_equal(predict(refitted, data), predict(fitted(name), data))


def test_targets_that_are_all_marked_as_observed_give_the_same_fit_as_without_marks(name):
    data, task = draw(name, seen=1.1)
    assert data.target_mask.all()
    unmarked = replace(data, target_mask=None)
    np.testing.assert_array_equal(
        predict(fit(name, data, task), data), predict(fit(name, unmarked, task), data)
    )


def test_a_row_has_the_same_prediction_alone_in_a_batch_and_in_any_order(name):
    data, _ = draw(name)
    together = predict(fitted(name), data)
    order = to_rng(0).permutation(len(data))
    np.testing.assert_allclose(
        predict(fitted(name), data.rows(order)), together[order], rtol=1e-12, atol=1e-12
    )
    for row in (0, 17):
        alone = predict(fitted(name), data.rows(np.array([row])))
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-12, atol=1e-12)


def test_entirely_missing_rows_and_cells_are_accepted(name):
    data, task = draw(name)
    keep = np.ones_like(data.mask)
    keep[::10], keep[:, 1] = False, False
    predictor = fit(name, data.keep_where(keep), task, max_epochs=1)
    for rows in (data, data.keep_where(keep), data.keep_where(np.zeros_like(keep))):
        assert np.isfinite(predict(predictor, rows)).all()


@pytest.mark.slow
def test_doubling_all_weights_gives_the_same_fit(name):
    data, task = draw(name)
    weight = to_rng(1).uniform(0.5, 2.0, size=len(data))
    once, twice = (
        MaskedData.of(data.values, data.mask, data.target, w, None, data.target_mask, data.row_shape)
        for w in (weight, 2 * weight)
    )
    np.testing.assert_allclose(
        predict(fit(name, once, task), data), predict(fit(name, twice, task), data), rtol=1e-5, atol=1e-6
    )


def test_a_predictor_rebuilt_from_its_state_predicts_bit_identically(name):
    data, task = draw(name)
    predictor = fitted(name)
    rebuilt = type(predictor).from_state(predictor.state(), data.n_columns, task)
    np.testing.assert_array_equal(predict(rebuilt, data), predict(predictor, data))


@pytest.mark.parametrize("name", [name for name in NAMES if name.values != ("constant",)])
def test_an_easy_target_is_predicted_better_than_by_the_constant(name):
    data, task = draw(name, n=200)
    new, _ = draw(name, n=100, seed=1, seen=1.1)
    complete, _ = draw(name, n=200, seen=1.1)
    constant = Constant().fit(complete, complete, task, to_rng(0), NullProgress())
    predictor = fit(name, data, task, max_epochs=6)
    losses = [task.loss(predict(p, new), new.target, new.weight) for p in (predictor, constant)]
    assert losses[0] < 0.5 * losses[1]


def gradients_by_layer(network):
    """Name and gradient of each layer whose parameters are part of a longer vector or matrix."""
    for module in network.modules():
        for holder in ("g", "layers"):
            sizes = getattr(getattr(module, holder, None), "sizes", None)
            if sizes is None:
                continue
            layers = getattr(module, holder).layers
            for key, parameter in module.named_parameters():
                if len(parameter) == sum(sizes):
                    parts = parameter.grad.split(sizes)
                    for number, (layer, part) in enumerate(zip(layers, parts, strict=True)):
                        yield f"{key} {getattr(layer, 'name', number)}", part


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if isinstance(architecture_of(case), Architecture)]
)
def test_every_parameter_of_the_network_gets_a_gradient(name):
    case, (data, _) = CASES[name], draw(name, n=20)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = architecture_of(case).build(case.shape, case.output_shape)
    values, mask = (torch.as_tensor(part, dtype=torch.float32) for part in (data.values, data.mask))
    outputs = network(values, mask)
    assert outputs.std() < 0.2  # near zero, the mean
    (outputs - values.mean()).square().mean().backward()
    assert [
        key for key, p in network.named_parameters() if p.grad is None or not p.grad.abs().max() > 0
    ] == []
    # Parameters of several layers are one vector; none of its layers may be left out.
    layers = dict(gradients_by_layer(network))
    assert layers
    without = [layer for layer, gradient in layers.items() if not gradient.abs().max() > 0]
    if getattr(architecture_of(case), "graph", True) is None:
        # Without neighbours, attention has nothing to choose from.
        without = [layer for layer in without if not layer.endswith(".scores")]
    assert without == []
    assert network.rows_at_once >= 1
