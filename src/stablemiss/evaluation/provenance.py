"""Where a result comes from, in plain data that JSON can hold."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

PACKAGES = ("stablemiss", "numpy", "scipy", "torch", "scikit-learn", "lightgbm")


def versions() -> dict[str, str]:
    """Versions of Python and of everything that can change a score.

    Examples
    --------
    >>> sorted(versions())
    ['lightgbm', 'numpy', 'python', 'scikit-learn', 'scipy', 'stablemiss', 'torch']
    """
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@cache
def source_digest() -> str:
    """Twelve letters that change with any line of this package: rows of different code can be told apart.

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


def describe(thing: Any) -> Any:
    """What `thing` was set to, as dictionaries, lists, numbers and strings.

    Objects with parameters (methods, architectures, mechanisms) become their class's name and their parameters;
    what has neither parameters nor a JSON form becomes its `repr`.

    Examples
    --------
    >>> from stablemiss.methods import Boosting
    >>> describe(Boosting(masked_copies=6))["masked_copies"]
    6
    """
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, Mapping):
        return {str(key): describe(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [describe(value) for value in thing]
    if isinstance(thing, BaseEstimator):
        parameters = thing.get_params(deep=False)
    elif is_dataclass(thing):
        # Fields left out of the repr are what a fit has learnt, not what someone has set.
        parameters = {field.name: getattr(thing, field.name) for field in fields(thing) if field.repr}
    else:
        return repr(thing)
    return {"class": type(thing).__name__, **{name: describe(value) for name, value in parameters.items()}}
