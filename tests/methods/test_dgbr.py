"""DGBR: the balance of CRLR for the code of an auto-encoder."""

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.decorrelation import GlobalBalance
from stablemiss.methods.constant import Constant
from stablemiss.methods.crlr import CRLR
from stablemiss.methods.dgbr import DGBR, BalancedAutoEncoder, CodeRegression
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression
from stablemiss.training import Rows

CPU = torch.device("cpu")


def draw(seed, kind="regression", n=300, d=4, groups=None):
    """Correlated incomplete columns and a target that is not linear in them; training and validation rows."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, 1)) + rng.normal(size=(n, d))
    signal = values[:, 0] + 0.3 * values[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    y = signal if kind == "regression" else np.digitize(signal, np.quantile(signal, [0.3, 0.7]))
    task = Regression.of(y) if kind == "regression" else Classification.of(y)
    mask = rng.uniform(size=(n, d)) < 0.8
    weight = rng.uniform(0.5, 2.0, size=n)
    data = MaskedData.of(values, mask, task.encode(y), weight, groups)
    return data.rows(np.arange(n - n // 5)), data.rows(np.arange(n - n // 5, n)), task


def fit(method, train, valid, task):
    return method.fit(train, valid, task, to_rng(0), NullProgress())


@pytest.mark.parametrize("groups", [None, [0, 1, 1, 2]], ids=["columns", "categories"])
@pytest.mark.parametrize("kind", ["regression", "three classes"])
@pytest.mark.parametrize("seed", range(3))
def test_with_the_identity_as_encoder_it_equals_crlr(seed, kind, groups):
    train, valid, task = draw(seed, kind, groups=groups)
    settings = {"balance": 10.0, "penalty": 10.0, "learning_rate": 0.03, "max_steps": 100}
    crlr = fit(CRLR(**settings), train, valid, task)
    dgbr = fit(DGBR(hidden=(), **settings), train, valid, task)
    assert crlr.effective_share < 0.95
    np.testing.assert_allclose(dgbr.weight, crlr.weight, atol=2e-3)
    outputs = [predictor.predict(valid.values, valid.mask) for predictor in (crlr, dgbr)]
    np.testing.assert_allclose(outputs[1], outputs[0], atol=2e-3)


def model_of(method, train, valid, task):
    """Auto-encoder and weights as they are before training, and the standardised columns."""
    columns = np.where(train.mask, train.values - train.column_means(), 0.0)
    table = columns / np.sqrt(np.average(columns**2, axis=0, weights=train.weight))
    balance = GlobalBalance(table, train.groups, CPU)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = CodeRegression(train.n_columns, task.d_output, method.hidden)
        return BalancedAutoEncoder(
            network, Rows.of(train, CPU), Rows.of(valid, CPU), task, balance, method
        ), table


@pytest.mark.parametrize("seed", range(3))
def test_the_imbalance_is_that_of_the_codes_without_the_treatment(seed):
    """By loops over the treatments, with the column of the treatment set to zero."""
    train, valid, task = draw(seed)
    model, table = model_of(DGBR(hidden=(3,)), train, valid, task)
    weight = to_rng(seed).uniform(size=len(train))

    def encode(columns):
        with torch.no_grad():
            return model.network.encoder(torch.tensor(columns, dtype=torch.float32)).double().numpy()

    code = encode(table)
    centre = np.average(code, axis=0, weights=train.weight)
    scale = np.sqrt(np.average((code - centre) ** 2, axis=0, weights=train.weight))
    total = 0.0
    for j in range(train.n_columns):
        without = table.copy()
        without[:, j] = 0.0
        treated = table[:, j] > np.median(table[:, j])
        means = [np.average(encode(without)[t], axis=0, weights=weight[t]) for t in (treated, ~treated)]
        total += (((means[0] - means[1]) / scale) ** 2).sum()
    with torch.no_grad():
        fitted = model.eval().imbalance(torch.tensor(weight, dtype=torch.float32))
    assert float(fitted) == pytest.approx(total, rel=1e-3)


def test_a_random_subset_of_the_treatments_estimates_the_imbalance_without_bias():
    train, valid, task = draw(0, d=6)
    model, _ = model_of(DGBR(hidden=(3,), n_treatments=2), train, valid, task)
    weight = torch.ones(len(train))
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        exact = float(model.eval().imbalance(weight))
        estimates = [float(model.train().imbalance(weight)) for _ in range(400)]
    assert np.std(estimates) > 0.01 * exact
    assert np.mean(estimates) == pytest.approx(exact, rel=0.1)


def test_smaller_codes_are_not_better_balanced():
    """The trap of a balance that shrinks with the code: the decoder and the head could undo the shrinking."""
    train, valid, task = draw(0)
    model, _ = model_of(DGBR(hidden=(3,)), train, valid, task)
    weight = torch.ones(len(train))
    with torch.no_grad():
        before = float(model.eval().imbalance(weight))
        model.network.encoder.append(torch.nn.Linear(3, 3, bias=False))
        model.network.encoder[-1].weight.copy_(0.1 * torch.eye(3))
        assert float(model.imbalance(weight)) == pytest.approx(before, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_balance_lowers_the_imbalance_of_the_code_that_it_learns(seed):
    train, valid, task = draw(seed, n=500)
    imbalances = []
    for balance in (0.0, 10.0):
        method = DGBR(hidden=(4,), balance=balance, penalty=10.0, learning_rate=0.05, max_steps=200)
        predictor = fit(method, train, valid, task)
        model, _ = model_of(method, train, valid, task)
        model.network = predictor.network.float()
        weight = torch.as_tensor(predictor.weight, dtype=torch.float32)
        with torch.no_grad():
            imbalances.append(float(model.eval().imbalance(weight)))
    assert imbalances[1] < 0.3 * imbalances[0]


def test_reconstruction_makes_the_code_represent_the_columns():
    """The first column is unrelated to the target; a linear map recovers it from the code if λ₂ is large."""
    rng = to_rng(0)
    values = rng.normal(size=(600, 2))
    task = Regression.of(values[:, 1])
    data = MaskedData.of(values, values == values, task.encode(values[:, 1]))
    train, valid = data.rows(np.arange(500)), data.rows(np.arange(500, 600))
    explained = []
    for reconstruction in (0.0, 10.0):
        method = DGBR(
            hidden=(2,), reconstruction=reconstruction, balance=0.0, learning_rate=0.05, max_steps=300
        )
        network = fit(method, train, valid, task).network
        with torch.no_grad():
            code = network.encoder(network.columns(torch.tensor(values), torch.ones(600, 2))).numpy()
        code = np.column_stack([code, np.ones(600)])
        residual = values[:, 0] - code @ np.linalg.lstsq(code, values[:, 0], rcond=None)[0]
        explained.append(1 - residual.var() / values[:, 0].var())
    assert explained[1] > 0.9
    assert explained[0] < explained[1] - 0.1


@pytest.mark.parametrize("seed", range(3))
def test_on_independent_columns_it_is_better_than_the_constant(seed, errors_on_gaussian_ind):
    """Gaussian-Ind with half of the values missing in training and test."""
    methods = {"dgbr": DGBR(hidden=(16,), learning_rate=0.03, max_steps=200), "constant": Constant()}
    rmse = {label: errors[0] for label, errors in errors_on_gaussian_ind(methods, seed, n_rows=2048).items()}
    assert rmse["dgbr"] < 0.9 * rmse["constant"]
    assert rmse["dgbr"] < 1.2 * rmse["optimal"]
