"""GAIN: what the discriminator can know about the mask, and the parameters that each step updates.

A perfect imputer's completed rows say nothing about the mask. All that the best discriminator can know is
then the posterior P(m_i = 1 | h) of a bit given the hint, and no discriminator has a smaller expected
cross-entropy than the entropy of the bit given the hint. With the paper's hint, which hides one bit, this is
the posterior given all other bits: a fair coin for independent bits of rate one half.
"""

from itertools import product

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.methods import GAIN, Constant, gain
from stablemiss.methods.gain import GAINNet, draw_hint, mask_loss
from stablemiss.progress import NullProgress
from stablemiss.tasks import Classification, Regression

D = 3
HINTS = ["paper", "code"]
RATE = 0.7
MASKS = np.array(list(product([0.0, 1.0], repeat=D)))


@pytest.fixture(autouse=True)
def isolated_random_state():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def mask_probabilities(seed):
    """Probability of each of the 2^D masks: bits are dependent, because the discriminator must use this."""
    return np.random.default_rng(seed).dirichlet(np.full(len(MASKS), 0.7))


def draw_masks(probabilities, n):
    index = torch.multinomial(torch.as_tensor(probabilities), n, replacement=True)
    return torch.as_tensor(MASKS, dtype=torch.float32)[index]


def posterior(hint, kind, probabilities, rate=RATE):
    """P(m_i = 1 | h) of each bit, (D,), by Bayes' rule over all masks."""
    likelihood = probabilities.copy()
    for mask_bits, hint_bits in zip(MASKS.T, hint, strict=True):
        if kind == "paper":
            likelihood *= 1.0 if hint_bits == 0.5 else mask_bits == hint_bits
        else:
            shown = rate * mask_bits
            likelihood *= shown if hint_bits == 1 else 1 - shown
    return likelihood @ MASKS / likelihood.sum()


def posteriors(hints, kind, probabilities):
    """The same for rows of hints, (n, D)."""
    unique, index = np.unique(hints.numpy(), axis=0, return_inverse=True)
    table = [posterior(hint, kind, probabilities) for hint in unique]
    return torch.as_tensor(np.array(table)[index.ravel()])


def train_discriminator(impute, kind, probabilities, n_steps=500):
    """A discriminator of rows x that `impute(x, mask)` completes; x is Gaussian and correlated."""
    net = GAINNet(D, 0, False, (32, 32), n_draws=1)
    optimiser = torch.optim.Adam(net.discriminator.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, n_steps)
    for _ in range(n_steps):
        completed, mask, hint, is_asked = draw_rows(impute, kind, probabilities, 512)
        optimiser.zero_grad()
        mask_loss(net.discriminate(completed, hint), mask, is_asked).mean().backward()
        optimiser.step()
        schedule.step()
    return net


def draw_rows(impute, kind, probabilities, n):
    x = torch.randn(n, D) + 2 * torch.randn(n, 1)
    mask = draw_masks(probabilities, n)
    return impute(x, mask), mask, *draw_hint(mask, kind, RATE)


def perfect(x, mask):
    """Values at missing cells with exactly the conditional distribution: those that were hidden."""
    return x


def zeros(x, mask):
    return x * mask


def losses(net, impute, kind, probabilities):
    """Cross-entropy of a discriminator and of the posterior given the hint, on the same new rows."""
    completed, mask, hint, is_asked = draw_rows(impute, kind, probabilities, 20_000)
    with torch.no_grad():
        log_odds = net.discriminate(completed, hint)
    best = posteriors(hint, kind, probabilities)
    ours, bound = (
        float(mask_loss(odds, mask.double(), is_asked).mean())
        for odds in (log_odds.double(), best.logit(eps=1e-12))
    )
    distance = ((log_odds.sigmoid() - best).abs() * is_asked).sum() / is_asked.sum()
    return ours, bound, float(distance)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", HINTS)
def test_for_a_perfect_imputer_the_discriminator_knows_only_what_the_hint_tells(kind, seed):
    probabilities = mask_probabilities(seed)
    net = train_discriminator(perfect, kind, probabilities)
    ours, bound, distance = losses(net, perfect, kind, probabilities)
    # Not below the entropy given the hint, which it reaches: its output is the exact posterior.
    assert bound - 0.005 < ours < bound + 0.02
    assert distance < 0.04


@pytest.mark.parametrize("kind", HINTS)
def test_for_a_poor_imputer_the_discriminator_knows_more(kind):
    probabilities = mask_probabilities(0)
    net = train_discriminator(zeros, kind, probabilities, n_steps=200)
    ours, bound, _ = losses(net, zeros, kind, probabilities)
    assert ours < 0.5 * bound


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", HINTS)
def test_frequencies_of_the_hidden_bit_are_its_posterior_given_the_hint(kind, seed):
    """Counted over many drawn hints: no function of the hint can know more about the bit."""
    probabilities = mask_probabilities(seed)
    mask = draw_masks(probabilities, 100_000)
    hint, _ = draw_hint(mask, kind, RATE)
    unique, index, counts = np.unique(hint.numpy(), axis=0, return_inverse=True, return_counts=True)
    for number in np.flatnonzero(counts > 2000):
        frequency = mask.numpy()[index.ravel() == number].mean(axis=0)
        np.testing.assert_allclose(frequency, posterior(unique[number], kind, probabilities), atol=0.04)


