"""Errors, intervals and refusals of the stress test."""

import json

import numpy as np
import pandas as pd
import polars
import pytest
from joblib import parallel_config
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from stablemiss import MissingRegressor, stress_test
from stablemiss.missingness import MAR, MCARIndependent, Outage

N, NAMES = 240, ["strong", "weak", "noise", "copy"]


def imputed(model):
    return make_pipeline(SimpleImputer(keep_empty_features=True), model)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(N, 4))
    table[:, 3] = table[:, 0] + 0.1 * rng.normal(size=N)
    return pd.DataFrame(table, columns=NAMES)


@pytest.fixture
def y(X):
    return 3 * X["strong"].to_numpy() + X["weak"].to_numpy() + 0.1 * np.random.default_rng(1).normal(size=N)


@pytest.fixture
def fitted(X, y):
    return imputed(LinearRegression()).fit(X.iloc[:120], y[:120])


def by_setting(result, model=None):
    model = model or result.models[0]
    return {(score.mechanism, score.level): score for score in result.scores if score.model == model}


def test_errors_are_those_of_the_hidden_table(fitted, X, y):
    mechanism = Outage([0])
    result = stress_test(fitted, X[120:], y[120:], mechanisms={"lab": mechanism}, levels=[1.0])
    scores = by_setting(result)
    test, without = X[120:], X[120:].assign(strong=np.nan)
    given = root_mean_squared_error(y[120:], fitted.predict(test))
    lost = root_mean_squared_error(y[120:], fitted.predict(without))
    assert scores["as given", None].error == pytest.approx(given)
    assert scores["lab", 1.0].error == pytest.approx(lost)
    assert scores["lab", 1.0].increase == pytest.approx(lost - given)
    assert scores["lab", 1.0].missing_share == pytest.approx(0.25)
    assert result.constant == pytest.approx(np.std(y[120:]))
    cost = {cost.column: cost for cost in result.columns}["strong"]
    assert cost.cost == pytest.approx(lost - given)
    assert cost.low < cost.cost < cost.high
    assert (result.n_rows, result.n_columns, result.cross_fitted) == (120, 4, [])


def test_standard_errors_agree_with_the_bootstrap(fitted, X, y):
    result = stress_test(fitted, X[120:], y[120:], mechanisms={"lab": Outage([0])}, levels=[1.0])
    squares = {
        name: (fitted.predict(table) - y[120:]) ** 2
        for name, table in (("given", X[120:]), ("lab", X[120:].assign(strong=np.nan)))
    }
    draws = np.random.default_rng(0).integers(120, size=(4000, 120))
    errors = {name: np.sqrt(losses[draws].mean(axis=1)) for name, losses in squares.items()}
    score = by_setting(result)["lab", 1.0]
    assert score.standard_error == pytest.approx(errors["lab"].std(), rel=0.1)
    increase = (errors["lab"] - errors["given"]).std()
    assert (score.high - score.low) / (2 * 1.96) == pytest.approx(increase, rel=0.1)


def test_losses_of_classifiers_are_log_losses_and_the_constant_is_the_class_frequencies(X, y):
    labels = np.where(y > 0.5, "high", "low")
    model = imputed(LogisticRegression()).fit(X[:120], labels[:120])
    result = stress_test(model, X[120:], labels[120:], ["MCAR"], [0.5])
    assert result.metric == "log loss"
    expected = log_loss(labels[120:], model.predict_proba(X[120:]))
    assert by_setting(result)["as given", None].error == pytest.approx(expected)
    frequencies = DummyClassifier(strategy="prior").fit(X[120:], labels[120:]).predict_proba(X[120:])
    assert result.constant == pytest.approx(log_loss(labels[120:], frequencies))


def test_classifiers_without_probabilities_are_tested_by_error_rate(X, y):
    models = {"svm": imputed(LinearSVC()), "logistic": imputed(LogisticRegression())}
    result = stress_test(models, X, y > 0, ["MCAR"], [0.5])
    assert result.metric == "error rate"
    assert result.constant == pytest.approx(min(np.mean(y > 0), np.mean(y <= 0)))
    assert all(0 <= score.error <= 1 for score in result.scores)


