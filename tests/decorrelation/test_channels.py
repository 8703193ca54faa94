"""Weights of successive batches: the dependence they measure and lower, and the memory of earlier rows."""

import numpy as np
import pytest
import torch

from stablemiss.decorrelation import BatchDecorrelator, ChannelDependence, Memory, RandomFeatures
from stablemiss.decorrelation.channels import N_AVERAGED_BATCHES
from stablemiss.methods.stablenet import SMALLEST_LAMBDA_P
from stablemiss.seeding import to_rng


def draw(seed, n=128, d=6, common=0.0):
    """Columns with a common component of size `common`, relative to their own noise."""
    rng = to_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, d)) + common * rng.normal(size=(n, 1)))


def weigh(batches, seed=0, kind="queue", weight=None, **settings):
    """Fitted weights of the last of several batches."""
    d = batches[0].shape[1]
    weights = BatchDecorrelator(Memory(kind, 128), to_rng(seed), np.arange(d), **settings)
    for batch in batches:
        fitted = weights(batch, torch.ones(len(batch)).to(batch) if weight is None else weight)
    return fitted


def effective_share(weight):
    return float(1 / weight.square().sum()) / len(weight)


@pytest.mark.parametrize("seed", range(3))
def test_dependence_is_the_sum_over_pairs_and_channels_of_squared_weighted_covariances(seed):
    columns = draw(seed, n=20, d=3, common=1.0)
    features = RandomFeatures.draw(3, q=2, rng=to_rng(seed))
    weight = torch.from_numpy(to_rng(seed).dirichlet(np.ones(20)))
    u = features.of_values((columns - columns.mean(dim=0)) / columns.std(dim=0, correction=0)).numpy()
    expected = 0.0
    for channel in range(2):
        for k in range(3):
            for other in set(range(3)) - {k}:
                both = np.cov(u[:, k, channel], u[:, other, channel], aweights=weight, ddof=0)
                expected += both[0, 1] ** 2
    assert float(ChannelDependence(columns)(weight, features)) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_its_gradient_equals_finite_differences(seed):
    dependence = ChannelDependence(draw(seed, n=9, d=3), groups=torch.tensor([0, 1, 1]))
    features = RandomFeatures.draw(3, q=2, rng=to_rng(seed))
    weight = torch.from_numpy(to_rng(seed).dirichlet(np.ones(9))).requires_grad_()
    assert torch.autograd.gradcheck(lambda weight: dependence(weight, features), weight)
    [expected] = torch.autograd.grad(dependence(weight, features), weight)
    torch.testing.assert_close(dependence.gradient(weight.detach(), features), expected)


