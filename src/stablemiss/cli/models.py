"""The estimator that the command line fits: the one that the method has in Python."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stablemiss.estimators.base import MissingEstimator

DEFAULT_METHOD = "anymask"
BUDGETS = ("fast", "default", "best")
# As in `stablemiss.estimators.archive`, which takes seconds to import.
FILE_FORMAT = "stablemiss model"


@dataclass(frozen=True)
class MethodChoice:
    """A method and its hyper-parameters.

    Attributes
    ----------
    method : str, default="anymask"
        Name of the method.
    params : dict, default=None
        Hyper-parameters; None for the defaults.
    """

    method: str = DEFAULT_METHOD
    params: dict[str, Any] | None = None

    def estimator(self, classify: bool, **parameters: Any) -> MissingEstimator:
        """Create the estimator that the method has in Python, such as `AnyMaskRegressor`.

        Parameters
        ----------
        classify : bool
            Whether to create a classifier.
        **parameters
            Parameters that all estimators have.
        """
        from stablemiss import estimators
        from stablemiss.estimators.missing import method_with_params

        # Checks the name of the method and the names of its hyper-parameters.
        method_with_params(self.method, self.params)
        task = "Classifier" if classify else "Regressor"
        own_classes = {"anymask": f"AnyMask{task}", "stablemiss": f"StableMiss{task}"}
        if self.method in own_classes:
            return getattr(estimators, own_classes[self.method])(**(self.params or {}), **parameters)
        return getattr(estimators, f"Missing{task}")(self.method, params=self.params, **parameters)


def is_model(path: Path) -> bool:
    """Whether a file is a model, of any version."""
    from safetensors import safe_open

    # A pipe can be opened only once.
    if not path.is_file():
        return False
    try:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get("format") == FILE_FORMAT
    except Exception:  # The library for safetensors raises errors of many types.
        return False


def check_replaces_model(path: Path) -> None:
    """Raise ValueError if writing a model to `path` would replace a file with other content."""
    if path.is_file() and path.stat().st_size and not is_model(path):
        raise ValueError(
            f"--model {path} exists and is not a model, so it is not replaced. Choose another name or "
            "delete it."
        )


def choose_method(method: str | None, budget: str | None, params: str | None) -> MethodChoice:
    """Combine the options --method, --budget and --params.

    Parameters
    ----------
    method : str or None
        Name of the method.
    budget : str or None
        Budget of AnyMask.
    params : str or None
        JSON, or a JSON file, with hyper-parameters, or with "method" and "params" as written by `tune`.

    Examples
    --------
    >>> choose_method(None, "fast", None)
    MethodChoice(method='anymask', params={'budget': 'fast'})
    >>> choose_method(None, None, '{"method": "ols", "params": {"ridge": 0.1}}')
    MethodChoice(method='ols', params={'ridge': 0.1})
    """
    settings = read_params(params)
    if settings is not None and settings.keys() == {"method", "params"}:
        named, settings = settings["method"], settings["params"]
        if method not in (None, named):
            raise ValueError(
                f"--params {params} is for the method {named!r}, but --method is {method!r}; omit --method."
            )
        method = named
    method = method or DEFAULT_METHOD
    if budget is not None:
        if method != DEFAULT_METHOD:
            raise ValueError(f"--budget is for the method 'anymask', but the method is {method!r}; omit it.")
        if budget not in BUDGETS:
            raise ValueError(f"--budget must be {', '.join(BUDGETS[:-1])} or {BUDGETS[-1]}; got {budget!r}.")
        settings = settings or {}
        if settings.get("budget", budget) != budget:
            raise ValueError(
                f"--params sets the budget {settings['budget']!r}, but --budget is {budget!r}; omit one."
            )
        settings = {**settings, "budget": budget}
    return MethodChoice(method, settings)


def read_params(argument: str | None) -> dict[str, Any] | None:
    """Read a JSON object from text or from a file.

    Examples
    --------
    >>> read_params('{"depth": 5}')
    {'depth': 5}
    """
    if argument is None:
        return None
    text = argument
    if not argument.lstrip().startswith("{"):
        if not Path(argument).is_file():
            raise ValueError(
                f"--params must be JSON such as '{{\"ridge\": 0.1}}' or a JSON file; "
                f"there is no file {argument}."
            )
        text = Path(argument).read_text()
    try:
        params = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--params {argument} is not valid JSON: {error}.") from error
    if not isinstance(params, dict):
        raise ValueError(f'--params {argument} must be a JSON object such as {{"ridge": 0.1}}.')
    return params


def params_file(argument: str | None) -> Path | None:
    """The file that --params names; None if it is JSON or not given."""
    return None if argument is None or argument.lstrip().startswith("{") else Path(argument)
