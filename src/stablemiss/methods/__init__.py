"""Ways to predict from incomplete rows: one method, one file, one line in METHODS."""

from stablemiss.base.method import Method, Predictor
from stablemiss.methods.anymask import AnyMask
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.column_net import ColumnNet
from stablemiss.methods.constant import Constant
from stablemiss.methods.dwr import DWR
from stablemiss.methods.em_mixture import EMMixture
from stablemiss.methods.miwae import MIWAE
from stablemiss.methods.neumiss import NeuMiss
from stablemiss.methods.ols import OLS
from stablemiss.methods.p_bigan import PBiGAN
from stablemiss.methods.partial_vae import PartialVAE
from stablemiss.methods.srdo import SRDO
from stablemiss.methods.stablemiss import StableMiss
from stablemiss.methods.stablemiss_plus import StableMissPlus
from stablemiss.methods.stablenet import StableNet

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Constant,
        OLS,
        EMMixture,
        Boosting,
        NeuMiss,
        PartialVAE,
        MIWAE,
        PBiGAN,
        DWR,
        SRDO,
        StableNet,
        StableMiss,
        StableMissPlus,
        ColumnNet,
        AnyMask,
    )
}

__all__ = [
    "DWR",
    "METHODS",
    "MIWAE",
    "OLS",
    "SRDO",
    "AnyMask",
    "Boosting",
    "ColumnNet",
    "Constant",
    "EMMixture",
    "Method",
    "NeuMiss",
    "PBiGAN",
    "PartialVAE",
    "Predictor",
    "StableMiss",
    "StableMissPlus",
    "StableNet",
]
