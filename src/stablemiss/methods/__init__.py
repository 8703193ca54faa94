"""Prediction methods for incomplete rows. Each method is one file and one line in the table below.

Classes are imported on first access. This keeps ``import stablemiss.methods`` fast. It also allows `METHODS`
to list `AnyMask`, whose package imports the methods defined here and is therefore in a layer above.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stablemiss.anymask.method import AnyMask
    from stablemiss.base.method import Method, Predictor
    from stablemiss.methods.boosting import Boosting
    from stablemiss.methods.column_net import ColumnNet
    from stablemiss.methods.constant import Constant
    from stablemiss.methods.crlr import CRLR
    from stablemiss.methods.dgbr import DGBR
    from stablemiss.methods.dwr import DWR
    from stablemiss.methods.em_mixture import EMMixture
    from stablemiss.methods.gain import GAIN
    from stablemiss.methods.iterative_imputer import IterativeImputer
    from stablemiss.methods.mask_dro import MaskDRO
    from stablemiss.methods.mirrams import MIRRAMS
    from stablemiss.methods.misgan import MisGAN
    from stablemiss.methods.miwae import MIWAE
    from stablemiss.methods.neumiss import NeuMiss
    from stablemiss.methods.ols import OLS
    from stablemiss.methods.p_bigan import PBiGAN
    from stablemiss.methods.partial_vae import PartialVAE
    from stablemiss.methods.pattern_submodels import PatternSubmodels
    from stablemiss.methods.srdo import SRDO
    from stablemiss.methods.stablemiss import StableMiss
    from stablemiss.methods.stablemiss_plus import StableMissPlus
    from stablemiss.methods.stablenet import StableNet

# Name of the method → module and class.
_LOCATIONS = {
    "constant": "stablemiss.methods.constant:Constant",
    "ols": "stablemiss.methods.ols:OLS",
    "pattern_submodels": "stablemiss.methods.pattern_submodels:PatternSubmodels",
    "em_mixture": "stablemiss.methods.em_mixture:EMMixture",
    "boosting": "stablemiss.methods.boosting:Boosting",
    "iterative_imputer": "stablemiss.methods.iterative_imputer:IterativeImputer",
    "neumiss": "stablemiss.methods.neumiss:NeuMiss",
    "partial_vae": "stablemiss.methods.partial_vae:PartialVAE",
    "miwae": "stablemiss.methods.miwae:MIWAE",
    "p_bigan": "stablemiss.methods.p_bigan:PBiGAN",
    "gain": "stablemiss.methods.gain:GAIN",
    "misgan": "stablemiss.methods.misgan:MisGAN",
    "dwr": "stablemiss.methods.dwr:DWR",
    "srdo": "stablemiss.methods.srdo:SRDO",
    "crlr": "stablemiss.methods.crlr:CRLR",
    "dgbr": "stablemiss.methods.dgbr:DGBR",
    "stablenet": "stablemiss.methods.stablenet:StableNet",
    "stablemiss": "stablemiss.methods.stablemiss:StableMiss",
    "stablemiss_plus": "stablemiss.methods.stablemiss_plus:StableMissPlus",
    "mirrams": "stablemiss.methods.mirrams:MIRRAMS",
    "column_net": "stablemiss.methods.column_net:ColumnNet",
    "mask_dro": "stablemiss.methods.mask_dro:MaskDRO",
    "anymask": "stablemiss.anymask.method:AnyMask",
}


class _Methods(Mapping[str, "type[Method]"]):
    """Read-only mapping from the name of a method to its class, imported on access."""

    def __getitem__(self, name: str) -> type[Method]:
        module, class_name = _LOCATIONS[name].split(":")
        return getattr(import_module(module), class_name)

    def __contains__(self, name: object) -> bool:
        return name in _LOCATIONS

    def __iter__(self) -> Iterator[str]:
        return iter(_LOCATIONS)

    def __len__(self) -> int:
        return len(_LOCATIONS)

    def __repr__(self) -> str:
        return f"METHODS({', '.join(self)})"


METHODS: Mapping[str, type[Method]] = _Methods()

_NAMES = {location.split(":")[1]: name for name, location in _LOCATIONS.items()}


def summaries() -> dict[str, str]:
    """Name of each method → first line of its docstring, read from the source without importing the method.

    Importing all methods takes seconds, because they need torch, scikit-learn and LightGBM.

    See Also
    --------
    METHODS : The methods themselves.

    Examples
    --------
    >>> summaries()["constant"]
    'Predict the weighted mean of the training targets, or the weighted class frequencies.'
    """
    return {name: _summary(*location.split(":")) for name, location in _LOCATIONS.items()}


def _summary(module: str, class_name: str) -> str:
    package, *folders, file = module.split(".")
    source = files(package).joinpath(*folders, f"{file}.py").read_text(encoding="utf-8")
    definition = next(
        node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == class_name
    )
    return (ast.get_docstring(definition) or "").partition("\n")[0]


__all__ = [
    "CRLR",
    "DGBR",
    "DWR",
    "GAIN",
    "METHODS",
    "MIRRAMS",
    "MIWAE",
    "OLS",
    "SRDO",
    "AnyMask",
    "Boosting",
    "ColumnNet",
    "Constant",
    "EMMixture",
    "IterativeImputer",
    "MaskDRO",
    "Method",
    "MisGAN",
    "NeuMiss",
    "PBiGAN",
    "PartialVAE",
    "PatternSubmodels",
    "Predictor",
    "StableMiss",
    "StableMissPlus",
    "StableNet",
    "summaries",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return METHODS[_NAMES[name]]
    if name in ("Method", "Predictor"):
        return getattr(import_module("stablemiss.base.method"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
