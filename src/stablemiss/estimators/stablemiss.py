"""StableMiss, the method of the paper, as scikit-learn estimators with its hyper-parameters as parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sklearn.base import ClassifierMixin

from stablemiss.architectures import Architecture
from stablemiss.base.network import Schedule
from stablemiss.decorrelation import Form
from stablemiss.encoding import OnOutOfRange
from stablemiss.estimators.arrays import ArrayScoreMixin
from stablemiss.estimators.base import MissingEstimator
from stablemiss.estimators.new_rows import OnUnseenMissing
from stablemiss.estimators.validation import ValidationSplit
from stablemiss.methods import Method, StableMiss
from stablemiss.methods.stablemiss import Decorrelate


class _StableMissEstimator(MissingEstimator):
    """Parameters shared by `StableMissRegressor` and `StableMissClassifier`."""

    def __init__(
        self,
        architecture: Literal["linear", "mlp"] | Architecture = "linear",
        *,
        hidden: int = 128,
        layers: int = 1,
        g_hidden: Sequence[int] = (128,),
        rank: int | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 3.0,
        batch_size: int = 64,
        max_epochs: int = 200,
        patience: int | None = 8,
        device: str = "auto",
        decorrelate: Decorrelate = "none",
        form: Form = "weighted",
        strength: float = 0.25,
        gamma: float | Sequence[float] | None = None,
        mask_augmentation: bool = False,
        schedule: Schedule = "adaptive",
        validation_fraction: float = 0.15,
        validation_split: ValidationSplit = None,
        random_state: Any = None,
        on_unseen_missing: OnUnseenMissing = "auto",
        on_out_of_range: OnOutOfRange = "clip",
        allow_missing_columns: bool = False,
        max_one_hot: int | Literal["auto"] = "auto",
        date_features: bool = True,
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
        self.mask_augmentation = mask_augmentation
        self.schedule = schedule
        self.validation_fraction = validation_fraction
        self.validation_split = validation_split
        self.random_state = random_state
        self.on_unseen_missing = on_unseen_missing
        self.on_out_of_range = on_out_of_range
        self.allow_missing_columns = allow_missing_columns
        self.max_one_hot = max_one_hot
        self.date_features = date_features
        self.verbose = verbose

    def _make_method(self, columns: Sequence[str] | None) -> Method:
        names = StableMiss().get_params(deep=False)
        return StableMiss(**{name: getattr(self, name) for name in names})


class StableMissRegressor(ArrayScoreMixin, _StableMissEstimator):
    """Regression on tables or images with missing values by StableMiss, the method of the paper.

    The prediction is g(x ⊙ m; φ(m)): a network φ generates the parameters of the predictor g from the mask m.
    ``StableMissRegressor("mlp")`` is short for ``MissingRegressor(method=StableMiss("mlp"))``.

    Parameters
    ----------
    architecture : {"linear", "mlp"} or Architecture, default="linear"
        Architecture of g. "linear", the paper's choice for synthetic data, is fast and, for a given mask,
        linear in the observed values. "mlp" is non-linear, which most real tables need, and takes about three
        times as long. An object of `stablemiss.architectures`, such as ``CNN()``, reads arrays, such as
        images; `hidden`, `layers`, `g_hidden` and `rank` are then ignored.
    hidden : int, default=128
        Width of each hidden layer of φ. A larger value distinguishes more masks and overfits earlier.
    layers : int, default=1
        Number of hidden layers of φ. More layers represent more complex functions of the mask; 0 makes the
        parameters of g linear in the mask.
    g_hidden : sequence of int, default=(128,)
        Widths of the hidden layers of g, for "mlp". Wider and more layers are more flexible; the cost of the
        last layer of φ grows with the number of parameters of g.
    rank : int, default=None
        If given, the parameters of g vary with the mask only in a subspace of this dimension. A higher rank
        is more flexible, None the most; a low rank makes a large g affordable.
    learning_rate : float, default=1e-3
        Initial learning rate, lowered up to three times. A larger value trains faster and less reliably.
    weight_decay : float, default=3.0
        Weight decay of φ. It shrinks the predictors of all masks towards a common predictor, which is not
        shrunk itself. A larger value overfits less; above about ten, masks are no longer distinguished.
    batch_size : int, default=64
        Maximum number of rows in a step. A larger value gives faster epochs and fewer steps. If this
        gives fewer than sixteen batches per pass, batches are made smaller, down to 32 rows.
    max_epochs : int, default=200
        Maximum number of epochs. On small tables an epoch consists of several passes (at least sixteen
        batches).
    patience : int or None, default=8
        Epochs without a better validation loss after which the learning rate is lowered, at most three times;
        then training ends. A larger value finds late improvements and takes longer. None turns early stopping
        off: all epochs are run, and the network of the last one is kept.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.
    decorrelate : {"none", "intra", "inter", "full"}, default="none"
        Dependences that the row weights lower: "intra", between columns and between mask indicators; "inter",
        between columns and mask indicators; "full", both. "none" learns no weights.
    form : {"weighted", "paper"}, default="weighted"
        How dependence is measured; see `stablemiss.decorrelation.dependence`.
    strength : float, default=0.25
        Strength of the penalty on uneven weights: its coefficient γ as a fraction of the critical value, at
        which all weights stay equal. Larger values therefore decorrelate less; towards 0 dependence falls
        further and fewer rows carry the weight.
    gamma : float, sequence of float or None, default=None
        γ itself, as in the paper; `strength` is then ignored. Of several values, the one with the lowest
        validation loss is kept (without early stopping, the lowest training loss). A network is trained for
        each value, except for those whose weights differ from earlier ones by less than half a per cent on
        average.
    mask_augmentation : bool, default=False
        Whether further values are hidden at random in training, so that new masks are no surprise: each time
        at another rate, cells of a table or image alone, sensors with their whole history. Meant for
        missingness that will be far from that in training. Not in the paper.
    schedule : {"adaptive", "one_cycle"}, default="adaptive"
        "adaptive" lowers the learning rate when validation rows show no improvement, see `patience`.
        "one_cycle" raises it and lowers it to zero over all `max_epochs`, without early stopping: `patience`
        has no effect, and validation rows only choose γ and give `validation_scores_`. Meant for images and
        sensor networks, with about ten epochs and a learning rate several times as high.
    validation_fraction : float, default=0.15
        Share of the rows held out for early stopping and for choosing the size of the model. Raising it makes
        these choices more reliable and leaves fewer rows to train on.
    validation_split : float, scikit-learn splitter or None, default=None
        How validation rows are chosen. None takes `validation_fraction` of the rows: at random, or whole
        groups or the latest rows if `groups` or `time` is passed to `fit`. A float replaces
        `validation_fraction`. Of a splitter, such as ``TimeSeriesSplit(5)``, the last split is used.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the fit reproducible. The global random state is never used or changed.
    on_unseen_missing : "auto", "warn", "raise" or "ignore", default="auto"
        What `predict` does if a column that was never missing in training has missing values. "auto" warns,
        unless the method hides values at random in training, as AnyMask does.
    on_out_of_range : "clip", "missing" or "raise", default="clip"
        What `predict` does with numbers far outside the range in training (further from it than half its
        width, or more if there are few training rows): "clip" moves them to that limit and "missing" treats
        them as missing, both with a warning; "raise" raises an error.
    allow_missing_columns : bool, default=False
        True lets `predict` accept tables that lack columns, which then count as missing in every row.
    max_one_hot : int or "auto", default="auto"
        Text columns with at most this many categories are one-hot encoded, others are target encoded, with
        one column per target. Raising it keeps more categories distinct and makes the encoded table wider.
        "auto" is 12, or fewer if the encoded table would have more than 160 columns.
    date_features : bool, default=True
        True turns each date column into year, month, day of the year, weekday and hour, with their cycles;
        text in which every entry is a date is one too. False refuses dates and leaves such text categorical.
    verbose : bool, default=False
        Show a progress bar during `fit`.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of the training table, or of cells of one array.
    feature_names_in_ : (n_features_in_,) array of str
        Names of these columns. Defined only if all column names are strings.
    column_report_ : list of ColumnSummary
        How each of these columns was read, and what is unusual about it.
    n_outputs_ : int
        Number of targets, or of cells of one target array.

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

    Images, here of 8 × 8 pixels:

    >>> from stablemiss.architectures import CNN
    >>> images = rng.normal(size=(50, 8, 8))
    >>> incomplete = np.where(rng.random(images.shape) < 0.3, np.nan, images)
    >>> model = StableMissRegressor(CNN(channels=(4, 4, 4)), max_epochs=3, random_state=0)
    >>> model.fit(incomplete, images).predict(incomplete).shape
    (50, 8, 8)
    """


class StableMissClassifier(ClassifierMixin, _StableMissEstimator):
    """Classification on tables with missing values by StableMiss, the method of the paper.

    The prediction is g(x ⊙ m; φ(m)): a network φ generates the parameters of the predictor g from the mask m.
    ``StableMissClassifier("mlp")`` is short for ``MissingClassifier(method=StableMiss("mlp"))``.

    Parameters
    ----------
    architecture : {"linear", "mlp"}, default="linear"
        Architecture of g. "linear", the paper's choice for synthetic data, is fast and, for a given mask,
        linear in the observed values. "mlp" is non-linear, which most real tables need, and takes about three
        times as long.
    hidden : int, default=128
        Width of each hidden layer of φ. A larger value distinguishes more masks and overfits earlier.
    layers : int, default=1
        Number of hidden layers of φ. More layers represent more complex functions of the mask; 0 makes the
        parameters of g linear in the mask.
    g_hidden : sequence of int, default=(128,)
        Widths of the hidden layers of g, for "mlp". Wider and more layers are more flexible; the cost of the
        last layer of φ grows with the number of parameters of g.
    rank : int, default=None
        If given, the parameters of g vary with the mask only in a subspace of this dimension. A higher rank
        is more flexible, None the most; a low rank makes a large g affordable.
    learning_rate : float, default=1e-3
        Initial learning rate, lowered up to three times. A larger value trains faster and less reliably.
    weight_decay : float, default=3.0
        Weight decay of φ. It shrinks the predictors of all masks towards a common predictor, which is not
        shrunk itself. A larger value overfits less; above about ten, masks are no longer distinguished.
    batch_size : int, default=64
        Maximum number of rows in a step. A larger value gives faster epochs and fewer steps. If this
        gives fewer than sixteen batches per pass, batches are made smaller, down to 32 rows.
    max_epochs : int, default=200
        Maximum number of epochs. On small tables an epoch consists of several passes (at least sixteen
        batches).
    patience : int or None, default=8
        Epochs without a better validation loss after which the learning rate is lowered, at most three times;
        then training ends. A larger value finds late improvements and takes longer. None turns early stopping
        off: all epochs are run, and the network of the last one is kept.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.
    decorrelate : {"none", "intra", "inter", "full"}, default="none"
        Dependences that the row weights lower: "intra", between columns and between mask indicators; "inter",
        between columns and mask indicators; "full", both. "none" learns no weights.
    form : {"weighted", "paper"}, default="weighted"
        How dependence is measured; see `stablemiss.decorrelation.dependence`.
    strength : float, default=0.25
        Strength of the penalty on uneven weights: its coefficient γ as a fraction of the critical value, at
        which all weights stay equal. Larger values therefore decorrelate less; towards 0 dependence falls
        further and fewer rows carry the weight.
    gamma : float, sequence of float or None, default=None
        γ itself, as in the paper; `strength` is then ignored. Of several values, the one with the lowest
        validation loss is kept (without early stopping, the lowest training loss). A network is trained for
        each value, except for those whose weights differ from earlier ones by less than half a per cent on
        average.
    mask_augmentation : bool, default=False
        Whether further values are hidden at random in training, so that new masks are no surprise: each time
        at another rate, cells of a table or image alone, sensors with their whole history. Meant for
        missingness that will be far from that in training. Not in the paper.
    schedule : {"adaptive", "one_cycle"}, default="adaptive"
        "adaptive" lowers the learning rate when validation rows show no improvement, see `patience`.
        "one_cycle" raises it and lowers it to zero over all `max_epochs`, without early stopping: `patience`
        has no effect, and validation rows only choose γ and give `validation_scores_`. Meant for images and
        sensor networks, with about ten epochs and a learning rate several times as high.
    validation_fraction : float, default=0.15
        Share of the rows held out, stratified by class, for early stopping and for choosing the size of the
        model. Raising it makes these choices more reliable and leaves fewer rows to train on.
    validation_split : float, scikit-learn splitter or None, default=None
        How validation rows are chosen. None takes `validation_fraction` of the rows: at random, or whole
        groups or the latest rows if `groups` or `time` is passed to `fit`. A float replaces
        `validation_fraction`. Of a splitter, such as ``TimeSeriesSplit(5)``, the last split is used.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the fit reproducible. The global random state is never used or changed.
    on_unseen_missing : "auto", "warn", "raise" or "ignore", default="auto"
        What `predict` does if a column that was never missing in training has missing values. "auto" warns,
        unless the method hides values at random in training, as AnyMask does.
    on_out_of_range : "clip", "missing" or "raise", default="clip"
        What `predict` does with numbers far outside the range in training (further from it than half its
        width, or more if there are few training rows): "clip" moves them to that limit and "missing" treats
        them as missing, both with a warning; "raise" raises an error.
    allow_missing_columns : bool, default=False
        True lets `predict` accept tables that lack columns, which then count as missing in every row.
    max_one_hot : int or "auto", default="auto"
        Text columns with at most this many categories are one-hot encoded, others are target encoded, with
        one column per class (one column for two classes). Raising it keeps more categories distinct and makes
        the encoded table wider. "auto" is 12, or fewer if the encoded table would have more than 160 columns.
    date_features : bool, default=True
        True turns each date column into year, month, day of the year, weekday and hour, with their cycles;
        text in which every entry is a date is one too. False refuses dates and leaves such text categorical.
    verbose : bool, default=False
        Show a progress bar during `fit`.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The sorted labels, in the order of the columns of `predict_proba`.
    n_features_in_ : int
        Number of columns of the training table.
    feature_names_in_ : (n_features_in_,) array of str
        Names of these columns. Defined only if all column names are strings.
    column_report_ : list of ColumnSummary
        How each of these columns was read, and what is unusual about it.

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
