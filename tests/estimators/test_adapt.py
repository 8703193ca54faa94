"""Adapting a fitted AnyMask to the missingness of new rows without targets.

y = a + b [c > 0] + noise, where b follows the sign of a: if a dies, b is what is left. In training a is never
missing, and mask augmentation hides it only now and then.
"""

import numpy as np
import pandas as pd
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, load_model
from stablemiss.estimators import UnknownCategoryWarning
from stablemiss.estimators.training_rows import TrainingRows

pytestmark = pytest.mark.xdist_group("test_adapt")
N = 600


def draw(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    X["b"] += np.sign(X["a"])
    X["town"] = np.array(["x", "y", "z"])[rng.integers(3, size=n)]
    return X, X["a"] + X["b"] * (X["c"] > 0) + 0.3 * rng.normal(size=n)


def dead(X):
    return X.assign(a=np.nan)


@pytest.fixture(scope="module")
def rows():
    return draw(N, 0)


@pytest.fixture(scope="module")
def model(rows):
    return AnyMaskRegressor(budget="fast", random_state=0, keep_training_rows=True).fit(*rows)


@pytest.fixture(scope="module")
def adapted(model, rows):
    return model.adapt(dead(draw(100, 1)[0]), *rows)


@pytest.fixture(scope="module")
def classifier(rows):
    X, y = rows
    model = AnyMaskClassifier(budget="fast", members=["mixture", "boosting"], random_state=0)
    return model.fit(X, np.where(y > 0, "up", "down"))


def rmse(model, X, y):
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


def test_the_adapted_model_is_as_accurate_under_the_new_masks_and_the_original_is_unchanged(model, adapted):
    X, y = draw(2000, 2)
    before = model.predict(X)
    assert rmse(adapted, dead(X), y) < 1.03 * rmse(model, dead(X), y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert not any(name.startswith("adapted") for name in model.predictor_.members)
    assert any(name.startswith("adapted") for name in adapted.predictor_.members)


def test_intervals_explanations_and_scores_refer_to_the_new_masks(model, adapted):
    X, y = draw(2000, 3)
    low, high = adapted.predict_interval(dead(X), coverage=0.9).T
    assert 0.86 < np.mean((low <= y) & (y <= high)) < 0.95
    assert adapted.validation_scores_["rmse"] > 1.2 * model.validation_scores_["rmse"]
    assert adapted.validation_loss_ > 1.2 * model.validation_loss_
    explained = adapted.explain_missing(dead(X))
    assert (explained["most_informative_missing"] == "a").all()
    assert explained["error"].mean() == pytest.approx(rmse(adapted, dead(X), y), rel=0.2)


def test_the_same_seed_gives_the_same_model_with_given_and_with_kept_rows(model, adapted):
    X, _ = draw(50, 4)
    kept = model.adapt(dead(draw(100, 1)[0]))
    np.testing.assert_allclose(kept.predict(dead(X)), adapted.predict(dead(X)))


def test_an_adapted_model_is_saved_and_adapted_again(adapted, tmp_path):
    X, _ = draw(50, 5)
    adapted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(dead(X)), adapted.predict(dead(X)))
    again = loaded.adapt(X.assign(c=np.nan))
    names = [name.removeprefix("adapted ") for name in again.predictor_.members]
    assert max(names.count(name) for name in names) <= 2  # adapted members are not adapted once more
    assert np.isfinite(again.predict(X.assign(c=np.nan))).all()


@pytest.mark.parametrize("n", [1, 3])
def test_few_new_rows_and_rows_with_everything_missing(model, n):
    X, _ = draw(n, 6)
    nothing = X.assign(a=np.nan, b=np.nan, c=np.nan, town=None)
    constant = model.adapt(nothing).predict(nothing)
    np.testing.assert_allclose(constant, constant[0])
    assert abs(constant[0] - 0.4) < 0.5  # the mean of y, up to the noise of 600 rows
    assert np.isfinite(model.adapt(X).predict(X)).all()


def test_classes(classifier, rows):
    X, y = rows
    labels = np.where(y > 0, "up", "down")
    adapted = classifier.adapt(dead(X[:50]), X, labels)
    new, target = draw(1000, 7)
    truth = np.where(target > 0, "up", "down")
    assert adapted.score(dead(new), truth) > classifier.score(dead(new), truth) - 0.02
    assert adapted.predict_set(dead(new), coverage=0.9).shape == (1000, 2)


def test_rows_of_weight_zero_stay_ignored(rows):
    """They are not among the rows that were used, so their targets may even differ."""
    X, y = rows
    weight = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    model = AnyMaskRegressor(budget="fast", members=["boosting"], random_state=0).fit(X, y, weight)
    changed = y.where(weight > 0, 1e6)
    results = [model.adapt(dead(X[:20]), X, target, weight).predict(dead(X)) for target in (y, changed)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, None), "given together"),
        (lambda X, y: (X[:100], y[:100]), "600 rows and the columns .* got 100 rows"),
        (lambda X, y: (X[["b", "a", "c", "town"]], y), r"got 600 rows and the columns \['b', 'a'"),
        (lambda X, y: (X, y[::-1]), "y_train differs from the targets"),
        (lambda X, y: (X.to_numpy(), y), "columns None"),
    ],
)
def test_other_rows_than_those_of_fit_are_refused(model, rows, change, message):
    with pytest.raises(ValueError, match=message):
        model.adapt(dead(rows[0][:5]), *change(*rows))


def test_new_rows_are_checked_like_those_of_predict(model, rows):
    with pytest.raises(ValueError, match="allow_missing_columns=True"):
        model.adapt(rows[0].drop(columns="a"))
    with pytest.raises(ValueError, match="minimum of 1"):
        model.adapt(rows[0][:0])
    with pytest.warns(UnknownCategoryWarning, match="'w'"):
        model.adapt(rows[0][:2].assign(town="w"))


def test_a_model_without_its_training_rows_says_what_to_pass(classifier, tmp_path, rows):
    with pytest.raises(ValueError, match="keep_training_rows=True"):
        classifier.adapt(dead(rows[0][:5]))
    classifier.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    loaded.training_rows_ = None  # as in files of earlier versions
    with pytest.raises(ValueError, match="Fit it again"):
        loaded.adapt(dead(rows[0][:5]), rows[0], np.where(rows[1] > 0, "up", "down"))


def test_training_rows_are_stored_without_loss(model):
    stored = model.training_rows_
    copy = TrainingRows.from_state(stored.state(), model.encoder_.groups, model.task_)
    np.testing.assert_array_equal(copy.is_train, stored.is_train)
    np.testing.assert_array_equal(copy.is_valid, stored.is_valid)
    assert (stored.is_train ^ stored.is_valid).all()
    for one, other in zip(copy.data, stored.data, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.target, other.target)
    for name, wrong in {"n_rows": 0, "digest": 3, "is_train": np.zeros(3, np.uint8), "data": [1, 2]}.items():
        with pytest.raises(ValueError, match="must be"):
            TrainingRows.from_state(stored.state() | {name: wrong}, model.encoder_.groups, model.task_)
