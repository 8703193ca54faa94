"""The contract: a method is hyper-parameters and one function; a predictor is what it learnt."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self, final

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from stablemiss.base.search_space import Space
from stablemiss.data import Floats, MaskedData, hide
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class Predictor(ABC):
    """What a method learnt."""

    @final
    def predict(self, values: NDArray, mask: NDArray) -> Floats:
        """Raw outputs (n, d_output) for encoded rows.

        Parameters
        ----------
        values : (n, d)
            Encoded features. Cells where `mask` is 0 have no influence: they are zeroed here.
        mask : (n, d)
            1 = observed.
        """
        mask = mask.astype(bool)
        return self.outputs(hide(values, mask), mask)

    @abstractmethod
    def outputs(self, values: Floats, mask: NDArray) -> Floats:
        """Raw outputs for values that are already zero where hidden."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Arrays, numbers and strings from which `from_state` builds the same predictor."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The predictor that `state` described."""


class Method(BaseEstimator, ABC):
    """Hyper-parameters of one way to predict from incomplete rows. Holds no state."""

    name: ClassVar[str]
    predictor: ClassVar[type[Predictor]]
    # What is worth trying when the method is tuned; nothing by default.
    space: ClassVar[Space] = {}
    # Parameters with which it learns briefly and roughly: for first tries, and for tests of what does not
    # depend on size.
    brief: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> Predictor:
        """Learn from `train`, decide when to stop and how large to be on `valid`.

        Parameters
        ----------
        train, valid : MaskedData
            Encoded rows; the weights of both together have mean one.
        task : Task
            What the targets mean and which loss counts.
        rng : numpy Generator
            The only source of randomness.
        progress : Progress
            Told what is going on.
        """


def check_at_least(method: object, **least: float) -> None:
    """Raise if a parameter of `method` is below its bound, or no number of its kind.

    Where the bound is whole the parameter must be, too; else it must be finite.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_at_least(SimpleNamespace(depth=3, ridge=0.1), depth=1, ridge=0.0)
    >>> check_at_least(SimpleNamespace(depth=2.5), depth=1)
    Traceback (most recent call last):
    ValueError: depth=2.5 must be a whole number; give at least 1.
    """
    for name, bound in least.items():
        value = getattr(method, name)
        if isinstance(bound, Integral):
            if not _is_whole(value):
                raise ValueError(f"{name}={value!r} must be a whole number; give at least {bound}.")
        elif isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"{name}={value!r} must be a finite number; give at least {bound}.")
        if value < bound:
            raise ValueError(f"{name}={value!r} is too small; give at least {bound}.")


def check_widths(method: object, *names: str) -> None:
    """Raise if a parameter of `method` does not list the widths of layers, of which there may be none.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_widths(SimpleNamespace(encoder=(64, 32), decoder=[]), "encoder", "decoder")
    >>> check_widths(SimpleNamespace(hidden=128), "hidden")
    Traceback (most recent call last):
    ValueError: hidden=128 must be a sequence with the width of each layer; for a single one give (128,).
    """
    for name in names:
        widths = getattr(method, name)
        if _is_whole(widths) and widths >= 1:
            raise ValueError(
                f"{name}={widths!r} must be a sequence with the width of each layer; for a single one give "
                f"({widths},)."
            )
        if isinstance(widths, str) or not isinstance(widths, Sequence):
            raise ValueError(
                f"{name}={widths!r} must be a sequence with the width of each layer, such as (128, 64)."
            )
        if not all(_is_whole(width) and width >= 1 for width in widths):
            raise ValueError(
                f"{name}={widths!r} must hold whole numbers of at least 1, the width of each layer."
            )


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
