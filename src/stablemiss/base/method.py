"""The interface of all methods: a `Method` holds hyper-parameters, a `Predictor` is the fitted model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self, final

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from stablemiss.base.search_space import Space
from stablemiss.data import Bools, Floats, MaskedData, zero_where_missing
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class Predictor(ABC):
    """A fitted model, as returned by `Method.fit`."""

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
    """Hyper-parameters of one way to predict from incomplete rows. Holds no fitted state."""

    name: ClassVar[str]
    predictor_class: ClassVar[type[Predictor]]
    # Search space for tuning; empty by default.
    space: ClassVar[Space] = {}
    # Hyper-parameters of a small model that is fitted quickly, for first experiments and for tests.
    brief: ClassVar[Mapping[str, Any]] = {}

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


def check_at_least(method: object, **bounds: float) -> None:
    """Raise ValueError if a parameter of `method` is below its lower bound or has the wrong type.

    A parameter whose bound is an integer must be an integer; otherwise it must be a finite number.

    Parameters
    ----------
    method : object
        Has the parameters as attributes.
    **bounds : int or float
        Parameter name → lower bound.

    See Also
    --------
    check_widths : The same for layer widths.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_at_least(SimpleNamespace(depth=3, ridge=0.1), depth=1, ridge=0.0)
    >>> check_at_least(SimpleNamespace(depth=2.5), depth=1)
    Traceback (most recent call last):
    ValueError: depth must be an integer of at least 1; got 2.5.
    """
    for name, bound in bounds.items():
        value = getattr(method, name)
        if isinstance(bound, Integral):
            if not _is_integer(value):
                raise ValueError(f"{name} must be an integer of at least {bound}; got {value!r}.")
        elif isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"{name} must be a finite number of at least {bound}; got {value!r}.")
        if value < bound:
            raise ValueError(f"{name} must be at least {bound}; got {value!r}.")


def check_widths(method: object, *names: str) -> None:
    """Raise ValueError if a parameter of `method` is not a sequence of layer widths; it may be empty.

    Parameters
    ----------
    method : object
        Has the parameters as attributes.
    *names : str
        Parameters to check.

    See Also
    --------
    check_at_least : The same for single numbers.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_widths(SimpleNamespace(encoder=(64, 32), decoder=[]), "encoder", "decoder")
    >>> check_widths(SimpleNamespace(hidden=128), "hidden")
    Traceback (most recent call last):
    ValueError: hidden must be a sequence of layer widths; got 128. For a single layer use (128,).
    """
    for name in names:
        widths = getattr(method, name)
        if _is_integer(widths) and widths >= 1:
            raise ValueError(
                f"{name} must be a sequence of layer widths; got {widths!r}. "
                f"For a single layer use ({widths},)."
            )
        if isinstance(widths, str) or not isinstance(widths, Sequence):
            raise ValueError(f"{name} must be a sequence of layer widths, such as (128, 64); got {widths!r}.")
        if not all(_is_integer(width) and width >= 1 for width in widths):
            raise ValueError(f"{name} must contain only integers of at least 1; got {widths!r}.")


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
