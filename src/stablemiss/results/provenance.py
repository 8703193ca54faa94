"""Where a result comes from: parameters, versions, source code, memory."""

from __future__ import annotations

import math
import platform
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("stablemiss", "numpy", "scipy", "torch", "scikit-learn", "lightgbm")


def provenance() -> dict[str, Any]:
    """Fields of every record that describe its origin: versions, digest of the source code, time.

    Examples
    --------
    >>> sorted(provenance())
    ['finished', 'source', 'versions']
    """
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return {"versions": versions(), "source": source_digest(), "finished": finished}


def versions() -> dict[str, str]:
    """Versions of Python and of every package that can change a score.

    Examples
    --------
    >>> sorted(versions())
    ['lightgbm', 'numpy', 'python', 'scikit-learn', 'scipy', 'stablemiss', 'torch']
    """
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@cache
def source_digest() -> str:
    """Twelve hexadecimal digits that change with any line of this package's source code.

    Examples
    --------
    >>> len(source_digest())
    12
    """
    folder = Path(__file__).parents[1]
    digest = sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def describe(value: Any) -> Any:
    """Parameters of an object as dictionaries, lists, numbers and strings, which JSON can represent.

    Estimators, methods and dataclasses (mechanisms, architectures) become their class name and their
    parameters. Any other object, and a dataclass with a `repr` of its own, becomes its `repr`.

    Examples
    --------
    >>> from stablemiss.methods import Boosting
    >>> describe(Boosting(masked_copies=6))["masked_copies"]
    6
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # JSON has no NaN and no infinity.
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): describe(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [describe(entry) for entry in value]
    if hasattr(value, "get_params") and not isinstance(value, type):
        parameters = value.get_params(deep=False)
    elif is_dataclass(value) and not isinstance(value, type) and _has_dataclass_repr(value):
        # Fields that are excluded from the repr hold what was fitted, not parameters.
        parameters = {field.name: getattr(value, field.name) for field in fields(value) if field.repr}
    else:
        return repr(value)
    return {"class": type(value).__name__, **{name: describe(entry) for name, entry in parameters.items()}}


def _has_dataclass_repr(value: Any) -> bool:
    """Whether the `repr` of a dataclass lists its fields."""
    return value.__dataclass_params__.repr


def is_described_by(value: Any, stored: Any) -> bool:
    """Whether `stored`, perhaps the result of an earlier version's `describe`, describes this object.

    Parameters that were added since are absent from it; they count as their defaults, which keep the earlier
    behaviour.

    Parameters
    ----------
    value : object
        An estimator or method whose parameters all have defaults, or None.
    stored : dict or None

    Examples
    --------
    >>> from stablemiss.methods import OLS
    >>> is_described_by(OLS(ridge=0.1), {"class": "OLS", "ridge": 0.1})
    True
    >>> is_described_by(OLS(inputs="mask"), {"class": "OLS", "ridge": 1e-6})
    False
    """
    if value is None or not isinstance(stored, Mapping):
        return value is None and stored is None
    return {**describe(type(value)()), **stored} == describe(value)


def reset_peak_memory() -> None:
    """Reset the peak that `peak_memory` returns, if the operating system supports it (Linux does)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Peak memory of this process in bytes, since `reset_peak_memory` or since it started."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
