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
    level: float | None  # missing rate; None where the mechanism's name says all
    error: float | None  # in the metric of the record; None where the run measures something else
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

    suite: str  # the collection of the run, such as "standard" (a budget of the reproduction) or "regret"
    dataset: str
    mechanism: str  # missingness of the training rows
    level: float | None  # its missing rate; None where the mechanism's name says all
    instance: int  # number of the population, or of the split of a real table
    label: str  # what was fitted
    seed: int
    scores: tuple[Score, ...] = ()  # empty if the run failed
    metric: str = "rmse"  # or "log loss", …
    failure: str | None = None  # why the run failed
    settings: Mapping[str, Any] = field(default_factory=dict)  # what else determines the scores
    config: Mapping[str, Any] = field(default_factory=dict)  # parameters of the fitted model
    n_rows: int | None = None
    n_test_rows: int | None = None
    n_features: int | None = None
    fit_seconds: float | None = None
    predict_seconds: float | None = None  # of all tests
    seconds: float | None = None  # of the whole run
    peak_memory: int | None = None  # bytes
    extra: Mapping[str, Any] = field(default_factory=dict)  # further measurements of a benchmark
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # digest of the package's source code
    finished: str = ""  # UTC, ISO format

    @property
    def key(self) -> str:
        """One line that identifies the run within all suites."""
        parts = (self.suite, self.dataset, self.mechanism, self.level, self.instance, self.label)
        return " ".join(map(str, parts))

    def outcome(self) -> dict[str, Any]:
        """The record without the fields that differ between two executions of the same run."""
        found = {name: value for name, value in asdict(self).items() if name not in MEASURED}
        for score in found["scores"]:
            del score["predict_seconds"]
        return found

    def to_json(self) -> str:
        """The record as one line of JSON. Non-finite numbers are refused."""
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


def _check_types(part: Record | Score) -> None:
    for one in fields(part):
        if not isinstance(value := getattr(part, one.name), _TYPES[str(one.type)]):
            raise ValueError(f"not a result record: {one.name} is {value!r}")
