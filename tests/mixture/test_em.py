import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from stablemiss.mixture.em import EMRows, Parameters, SufficientStatistics, expect, maximise
from stablemiss.mixture.workers import ThreadWorkers


def make_rows(seed, n=400, d=5, share=0.6):
    """Incomplete rows of two Gaussians; the last column is always observed, like a target."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, d, d)) / np.sqrt(d)
    values = np.einsum("nij,nj->ni", roots[rng.integers(2, size=n)], rng.normal(size=(n, d)))
    mask = rng.random((n, d)) < share
    mask[:, -1] = True
    return EMRows(values, mask, rng.uniform(0.5, 1.5, size=n))


def make_start(seed, n_components=2, d=5):
    rng = np.random.default_rng(seed + 100)
    root = rng.normal(size=(n_components, d, d)) / np.sqrt(d)
    covariances = torch.from_numpy(root @ root.transpose(0, 2, 1) + 0.3 * np.eye(d))
    log_weights = torch.from_numpy(np.log(rng.dirichlet(np.full(n_components, 5.0))))
    means = torch.from_numpy(rng.normal(size=(n_components, d)) / 5)
    zero = torch.zeros((), dtype=torch.float64)
    return Parameters(log_weights, means, covariances, log_between=zero, log_shared=zero)


def naive_sums(rows, parameters):
    """The E-step as loops over rows and components, with explicit conditional covariances."""
    mixture = parameters.mixture()
    values, mask, row_weight = rows.values.numpy(), rows.mask.numpy(), rows.weight.numpy()
    share = mixture.responsibilities(values, mask) * row_weight[:, None]
    n_components, d = mixture.means.shape
    first, second = np.zeros((n_components, d)), np.zeros((n_components, d, d))
    for k in range(n_components):
        mean, covariance = mixture.means[k], mixture.covariances[k]
        for i, o in enumerate(mask):
            coef = covariance[:, o] @ np.linalg.inv(covariance[np.ix_(o, o)])
            deviation = coef @ (values[i, o] - mean[o])
            conditional = covariance - coef @ covariance[o]
            first[k] += share[i, k] * deviation
            second[k] += share[i, k] * (np.outer(deviation, deviation) + conditional)
    return share.sum(axis=0), first, second


@pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
def test_sums_equal_naive_loops(share):
    rows, parameters = make_rows(0, n=120, share=share), make_start(0)
    with ThreadWorkers() as workers:
        sums = expect(rows, parameters, workers)
        likelihood = rows.log_likelihood(parameters, workers)
    weight, first, second = naive_sums(rows, parameters)
    np.testing.assert_allclose(sums.weight, weight, atol=1e-9)
    np.testing.assert_allclose(sums.first, first, atol=1e-9)
    np.testing.assert_allclose(sums.second, second, atol=1e-9)
    assert sums.log_likelihood == pytest.approx(likelihood, abs=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_likelihood_never_decreases(seed):
    rows, parameters = make_rows(seed), make_start(seed)
    path = []
    with ThreadWorkers() as workers:
        for _ in range(25):
            sums = expect(rows, parameters, workers)
            path.append(sums.log_likelihood)
            parameters = maximise(sums, parameters, n_targets=0, ridge=1e-9)
    assert np.diff(path).min() > -1e-7
    assert path[-1] > path[0] + 0.1


def test_sums_of_batches_are_those_of_all_rows():
    rows, start = make_rows(0), make_start(0)
    with ThreadWorkers() as workers:
        expected = expect(rows, start, workers)
        first, second = (
            expect(rows.take(part), start, workers) for part in np.array_split(np.arange(len(rows)), [130])
        )
    merged = first.merged(second)
    assert merged.log_likelihood == pytest.approx(expected.log_likelihood)
    for name in ("weight", "first", "second"):
        torch.testing.assert_close(getattr(merged, name), getattr(expected, name))


def test_parameters_are_restored_from_their_coordinates():
    parameters = make_start(3)
    restored = parameters.at(parameters.coordinates())
    for name in ("log_weights", "means", "covariances", "log_between", "log_shared"):
        torch.testing.assert_close(getattr(restored, name), getattr(parameters, name))


def test_any_coordinates_give_a_valid_mixture():
    parameters = make_start(4)
    step = torch.from_numpy(np.random.default_rng(0).normal(size=parameters.coordinates().shape))
    moved = parameters.at(parameters.coordinates() + step)
    assert torch.linalg.eigvalsh(moved.covariances).min() > 0
    assert float(moved.log_weights.exp().sum()) == pytest.approx(1.0)


def test_components_with_the_same_regression_are_shrunk_to_it():
    """If y = x·a in all components, the variance between their coefficients shrinks towards zero. With
    opposite coefficients it does not."""
    rng = np.random.default_rng(0)
    n, coef = 2000, np.array([1.0, -1.0, 0.5])
    group = rng.integers(2, size=n)
    x = rng.normal(size=(n, 3)) + 6 * group[:, None]
    noise = 0.1 * rng.normal(size=n)
    between = {}
    for name, sign in (("shared", 1), ("opposite", -1)):
        y = np.where(group == 1, sign, 1) * ((x - 6 * group[:, None]) @ coef) + noise
        table = np.column_stack([x, y])
        rows = EMRows((table - table.mean(0)) / table.std(0), np.ones(table.shape, dtype=bool), np.ones(n))
        start = make_start(1, d=4)
        means = torch.from_numpy(np.stack([rows.values.numpy()[group == g].mean(0) for g in (0, 1)]))
        parameters = Parameters(
            start.log_weights, means, start.covariances, start.log_between, start.log_shared
        )
        with ThreadWorkers() as workers:
            for _ in range(60):
                parameters = maximise(expect(rows, parameters, workers), parameters, n_targets=1, ridge=0.1)
        between[name] = float(parameters.log_between.exp())
    assert between["shared"] < 1e-3 < 1e-1 < between["opposite"]


def test_an_empty_component_stays_finite():
    rows, parameters = make_rows(5), make_start(5)
    far = parameters.means.clone()
    far[0] += 1e4
    parameters = Parameters(
        parameters.log_weights, far, parameters.covariances, *[torch.zeros(()).double()] * 2
    )
    with ThreadWorkers() as workers:
        parameters = maximise(expect(rows, parameters, workers), parameters, n_targets=1, ridge=0.1)
    assert torch.isfinite(parameters.means).all()
    assert torch.linalg.eigvalsh(parameters.covariances).min() > 0


def log_marginal(x, y, label, noise, between, shared):
    """log p(y | x, labels) with all coefficients integrated out, from the definition of the model."""
    covariance = shared * x @ x.T
    for k in np.unique(label):
        rows = np.flatnonzero(label == k)
        covariance[np.ix_(rows, rows)] += noise[k] * np.eye(len(rows)) + between * x[rows] @ x[rows].T
    return multivariate_normal.logpdf(y, cov=covariance)


@pytest.mark.parametrize("apart", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_pooled_regressions_never_decrease_the_marginal_likelihood(seed, apart):
    """With known labels and complete rows the M-step is an EM algorithm for noise and variances."""
    rng = np.random.default_rng(seed)
    sizes, d = (60, 60, 12), 3
    label = np.repeat(range(3), sizes)
    x = rng.normal(size=(sum(sizes), d))
    coef = rng.normal(size=d) + apart * rng.normal(size=(3, d))
    y = (x * coef[label]).sum(axis=1) + 0.5 * rng.normal(size=len(x))
    for k in range(3):
        x[label == k] -= x[label == k].mean(axis=0)
        y[label == k] -= y[label == k].mean()
    table = np.column_stack([x, y])
    second = torch.from_numpy(np.stack([table[label == k].T @ table[label == k] for k in range(3)]))
    weight = torch.tensor(sizes, dtype=torch.float64)
    sums = SufficientStatistics(weight, torch.zeros(3, d + 1, dtype=torch.float64), second, 0.0)
    parameters = make_start(seed, n_components=3, d=d + 1)
    path = []
    for _ in range(40):
        parameters = maximise(sums, parameters, n_targets=1, ridge=1e-9)
        noise = 1 / torch.linalg.inv(parameters.covariances)[:, -1, -1].numpy()
        between, shared = float(parameters.log_between.exp()), float(parameters.log_shared.exp())
        path.append(log_marginal(x, y, label, noise, between, shared))
    assert np.diff(path).min() > -1e-6


def test_a_noisy_target_does_not_affect_the_others():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    exact = x @ [1.0, -1.0, 0.5]
    targets = np.column_stack([exact / exact.std(), rng.normal(size=(300, 2))])
    rows = EMRows(np.hstack([x, targets]), np.ones((300, 6), dtype=bool), np.ones(300))
    parameters = make_start(0, n_components=1, d=6)
    with ThreadWorkers() as workers:
        for _ in range(30):
            parameters = maximise(expect(rows, parameters, workers), parameters, n_targets=3, ridge=0.1)
    residual_variance = 1 / torch.linalg.inv(parameters.covariances[0, :4, :4])[-1, -1]
    assert float(residual_variance) < 1e-2