def test_with_independent_bits_the_papers_hint_tells_nothing_about_the_hidden_bit():
    """The entropy of the bit stays log 2, however many other bits are known."""
    fair = np.full(len(MASKS), 1 / len(MASKS))
    for hint in ([0.5, 0, 0], [0.5, 1, 1], [1, 0.5, 0]):
        assert posterior(hint, "paper", fair)[np.array(hint) == 0.5] == pytest.approx(0.5)
    net = train_discriminator(perfect, "paper", fair, n_steps=200)
    ours, bound, _ = losses(net, perfect, "paper", fair)
    assert bound == pytest.approx(np.log(2))
    assert ours == pytest.approx(np.log(2), abs=0.01)


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_with_independent_bits_the_hint_of_the_code_leaves_the_entropy_of_the_bits_it_does_not_show(p):
    """(1 − p r) H(q), q = p (1 − r) / (1 − p r), for bits of probability p shown with rate r."""
    probabilities = np.prod(np.where(MASKS == 1, p, 1 - p), axis=1)
    mask = draw_masks(probabilities, 100_000)
    hint, is_asked = draw_hint(mask, "code", RATE)
    q = p * (1 - RATE) / (1 - p * RATE)
    entropy = -(1 - p * RATE) * (q * np.log(q) + (1 - q) * np.log(1 - q))
    best = posteriors(hint, "code", probabilities).logit(eps=1e-12)
    assert float(mask_loss(best, mask.double(), is_asked).mean()) == pytest.approx(entropy, abs=0.005)


def test_the_papers_hint_hides_one_cell_of_each_row_and_asks_only_for_it():
    mask = (torch.rand(1000, 5) < 0.5).float()
    hint, is_asked = draw_hint(mask, "paper", 0.9)
    assert (is_asked.sum(dim=1) == 1).all()
    assert torch.equal(hint[is_asked == 0], mask[is_asked == 0])
    assert (hint[is_asked == 1] == 0.5).all()
    # Each cell is as likely as any other.
    assert (is_asked.mean(dim=0) - 0.2).abs().max() < 0.05


@pytest.mark.parametrize("rate", [0.0, 0.6, 1.0])
def test_the_hint_of_the_code_shows_a_share_of_the_observed_cells_and_asks_for_all(rate):
    mask = (torch.rand(2000, 5) < 0.5).float()
    hint, is_asked = draw_hint(mask, "code", rate)
    assert is_asked.all()
    assert not hint[mask == 0].any()
    assert float(hint[mask == 1].mean()) == pytest.approx(rate, abs=0.03)


GROUPS = torch.tensor([0, 1, 1, 1, 2])


@pytest.mark.parametrize("kind", HINTS)
def test_the_hint_about_a_category_does_not_tell_the_bits_of_its_own_cells(kind):
    """They are missing together, so one bit that is shown would give away the others."""
    mask = (torch.rand(4000, 3) < 0.5).float()[:, GROUPS]
    hint, is_asked = draw_hint(mask, kind, 0.6, GROUPS)
    for column in (2, 3):
        assert torch.equal(hint[:, column], hint[:, 1])
        assert torch.equal(is_asked[:, column], is_asked[:, 1])
    assert (hint[:, 0] != hint[:, 1]).any()
    if kind == "paper":
        # Each group is as likely as any other, however many cells it has.
        assert (is_asked[:, [0, 1, 4]].mean(dim=0) - 1 / 3).abs().max() < 0.05
        assert (hint[is_asked == 1] == 0.5).all()
        assert torch.equal(hint[is_asked == 0], mask[is_asked == 0])
    else:
        assert float(hint[mask == 1].mean()) == pytest.approx(0.6, abs=0.03)


@pytest.mark.parametrize("kind", HINTS)
def test_in_training_categories_and_one_hot_targets_have_one_bit_each(monkeypatch, kind):
    data, task = table(d=4, is_classes=True)
    data = MaskedData.of(data.values, data.mask[:, [0, 1, 1, 3]], data.target, groups=[5, 7, 7, 8])
    network, (step, _), rows = recorded_training(monkeypatch, data, task, hint=kind)
    hints = []
    network.discriminator.register_forward_pre_hook(lambda module, given: hints.append(given[0][:, 6:]))
    step.loss(rows)
    [hint] = hints
    assert hint.shape == (100, 6)
    assert torch.equal(hint[:, 1], hint[:, 2])
    assert torch.equal(hint[:, 4], hint[:, 5])
    assert (hint[:, 2] != hint[:, 3]).any()


def table(n=100, d=3, seed=0, is_classes=False):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d))
    y = (values[:, 0] > 0).astype(int) if is_classes else values[:, 0]
    task = Classification(np.arange(2)) if is_classes else Regression.of(y)
    return MaskedData.of(values, rng.uniform(size=values.shape) < 0.8, task.encode(y)), task