def test_unfitted_models_are_cross_fitted_and_not_modified(X, y):
    model = imputed(LinearRegression())
    result = stress_test({"linear": model}, X, y, ["MCAR"], [0.5])
    assert result.cross_fitted == ["linear"]
    assert not hasattr(model[-1], "coef_")
    # A model that knows its rows by heart has no error on them, unless other rows were used to fit it.
    memory = HistGradientBoostingRegressor(min_samples_leaf=1, max_iter=100, learning_rate=1.0)
    noise = np.random.default_rng(2).normal(size=N)
    learned = stress_test(memory, X, noise, ["MCAR"], [0.5])
    by_heart = stress_test(memory.fit(X, noise), X, noise, ["MCAR"], [0.5])
    assert by_setting(by_heart)["as given", None].error < 0.1 * by_setting(learned)["as given", None].error


def test_all_models_see_the_same_masks_and_the_same_seed_gives_the_same_result(X, y):
    models = {"a": imputed(Ridge()), "b": imputed(Ridge())}
    first = stress_test(models, X, y, levels=[0.3, 0.6])
    again = stress_test(models, X, y, levels=[0.3, 0.6])
    assert first.to_dict() == again.to_dict()
    for comparison in first.comparisons:
        assert (comparison.difference, comparison.low, comparison.high) == (0.0, 0.0, 0.0)
    other = stress_test(models, X, y, levels=[0.3, 0.6], random_state=1)
    assert other.to_dict() != first.to_dict()


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_parallel_jobs_of_any_backend_give_the_same_result(X, y, backend):
    arguments = ({"a": imputed(Ridge())}, X, y, ["MCAR"], [0.3, 0.6])
    expected = stress_test(*arguments)
    with parallel_config(backend, n_jobs=2):
        assert stress_test(*arguments).to_dict() == expected.to_dict()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_dask_cluster_gives_the_same_result(X, y):
    """By joblib's own backend, without code of ours."""
    from distributed import Client, LocalCluster

    arguments = ({"a": imputed(Ridge())}, X, y, ["MCAR"], [0.3, 0.6])
    expected = stress_test(*arguments)
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster), parallel_config("dask"):
        assert stress_test(*arguments).to_dict() == expected.to_dict()


def test_the_better_model_comes_first_with_a_clear_interval(X, y):
    result = stress_test({"mean": DummyRegressor(), "linear": imputed(Ridge())}, X, y, levels=[0.3])
    assert result.models == ["linear", "mean"]
    overall = {one.mechanism: one for one in result.comparisons}["all"]
    assert (overall.model, overall.other) == ("linear", "mean")
    assert overall.high < 0
    assert overall.is_clear
    assert result.verdict.startswith("linear is the most robust of 2 models")
    # The mean ignores all columns, so that nothing is lost.
    for cost in result.column_costs("mean"):
        assert (cost.cost, cost.reliance) == (0.0, 0.0)


def test_columns_and_pairs_that_a_model_needs_cost_most(X, y):
    trees = HistGradientBoostingRegressor(max_iter=30, random_state=0).fit(X[:120], y[:120])
    result = stress_test(trees, X[120:], y[120:], ["outage"], [0.5])
    costs = result.column_costs(result.models[0])
    assert costs[0].column == "strong"
    assert costs == sorted(costs, key=lambda cost: -cost.cost)
    assert sum(cost.reliance for cost in costs) == pytest.approx(1.0)
    pairs = result.pair_costs(result.models[0])
    assert len(pairs) == 6
    assert {pairs[0].first, pairs[0].second} >= {"strong"}
    single = {cost.column: cost.cost for cost in costs}
    for pair in pairs:
        assert pair.excess == pytest.approx(pair.cost - single[pair.first] - single[pair.second])
    # The most informative columns are hidden first: "strong" and its copy.
    (score,) = result.curve(result.models[0], "outage")
    assert score.missing_share == 0.5
    assert score.error == max(s.error for s in result.scores)


def test_the_first_level_worse_than_a_constant_is_the_lowest(X, y):
    broken = HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(X[:120], y[:120])
    result = stress_test(broken, X[120:], y[120:])
    for mechanism in result.mechanisms:
        curve = result.curve(result.models[0], mechanism)
        worse = [score for score in curve if score.error > result.constant]
        assert result.first_worse(result.models[0], mechanism) == (worse[0] if worse else None)
        assert [score.worse_than_constant for score in curve] == [s.error > result.constant for s in curve]


def test_models_that_refuse_missing_values_are_left_out_with_a_reason(X, y):
    result = stress_test({"bare": Ridge(), "imputed": imputed(Ridge())}, X, y, ["MCAR"], [0.5])
    assert result.models == ["imputed"]
    (note,) = result.notes
    assert note.startswith("'bare' is left out, because it cannot predict rows with missing values")
    assert "make_pipeline(SimpleImputer(), model)" in note
    with pytest.raises(ValueError, match=r"No model can be tested\. 'Ridge' is left out"):
        stress_test(Ridge(), X, y)


