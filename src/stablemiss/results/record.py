"""The record of a run: what was fitted to which data, where it was tested, and its scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

# Fields that describe the execution of a run. They differ between two executions with the same outcome.
MEASURED = ("seconds", "fit_seconds", "predict_seconds", "peak_memory", "finished")


@dataclass(frozen=True)
class Score:
    """The error of a fitted model under one test mechanism."""

    mechanism: str
    level: float | None  # missing rate; None if the mechanism has no adjustable rate
    error: float | None  # in the metric of the record; None if the run measures something else
    predict_seconds: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)  # such as the coverage of intervals


@dataclass(frozen=True)
class Record:
    """One run. Every table, plot and page is made from records alone.

    Examples
    --------
    >>> record = Record("demo", "gaussian", "mar", 0.5, 0, "ols", seed=0, scores=(Score("mar", 0.9, 1.5),))
    >>> record.key
    'demo gaussian mar 0.5 0 ols'
    >>> Record.from_json(record.to_json()) == record
    True
    """

    experiment: str  # a budget of the reproduction, such as "standard", or a benchmark
    dataset: str
    mechanism: str  # missingness of the training rows
    level: float | None  # its missing rate; None if the mechanism has no adjustable rate
    instance: int  # number of the random population, or of the random split of a real table
    label: str  # name of the fitted model, such as a key of LABELS
    seed: int
    scores: tuple[Score, ...] = ()  # empty if the run failed
    metric: str = "rmse"  # or "log loss", …
    failure: str | None = None  # the error of a run that failed
    settings: Mapping[str, Any] = field(default_factory=dict)  # further settings that determine the scores
    config: Mapping[str, Any] = field(default_factory=dict)  # parameters of the fitted model
    n_rows: int | None = None
    n_test_rows: int | None = None
    n_features: int | None = None
    fit_seconds: float | None = None
    predict_seconds: float | None = None  # on all test rows, under all mechanisms
    seconds: float | None = None  # duration of the whole run, with drawing of the data
    peak_memory: int | None = None  # bytes
    extra: Mapping[str, Any] = field(default_factory=dict)  # further measurements of a benchmark
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # digest of the package's source code
    finished: str = ""  # UTC, ISO format

    @property
    def key(self) -> str:
        """One line that identifies the run within all experiments."""
        parts = (self.experiment, self.dataset, self.mechanism, self.level, self.instance, self.label)
        return " ".join(map(str, parts))

    def outcome(self) -> dict[str, Any]:
        """The record without the fields that differ between two executions of the same run."""
        values = {name: value for name, value in asdict(self).items() if name not in MEASURED}
        for score in values["scores"]:
            del score["predict_seconds"]
        return values

    def to_json(self) -> str:
        """The record as one line of JSON; raises ValueError if a number is not finite."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str | bytes) -> Record:
        """The record in a line of JSON; raises ValueError if the line does not hold one."""
        try:
            values = json.loads(line)
            scores = tuple(Score(**score) for score in values.pop("scores"))
            record = cls(**values, scores=scores)
        except (TypeError, AttributeError, KeyError, RecursionError) as error:
            raise ValueError(f"not a result record: {error}") from error
        _check_types(record)
        for score in scores:
            _check_types(score)
        return record


_NUMBER, _NONE = (int, float), type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float | None": (*_NUMBER, _NONE),
    "int | None": (int, _NONE),
    "str | None": (str, _NONE),
    "Mapping[str, Any]": (dict,),
    "Mapping[str, str]": (dict,),
    "tuple[Score, ...]": (tuple,),
}


def _check_types(instance: Record | Score) -> None:
    """Raise ValueError if a field does not have its declared type."""
    for declared in fields(instance):
        if not isinstance(value := getattr(instance, declared.name), _TYPES[str(declared.type)]):
            raise ValueError(f"not a result record: {declared.name} is {value!r}")
