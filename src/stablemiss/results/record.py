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
    """The error of a fitted model under one test mechanism.

    Attributes
    ----------
    mechanism : str
        Missingness mechanism of the test rows.
    level : float or None
        Its missing rate. None where the mechanism's name says all.
    error : float or None
        In the metric of the record. None where the run measures something else, stored in `extra`.
    predict_seconds : float or None
    extra : dict
        Further measurements, such as the coverage of intervals.
    """

    mechanism: str
    level: float | None
    error: float | None
    predict_seconds: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """One run. Every table, plot and page is made from records alone.

    Attributes
    ----------
    suite : str
        The collection the run belongs to, such as "standard" (a budget of the reproduction) or "regret".
    dataset : str
    mechanism : str
        Missingness mechanism of the training rows.
    level : float or None
        Its missing rate. None where the mechanism's name says all.
    instance : int
        Number of the population or of the split of a real table.
    label : str
        What was fitted.
    seed : int
    scores : tuple of Score
        Empty if the run failed.
    metric : str
        What the scores' errors are: "rmse" or "log loss".
    failure : str or None
        Why the run failed, if it did.
    settings : dict
        Everything else that determines the scores. A stored record with other settings is out of date.
    config : dict
        Parameters of what was fitted, after a search if there was one.
    n_rows, n_test_rows, n_features : int or None
    fit_seconds, predict_seconds, seconds : float or None
        Time to fit, to predict all tests, and of the whole run.
    peak_memory : int or None
        Bytes.
    extra : dict
        Further measurements of a benchmark.
    versions : dict
        Versions of Python and of the packages that can change a score.
    source : str
        Digest of the package's source code.
    finished : str
        UTC time in ISO format.

    Examples
    --------
    >>> record = Record("demo", "gaussian", "mar", 0.5, 0, "ols", seed=0, scores=(Score("mar", 0.9, 1.5),))
    >>> record.key
    'demo gaussian mar 0.5 0 ols'
    >>> Record.from_json(record.to_json()) == record
    True
    """

    suite: str
    dataset: str
    mechanism: str
    level: float | None
    instance: int
    label: str
    seed: int
    scores: tuple[Score, ...] = ()
    metric: str = "rmse"
    failure: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    n_rows: int | None = None
    n_test_rows: int | None = None
    n_features: int | None = None
    fit_seconds: float | None = None
    predict_seconds: float | None = None
    seconds: float | None = None
    peak_memory: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    finished: str = ""

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


_FLOAT = (int, float)
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float | None": (*_FLOAT, type(None)),
    "int | None": (int, type(None)),
    "str | None": (str, type(None)),
    "Mapping[str, Any]": (dict,),
    "Mapping[str, str]": (dict,),
    "tuple[Score, ...]": (tuple,),
}


def _check_types(part: Record | Score) -> None:
    for one in fields(part):
        value = getattr(part, one.name)
        if not isinstance(value, _TYPES[str(one.type)]):
            raise ValueError(f"not a result record: {one.name} is {value!r}")