@pytest.mark.parametrize("n_steps", [1, 5])
def test_weights_are_those_of_gradient_descent_with_momentum_by_autograd(n_steps):
    """The second half of the steps has a tenth of the learning rate and starts without momentum."""
    earlier, batch = draw(0, common=1.0), draw(1, n=64, common=1.0)
    memory = Memory("queue", 128)
    memory.add(earlier, torch.zeros(128).to(earlier))
    weight = torch.linspace(0.5, 1.5, 64).to(batch)
    logits = torch.ones(64).to(batch).requires_grad_()
    dependence, rng = ChannelDependence(torch.cat([batch, earlier])), to_rng(3)
    for lr, count in ((1.0, n_steps - n_steps // 2), (0.1, n_steps // 2)):
        optimiser = torch.optim.SGD([logits], lr=lr, momentum=0.9)
        for _ in range(count):
            share = memory.append_logits(logits + weight.log()).softmax(dim=0)
            loss = dependence(share, RandomFeatures.draw(6, 2, rng)) / 3.0
            optimiser.zero_grad()
            (loss + logits.softmax(dim=0).square().sum()).backward()
            optimiser.step()
    fitted = BatchDecorrelator(memory, to_rng(3), np.arange(6), n_steps, lambda_p=3.0)(batch, weight)
    torch.testing.assert_close(fitted, logits.detach().softmax(dim=0))


def test_scale_and_location_of_a_column_and_constant_columns_have_no_influence():
    columns = draw(0, common=1.0)
    with_constant = torch.cat([columns, torch.full((128, 1), 1 / 3)], dim=1)
    features = RandomFeatures.draw(7, q=2, rng=to_rng(0))
    first_features = RandomFeatures(*(part[:6] for part in vars(features).values()))
    weight = torch.from_numpy(to_rng(0).dirichlet(np.ones(128)))
    expected = float(ChannelDependence(columns)(weight, first_features))
    assert float(ChannelDependence(100 * columns - 7)(weight, first_features)) == pytest.approx(expected)
    assert float(ChannelDependence(with_constant)(weight, features)) == pytest.approx(expected)


def test_dependence_within_a_group_is_ignored():
    column = draw(0, d=1)
    twice = torch.cat([column, column], dim=1)
    features = RandomFeatures.draw(2, q=50, rng=to_rng(0))
    equal = torch.full((128,), 1 / 128).to(twice)
    assert float(ChannelDependence(twice)(equal, features)) > 1.0
    assert float(ChannelDependence(twice, groups=torch.tensor([3, 3]))(equal, features)) == 0.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["queue", "blend"])
def test_weights_sum_to_one_and_lower_the_dependence_of_new_features(seed, kind):
    batches = [draw(10 * seed + i, common=1.0) for i in range(3)]
    weight = weigh(batches, seed, kind, lambda_p=3.0)
    assert float(weight.sum()) == pytest.approx(1.0)
    assert (weight > 0).all()
    fixed = RandomFeatures.draw(6, q=50, rng=to_rng(1000 + seed))
    dependence = ChannelDependence(batches[-1])
    assert float(dependence(weight, fixed)) < 0.9 * float(dependence(torch.full_like(weight, 1 / 128), fixed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", [2, 20])
def test_rows_of_independent_columns_keep_nearly_equal_weights(seed, d):
    assert effective_share(weigh([draw(10 * seed + i, d=d) for i in range(3)], seed)) > 0.999


@pytest.mark.parametrize("seed", range(3))
def test_with_a_blended_memory_independent_columns_look_dependent(seed):
    """This is why the memory is a queue by default."""
    batches = [draw(100 * seed + i, d=20) for i in range(N_AVERAGED_BATCHES + 2)]
    queue, blend = (weigh(batches, seed, kind, lambda_p=3.0) for kind in ("queue", "blend"))
    assert effective_share(blend) < 0.99 < effective_share(queue)


@pytest.mark.parametrize("seed", range(3))
def test_sample_weights_are_taken_into_account(seed):
    """Dependence between rows of almost no weight is ignored; otherwise the weights would reduce it."""
    batch = torch.cat([draw(seed, n=256, d=4), draw(10 + seed, n=64, d=1).expand(64, 4)])
    sample_weight = torch.cat([torch.ones(256), torch.full((64,), 1e-6)]).to(batch)
    ignored, included = (weigh([batch], weight=weight, lambda_p=1.0) for weight in (sample_weight, None))
    assert float(ignored.std()) < 0.5 * float(included.std())


def test_weights_are_reproducible_by_seed_also_with_random_columns():
    batches = [draw(i, d=30, common=1.0) for i in range(2)]
    one, two, other = (weigh(batches, seed, max_columns=10) for seed in (0, 0, 1))
    torch.testing.assert_close(one, two, rtol=0, atol=0)
    assert (one != other).any()


@pytest.mark.parametrize(("n", "d"), [(1, 3), (5, 1), (2, 4)])
def test_few_rows_and_a_single_column_work(n, d):
    weight = weigh([draw(i, n=n, d=d) for i in range(2)])
    assert torch.isfinite(weight).all()
    assert float(weight.sum()) == pytest.approx(1.0)


def test_the_effective_share_is_the_mean_over_all_batches():
    weights = BatchDecorrelator(Memory("queue", 128), to_rng(0), np.arange(6), lambda_p=1.0)
    assert weights.effective_share is None
    fitted = [
        weights(draw(i, n, common=1.0), torch.ones(n, dtype=torch.float64)) for i, n in enumerate((128, 50))
    ]
    shares = [effective_share(weight) for weight in fitted]
    assert weights.effective_share == pytest.approx(np.mean(shares))
    assert max(shares) < 0.999


def add_batches(memory, n_batches, length=4):
    """Add batches to a memory and return the last one."""
    for number in range(n_batches):
        features = torch.from_numpy(to_rng(number).normal(size=(length, 2)))
        logits = torch.full((length,), float(number)).to(features)
        memory.add(features, logits)
    return features, logits


def test_a_blend_with_alpha_zero_is_the_last_batch():
    memory = Memory("blend", size=4, alpha=0.0)
    features, logits = add_batches(memory, N_AVERAGED_BATCHES + 3)
    torch.testing.assert_close(memory.features, features)
    torch.testing.assert_close(memory.logits, logits)


def test_a_blend_is_the_mean_of_the_first_batches_and_then_a_moving_average():
    memory = Memory("blend", size=4, alpha=0.9)
    add_batches(memory, N_AVERAGED_BATCHES)
    mean = (N_AVERAGED_BATCHES - 1) / 2
    torch.testing.assert_close(memory.logits, torch.full((4,), mean).to(memory.logits))
    memory.add(torch.zeros(4, 2).to(memory.features), torch.zeros(4).to(memory.logits))
    torch.testing.assert_close(memory.logits, torch.full((4,), 0.9 * mean).to(memory.logits))


def test_a_short_batch_changes_only_the_first_rows_of_a_blend():
    memory = Memory("blend", size=4, alpha=0.0)
    features, _ = add_batches(memory, N_AVERAGED_BATCHES + 1)
    short = torch.ones(3, 2).to(features)
    memory.add(short, torch.ones(3).to(features))
    torch.testing.assert_close(memory.features, torch.cat([short, features[3:]]))


@pytest.mark.parametrize(("size", "length"), [(0, 4), (3, 4), (6, 4), (100, 4)])
def test_a_queue_keeps_the_latest_rows(size, length):
    memory = Memory("queue", size)
    add_batches(memory, 5, length)
    latest = np.repeat(np.arange(5.0), length)[::-1][:size][::-1]
    np.testing.assert_array_equal(np.sort(memory.logits.numpy()), latest)
    assert memory.features.shape == (len(latest), 2)


@pytest.mark.parametrize(("d", "n"), [(4, 32), (16, 128), (50, 128)])
def test_no_single_row_takes_all_the_weight_with_the_smallest_default_lambda_p(d, n):
    """With a smaller λ_p the steps would overshoot."""
    rng = to_rng(0)
    weights = BatchDecorrelator(Memory("queue", 128), to_rng(1), np.arange(d), lambda_p=SMALLEST_LAMBDA_P)
    shares = []
    for _ in range(10):
        batch = torch.from_numpy(rng.normal(size=(n, d)) + rng.normal(size=(n, 1)))
        shares.append(effective_share(weights(batch, torch.ones(n, dtype=torch.float64))))
    assert min(shares) > 2 / n
    assert np.mean(shares) < 0.999