def recorded_training(monkeypatch, data, task, **settings):
    """Network, steps and rows that `fit` passes to `train_network`, which is replaced."""
    calls = []

    def record(method, network, steps, rows, *rest):
        calls.append((network, steps, rows))
        return []

    monkeypatch.setattr(gain, "train_network", record)
    GAIN(hidden=(16,), **settings).fit(data, data, task, np.random.default_rng(1), NullProgress())
    network, steps, rows = calls[0]
    # Single precision as in training; the predictor has converted the network to double precision.
    return network.float().train(), steps, rows


def updated_by(step, network, rows):
    """Which of generator and discriminator have a gradient in a step."""
    gradients = torch.autograd.grad(step.loss(rows), step.parameters)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    names = {id(parameter): name.split(".")[0] for name, parameter in network.named_parameters()}
    return {names[id(parameter)] for parameter in step.parameters}


@pytest.mark.parametrize("hint", HINTS)
def test_each_step_updates_its_own_network(monkeypatch, hint):
    network, steps, rows = recorded_training(monkeypatch, *table(), hint=hint)
    assert [updated_by(step, network, rows) for step in steps] == [{"discriminator"}, {"generator"}]


@pytest.mark.parametrize("is_classes", [False, True])
def test_the_discriminator_reads_observed_values_unchanged_and_never_a_hidden_target(monkeypatch, is_classes):
    network, (step, _), rows = recorded_training(monkeypatch, *table(is_classes=is_classes))
    masks, inputs = [], []
    network.generator.register_forward_pre_hook(lambda module, given: masks.append(given[0]))
    network.discriminator.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    step.loss(rows)
    width = network.d + network.d_output
    mask, completed = masks[0][:, width:], inputs[0][:, :width]
    target = torch.nn.functional.one_hot(rows.target, 2) if is_classes else rows.target
    columns = torch.cat([rows.values, target], dim=1)
    assert torch.equal(mask[:, : network.d], rows.mask)
    torch.testing.assert_close(completed[mask == 1], columns[mask == 1], rtol=0, atol=0)
    # About half of the rows show the target; an untrained generator imputes its mean, or equal probabilities.
    shown = mask[:, network.d]
    assert 0.3 < float(shown.mean()) < 0.7
    assert (completed[shown == 0][:, network.d :] == (0.5 if is_classes else 0.0)).all()


def test_the_loss_of_the_generator_falls_if_the_discriminator_is_deceived(monkeypatch):
    """With α = 0 only its opinion of missing cells counts."""
    network, (_, step), rows = recorded_training(monkeypatch, *table(), alpha=0.0)
    last = network.discriminator.last
    torch.nn.init.zeros_(last.weight)
    means = []
    for log_odds in (-20.0, 0.0, 20.0):
        torch.nn.init.constant_(last.bias, log_odds)
        means.append(step.loss(rows).item())
    missing = 1 - float(torch.cat([rows.mask, torch.full((100, 1), 0.5)], dim=1).mean())
    assert means == pytest.approx([20 * missing, np.log(2) * missing, 0.0], rel=0.15, abs=1e-6)


def test_with_a_large_noise_a_prediction_is_the_mean_over_its_draws():
    net = GAINNet(4, 1, False, (8,), n_draws=6).double()
    net.scale_noise(3.0)
    torch.nn.init.normal_(net.generator.last.weight)  # predictions of an untrained network are zero
    mask = (torch.rand(10, 4) < 0.5).double()
    values = torch.randn(10, 4).double() * mask
    columns, known = (torch.cat([part, torch.zeros(10, 1)], dim=1) for part in (values, mask))
    draws = torch.stack([net.impute(columns, known, draw.expand(10, 5))[:, 4:] for draw in net.draws])
    assert draws.std(dim=0).min() > 0
    torch.testing.assert_close(net(values, mask), draws.mean(dim=0))


@pytest.mark.parametrize(("hint", "seed"), [("code", 0), ("code", 1), ("code", 2), ("paper", 0)])
def test_it_is_better_than_the_constant_on_independent_columns(hint, seed, errors_on_gaussian_ind):
    methods = {"gain": GAIN(hint=hint, max_epochs=8), "constant": Constant()}
    rmse = {label: errors[0] for label, errors in errors_on_gaussian_ind(methods, seed).items()}
    assert rmse["gain"] < 0.9 * rmse["constant"]
    assert rmse["gain"] < 1.15 * rmse["optimal"]


@pytest.mark.accuracy
@pytest.mark.parametrize("seed", range(3))
def test_on_correlated_columns_it_is_within_a_third_of_the_optimum(seed, errors_on_gaussian):
    """Here 21 to 27% above it, the constant about 100%; twice the rows and default epochs give 13 to 15%."""
    rmse = errors_on_gaussian({"gain": GAIN(max_epochs=20)}, seed, n_rows=8192)
    assert rmse["gain"][0] < 1.35 * rmse["optimal"][0]