class Fragile(DummyRegressor):
    """Fails if the second column is missing in all rows."""

    def predict(self, X):
        if np.isnan(np.asarray(X, dtype=float)[:, 1]).all():
            raise RuntimeError("no second column")
        return super().predict(X)


def test_a_single_failure_leaves_a_gap_and_a_note(X, y):
    model = Fragile().fit(X, y)
    result = stress_test(model, X, y, {"lab": Outage([1]), "MCAR": MCARIndependent(0.5)}, [0.5, 1.0])
    scores = by_setting(result)
    assert np.isnan(scores["lab", 1.0].error)
    assert np.isfinite(scores["MCAR", 0.5].error)
    assert "'Fragile' could not predict under lab at level 1: no second column." in result.notes
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["scores"]
    assert "<svg" in result.to_html()
    assert str(result)


def test_rows_are_sampled_and_the_result_says_so(fitted, X, y):
    result = stress_test(fitted, X, y, ["MCAR"], [0.5], max_rows=50)
    assert (result.n_rows, result.n_rows_given) == (50, N)
    assert result.notes == ["Tested on 50 of 240 rows, drawn at random."]
    crossed = stress_test(imputed(Ridge()), X, y, ["MCAR"], [0.5], max_rows=50)
    assert crossed.n_rows == 50


def test_a_wide_table_uses_fewer_rows_for_columns(monkeypatch, fitted, X, y):
    monkeypatch.setattr("stablemiss.evaluation.stress.columns.MAX_CELLS", 400)
    monkeypatch.setattr("stablemiss.evaluation.stress.columns.MIN_ROWS", 60)
    result = stress_test(fitted, X, y, ["MCAR"], [0.5])
    assert (result.n_rows, result.n_column_rows) == (N, 100)
    assert result.notes == ["Costs of losing columns are measured on 100 rows, because there are 4 columns."]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "objects"])
def test_tables_of_all_libraries_and_types_give_the_same_result(library):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=60),
            "count": rng.integers(5, size=60),
            "flag": rng.random(60) < 0.5,
            "text": rng.choice(["a", "b"], 60),
        }
    )
    target = frame["number"] + frame["count"] + np.where(frame["text"] == "a", 1.0, 0.0)
    tables = {
        "pandas": frame,
        "polars": polars.from_pandas(frame),
        "pyarrow": polars.from_pandas(frame).to_arrow(),
        "objects": frame.astype(object).to_numpy(),
    }
    model = MissingRegressor("ols", random_state=0)
    expected = stress_test(model, frame, target, ["MCAR", "MNAR"], [0.5])
    result = stress_test(model, tables[library], target, ["MCAR", "MNAR"], [0.5])
    assert [s.error for s in result.scores] == pytest.approx([s.error for s in expected.scores])
    if library == "polars":
        assert isinstance(result.to_frame(), polars.DataFrame)
        assert isinstance(result.pairs_frame(), polars.DataFrame)


def test_the_frames_have_one_row_for_each_score_column_and_pair(X, y):
    models = {"a": imputed(Ridge()), "b": imputed(Ridge(100.0))}
    result = stress_test(models, X, y, ["MCAR", "outage"], [0.2, 0.8])
    frame = result.to_frame()
    assert frame.shape[0] == 2 * (1 + 4)
    assert set(frame.columns) >= {"model", "mechanism", "level", "error", "standard_error", "n_rows"}
    assert frame["worse_than_constant"].dtype == bool
    assert result.columns_frame().shape[0] == 2 * 4
    assert result.pairs_frame().shape[0] == 2 * 6
    assert result.comparisons_frame()["mechanism"].tolist() == ["all", "as given", "MCAR", "outage"]


def test_several_outputs_share_one_error(X, y):
    both = np.column_stack([y, -y])
    result = stress_test(imputed(Ridge()), X, both, ["MCAR"], [0.5])
    single = stress_test(imputed(Ridge()), X, y, ["MCAR"], [0.5])
    assert [s.error for s in result.scores] == pytest.approx([s.error for s in single.scores])


def test_a_class_that_a_fold_does_not_know_is_costly_but_no_error(X, y):
    labels = np.where(y > 0, "high", "low").astype(object)
    labels[0] = "rare"
    result = stress_test(HistGradientBoostingClassifier(max_iter=3), X, labels, ["MCAR"], [0.5])
    assert np.isfinite([score.error for score in result.scores]).all()


