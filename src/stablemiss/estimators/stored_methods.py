"""Methods by their names, and as model files store them."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from stablemiss.checks import shown
from stablemiss.estimators.archive import ArchiveError
from stablemiss.methods import METHODS, Method


def to_method(method: str | Method) -> Method:
    """Create a method with default hyper-parameters from its name in METHODS, or copy a given method."""
    if isinstance(method, Method):
        return clone(method)
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]()
    raise ValueError(
        f"method must be one of {', '.join(map(repr, METHODS))}, or a Method such as OLS(inputs='mask'); "
        f"got {shown(method)}."
    )


def describe(method: Method) -> dict[str, Any]:
    """Name and hyper-parameters of a method, in the form in which a model file stores them."""
    if METHODS.get(method.name) is not type(method):
        raise ValueError(
            f"{type(method).__name__} cannot be saved, because load_model only builds the methods in METHODS "
            f"({', '.join(METHODS)}). Add it there as {method.name!r}."
        )
    return {"name": method.name, "parameters": method.get_params(deep=False)}


def from_description(description: dict[str, Any]) -> Method:
    """Build a method from the result of `describe`."""
    name = description["name"]
    if name not in METHODS:
        raise ArchiveError(
            f"The model was fitted with the method {name!r}, which this version of stablemiss does not have. "
            f"Its methods are {', '.join(METHODS)}. Install the version that saved the model."
        )
    return METHODS[name](**description["parameters"])
