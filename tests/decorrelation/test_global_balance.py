"""Global balance: treatments, and the differences between rows with and without them."""

import numpy as np
import pytest
import torch

from stablemiss.decorrelation import GlobalBalance
from stablemiss.decorrelation.global_balance import binarise

CPU = torch.device("cpu")


def imbalance_by_loops(table, weight, groups):
    """The definition: for each treatment and each column of another group, the difference of two means."""
    total = 0.0
    for j in range(table.shape[1]):
        treated = table[:, j] > np.median(table[:, j])
        for k in range(table.shape[1]):
            if groups[j] != groups[k]:
                means = [np.average(table[rows, k], weights=weight[rows]) for rows in (treated, ~treated)]
                total += (means[0] - means[1]) ** 2
    return total


@pytest.mark.parametrize("groups", [np.arange(4), np.array([0, 1, 1, 2])], ids=["columns", "categories"])
@pytest.mark.parametrize("seed", range(3))
def test_the_imbalance_is_the_sum_of_squared_differences_of_weighted_means(seed, groups):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(50, 1)) + rng.normal(size=(50, 4))
    weight = rng.uniform(size=50)
    fitted = GlobalBalance(table, groups, CPU).imbalance(torch.tensor(weight, dtype=torch.float32))
    assert float(fitted) == pytest.approx(imbalance_by_loops(table, weight, groups), rel=1e-4)


def test_every_column_that_varies_has_rows_with_and_without_the_treatment():
    """Also zeros and ones that are mostly zeros or mostly ones, and columns that are mostly imputed."""
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=200), rng.uniform(size=200) < 0.1, rng.uniform(size=200) < 0.9]
    columns.append(np.where(rng.uniform(size=200) < 0.2, rng.normal(size=200), 0.0))
    treated = binarise(np.column_stack([*columns, np.ones(200)]).astype(float))
    assert (treated.any(axis=0) & ~treated.all(axis=0)).tolist() == [True] * 4 + [False]
    np.testing.assert_array_equal(treated[:, 1:3], np.column_stack(columns[1:3]))
    assert treated[:, 0].mean() == 0.5


def test_a_constant_column_is_no_treatment():
    table = np.column_stack([np.arange(10.0), np.zeros(10), np.arange(10.0) ** 2])
    balance = GlobalBalance(table, np.arange(3), CPU)
    assert balance.columns.tolist() == [0, 2]
    assert np.isfinite(float(balance.imbalance(torch.ones(10))))


def test_weights_that_remove_all_rows_with_a_treatment_give_finite_gradients():
    table = np.random.default_rng(0).normal(size=(20, 2))
    balance = GlobalBalance(table, np.arange(2), CPU)
    weight = (1 - balance.treated[:, 0]).requires_grad_()
    balance.imbalance(weight).backward()
    assert torch.isfinite(weight.grad).all()
