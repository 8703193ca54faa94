"""The mlflow recipe: a model loaded by mlflow predicts what the fitted model predicts, missing values "
"included."""

from pathlib import Path

import numpy as np
import pytest

from stablemiss import AnyMaskRegressor

RECIPE = Path(__file__).parents[2] / "examples" / "mlflow" / "model.py"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_pyfunc_model_predicts_like_the_fitted_model(tmp_path):
    # mlflow needs older versions of pyarrow and dateutil than the other extras, so it is in none of them.
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"]).mask(rng.random((120, 3)) < 0.2)
    model = AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0).fit(X, rng.normal(size=120))
    model.save(tmp_path / "model.stablemiss")
    mlflow.pyfunc.save_model(
        tmp_path / "served",
        python_model=str(RECIPE),
        artifacts={"model": str(tmp_path / "model.stablemiss")},
        pip_requirements=["stablemiss"],
    )
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "served"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    empty = pandas.DataFrame(np.full((1, 3), np.nan), columns=["a", "b", "c"])
    np.testing.assert_array_equal(loaded.predict(empty), model.predict(empty))
