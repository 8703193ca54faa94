"""`diagnose`: what moved is found and named, and odd tables get an answer or a clear error."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lightgbm import LGBMRegressor
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import LinearSVC

from stablemiss import diagnose
from stablemiss.seeding import to_rng


def draw_values(rng, n=500, d=6):
    """Columns that are correlated with each other."""
    return 0.7 * rng.normal(size=(n, 1)) + 0.7 * rng.normal(size=(n, d))


def draw_pair(seed, change=None, n=500):
    """Two tables of which 30% are missing; `change` modifies values and masks of the second."""
    rng = to_rng(seed)
    tables = []
    for is_current in (False, True):
        values = draw_values(rng, n)
        missing = rng.random(values.shape) < 0.3
        missing[:, 0] = False
        if is_current and change is not None:
            change(values, missing, rng)
        tables.append(np.where(missing, np.nan, values))
    return tables


def more_missing(values, missing, rng):
    missing[:, 3] |= rng.random(len(missing)) < 0.4


def together(values, missing, rng):
    missing[:, 4] = missing[:, 2]


def driven(values, missing, rng):
    """The missing rate of column 5 stays about 30%, but depends on column 0."""
    missing[:, 5] = rng.random(len(missing)) < 1 / (1 + np.exp(1.1 - 2 * values[:, 0]))


def moved(values, missing, rng):
    values[:, 1] += 0.8


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("change", "kind", "columns"),
    [
        (more_missing, "rate", ("3",)),
        (together, "pair", ("2", "4")),
        (driven, "link", ("5", "0")),
    ],
)
def test_a_change_of_the_masks_is_found_and_named_and_values_are_not_blamed(seed, change, kind, columns):
    result = diagnose(*draw_pair(seed, change))
    assert result.verdict == "shift"
    assert result.exit_code == 1
    first = next(finding for finding in result.findings if finding.kind == kind)
    assert first.columns == columns
    assert first.sentence
    assert result.values_verdict == "no shift"


@pytest.mark.parametrize("seed", range(3))
def test_values_that_move_are_not_a_shift_of_the_masks(seed):
    result = diagnose(*draw_pair(seed, moved))
    assert result.verdict == "no shift"
    assert result.values_verdict == "shift"
    assert [finding.columns for finding in result.findings] == [("1",)]


def test_false_alarms_are_rare():
    results = [diagnose(*draw_pair(100 + seed, n=200), random_state=seed) for seed in range(40)]
    assert sum(result.verdict == "shift" for result in results) <= 6
    assert sum(result.values_verdict == "shift" for result in results) <= 6


def test_the_same_seed_gives_the_same_result():
    tables = draw_pair(0, together)
    assert diagnose(*tables, random_state=1).to_dict() == diagnose(*tables, random_state=1).to_dict()


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_every_library_gives_the_same_findings_and_its_own_frame(library):
    reference, current = draw_pair(0, more_missing)
    columns = [dict(zip("abcdef", table.T, strict=True)) for table in (reference, current)]
    if library is dict:
        tables = [np.column_stack(list(one.values())) for one in columns]
    else:
        # For polars NaN is a number; null means missing.
        tables = [
            library({name: [None if np.isnan(v) else v for v in column] for name, column in one.items()})
            for one in columns
        ]
    result = diagnose(*tables)
    assert result.findings[0].columns in (("d",), ("3",))
    frame = result.to_frame()
    assert type(frame) is (pd.DataFrame if library is dict else type(tables[0]))
    assert len(frame) == 6


def test_columns_are_matched_by_name():
    reference, current = (pd.DataFrame(table, columns=list("abcdef")) for table in draw_pair(0))
    result = diagnose(reference, current[list("fbcdea")])
    assert result.verdict == "no shift"
    assert result.values_verdict == "no shift"
    without = diagnose(reference, current.drop(columns="b").assign(g=1.0))
    assert without.verdict == "shift"
    assert (without.absent, without.added) == (["b"], ["g"])


def test_a_column_that_is_missing_for_the_first_time_is_named():
    reference, current = draw_pair(0)
    current[:4, 0] = np.nan
    assert diagnose(reference, current).newly_missing == ["0"]


def test_few_rows_give_no_verdict_unless_the_change_is_extreme():
    reference, current = draw_pair(0)
    assert diagnose(reference, current[:6]).verdict == "cannot tell"
    assert diagnose(reference, current[:6]).exit_code == 2
    dead = current[:12].copy()
    dead[:, 0] = np.nan
    assert diagnose(reference, dead).verdict == "shift"


@pytest.mark.parametrize(
    "current",
    [
        np.ones((1, 2)),
        np.full((50, 2), np.nan),
        np.ones((50, 2)),
        np.array([["a", "b"]] * 30, dtype=object),
        np.array([[None, "b"]] * 30, dtype=object),
    ],
)
@pytest.mark.parametrize("reference", [np.ones((60, 2)), np.full((60, 2), np.nan), np.eye(2)[[0, 1] * 40]])
def test_odd_tables_get_an_answer(reference, current):
    result = diagnose(reference, current)
    assert result.verdict in ("shift", "no shift", "cannot tell")
    json.dumps(result.to_dict())
    assert str(result)


@pytest.mark.parametrize(
    ("reference", "current", "words"),
    [
        (np.empty((0, 2)), np.ones((3, 2)), "reference"),
        (np.ones((3, 2)), np.empty((0, 2)), "current"),
        (pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]}), "share no column"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame({"a": [1.0]}), "unique"),
        (pd.DataFrame({"a": [1.0]}), np.ones((3, 2)), "matched"),
    ],
)
def test_tables_that_cannot_be_compared_are_refused_in_one_sentence(reference, current, words):
    with pytest.raises(ValueError, match=words):
        diagnose(reference, current)


def test_a_column_of_another_type_is_reported():
    before = pd.DataFrame({"a": np.arange(50.0), "b": np.arange(50.0)})
    result = diagnose(before, before.assign(a=before["a"].astype(str)))
    assert result.to_dict()["retyped"] == ["a"]
    assert result.verdict == "no shift"


def test_categories_that_move_are_found():
    rng = to_rng(0)
    before = pd.DataFrame({"kind": rng.choice(["x", "y"], 400), "size": rng.normal(size=400)})
    after = pd.DataFrame({"kind": rng.choice(["x", "y"], 400, p=[0.8, 0.2]), "size": rng.normal(size=400)})
    result = diagnose(before, after)
    assert result.values_verdict == "shift"
    assert result.findings[0].columns == ("kind",)


@pytest.fixture(scope="module")
def forecast_case():
    """A model, reference rows with targets, and rows with one dead column and their targets."""
    rng = to_rng(0)
    X = draw_values(rng, 6000)
    y = 2 * X[:, 0] + X[:, 1] ** 2 + rng.normal(size=len(X))
    X[rng.random(X.shape) < 0.1] = np.nan
    model = LGBMRegressor(n_estimators=60, verbose=-1).fit(X[:3000], y[:3000])
    current = X[4500:].copy()
    current[rng.random(len(current)) < 0.8, 0] = np.nan
    return model, X[3000:4500], y[3000:4500], current, y[4500:]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_the_forecast_is_near_the_error_that_labels_would_show(forecast_case):
    model, reference, y, current, y_current = forecast_case
    result = diagnose(reference, current, model, y)
    true = np.sqrt(np.mean((model.predict(current) - y_current) ** 2))
    before = np.sqrt(np.mean((model.predict(reference) - y) ** 2))
    assert result.forecast.before == pytest.approx(before)
    assert true > 1.3 * before
    assert result.forecast.after == pytest.approx(true, rel=0.08)
    assert result.forecast.interval[0] < true < result.forecast.interval[1]
    assert result.forecast.causes[0].column == "0"
    assert f"{result.forecast.after:.4g}" in result.summary


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_without_a_shift_the_forecast_is_the_error_before(forecast_case):
    model, reference, y, _, _ = forecast_case
    forecast = diagnose(reference, reference[::-1], model, y).forecast
    assert forecast.after == pytest.approx(forecast.before, rel=0.05)


@pytest.mark.parametrize("classifier", [RandomForestClassifier(20, random_state=0), LinearSVC()])
def test_classifiers_with_and_without_probabilities(classifier):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = (X - X.mean()) / X.std()
    if isinstance(classifier, LinearSVC):
        # It refuses missing values, so only the error without a shift can be computed.
        classifier.fit(X[:300], y[:300])
        forecast = diagnose(X[300:], X[300:], classifier, y[300:]).forecast
        assert forecast.metric == "error rate"
        assert forecast.after == pytest.approx(forecast.before, abs=0.02)
        return
    classifier.fit(X[:300], y[:300])
    current = X[300:].assign(**dict.fromkeys(X.columns[:12], np.nan))
    forecast = diagnose(X[300:], current, classifier, y[300:]).forecast
    assert forecast.metric == "log loss"
    assert forecast.after > forecast.before


def test_a_model_needs_as_many_targets_as_reference_rows():
    X = np.ones((10, 2))
    with pytest.raises(ValueError, match="Pass y"):
        diagnose(X, X, LGBMRegressor())
    with pytest.raises(ValueError, match="10 rows of reference"):
        diagnose(X, X, LGBMRegressor(), np.ones(9))
    with pytest.raises(ValueError, match="alpha"):
        diagnose(X, X, alpha=2.0)


def test_outages_in_runs_of_rows_are_not_taken_for_a_shift():
    """Rows that follow each other lose a column together, by the same mechanism before and now."""
    alarms = 0
    for seed in range(10):
        rng = to_rng(seed)
        tables = []
        for _ in range(2):
            dark = np.repeat(rng.random((80, 4)) < 0.15, 25, axis=0)
            tables.append(np.where(dark, np.nan, rng.normal(size=dark.shape)))
        result = diagnose(*tables)
        assert "runs" in result.notes[0]
        alarms += result.verdict == "shift"
    assert alarms <= 2


def test_a_small_change_of_a_large_table_does_not_count():
    rng = to_rng(0)
    before, after = (np.where(rng.random((60_000, 2)) < rate, np.nan, 1.0) for rate in (0.300, 0.309))
    assert diagnose(before, after, min_change=0.02).verdict == "no shift"
    assert diagnose(before, after, min_change=0.0).verdict == "shift"


def test_columns_that_die_together_are_all_marked_and_hidden_together():
    rng = to_rng(0)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] + X[:, 1]
    model = LGBMRegressor(n_estimators=50, verbose=-1).fit(
        pd.DataFrame(X[:1500], columns=list("abc")), y[:1500]
    )
    reference = pd.DataFrame(X[1500:2200], columns=list("abc"))
    current = pd.DataFrame(X[2200:], columns=list("abc")).drop(columns=["a", "b"])
    result = diagnose(reference, current, model, y[1500:2200])
    frame = result.to_frame()
    assert frame.loc[frame["is_rate_shifted"].astype(bool), "column"].tolist() == ["a", "b"]
    [cause] = result.forecast.causes
    assert cause.n_alike == 1
    assert cause.error == pytest.approx(result.forecast.after, rel=0.1)
    # Of the values nothing can be said if most columns are gone.
    assert result.values_verdict == "cannot tell"


def test_times_and_running_numbers_do_not_move():
    before = pd.DataFrame(
        {"id": range(100), "day": pd.date_range("2020-01-01", periods=100), "x": [0.0, 1.0] * 50}
    )
    after = before.assign(id=before["id"] + 100, day=before["day"] + pd.Timedelta(days=100))
    result = diagnose(before, after)
    assert result.values_verdict != "shift"
    assert result.to_dict()["sequential"] == ["id", "day"]


@pytest.mark.parametrize("seed", range(2))
def test_without_a_shift_the_forecast_holds_also_if_missingness_depends_on_values(seed):
    rng = to_rng(seed)
    X = rng.normal(size=(6000, 3))
    y = X[:, 0] + 2 * X[:, 1] + 0.3 * rng.normal(size=6000)
    X[rng.random(6000) < 1 / (1 + np.exp(-3 * X[:, 0])), 1] = np.nan
    frame = pd.DataFrame(X, columns=list("abc"))
    model = LGBMRegressor(n_estimators=60, verbose=-1).fit(frame[:3000], y[:3000])
    forecast = diagnose(frame[3000:4500], frame[4500:], model, y[3000:4500]).forecast
    assert forecast.after == pytest.approx(forecast.before, rel=0.06)


def test_few_current_rows_make_the_interval_wide(forecast_case):
    model, reference, y, current, _ = forecast_case
    many, few = (diagnose(reference, rows, model, y).forecast.interval for rows in (current, current[:10]))
    assert few[1] - few[0] > 2 * (many[1] - many[0])


def test_targets_may_be_missing_and_unknown_classes_are_wrong_predictions(forecast_case):
    model, reference, y, current, _ = forecast_case
    partly = np.where(np.arange(len(y)) % 3 == 0, np.nan, y)
    forecast = diagnose(reference, current, model, partly).forecast
    assert forecast.after == pytest.approx(diagnose(reference, current, model, y).forecast.after, rel=0.15)
    json.dumps(diagnose(reference, current, model, partly).to_dict(), allow_nan=False)


def test_a_model_that_fails_leaves_the_diagnosis(forecast_case):
    _, reference, y, current, _ = forecast_case
    model = LinearSVC().fit(np.nan_to_num(reference), y > 0)
    result = diagnose(reference, current, model, y > 0)
    assert result.forecast is None
    assert "imputer" in result.notes[-1]
    assert result.verdict == "shift"


def test_infinite_values_are_named():
    with pytest.raises(ValueError, match="reference: There are infinite values"):
        diagnose([[np.inf], [1.0]], [[1.0]])
