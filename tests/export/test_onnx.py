"""An exported model predicts what the fitted model predicts, for every mask; otherwise nothing is written."""

import json

import numpy as np
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor, load_model
from stablemiss.encoding.dates import DATE_PARTS, date_parts
from stablemiss.export import model as export_model
from stablemiss.export.graph import Graph
from stablemiss.export.rows import MISSING_DATE, _date_features
from stablemiss.export.trees import add_trees
from stablemiss.methods import METHODS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pandas = pytest.importorskip("pandas")

N_MASKS = 1200


def make_table(n, rng):
    """Numbers of different sizes, categories with few and many levels, dates with and without time, "
    "oddities."""
    hours = pandas.to_timedelta(rng.integers(0, 700 * 24, n), unit="h")
    table = pandas.DataFrame(
        {
            "area": rng.normal(size=n),
            "price": 5e5 + 1e3 * rng.normal(size=n),
            "kind": rng.choice(["flat", "house", "shop"], n),
            "town": rng.choice([f"town {i}" for i in range(20)], n),
            "sold": pandas.Timestamp("2014-01-01") + hours,
            "constant": 7.0,
            "never": np.nan,
        }
    )
    target = table.area + 2 * (table.kind == "flat") + 0.3 * table.sold.dt.month
    return table.mask(rng.random(table.shape) < 0.15), target


def masked_rows(table, n, rng):
    """Rows with n random masks, from nothing missing to everything missing."""
    rows = table.drop(columns="never").ffill().bfill().sample(n, replace=True, random_state=0)
    rows.insert(table.columns.get_loc("never"), "never", np.nan)
    hidden = rng.random(rows.shape) < np.linspace(0, 1, n)[:, None]
    hidden[0], hidden[-1] = False, True
    return rows.reset_index(drop=True).mask(hidden)


