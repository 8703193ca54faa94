"""What is specific to the column net: its embeddings, and invariance to the scale of columns."""

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.methods.column_net import ColumnNet, ColumnNetwork, _BufferedMasks, _quantiles
from stablemiss.missingness import MaskAugmentation
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression

SMALL = {"width": 64, "depth": 2, "steps": 400}


def fit(method, values, mask, y, seed=0):
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    n = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n)), data.rows(np.arange(n, len(data)))
    return method.fit(train, valid, task, to_rng(seed), NullProgress()), task


def draw(seed, n=1500):
    """x₁ is nearly a nonlinear function of x₀, on which y depends; nothing is missing."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, 4))
    values[:, 1] = np.exp(2 * values[:, 0]) + 0.01 * values[:, 1]
    return values, np.ones((n, 4), dtype=bool), np.sin(2 * values[:, 0])


@pytest.mark.parametrize("seed", range(2))
def test_a_missing_column_is_replaced_by_a_nonlinearly_redundant_one(seed):
    values, mask, y = draw(seed)
    predictor, task = fit(ColumnNet(**SMALL), values, mask, y, seed)
    new, new_mask, new_y = draw(seed + 100)
    new_mask[:, 0] = False
    error = task.decode(predictor.predict(new, new_mask)) - new_y
    assert np.mean(error**2) < 0.15 * new_y.var()


def test_the_scale_of_a_column_does_not_matter():
    values, mask, y = draw(0, n=400)
    original, _ = fit(ColumnNet(**SMALL), values, mask, y)
    scaled, _ = fit(ColumnNet(**SMALL), values * 64, mask, y)
    np.testing.assert_allclose(original.predict(values, mask), scaled.predict(values * 64, mask), atol=1e-3)


def test_edges_are_ascending_and_scores_follow_the_ranks():
    rng = to_rng(0)
    values = np.column_stack(
        [rng.normal(size=500), rng.integers(3, size=500), np.zeros(500), rng.normal(size=500)]
    )
    mask = np.ones((500, 4), dtype=bool)
    mask[:, 3] = False
    edges, scores = _quantiles(MaskedData.of(values, mask, np.zeros(500)), 16)
    assert (np.diff(edges, axis=1) >= 0).all()
    assert (np.diff(scores, axis=1) >= 0).all()
    assert np.unique(edges[1]).tolist() == [0, 1, 2]
    assert (edges[2] == 0).all()
    assert (edges[3] == 0).all()
    assert abs(scores[0][8]) < 0.01


def make_network(d=3, n_pieces=4, **settings):
    torch.manual_seed(0)
    edges = torch.linspace(-2, 2, n_pieces + 1).expand(d, -1)
    return ColumnNetwork(edges, 10 * edges, **({"d_output": 2, "width": 16, "depth": 2} | settings)).double()


def test_scores_are_interpolated_between_edges_and_constant_beyond_them():
    values = torch.tensor([[-9.0, -2.0, 0.5], [9.0, 2.0, 1.0]], dtype=torch.float64)
    network = make_network()
    _, _, scores = network.predict_and_reconstruct(network.places(values), torch.ones_like(values))
    np.testing.assert_allclose(scores, [[-20, -20, 5], [20, 20, 10]])


def test_a_hidden_value_has_no_influence_and_its_mask_has():
    network = make_network()
    values = torch.randn(5, 3, dtype=torch.float64)
    mask = torch.ones(5, 3, dtype=torch.float64)
    mask[:, 1] = 0
    changed = values.clone()
    changed[:, 1] = 77.0
    before, after = (
        network.predict_and_reconstruct(network.places(table), mask)[:2] for table in (values, changed)
    )
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    torch.testing.assert_close(network(values, mask), before[0])
    assert not torch.equal(network(values, mask), network(values, torch.ones_like(mask)))


def test_a_constant_column_gives_finite_outputs():
    edges = torch.zeros(1, 5)
    network = ColumnNetwork(edges, edges, d_output=1, width=4, depth=1)
    assert torch.isfinite(network(torch.tensor([[0.0], [3.0]]), torch.ones(2, 1))).all()


def test_the_look_up_equals_the_product_with_all_pieces():
    """An embedding is the sum over pieces of the position in each piece times the embedding of the piece."""
    network = make_network(d=2, n_pieces=5)
    values = 2 * torch.randn(50, 2, dtype=torch.float64)
    piece, position = network._locate(values)
    positions = ((values[:, :, None] - network.piece_start) * network.inverse_length).clamp(0, 1)
    columns = torch.einsum("ndp,dpc->ndc", positions, network.embedding) + network.shift
    columns = (columns + network._scores(piece, position)[..., None] * network.score_embedding).relu()
    ones = torch.ones_like(values)
    expected = network.layers(torch.cat([columns.flatten(1), ones], dim=1))
    torch.testing.assert_close(network._hidden(piece, position, ones), expected)


def test_places_beyond_the_edges_and_between_equal_edges_give_finite_outputs():
    """Training reads places in place of values; a place on an edge belongs to the piece that begins there."""
    edges = torch.tensor([[0.0, 1.0, 2.0, 2.0], [5.0, 5.0, 5.0, 5.0]])
    network = ColumnNetwork(edges, edges, d_output=2, width=8, depth=1)
    values = torch.tensor([[-1.0, 4.0], [0.0, 5.0], [1.0, 6.0], [1.5, 5.0], [2.0, 5.0], [3.0, 5.0]])
    places = network.places(values)
    assert places[:, 0].tolist() == [0.0, 0.0, 1.0, 1.5, 2.0, 2.0]
    outputs, _, scores = network.predict_and_reconstruct(places, torch.ones(6, 2))
    torch.testing.assert_close(outputs, network(values, torch.ones(6, 2)))
    assert scores[:, 0].tolist() == [0.0, 0.0, 1.0, 1.5, 2.0, 2.0]


@pytest.mark.parametrize(("n_outputs", "width"), [(1, 160), (2, 160), (3, 256), (10, 256)])
def test_the_default_width_grows_with_the_number_of_outputs(n_outputs, width):
    rng = to_rng(0)
    values, y = rng.normal(size=(60, 3)), rng.normal(size=(60, n_outputs))
    predictor, _ = fit(ColumnNet(steps=5), values, np.ones((60, 3), dtype=bool), y)
    assert predictor.network.prediction_head.in_features == width


def test_masks_for_batches_are_those_of_the_source_and_never_repeat():
    """Batches of changing size get the right number of masks, drawn for many batches at once."""
    source = MaskAugmentation.of(np.arange(30))
    masks = _BufferedMasks(source, 30, to_rng(0))
    batches = [masks.next(n) for n in (50, 50, 49, 60) * 30]
    assert [len(batch) for batch in batches] == [50, 50, 49, 60] * 30
    hidden = np.concatenate(batches)
    hidden = hidden[~hidden.all(axis=1)]
    assert len(np.unique(hidden, axis=0)) > 0.8 * len(hidden)


def test_training_of_a_small_table_ends_before_the_last_step():
    """With few rows of noise the validation loss rises soon."""
    rng = to_rng(0)
    values = rng.normal(size=(200, 10))
    task = Regression.of(rng.normal(size=200))
    target = task.encode(rng.normal(size=200))
    data = MaskedData.of(values, np.ones(values.shape, bool), target)
    train, valid = data.rows(np.arange(150)), data.rows(np.arange(150, 200))
    predictor = ColumnNet().fit(train, valid, task, to_rng(1), NullProgress())
    (history,) = predictor.history
    assert history.ending == "patience"
    assert history.best_epoch < len(history.losses) < 15


@pytest.mark.parametrize("n_rows", [500, 2_000, 8_000, 20_000, 200_000, 2_000_000])
@pytest.mark.parametrize("steps", [500, 2500])
def test_long_tables_are_scored_as_often_as_short_ones_within_the_number_of_steps(n_rows, steps):
    method = ColumnNet(steps=steps)
    n_batches = -(-n_rows // method._rows_per_step(n_rows))
    epochs, batches_per_epoch = method._schedule(n_batches)
    assert 8 <= epochs <= 20
    assert epochs * batches_per_epoch <= 1.1 * steps
