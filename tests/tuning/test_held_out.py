import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import log_loss

from stablemiss import MissingClassifier, MissingRegressor
from stablemiss.missingness import MCARIndependent, Outage
from stablemiss.tuning.held_out import HeldOut


def split(estimator, X, y, sample_weight=None, valid_fraction=0.25, test_mechanism=None, seed=0):
    return HeldOut.of(estimator, X, y, sample_weight, valid_fraction, test_mechanism, seed)


@pytest.mark.parametrize("seed", range(3))
def test_every_row_either_learns_or_judges(table, seed):
    X, y = table
    held_out = split(MissingRegressor("ols"), X, y, seed=seed)
    assert len(held_out.judge.target) == 15
    together = np.concatenate([held_out.learn.target, held_out.judge.target])
    np.testing.assert_array_equal(np.sort(together), np.sort(y))
    place = np.argsort(y)[np.searchsorted(np.sort(y), held_out.judge.target)]
    np.testing.assert_array_equal(held_out.judge.rows, X[place])


def test_the_loss_is_the_error_on_held_out_rows_in_standard_deviations(table):
    X, y = table
    held_out = split(MissingRegressor("ols"), X, y, seed=1)
    model = MissingRegressor("ols", random_state=1).fit(held_out.learn.rows, held_out.learn.target)
    errors = model.predict(held_out.judge.rows) - held_out.judge.target
    expected = np.sqrt(np.mean(errors**2)) / model.task_.scale[0]
    np.testing.assert_allclose(held_out.loss(MissingRegressor("ols")), expected)
    constant = held_out.loss(MissingRegressor("constant"))
    assert expected < constant < 2


def test_the_loss_of_classes_is_their_log_loss(table):
    X, y = table
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-1.0, 1.0])]
    weight = np.linspace(1, 2, 60)
    held_out = split(MissingClassifier("boosting"), X, labels, weight)
    assert set(held_out.judge.target) == set(labels)
    model = MissingClassifier("boosting", random_state=0)
    model.fit(held_out.learn.rows, held_out.learn.target, held_out.learn.weight)
    expected = log_loss(
        held_out.judge.target, model.predict_proba(held_out.judge.rows), sample_weight=held_out.judge.weight
    )
    np.testing.assert_allclose(held_out.loss(MissingClassifier("boosting")), expected)


def test_a_table_of_any_kind_is_the_same_table(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=np.where(y > 0, "here", None))
    for made in (frame, pl.from_pandas(frame), frame.to_numpy(dtype=object).tolist()):
        held_out = split(MissingRegressor("ols"), made, y)
        assert held_out.fingerprint() == split(MissingRegressor("ols"), frame, y).fingerprint()
        assert np.isfinite(held_out.loss(MissingRegressor("ols")))


def test_the_fingerprint_tells_tables_targets_weights_and_splits_apart(table):
    X, y = table
    other = X.copy()
    other[0, 0] = np.nan if np.isfinite(X[0, 0]) else 0.0
    ols = MissingRegressor("ols")
    prints = [
        split(ols, X, y),
        split(ols, other, y),
        split(ols, X, y + 1),
        split(ols, X, y, np.arange(1, 61)),
        split(ols, X, y, seed=1),
        split(ols, X, y, valid_fraction=0.3),
        split(ols, X, y, test_mechanism=MCARIndependent(0.5)),
    ]
    assert len({one.fingerprint() for one in prints}) == len(prints)


def test_a_mechanism_hides_cells_of_the_held_out_rows_alone_also_text(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=np.where(y > 0, "here", "there"))
    plain, dark = (
        split(MissingRegressor("ols"), frame, y, test_mechanism=mechanism)
        for mechanism in (None, Outage([1, 3]))
    )
    np.testing.assert_array_equal(pd.isna(dark.learn.rows), pd.isna(plain.learn.rows))
    expected = pd.isna(plain.judge.rows)
    expected[:, [1, 3]] = True
    np.testing.assert_array_equal(pd.isna(dark.judge.rows), expected)
    # A column that was never missing: the mechanism was asked for, so there is no warning.
    assert dark.loss(MissingRegressor("ols")) > plain.loss(MissingRegressor("ols"))


def test_a_class_of_one_row_learns(table):
    X, y = table
    labels = np.where(y > 0, "up", "down").astype(object)
    labels[5] = "once"
    for seed in range(5):
        held_out = split(MissingClassifier("constant"), X, labels, seed=seed)
        assert "once" in held_out.learn.target
        assert np.isfinite(held_out.loss(MissingClassifier("constant")))
