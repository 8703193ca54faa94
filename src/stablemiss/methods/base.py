"""The contract: a method is hyper-parameters and one function; a predictor is what it learnt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, final

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from stablemiss.data import Floats, MaskedData, hide
from stablemiss.methods.space import Space
from stablemiss.progress import Silence
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

    @abstractmethod
    def fit(self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Silence) -> Predictor:
        """Learn from `train`, decide when to stop and how large to be on `valid`.

        Parameters
        ----------
        train, valid : MaskedData
            Encoded rows; the weights of both together have mean one.
        task : Task
            What the targets mean and which loss counts.
        rng : numpy Generator
            The only source of randomness.
        progress : Silence
            Told what is going on.
        """


def check_at_least(method: object, **least: float) -> None:
    """Raise if a parameter of `method` is below its bound; None is let pass."""
    for name, bound in least.items():
        value = getattr(method, name)
        if value is not None and not value >= bound:
            raise ValueError(f"{name}={value!r} is too small; give at least {bound}.")
