"""The interface of all methods: a `Method` holds hyper-parameters, a `Predictor` is the fitted model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, final

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from stablemiss.base.search_space import Space
from stablemiss.data import Bools, Floats, MaskedData, zero_where_missing
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task

# Arrays are given to a method that only reads tables.
ARRAY_ADVICE = (
    "Reshape X, and y if it is an array, to one column per cell, X.reshape(len(X), -1); or use "
    "StableMissRegressor(architecture=CNN()) for images, or architecture=GraphTemporal(graph) for windows of "
    "a sensor network, both from stablemiss.architectures."
)


class Predictor(ABC):
    """A fitted model, as returned by `Method.fit`.

    See Also
    --------
    Method : Fits a predictor.
    """

    @final
    def predict(self, values: NDArray, mask: NDArray) -> Floats:
        """Raw outputs (n, d_output) for encoded rows.

        Sets missing values to zero before it calls `_predict`, which can rely on that.

        Parameters
        ----------
        values : (n, d)
            Encoded features. Values where `mask` is 0 have no influence and may be NaN.
        mask : (n, d)
            1 = observed.
        """
        mask = mask.astype(bool)
        return self._predict(zero_where_missing(values, mask), mask)

    @property
    def effective_share(self) -> float | None:
        """Effective sample size under the fitted row weights, divided by the number of training rows.

        One for equal weights; None if the method fits no row weights, or if the predictor was loaded.
        """
        return None

    @abstractmethod
    def _predict(self, values: Floats, mask: Bools) -> Floats:
        """Raw outputs (n, d_output) for values that are already zero where missing."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Arrays, numbers and strings from which `from_state` builds the same predictor."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        """Build a predictor from the result of `state`, which may come from a manipulated file.

        Types, shapes and values are checked with the functions of `stablemiss.stored` before anything is
        built, so that memory is limited by the size of the file. The caller checks the outputs.

        Parameters
        ----------
        state : dict
            The result of `state`.
        n_columns : int
            Number of encoded columns, (n, n_columns), that `predict` gets.
        task : Task
            Defines the number of outputs of `predict`.

        Raises
        ------
        ValueError or another exception
            If the state is invalid.
        """


class Method(BaseEstimator, ABC):
    """Hyper-parameters of one way to predict from incomplete rows. Holds no fitted state.

    See Also
    --------
    Predictor : What `fit` of a method returns.
    """

    name: ClassVar[str]
    predictor_class: ClassVar[type[Predictor]]
    # Whether rows and targets may be arrays, of which each cell is then a column. Such a method ignores the
    # target cells that `MaskedData.target_mask` marks as not observed.
    reads_arrays: ClassVar[bool] = False
    # What to do with arrays if it reads tables.
    array_advice: ClassVar[str] = ARRAY_ADVICE
    # Search space for tuning; empty by default.
    space: ClassVar[Space] = {}
    # Hyper-parameters of a small model that is fitted quickly, for first experiments and for tests.
    brief: ClassVar[Mapping[str, Any]] = {}

    @property
    def trains_on_validation(self) -> bool:
        """Whether validation rows become training rows in the end; errors on them are then too small."""
        return False

    @property
    def hides_values(self) -> bool:
        """Whether values are hidden at random in training, so that new masks are no surprise."""
        return False

    def check_shapes(self, shape: tuple[int, ...], output_shape: tuple[int, ...]) -> None:
        """Raise ValueError, which says what to do, unless the method accepts data of these shapes.

        Unless overridden, a method reads tables, and arrays if `reads_arrays`.

        Parameters
        ----------
        shape : tuple of int
            Shape of one row; (d,) for a table.
        output_shape : tuple of int
            Shape of the outputs of one row, `Task.output_shape`.
        """
        if not self.reads_arrays and (len(shape) > 1 or len(output_shape) > 1):
            raise ValueError(
                f"{type(self).__name__} reads tables, but one row of X has shape {shape}. {self.array_advice}"
            )

    @abstractmethod
    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> Predictor:
        """Fit to `train`; use `valid` for early stopping and model selection.

        Parameters
        ----------
        train, valid : MaskedData
            Encoded rows; the weights of both together have mean one.
        task : Task
            Regression or classification; defines the encoding of the targets and the loss.
        rng : numpy Generator
            The only source of randomness.
        progress : Progress
            Receives progress reports.
        """
