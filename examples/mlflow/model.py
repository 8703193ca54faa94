"""A saved model as an mlflow pyfunc model, defined by code instead of a pickle.

mlflow.pyfunc.log_model(name="model", python_model="model.py", artifacts={"model": "houses.stablemiss"})
"""

from typing import Any

import mlflow

from stablemiss import load_model


class StableMissModel(mlflow.pyfunc.PythonModel):
    """Predictions of the model file in the artifact "model"; NaN, None and null mean missing."""

    def load_context(self, context: Any) -> None:
        self.model = load_model(context.artifacts["model"])

    # Without type hints, which mlflow would take for the schema of the table.
    def predict(self, context, model_input, params=None):
        """Predictions of a table; class probabilities of a classifier."""
        predict = self.model.predict_proba if hasattr(self.model, "classes_") else self.model.predict
        return predict(model_input)


mlflow.models.set_model(StableMissModel())
