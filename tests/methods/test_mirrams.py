"""MIRRAMS: additional masking, and the consistency of predictions under both masks of a row."""

import numpy as np
import pytest
import torch

from stablemiss.base.network import train_and_validation_rows, train_network
from stablemiss.data import MaskedData
from stablemiss.methods import MIRRAMS, mirrams
from stablemiss.methods.constant import Constant
from stablemiss.methods.mirrams import MIRRAMSNet, draw_mask
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression
from stablemiss.torch_state import torch_randomness
from stablemiss.training import Step, adamw

NUMBERS, CLASSES = Regression.of(np.array([0.0, 2.0])), Classification(np.arange(3))
QUICK = {"hidden": (32,), "learning_rate": 1e-2, "max_epochs": 12, "patience": None}


@pytest.fixture(autouse=True)
def isolated_random_state():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def draw(seed, kind="regression", n=300, d=4, observed=0.9):
    """Correlated columns with missing values, and a target that is their sum."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    mask = rng.uniform(size=(n, d)) < observed
    y = values.sum(axis=1) + 0.5 * rng.normal(size=n)
    task = Regression.of(y) if kind == "regression" else Classification(np.arange(2))
    return MaskedData.of(values, mask, task.encode(y if kind == "regression" else y > 0)), task


def fit(method, data, task, seed=0):
    return method.fit(data, data, task, to_rng(seed), NullProgress())


def plain_network(data, task, seed=0):
    """The same network without MIRRAMS: trained on the loss of the rows as they are."""
    rng = to_rng(seed)
    with torch_randomness(rng):
        network = MIRRAMSNet(data.n_columns, task.d_output, QUICK["hidden"])
    rows, validation = train_and_validation_rows(data, data, torch.device("cpu"))

    def loss(batch):
        return (batch.weight * task.row_loss(network(batch.values, batch.mask), batch.target)).mean()

    step = Step(loss, list(network.parameters()), adamw(QUICK["learning_rate"], MIRRAMS().weight_decay))
    train_network(MIRRAMS(**QUICK), network, [step], rows, validation, task, rng, NullProgress())
    return network.double()


@pytest.mark.parametrize("kind", ["regression", "classes"])
@pytest.mark.parametrize("seed", range(2))
def test_without_masking_and_consistency_it_is_the_plain_network_of_values_and_mask(kind, seed):
    data, task = draw(seed, kind)
    method = MIRRAMS(mask_ratio=0.0, masked_weight=0.0, consistency=0.0, **QUICK)
    assert not method.hides_values
    predictor, network = fit(method, data, task), plain_network(data, task)
    with torch.no_grad():
        expected = network(torch.as_tensor(data.values), torch.as_tensor(data.mask, dtype=torch.float64))
    np.testing.assert_array_equal(predictor.predict(data.values, data.mask), expected.numpy())


def recorded_loss(monkeypatch, method, data, task):
    """The network and the loss that `fit` passes to `train_network`, which is replaced, and all rows."""
    calls = []

    def record(method, network, steps, rows, *rest):
        calls.append((network, steps[0].loss, rows))
        return []

    monkeypatch.setattr(mirrams, "train_network", record)
    fit(method, data, task)
    network, loss, rows = calls[0]
    return network.float(), loss, rows


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_the_loss_has_the_three_terms_with_their_weights(monkeypatch, kind):
    data, task = draw(0, kind)
    keep = draw_mask(len(data), torch.arange(4), 0.3)
    monkeypatch.setattr(mirrams, "draw_mask", lambda *arguments: keep)
    method = MIRRAMS(0.3, masked_weight=2.0, consistency=5.0, threshold=0.52, hidden=(8,))
    network, loss, rows = recorded_loss(monkeypatch, method, data, task)
    with torch.no_grad():
        output, masked = network(rows.values, rows.mask), network(rows.values, rows.mask * keep)
        actual = float(loss(rows))
    if kind == "regression":
        third = (output - masked).square().sum(dim=1)
    else:
        p, q = output.softmax(dim=1), masked.softmax(dim=1)
        third = torch.where(p.max(dim=1)[0] > 0.52, -q[torch.arange(len(q)), p.argmax(dim=1)].log(), 0.0)
        assert 0.1 < (third > 0).float().mean() < 0.9
    terms = [task.row_loss(output, rows.target), 2 * task.row_loss(masked, rows.target), 5 * third]
    assert actual == pytest.approx(float(sum(terms).mean()) / 8, rel=1e-5)


def test_without_additional_masking_consistency_adds_nothing(monkeypatch):
    """Both views are then equal, so the loss is that of the plain network, (1 + λ₁) / (1 + λ₁ + λ₂) times."""
    data, task = draw(0)
    network, loss, rows = recorded_loss(monkeypatch, MIRRAMS(0.0, 2.0, 5.0), data, task)
    with torch.no_grad():
        plain = task.row_loss(network(rows.values, rows.mask), rows.target).mean()
        assert float(loss(rows)) == pytest.approx(float(plain) * 3 / 8, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_consistency_term_is_zero_if_and_only_if_both_predictions_are_equal(seed):
    torch.manual_seed(seed)
    output = torch.randn(200, 3)
    other = output + torch.randn(200, 3) * (torch.arange(200) % 2)[:, None]
    is_equal = (output == other).all(dim=1)
    for task, form in ((NUMBERS, "pseudo_label"), (NUMBERS, "symmetric"), (CLASSES, "symmetric")):
        term = MIRRAMS(form=form).row_consistency(output, other, task)
        torch.testing.assert_close(term[is_equal], torch.zeros(100))
        assert (term[~is_equal] > 1e-4).all()
    # Log-odds that differ by a constant are the same class probabilities.
    shifted = MIRRAMS(form="symmetric").row_consistency(output, output + 7.0, CLASSES)
    torch.testing.assert_close(shifted, torch.zeros(200), atol=1e-5, rtol=0)


def test_pseudo_labels_are_the_most_probable_classes_of_confident_rows():
    output = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.2, 0.0, 0.0]])
    masked = torch.tensor([[0.0, 0.0, 0.0], [0.0, 50.0, 0.0], [0.0, 9.0, 0.0]])
    term = MIRRAMS(threshold=0.95).row_consistency(output, masked, CLASSES)
    # Undecided under the mask: log 3. Certain of the same class: 0. The third row is not confident.
    torch.testing.assert_close(term, torch.tensor([np.log(3), 0.0, 0.0], dtype=torch.float32))


@pytest.mark.parametrize("task", [NUMBERS, CLASSES], ids=["numbers", "classes"])
@pytest.mark.parametrize("form", ["pseudo_label", "symmetric"])
def test_a_pseudo_label_gets_no_gradient_and_symmetric_predictions_get_both(task, form):
    output, masked = (torch.randn(50, 3, requires_grad=True) for _ in range(2))
    MIRRAMS(form=form, threshold=0.4).row_consistency(output, masked, task).sum().backward()
    assert masked.grad.abs().sum() > 0
    assert (output.grad is None) == (form == "pseudo_label")


@pytest.mark.parametrize("kind", ["regression", "classes"])
@pytest.mark.parametrize("seed", range(3))
def test_predictions_under_two_masks_of_a_row_are_closer_the_larger_the_weight_of_consistency(seed, kind):
    """The symmetric form. Each weight makes them closer than the one before."""
    data, task = draw(seed, kind)
    new, _ = draw(seed + 100, kind, n=1000)
    rng = to_rng(seed)
    masks = rng.uniform(size=(2, *new.mask.shape)) < 0.7
    distances = []
    for consistency in (0.0, 1.0, 15.0):
        method = MIRRAMS(0.3, 0.0, consistency, "symmetric", **QUICK)
        predictor = fit(method, data, task, seed)
        outputs = [predictor.predict(new.values, new.mask & mask) for mask in masks]
        if kind == "classes":
            outputs = [task.probabilities(output) for output in outputs]
        distances.append(np.sqrt(np.mean((outputs[0] - outputs[1]) ** 2)))
    assert distances[1] < 0.97 * distances[0]
    assert distances[2] < 0.5 * distances[1]


@pytest.mark.parametrize("seed", range(3))
def test_after_training_on_complete_rows_masked_rows_are_predicted_better_than_by_the_plain_network(seed):
    data, task = draw(seed, observed=1.1)
    new, _ = draw(seed + 100, n=1000, observed=0.7)
    losses = []
    for settings in ({}, {"masked_weight": 0.0, "consistency": 0.0}):
        predictor = fit(MIRRAMS(**settings, **QUICK), data, task, seed)
        losses.append(task.loss(predictor.predict(new.values, new.mask), new.target, new.weight))
    assert losses[0] < 0.9 * losses[1]


def test_an_additional_mask_hides_its_share_and_columns_of_a_category_together():
    keep = draw_mask(20_000, torch.tensor([0, 1, 1, 2]), 0.3)
    assert ((keep == 0) | (keep == 1)).all()
    torch.testing.assert_close(keep.mean(dim=0), torch.full((4,), 0.7), atol=0.02, rtol=0)
    torch.testing.assert_close(keep[:, 1], keep[:, 2])
    assert abs(np.corrcoef(keep[:, [0, 1, 3]].T.numpy())[np.triu_indices(3, 1)]).max() < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_on_independent_columns_it_is_better_than_the_constant(seed, errors_on_gaussian_ind):
    methods = {"mirrams": MIRRAMS(hidden=(32,), max_epochs=4), "constant": Constant()}
    errors = errors_on_gaussian_ind(methods, seed, n_rows=2048)
    assert errors["mirrams"][0] < 0.95 * errors["constant"][0]


@pytest.mark.accuracy
@pytest.mark.parametrize("seed", range(3))
def test_with_default_parameters_it_is_nearly_optimal_on_independent_columns(seed, errors_on_gaussian_ind):
    errors = errors_on_gaussian_ind({"mirrams": MIRRAMS()}, seed, n_rows=16_384)
    assert errors["mirrams"][0] < 1.03 * errors["optimal"][0]
