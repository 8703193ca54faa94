"""What is specific to boosting: mask augmentation, models stored as text, tiny tables."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from stablemiss.base import boosted_trees
from stablemiss.data import MaskedData
from stablemiss.export.trees import read_trees
from stablemiss.methods import Boosting
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression


def draw(seed, n=600, d=4, observed=1.0):
    rng = to_rng(seed)
    common = rng.normal(size=(n, 1))
    values = common + 0.5 * rng.normal(size=(n, d))
    mask = rng.uniform(size=(n, d)) < observed
    return values, mask, values.sum(axis=1)


def fit(method, values, mask, y, task=None, seed=0):
    task = task or Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    n = len(data)
    train, valid = data.rows(np.arange(n - n // 5 - 1)), data.rows(np.arange(n - n // 5 - 1, n))
    return method.fit(train, valid, task, to_rng(seed), NullProgress()), task


def rmse(predictor, task, values, mask, y):
    return np.sqrt(np.mean((task.decode(predictor.predict(values, mask)) - y) ** 2))


@pytest.mark.parametrize("seed", range(3))
def test_mask_augmentation_helps_if_a_column_is_missing_that_was_always_observed(seed):
    values, mask, y = draw(seed)
    plain, task = fit(Boosting(n_trees=200), values, mask, y)
    augmented, _ = fit(Boosting(n_trees=200, masked_copies=4), values, mask, y)
    new, _, new_y = draw(seed + 100)
    new_mask = np.ones_like(new, dtype=bool)
    new_mask[:, 0] = False
    assert rmse(augmented, task, new, new_mask, new_y) < 0.8 * rmse(plain, task, new, new_mask, new_y)


def test_the_number_of_threads_does_not_change_the_trees(monkeypatch):
    monkeypatch.setattr(boosted_trees, "MIN_CELLS_FOR_THREADS", 0)
    values, mask, y = draw(0, observed=0.8)
    texts = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="openmp"):
            texts.append(fit(Boosting(n_trees=3, n_leaves=8), values, mask, y)[0].models)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("n", [3, 5, 12, 30])
@pytest.mark.parametrize("masked_copies", [0, 2])
def test_predictions_for_tiny_tables_are_within_the_range_of_the_target(n, masked_copies):
    values, mask, y = draw(n, n=n, observed=0.7)
    predictor, task = fit(Boosting(masked_copies=masked_copies), values, mask, y)
    prediction = task.decode(predictor.predict(values, mask))
    assert prediction.min() >= y.min() - 1e-6
    assert prediction.max() <= y.max() + 1e-6


def test_a_table_of_thirty_rows_is_still_split():
    values, mask, y = draw(0, n=30)
    predictor, task = fit(Boosting(), values, mask, y)
    assert rmse(predictor, task, values, mask, y) < 0.7 * y.std()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_outputs_are_log_odds_per_class(n_classes):
    values, mask, y = draw(3, n=900, observed=0.9)
    labels = np.digitize(y, [-1.0, 2.0][: n_classes - 1])
    predictor, task = fit(Boosting(n_trees=100), values, mask, labels, Classification(np.arange(n_classes)))
    probabilities = task.probabilities(predictor.predict(values, mask))
    assert probabilities.shape == (900, n_classes)
    assert (probabilities.argmax(axis=1) == labels).mean() > 0.85
    np.testing.assert_allclose(probabilities.mean(axis=0), np.bincount(labels) / 900, atol=0.05)
    if n_classes == 2:
        assert (predictor.predict(values, mask)[:, 0] == 0).all()


def test_a_table_without_any_observed_value_gives_the_mean():
    values, mask, y = draw(0, n=100)
    predictor, task = fit(Boosting(), values, np.zeros_like(mask), y)
    prediction = task.decode(predictor.predict(values, np.zeros_like(mask)))
    np.testing.assert_allclose(prediction, y[:79].mean(), atol=0.2)


def test_without_validation_rows_early_stopping_uses_the_training_rows():
    values, mask, y = draw(0, n=80)
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    predictor = Boosting(n_trees=20).fit(data, data.rows(np.arange(0)), task, to_rng(0), NullProgress())
    assert np.isfinite(predictor.predict(values, mask)).all()


def test_trees_after_the_best_round_are_dropped():
    """On pure noise the validation loss is lowest early, so the model must be small."""
    rng = to_rng(0)
    values, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    predictor, _ = fit(Boosting(patience=30), values, np.ones((300, 3), dtype=bool), y)
    n_trees = [text.count("\nTree=") for text in predictor.models]
    assert max(n_trees) < 30


def test_fewer_features_per_tree_use_more_columns():
    """Two copies of a column: all trees split on the first, unless they may use only one of them."""
    x = to_rng(0).normal(size=(500, 1))
    values = np.hstack([x, x])
    task = Regression.of(x)
    data = MaskedData.of(values, np.ones(values.shape, bool), task.encode(x))
    used = []
    for max_features in (1.0, 0.5):
        method = Boosting(n_trees=20, max_features=max_features)
        predictor = method.fit(data, data, task, to_rng(1), NullProgress())
        used.append({column for tree in read_trees(predictor.models[0]) for column in tree.feature.tolist()})
    assert used == [{0}, {0, 1}]
