"""Feature importance finds the columns that predict the target, even if they are redundant."""

import numpy as np
import pytest

from stablemiss.anymask.importance import feature_importance, univariate_importance
from stablemiss.data import MaskedData
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression


@pytest.mark.parametrize("seed", range(3))
def test_redundant_columns_are_both_important(seed):
    rng = to_rng(seed)
    y = rng.normal(size=400)
    table = np.column_stack([np.exp(y), -(y**3), rng.normal(size=400), np.ones(400)])
    table[::3, 0] = np.nan
    importance = univariate_importance(table, y, is_classes=False)
    np.testing.assert_allclose(importance[:2], 1.0)
    assert importance[2] < 0.05
    assert importance[3] == 0
    by_class = univariate_importance(table, (y > 0).astype(int), is_classes=True)
    assert (by_class[:2] > 0.7).all()
    assert by_class[2] < 0.05


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_importance_is_summed_over_the_encoded_columns_of_a_group(kind):
    rng = to_rng(0)
    values = rng.normal(size=(300, 4))
    if kind == "regression":
        task, target = Regression.of(values[:, 1]), values[:, 1:2]
    else:
        task, target = Classification(np.arange(2)), (values[:, 1] > 0).astype(int)
    data = MaskedData.of(values, np.ones(values.shape), target, groups=np.array([0, 3, 3, 5]))
    importance = feature_importance(data, task, rng)
    assert importance.shape == (3,)
    assert importance[1] > 0.9 * importance.sum()
