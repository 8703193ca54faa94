"""Adapting a fitted AnyMask to the missingness of new rows without targets.

y = a + b [c > 0] + noise, where b follows the sign of a: if a dies, b is what is left. In training a is never
missing, and mask augmentation hides it only now and then.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit

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


def test_target_encoded_columns_are_encoded_as_in_fit(rows):
    """No row is encoded with its own target, so the folds may differ, but nothing else."""
    X, y = rows
    X = X.assign(street=np.array([f"street {k}" for k in range(30)])[np.arange(N) % 30])
    settings = {"budget": "fast", "members": ["boosting"], "random_state": 0, "keep_training_rows": True}
    model = AnyMaskRegressor(**settings).fit(X, y)
    kept, given = (model.adapt(dead(X[:20]), *labelled).predict(dead(X)) for labelled in ((), (X, y)))
    assert np.corrcoef(kept, given)[0, 1] > 0.95


def test_an_adapted_model_is_saved_and_refuses_to_be_adapted_again(adapted, tmp_path):
    X, _ = draw(50, 5)
    adapted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(dead(X)), adapted.predict(dead(X)))
    with pytest.raises(ValueError, match="Adapt the model that was fitted"):
        loaded.adapt(X)


def test_columns_that_died_are_expected_by_the_adapted_model(model, rows):
    """The original raises on them, but adapts."""
    strict = clone(model).set_params(members=["boosting"], on_unseen_missing="raise").fit(*rows)
    X, _ = draw(20, 8)
    with pytest.raises(ValueError, match="never missing when"):
        strict.predict(dead(X))
    adapted = strict.adapt(dead(X))
    assert np.isfinite(adapted.predict(dead(X))).all()
    with pytest.raises(ValueError, match="'c'"):
        adapted.predict(X.assign(c=np.nan))


def test_adapting_uses_the_masks_of_all_new_rows(rows):
    """The last new rows lack another column than the first ones: the model is calibrated for both."""
    X, y = rows
    new = pd.concat([X[:300], dead(X[300:])])
    model = AnyMaskRegressor(budget="fast", members=["boosting"], random_state=0).fit(X, y)
    scores = [model.adapt(part, X, y).validation_scores_["rmse"] for part in (new[:300], new, new[300:])]
    assert scores[0] < 0.95 * scores[1]
    assert scores[1] < 0.95 * scores[2]


def test_rows_of_a_splitter_that_shuffles_are_found_again(rows):
    split = ShuffleSplit(1, test_size=0.2, random_state=0)
    settings = {"budget": "fast", "members": ["boosting"], "random_state": 0}
    model = AnyMaskRegressor(validation_split=split, **settings).fit(*rows)
    new = dead(rows[0][:20])
    assert np.isfinite(model.adapt(new, *rows).predict(new)).all()


def test_several_outputs_and_groups(rows):
    X, y = rows
    targets = np.column_stack([y, 10 * X["c"]])
    model = AnyMaskRegressor(budget="fast", members=["mixture", "boosting"], random_state=0)
    model.fit(X, targets, groups=np.arange(N) // 10)
    adapted = model.adapt(dead(X[:20]), X, targets)
    assert adapted.predict(dead(X)).shape == (N, 2)
    assert adapted.predict_interval(dead(X[:3])).shape == (3, 2, 2)


def test_a_model_that_never_had_the_dead_column_is_not_better(adapted, rows):
    X, y = rows
    own = AnyMaskRegressor(budget="fast", random_state=0).fit(dead(X), y)
    new, target = draw(2000, 9)
    assert rmse(adapted, dead(new), target) < 1.03 * rmse(own, dead(new), target)


@pytest.mark.parametrize("n", [1, 3])
def test_few_new_rows_and_rows_with_everything_missing(model, rows, n):
    X, _ = draw(n, 6)
    nothing = X.assign(a=np.nan, b=np.nan, c=np.nan, town=None)
    constant = model.adapt(nothing).predict(nothing)
    np.testing.assert_allclose(constant, constant[0])
    assert constant[0] == pytest.approx(rows[1].mean(), abs=0.2)
    assert np.isfinite(model.adapt(X).predict(X)).all()


def test_classes(classifier, rows):
    X, y = rows
    labels = np.where(y > 0, "up", "down")
    adapted = classifier.adapt(dead(X[:50]), X, labels)
    new, target = draw(1000, 7)
    truth = np.where(target > 0, "up", "down")
    assert adapted.score(dead(new), truth) > classifier.score(dead(new), truth) - 0.02
    assert adapted.predict_set(dead(new), coverage=0.9).shape == (1000, 2)


def test_weights_are_those_of_fit_and_rows_of_weight_zero_stay_ignored(rows):
    """The latter are not among the rows that were used, so their targets may even differ."""
    X, y = rows
    weight = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    model = AnyMaskRegressor(budget="fast", members=["boosting"], random_state=0).fit(X, y, weight)
    changed = y.where(weight > 0, 1e6)
    results = [model.adapt(dead(X[:20]), X, target, weight).predict(dead(X)) for target in (y, changed)]
    np.testing.assert_array_equal(*results)
    with pytest.raises(ValueError, match="sample_weight differs"):
        model.adapt(dead(X[:20]), X, y, np.where(weight > 0, 1 + X["c"].abs(), 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, None), "given together"),
        (lambda X, y: (X[:100], y[:100]), "600 rows and the columns .* got 100 rows"),
        (lambda X, y: (X[["b", "a", "c", "town"]], y), r"got 600 rows and the columns \['b', 'a'"),
        (lambda X, y: (X, y[::-1]), "y_train or sample_weight differs"),
        (lambda X, y: (X.assign(a=2 * X["a"]), y), "X_train differs"),
        (lambda X, y: (X.assign(town="x"), y), "X_train differs"),
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
    assert loaded.training_rows_.data is None
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
    state = stored.state()
    nothing = np.zeros_like(state["is_valid"])
    wrong = {"n_rows": 0, "digest": 3, "is_train": np.zeros(3, np.uint8), "is_valid": nothing, "data": [1, 2]}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match="must"):
            TrainingRows.from_state(state | {name: value}, model.encoder_.groups, model.task_)
    train, valid = state["data"]
    changes = [
        {"values": np.ones_like(valid["values"]), "mask": valid["mask"] & False},
        {"weight": np.zeros_like(valid["weight"])},
        {
            "mask": np.arange(valid["mask"].size).reshape(valid["mask"].shape) % 2 == 0,
            "values": 0 * valid["values"],
        },
        {"target": valid["target"][:-1]},
    ]
    for change in changes:
        with pytest.raises(ValueError, match="must"):
            TrainingRows.from_state(
                state | {"data": [train, valid | change]}, model.encoder_.groups, model.task_
            )
    with pytest.raises(ValueError, match="rows of both kinds"):
        TrainingRows.from_state(state | {"data": [train, train]}, model.encoder_.groups, model.task_)


def test_rows_are_not_saved_if_the_parameter_is_changed_after_the_fit(model, tmp_path):
    model.save(tmp_path / "with")
    changed = load_model(tmp_path / "with")
    assert changed.training_rows_.data is not None
    changed.set_params(keep_training_rows=False).save(tmp_path / "without")
    assert load_model(tmp_path / "without").training_rows_.data is None
    assert (tmp_path / "without").stat().st_size < (tmp_path / "with").stat().st_size