def to_inputs(rows, path):
    """What the page on export tells users to do."""
    session = onnxruntime.InferenceSession(path)
    columns = json.loads(session.get_modelmeta().custom_metadata_map["stablemiss"])["inputs"]
    inputs = {}
    if "numbers" in columns:
        inputs["numbers"] = rows[columns["numbers"]].to_numpy(np.float64)
    if "categories" in columns:
        inputs["categories"] = rows[columns["categories"]].astype(object).fillna("").to_numpy(object)
    if "dates" in columns:
        inputs["dates"] = rows[columns["dates"]].to_numpy("datetime64[us]").astype(np.int64)
    return session, inputs


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_regressor_and_its_intervals_agree_on_many_masks(tmp_path):
    rng = np.random.default_rng(0)
    table, target = make_table(120, rng)
    model = AnyMaskRegressor(budget="fast", random_state=0).fit(table, target)
    model.save(tmp_path / "model.stablemiss")
    path = tmp_path / "model.onnx"
    assert load_model(tmp_path / "model.stablemiss").to_onnx(path, coverage=0.8) < 1e-9
    rows = masked_rows(table, N_MASKS, rng)
    # One value is far outside the range, which widens the interval.
    rows.loc[5, "area"] = 1e4
    session, inputs = to_inputs(rows, path)
    prediction, interval = session.run(["prediction", "interval"], inputs)
    np.testing.assert_allclose(prediction, model.predict(rows), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(interval, model.predict_interval(rows, coverage=0.8), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_classifier_agrees_on_many_masks(tmp_path):
    rng = np.random.default_rng(1)
    table, target = make_table(120, rng)
    labels = np.where(target > 3, "high", np.where(target > 1.5, "middle", "low"))
    model = AnyMaskClassifier(budget="fast", on_out_of_range="missing", random_state=0).fit(table, labels)
    assert model.to_onnx(tmp_path / "model.onnx") < 1e-9
    rows = masked_rows(table, N_MASKS, rng)
    rows.loc[5, "area"], rows.loc[6, "kind"] = 1e4, "castle"
    session, inputs = to_inputs(rows, tmp_path / "model.onnx")
    label, probabilities = session.run(["label", "probabilities"], inputs)
    np.testing.assert_allclose(probabilities, model.predict_proba(rows), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(label, model.predict(rows))


EXPLICIT = [
    "constant",
    "ols",
    "pattern_submodels",
    "em_mixture",
    "boosting",
    "iterative_imputer",
    "column_net",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "is_classes"),
    [
        *((name, is_classes) for name in EXPLICIT for is_classes in (False, True)),
        ("neumiss", False),
        ("gain", True),
    ],
)
def test_other_methods_agree(name, is_classes, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    y = np.nansum(X, axis=1)
    method = METHODS[name](**METHODS[name].brief)
    estimator = (MissingClassifier if is_classes else MissingRegressor)(
        method, random_state=0, on_unseen_missing="ignore"
    ).fit(X, np.digitize(y, [-1, 1]) if is_classes else y)
    estimator.to_onnx(tmp_path / "model.onnx")
    rows = rng.normal(size=(200, 3))
    rows[rng.random(rows.shape) < np.linspace(0, 1, 200)[:, None]] = np.nan
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    output = session.run(["probabilities" if is_classes else "prediction"], {"numbers": rows})[0]
    expected = estimator.predict_proba(rows) if is_classes else estimator.predict(rows)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-7)


@pytest.fixture
def linear():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return MissingRegressor("ols", random_state=0).fit(X, X[:, 0])


def test_nothing_is_written_if_the_predictions_differ(linear, tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_text("an earlier file")
    right = export_model.add_predictor

    def wrong(predictor, graph, rows):
        return graph.op("Mul", right(predictor, graph, rows), 1 + 1e-4)

    monkeypatch.setattr(export_model, "add_predictor", wrong)
    with pytest.raises(ValueError, match="differ from those of the fitted model"):
        linear.to_onnx(path)
    assert path.read_text() == "an earlier file"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_exported_says_so(linear, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="AnyMask"):
        linear.to_onnx(tmp_path / "model.onnx", coverage=0.9)
    linear.on_out_of_range = "raise"
    with pytest.raises(ValueError, match="clip"):
        linear.to_onnx(tmp_path / "model.onnx")
    monkeypatch.setattr(export_model, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"stablemiss\[onnx\]"):
        linear.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def run(graph, value, inputs):
    """Evaluate a value of a graph; inputs: name → array."""
    from onnx import helper

    types = {"f": onnx.TensorProto.DOUBLE, "i": onnx.TensorProto.INT64}
    infos = [helper.make_tensor_value_info(n, types[a.dtype.kind], a.shape) for n, a in inputs.items()]
    output = helper.make_tensor_value_info(value, onnx.TensorProto.DOUBLE, None)
    content = graph.to_model(infos, [output], {}).SerializeToString()
    return onnxruntime.InferenceSession(content).run(None, inputs)[0]


@pytest.mark.parametrize("has_missing", [False, True])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_trees_send_nan_where_lightgbm_sends_it(has_missing, n_classes):
    # Columns that were never missing in training have another rule for NaN than others.
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[:, 3] = rng.integers(0, 3, 500)
    y = X[:, 0] + X[:, 1] * (X[:, 3] == 1)
    if has_missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    params = {"verbosity": -1, "num_threads": 1, "num_leaves": 8}
    if n_classes > 1:
        y = np.digitize(y, [-0.5, 0.5])
        params |= {"objective": "multiclass", "num_class": n_classes}
    booster = lightgbm.train(params, lightgbm.Dataset(X, y), num_boost_round=10)
    rows = rng.normal(size=(1000, 4))
    rows[:, 3] = rng.integers(-1, 4, 1000)
    rows[rng.random(rows.shape) < 0.4] = np.nan
    graph = Graph()
    scores = add_trees(graph, [booster.model_to_string()], "x", n_classes)
    expected = booster.predict(rows, raw_score=True).reshape(1000, n_classes)
    np.testing.assert_allclose(run(graph, scores, {"x": rows}), expected, rtol=1e-12, atol=1e-12)


def test_trees_of_a_single_leaf_are_a_constant():
    lightgbm = pytest.importorskip("lightgbm")
    params = {"verbosity": -1, "min_data_in_leaf": 1000, "num_threads": 1}
    X = np.arange(50.0)[:, None]
    booster = lightgbm.train(params, lightgbm.Dataset(X, X[:, 0]), num_boost_round=2)
    graph = Graph()
    scores = add_trees(graph, [booster.model_to_string()], "x")
    np.testing.assert_allclose(run(graph, scores, {"x": X})[:, 0], booster.predict(X))


def test_features_of_dates_are_those_of_the_encoder():
    rng = np.random.default_rng(0)
    start, end = (np.datetime64(day, "us").astype(np.int64) for day in ("0400-02-28", "9999-12-31"))
    dates = np.concatenate([rng.integers(start, end, 3000), [0, -1, MISSING_DATE]])
    leap_days = np.array(["1900-03-01", "2000-02-29", "2023-12-31T23:59:59", "2024-01-01"], "datetime64[us]")
    dates = np.concatenate([dates, leap_days.astype(np.int64)])
    graph = Graph()
    features = _date_features(graph, "dates")
    joined = graph.op("Concat", *(features[part] for part in DATE_PARTS), axis=1)
    actual = run(graph, joined, {"dates": dates[:, None]})
    expected = date_parts(dates.astype("datetime64[us]"))
    np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-14)
