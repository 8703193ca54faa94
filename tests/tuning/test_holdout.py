import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import log_loss

from stablemiss import MissingClassifier, MissingRegressor
from stablemiss.missingness import MCARIndependent, Outage
from stablemiss.tuning.holdout import HoldoutSplit


def make_split(estimator, X, y, sample_weight=None, holdout_fraction=0.25, test_mechanism=None, seed=0):
    return HoldoutSplit.of(estimator, X, y, sample_weight, holdout_fraction, test_mechanism, seed)


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_either_a_training_or_a_validation_row(table, seed):
    X, y = table
    split = make_split(MissingRegressor("ols"), X, y, seed=seed)
    assert len(split.validation.target) == 15
    all_targets = np.concatenate([split.train.target, split.validation.target])
    np.testing.assert_array_equal(np.sort(all_targets), np.sort(y))
    index = np.argsort(y)[np.searchsorted(np.sort(y), split.validation.target)]
    np.testing.assert_array_equal(split.validation.rows, X[index])


def test_the_loss_is_the_error_on_validation_rows_in_standard_deviations(table):
    X, y = table
    split = make_split(MissingRegressor("ols"), X, y, seed=1)
    model = MissingRegressor("ols", random_state=1).fit(split.train.rows, split.train.target)
    errors = model.predict(split.validation.rows) - split.validation.target
    expected = np.sqrt(np.mean(errors**2)) / model.task_.scale[0]
    np.testing.assert_allclose(split.loss(MissingRegressor("ols")), expected)
    constant = split.loss(MissingRegressor("constant"))
    assert expected < constant < 2


def test_the_loss_of_a_classifier_is_the_log_loss(table):
    X, y = table
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-1.0, 1.0])]
    weight = np.linspace(1, 2, 60)
    split = make_split(MissingClassifier("boosting"), X, labels, weight)
    train, validation = split.train, split.validation
    assert set(validation.target) == set(labels)
    model = MissingClassifier("boosting", random_state=0)
    model.fit(train.rows, train.target, train.weight)
    probabilities = model.predict_proba(validation.rows)
    expected = log_loss(validation.target, probabilities, sample_weight=validation.weight)
    np.testing.assert_allclose(split.loss(MissingClassifier("boosting")), expected)


def test_tables_of_all_libraries_have_the_same_fingerprint(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=np.where(y > 0, "here", None))
    for same_table in (frame, pl.from_pandas(frame), frame.to_numpy(dtype=object).tolist()):
        split = make_split(MissingRegressor("ols"), same_table, y)
        assert split.fingerprint() == make_split(MissingRegressor("ols"), frame, y).fingerprint()
        assert np.isfinite(split.loss(MissingRegressor("ols")))


def test_different_tables_targets_weights_and_splits_have_different_fingerprints(table):
    X, y = table
    changed = X.copy()
    changed[0, 0] = np.nan if np.isfinite(X[0, 0]) else 0.0
    ols = MissingRegressor("ols")
    splits = [
        make_split(ols, X, y),
        make_split(ols, changed, y),
        make_split(ols, X, y + 1),
        make_split(ols, X, y, np.arange(1, 61)),
        make_split(ols, X, y, seed=1),
        make_split(ols, X, y, holdout_fraction=0.3),
        make_split(ols, X, y, test_mechanism=MCARIndependent(0.5)),
    ]
    assert len({split.fingerprint() for split in splits}) == len(splits)


def test_the_test_mechanism_hides_values_of_validation_rows_only(table):
    """In numeric and in categorical columns."""
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=np.where(y > 0, "here", "there"))
    plain, hidden = (
        make_split(MissingRegressor("ols"), frame, y, test_mechanism=mechanism)
        for mechanism in (None, Outage([1, 3]))
    )
    np.testing.assert_array_equal(pd.isna(hidden.train.rows), pd.isna(plain.train.rows))
    expected = pd.isna(plain.validation.rows)
    expected[:, [1, 3]] = True
    np.testing.assert_array_equal(pd.isna(hidden.validation.rows), expected)
    # Column 3 is never missing in training, but there is no warning because the mechanism is intended.
    assert hidden.loss(MissingRegressor("ols")) > plain.loss(MissingRegressor("ols"))


def test_a_class_with_a_single_row_is_in_the_training_rows(table):
    X, y = table
    labels = np.where(y > 0, "up", "down").astype(object)
    labels[5] = "once"
    for seed in range(5):
        split = make_split(MissingClassifier("constant"), X, labels, seed=seed)
        assert "once" in split.train.target
        assert np.isfinite(split.loss(MissingClassifier("constant")))