def test_a_column_without_any_value_costs_nothing(X, y):
    X = X.assign(noise=np.nan)
    result = stress_test(imputed(Ridge()), X, y, levels=[0.5])
    assert {cost.column: cost.cost for cost in result.columns}["noise"] == 0.0
    # All rows miss the same column, so there are no masks to exchange.
    assert "own masks" not in result.mechanisms


def test_fitted_mechanisms_are_used_as_they_are(fitted, X, y):
    mechanism = MAR(0.5, spread=0).fit(X.to_numpy(), np.random.default_rng(3))
    result = stress_test(fitted, X, y, {"clinic": mechanism}, [0.4])
    (score,) = result.curve(result.models[0], "clinic")
    assert score.missing_share == pytest.approx(0.3, abs=0.05)  # three of the four columns are not drivers


INVALID = {
    "no rows": (lambda X, y: (Ridge(), X[:0], y[:0]), "at least 2 rows are needed; got 0"),
    "one row": (lambda X, y: (Ridge(), X[:1], y[:1]), "at least 2 rows are needed; got 1"),
    "constant target": (lambda X, y: (Ridge(), X, np.ones(N)), "only one value"),
    "one class": (lambda X, y: (LogisticRegression(), X, np.ones(N)), "only one class"),
    "lengths": (lambda X, y: (Ridge(), X, y[:5]), "one entry for each of the 240 rows"),
    "missing target": (lambda X, y: (Ridge(), X, np.where(y > 0, np.nan, y)), "known and finite"),
    "text target": (lambda X, y: (Ridge(), X, np.full(N, "a")), "must be numeric for regressors"),
    "no model": (lambda X, y: ({}, X, y), "at least one estimator"),
    "not a model": (lambda X, y: ("boosting", X, y), "estimator with `predict`"),
    "a class": (lambda X, y: (Ridge, X, y), "estimator with `predict`"),
    "mixed tasks": (lambda X, y: ([Ridge(), LogisticRegression()], X, y), "all regressors or all class"),
    "duplicate names": (lambda X, y: (Ridge(), X.set_axis(list("aabc"), axis=1), y), "must be unique"),
    "one dimension": (lambda X, y: (Ridge(), y, y), "Expected 2D array"),
    "unknown mechanism": (lambda X, y: (Ridge(), X, y, ["MCAM"]), "must be among 'MCAR', 'window'"),
    "no mechanism": (lambda X, y: (Ridge(), X, y, []), "at least one mechanism"),
    "not a mechanism": (lambda X, y: (Ridge(), X, y, {"a": 0.5}), "map names"),
    "reserved name": (lambda X, y: (Ridge(), X, y, {"all": Outage([0])}), "names other than"),
    "complete rows": (lambda X, y: (Ridge(), X, y, ["own masks"]), "rows that differ"),
    "level": (lambda X, y: (Ridge(), X, y, None, [50]), "above 0 and at most 1.*got 50"),
    "no level": (lambda X, y: (Ridge(), X, y, None, []), "above 0 and at most 1"),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_input_gives_a_sentence(X, y, case):
    make, message = INVALID[case]
    with pytest.raises(ValueError, match=message):
        stress_test(*make(X, y))


def test_another_table_must_have_the_columns(fitted, X, y):
    with pytest.raises(ValueError, match="other must have the columns of X, but lacks 'weak'"):
        stress_test(fitted, X, y, other=X.drop(columns="weak"))
    with pytest.raises(ValueError, match="4 columns of X in the same order; got 2"):
        stress_test(fitted, X, y, other=np.zeros((3, 2)))


def test_the_worst_pair_may_consist_of_columns_that_stand_in_for_each_other():
    """Losing one of two nearly equal columns costs little, losing both costs most."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 12))
    X[:, 1] = X[:, 0] + 0.05 * rng.normal(size=800)
    y = 3 * X[:, 0] + X[:, 2:].sum(axis=1)
    model = HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(X[:400], y[:400])
    result = stress_test(model, X[400:], y[400:], ["MCAR"], [0.5])
    assert {result.pairs[0].first, result.pairs[0].second} == {"0", "1"}


def test_folds_do_not_depend_on_the_mechanisms(X, y):
    first, second = (
        stress_test(imputed(Ridge()), X, y, mechanisms, [0.3]) for mechanisms in (["MCAR"], ["window", "MAR"])
    )
    assert first.scores[0].error == second.scores[0].error


def test_fitted_and_cross_fitted_models_together_are_noted(X, y):
    models = {"fitted": imputed(Ridge()).fit(X, y), "not fitted": imputed(Ridge())}
    assert any("cross-fitted" in note for note in stress_test(models, X, y, ["MCAR"], [0.3]).notes)
