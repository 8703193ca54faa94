"""The service: null means missing, wrong columns are refused with one sentence, predictions are the "
"model's."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from stablemiss import MissingRegressor

pytest.importorskip("onnxruntime")
testclient = pytest.importorskip("fastapi.testclient", reason="needs fastapi and httpx")

APP = Path(__file__).parents[2] / "examples" / "serving" / "app.py"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A client of the service, and the model that it serves."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    days = pandas.Timestamp("2014-01-01") + pandas.to_timedelta(rng.integers(0, 600, 80), unit="D")
    X = pandas.DataFrame({"area": rng.normal(size=80), "kind": rng.choice(["a", "b", "c"], 80), "sold": days})
    X = X.mask(rng.random(X.shape) < 0.2)
    model = MissingRegressor("ols", random_state=0).fit(X, rng.normal(size=80))
    path = tmp_path_factory.mktemp("served") / "model.onnx"
    model.to_onnx(path)
    spec = importlib.util.spec_from_file_location("serving_app", APP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return testclient.TestClient(module.make_app(str(path))), model


def test_predictions_are_those_of_the_model_and_null_means_missing(served):
    client, model = served
    rows = [{"area": 0.5, "kind": "b", "sold": "2014-10-13"}, {"area": None, "kind": None, "sold": None}]
    response = client.post("/predict", json={"rows": rows})
    assert response.status_code == 200
    table = [[0.5, "b", np.datetime64("2014-10-13")], [None, None, None]]
    np.testing.assert_allclose(response.json()["prediction"], model.predict(table))


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"rows": [{"area": 1.0, "kind": "a", "sold": None, "colour": "red"}]}, "colour"),
        ({"rows": [{"area": 1.0, "kind": "a"}]}, "sold"),
        ({"rows": [{"area": "large", "kind": "a", "sold": None}]}, "area"),
        ({"rows": [{"area": 1.0, "kind": "a", "sold": "yesterday"}]}, "sold"),
        ({"rows": []}, "rows"),
        ({}, "rows"),
    ],
)
def test_wrong_requests_are_refused_with_one_sentence(served, body, word):
    response = served[0].post("/predict", json=body)
    assert response.status_code == 422
    detail = response.json()["detail"]
    assert isinstance(detail, str)
    assert word in detail
