"""StableMiss, the method of the paper, as scikit-learn estimators with its hyper-parameters as parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sklearn.base import ClassifierMixin, RegressorMixin

from stablemiss.decorrelation import Form
from stablemiss.estimators.base import MissingEstimator, OnUnseenMissing
from stablemiss.methods import Method, StableMiss
from stablemiss.methods.stablemiss import Decorrelate


class _StableMissEstimator(MissingEstimator):
    """Parameters of regressor and classifier."""

    def __init__(
        self,
        architecture: Literal["linear", "mlp"] = "linear",
        *,
        hidden: int = 128,
        layers: int = 1,
        g_hidden: Sequence[int] = (32,),
        rank: int | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 3.0,
        batch_size: int = 256,
        max_epochs: int = 200,
        patience: int = 4,
        device: str = "auto",
        decorrelate: Decorrelate = "none",
        form: Form = "weighted",
        strength: float = 0.25,
        gamma: float | None = None,
        validation_fraction: float = 0.15,
        random_state: Any = None,
        on_unseen_missing: OnUnseenMissing = "warn",
        allow_missing_columns: bool = False,
        max_one_hot: int = 12,
        verbose: bool = False,
    ):
        self.architecture = architecture
        self.hidden = hidden
        self.layers = layers
        self.g_hidden = g_hidden
        self.rank = rank
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.device = device
        self.decorrelate = decorrelate
        self.form = form
        self.strength = strength
        self.gamma = gamma
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.on_unseen_missing = on_unseen_missing
        self.allow_missing_columns = allow_missing_columns
        self.max_one_hot = max_one_hot
        self.verbose = verbose

    def _make_method(self, columns: Sequence[str] | None) -> Method:
        names = StableMiss().get_params(deep=False)
        return StableMiss(**{name: getattr(self, name) for name in names})


class StableMissRegressor(RegressorMixin, _StableMissEstimator):
    """Regression on tables with missing values by StableMiss: the mask determines the parameters.

    ``StableMissRegressor("mlp")`` is short for ``MissingRegressor(method=StableMiss("mlp"))``.

    Parameters
    ----------
    architecture, hidden, layers, g_hidden, rank, learning_rate, weight_decay, batch_size, max_epochs, \
patience, device, decorrelate, form, strength, gamma
        The hyper-parameters of `stablemiss.methods.StableMiss`, with the same defaults.
    validation_fraction, random_state, on_unseen_missing, allow_missing_columns, max_one_hot, verbose
        As in `MissingRegressor`, with the same defaults.

    Attributes
    ----------
    n_features_in_ : int
        Columns of the training table.
    feature_names_in_ : (n_features_in_,) array of str
        Names of these columns; only if the table had column names.
    n_outputs_ : int
        Numbers predicted per row.

    See Also
    --------
    StableMissClassifier : The same for classes.
    AnyMaskRegressor : The recommended method.
    MissingRegressor : Any other method of the library.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X.sum(axis=1)
    >>> X[rng.uniform(size=X.shape) < 0.2] = np.nan
    >>> model = StableMissRegressor(max_epochs=20, random_state=0).fit(X, y)
    >>> model.predict([[1.0, None, 1.0]]).shape
    (1,)
    """


class StableMissClassifier(ClassifierMixin, _StableMissEstimator):
    """Classification on tables with missing values by StableMiss: the mask determines the parameters.

    ``StableMissClassifier("mlp")`` is short for ``MissingClassifier(method=StableMiss("mlp"))``.

    Parameters
    ----------
    architecture, hidden, layers, g_hidden, rank, learning_rate, weight_decay, batch_size, max_epochs, \
patience, device, decorrelate, form, strength, gamma
        The hyper-parameters of `stablemiss.methods.StableMiss`, with the same defaults.
    validation_fraction, random_state, on_unseen_missing, allow_missing_columns, max_one_hot, verbose
        As in `MissingClassifier`, with the same defaults.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The sorted labels, in the order of the columns of `predict_proba`.
    n_features_in_ : int
        Columns of the training table.
    feature_names_in_ : (n_features_in_,) array of str
        Names of these columns; only if the table had column names.

    See Also
    --------
    StableMissRegressor : The same for numeric targets.
    AnyMaskClassifier : The recommended method.
    MissingClassifier : Any other method of the library.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = np.where(X.sum(axis=1) > 0, "up", "down")
    >>> X[rng.uniform(size=X.shape) < 0.2] = np.nan
    >>> model = StableMissClassifier(max_epochs=20, random_state=0).fit(X, y)
    >>> model.predict_proba([[1.0, None, 1.0]]).shape
    (1, 2)
    """
