"""Row weights as parameters, and their penalised objective."""

import numpy as np
import pytest
import torch

from stablemiss.decorrelation import Dependence, RandomFeatures, critical_gamma
from stablemiss.decorrelation.objective import Objective, RowWeights


@pytest.mark.parametrize("seed", range(3))
def test_the_critical_penalty_is_the_largest_gain_per_spread(seed):
    """No small change gains more than γ_c times the spread it causes, and the steepest one gains as much."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(200, 4)) + rng.normal(size=(200, 1))
    mask = rng.random((200, 4)) < rng.choice([0.4, 0.9], size=(200, 1))
    measure = Dependence(torch.from_numpy(values), torch.from_numpy(mask), RandomFeatures.draw(4, 3, rng))
    base = torch.from_numpy(rng.uniform(0.2, 2.0, size=200))
    base = base / base.mean()

    def gain_per_spread(direction):
        ratio = 1 + 1e-5 * direction / direction.std(correction=0)
        weight = base * ratio
        gained = sum(measure(base)[0].values()) - sum(measure(weight / weight.mean())[0].values())
        return gained / float(ratio.std(correction=0) / ratio.mean())

    critical = critical_gamma(measure, base)
    random_gains = [gain_per_spread(torch.from_numpy(rng.normal(size=200))) for _ in range(20)]
    _, gradient = measure(base)
    steepest = -base * (gradient - (gradient * base).mean())
    assert max(random_gains) < critical
    assert gain_per_spread(steepest - steepest.mean()) == pytest.approx(critical, rel=1e-2)


def linear_measure(weight):
    """A loss that falls if weight moves to the last rows."""
    slope = torch.linspace(1.0, -1.0, len(weight), dtype=weight.dtype)
    return {"linear": float(slope @ weight) + 10.0}, slope


def test_the_gradient_of_the_objective_equals_finite_differences():
    weights = RowWeights(torch.linspace(0.5, 1.5, 6, dtype=torch.float64), np.random.default_rng(0))
    objective = Objective(gamma=0.7, scale=2.0)
    objective(weights, linear_measure).backward()
    for i in range(6):
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                weights.theta[i] += step
                values.append(float(objective(weights, linear_measure)))
                weights.theta[i] -= step
        assert float(weights.theta.grad[i]) == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-6)


@pytest.mark.parametrize(("gamma", "is_better"), [(0.0, True), (1e6, False)])
def test_the_best_weights_are_the_base_weights_unless_the_fitted_ones_are_better(gamma, is_better):
    weights = RowWeights(torch.ones(5, dtype=torch.float64), np.random.default_rng(0))
    with torch.no_grad():
        weights.theta.copy_(torch.arange(5.0))
    best = Objective(gamma).best(weights, linear_measure)
    assert torch.equal(best, weights() if is_better else weights.base)
