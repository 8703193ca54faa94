"""Optimisers, and minimisation without batches."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from stablemiss.training import adamw, minimise


def test_weight_decay_shrinks_matrices_but_not_vectors():
    matrix, vector = torch.ones(2, 2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimiser = adamw(learning_rate=0.1, weight_decay=2.0)([matrix, vector])
    matrix.grad, vector.grad = torch.zeros(2, 2), torch.zeros(2)
    optimiser.step()
    torch.testing.assert_close(matrix.detach(), torch.full((2, 2), 0.8))
    torch.testing.assert_close(vector.detach(), torch.ones(2))


def test_the_first_step_has_the_size_of_the_learning_rate():
    vector = torch.zeros(3, requires_grad=True)
    optimiser = adamw(learning_rate=0.01)([vector])
    vector.grad = torch.tensor([5.0, -0.3, 100.0])
    optimiser.step()
    torch.testing.assert_close(vector.detach(), torch.tensor([-0.01, 0.01, -0.01]))


@pytest.mark.parametrize("seed", range(3))
def test_steps_are_those_of_torch(seed):
    torch.manual_seed(seed)
    ours, theirs = (
        [torch.ones(4, 3, requires_grad=True), torch.ones(3, requires_grad=True)] for _ in range(2)
    )
    inputs = torch.randn(20, 4)
    optimiser = adamw(learning_rate=0.03, weight_decay=0.2)(ours)
    groups = [{"params": theirs[:1], "weight_decay": 0.2}, {"params": theirs[1:], "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.03)
    for step in range(20):
        for (matrix, vector), one in ((ours, optimiser), (theirs, reference)):
            for group in one.param_groups:
                group["lr"] = 0.03 / (1 + step)  # as a schedule does
            (inputs @ matrix + vector).sin().square().mean().backward()
            one.step()
            one.zero_grad()
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other)


def test_parameters_without_a_gradient_stay():
    """They are not decayed either."""
    used, unused = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
    optimiser = adamw(weight_decay=0.5)([used, unused])
    used.grad = torch.zeros(2, 2)
    optimiser.step()
    assert torch.equal(unused.detach(), torch.ones(2, 2))
    assert (used < 1).all()


def test_the_strides_of_a_gradient_do_not_matter():
    gradient = torch.arange(6.0).reshape(3, 2)
    ours, theirs = (torch.zeros(3, 2, requires_grad=True) for _ in range(2))
    for parameter, strided in ((ours, gradient), (theirs, gradient.T.contiguous().T)):
        optimiser = adamw(0.1)([parameter])
        for grad in (strided, strided - 1):
            parameter.grad = grad
            optimiser.step()
    torch.testing.assert_close(ours, theirs)


def test_training_does_not_load_the_compiler_of_torch():
    """It takes more than a second in each new process."""
    code = (
        "import sys, numpy as np; from stablemiss import MissingRegressor;"
        "X = np.random.default_rng(0).normal(size=(60, 2));"
        "MissingRegressor('column_net', params={'steps': 5}).fit(X, X[:, 0]);"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0


def test_a_weight_decay_that_would_change_the_sign_of_matrices_raises():
    adamw(learning_rate=0.1, weight_decay=10.0)
    with pytest.raises(ValueError, match=r"weight_decay must be at most 1 / learning_rate = 10.* got 11"):
        adamw(learning_rate=0.1, weight_decay=11.0)


def point(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def quadratic(position, scale=1.0):
    """A loss whose minimum, one, is at (1, …, 1)."""
    return lambda: (scale * (position - 1.0).square()).sum() + 1.0


def valley(position):
    """Rosenbrock's function plus one. Its valley is curved, so that a full step is often too long."""
    x, y = position
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2 + 1.0


@pytest.mark.parametrize("condition", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_minimise_reaches_the_minimum_of_a_badly_scaled_quadratic(condition, seed):
    position = point(*np.random.default_rng(seed).normal(size=10))
    minimise(quadratic(position, torch.logspace(0, np.log10(condition), 10)), position)
    np.testing.assert_allclose(position.detach(), 1.0, atol=1e-2)


@pytest.mark.parametrize("start", [(-1.2, 1.0), (2.0, -1.0), (0.0, 3.0)])
def test_minimise_shortens_steps_that_are_too_long(start):
    position = point(*start)
    minimise(lambda: valley(position), position, tolerance=1e-8)
    np.testing.assert_allclose(position.detach(), 1.0, atol=1e-2)


@pytest.mark.parametrize("seed", range(3))
def test_minimise_never_raises_the_loss(seed):
    position, losses = point(*np.random.default_rng(seed).normal(size=2)), []
    minimise(lambda: valley(position), position, report=lambda step: losses.append(valley(position).item()))
    assert losses == sorted(losses, reverse=True)


def test_minimise_ends_when_a_step_lowers_the_loss_by_less_than_the_tolerance():
    steps = {}
    for tolerance in (1e-1, 1e-8):
        position = point(*torch.linspace(-3.0, 3.0, 10))
        loss = quadratic(position, torch.logspace(0, 3, 10))
        steps[tolerance] = minimise(loss, position, max_steps=200, tolerance=tolerance)
    assert 1 < steps[1e-1] < steps[1e-8] < 200
    # Nothing is left to gain: the second step notices.
    assert minimise(loss, position, max_steps=200) == 2


def test_minimise_reports_every_step_and_takes_at_most_max_steps():
    position, reported = point(-1.2, 1.0), []
    n_steps = minimise(lambda: valley(position), position, 5, tolerance=0.0, report=reported.append)
    assert n_steps == 5
    assert reported == [1, 2, 3, 4, 5]


def test_a_report_of_minimise_can_stop_it_and_the_progress_made_is_kept():
    position = point(4.0, 4.0)
    loss = quadratic(position, torch.tensor([1.0, 30.0]))
    before = loss().item()

    def stop(step):
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minimise(loss, position, report=stop)
    assert 1.0 < loss().item() < before
    assert torch.isfinite(position).all()


def test_minimise_works_inside_no_grad():
    position = point(4.0)
    with torch.no_grad():
        minimise(quadratic(position), position)
        assert not torch.is_grad_enabled()
    assert position.item() == pytest.approx(1.0)


def test_earlier_gradients_have_no_influence_on_minimise_and_other_tensors_get_none():
    clean, dirty, other = point(4.0), point(4.0), point(2.0)
    dirty.grad = torch.full_like(dirty, 1e9)
    for position in (clean, dirty):
        minimise(lambda position=position: other.detach() * quadratic(position)() + 0 * other.sum(), position)
    assert clean.item() == dirty.item() == pytest.approx(1.0)
    assert other.grad is None
