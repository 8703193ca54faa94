"""The methods of the tables with images and sensor networks, and their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stablemiss.architectures import CNN, Architecture, GraphTemporal
from stablemiss.estimators import StableMissRegressor
from stablemiss.experiments.array_tables import BERLIN, DIDI, MNIST
from stablemiss.experiments.references.combined import GaussianAndNetwork, NetworkAndRidge
from stablemiss.experiments.references.images import FactorAnalysisEM, LabelGaussian
from stablemiss.experiments.references.kalman import KalmanEM
from stablemiss.experiments.references.sensors import (
    BoostingOnLags,
    DecayedLastValue,
    HourOfWeek,
    LastValue,
    RidgeOnLags,
)

# DEVIATION: one γ, in the middle of the paper's list, because each takes a training.
ONE_GAMMA_WEIGHTS: dict[str, Any] = {"decorrelate": "full", "form": "paper", "gamma": 1.0}
# Estimators that are not methods: label → class.
REFERENCES: Mapping[str, Callable[..., Any]] = {
    "label_gaussian": LabelGaussian,
    "gaussian_and_local": GaussianAndNetwork,
    "local_and_ridge": NetworkAndRidge,
    "factor_analysis": FactorAnalysisEM,
    "hour_of_week": HourOfWeek,
    "last_value": LastValue,
    "decayed_last_value": DecayedLastValue,
    "ridge_on_lags": RidgeOnLags,
    "boosting_on_lags": BoostingOnLags,
    "boosting_on_lags_masked": BoostingOnLags,
    "boosting_on_lags_pooled": BoostingOnLags,
    "kalman": KalmanEM,
}
# Networks that share g, the network of each data set: label → method, `generate`, other parameters.
NETWORKS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "stablenet": ("stablenet", "none", {}),
    "stablemiss": ("stablemiss", "global", ONE_GAMMA_WEIGHTS),
    "stablemiss_unweighted": ("stablemiss", "global", {}),
    "stablemiss_local": ("stablemiss", "local", {}),
    "stablemiss_local_augmented": ("stablemiss", "local", {"mask_augmentation": True}),
    "stablemiss_local_without_graph": ("stablemiss", "local", {}),
    "zero_fill": ("stablemiss", "none", {}),
    "mask_input": ("stablemiss", "input", {}),
    "mask_input_augmented": ("stablemiss", "input", {"mask_augmentation": True}),
    "partial_convolution": ("stablemiss", "partial", {}),
}
# Networks for sensors that do not get the graph of the data set.
WITHOUT_GRAPH = ("stablemiss_local_without_graph",)
# Training of all networks of a data set. That of images is near the best of the settings in
# docs/default_settings.md, compared with one seed on held-out training images. That of traffic was chosen on
# held-out weeks of 2023 in trials of which there are no records.
_SENSORS = {
    "max_epochs": 5,
    "schedule": "one_cycle",
    "learning_rate": 3e-3,
    "weight_decay": 0.3,
    "batch_size": 8,
}
TRAINING: Mapping[str, dict[str, Any]] = {
    MNIST: {
        "max_epochs": 10,
        "schedule": "one_cycle",
        "learning_rate": 5e-3,
        "weight_decay": 0.1,
        "batch_size": 8,
    },
    BERLIN: _SENSORS,
    DIDI: _SENSORS,
}
# Two months have a sixth of the windows of a year: more epochs were better on their held-out weeks.
EPOCHS_OF_SHORT_PERIODS = {"Mar–Apr 2023": 10}
# StableNet's weights are those of the rows of a batch, so that it needs larger batches. With four times as
# many epochs it makes half as many steps as other networks.
STABLENET_BATCH_SIZE, STABLENET_EPOCHS_FACTOR = 64, 4
# Of methods that read flat rows: linear ones, and networks unless they are brief.
FLAT_LINEAR = ("ols", "dwr", "srdo")
# Chosen on held-out images and weeks, without records; there are about as many windows as cells of a window.
RIDGE: Mapping[str, float] = {MNIST: 0.03, BERLIN: 2.0, DIDI: 2.0}
FLAT_TRAINING = {"max_epochs": 40, "patience": 4, "learning_rate": 1e-3, "batch_size": 32}
# Wider than for tables. Partial VAE and P-BiGAN were better so on held-out images (docs/default_settings.md).
FLAT_NETWORKS: Mapping[str, dict[str, Any]] = {
    "neumiss": {},
    "partial_vae": {"decoder": (512, 512)},
    "miwae": {"hidden": 512},
    "p_bigan": {"hidden": (512, 512)},
}
# Parameters of references that differ from their defaults.
REFERENCE_SETTINGS: Mapping[str, dict[str, Any]] = {
    "boosting_on_lags_masked": {"masked_copies": 3},
    # Does not know which sensor a row belongs to, so that sensors whose level moved do less harm.
    "boosting_on_lags_pooled": {"node_category": False},
}


def array_architecture(dataset: str, generate: Any, small: bool) -> Architecture:
    """g and φ of a data set; the graph of a sensor network is added when its data are loaded."""
    if dataset == MNIST:
        return CNN((4, 4, 4) if small else (16, 32, 64), generate=generate)
    return GraphTemporal(None, 4 if small else 16, 2, generate=generate)


def array_settings(label: str, dataset: str, mechanism: str, is_brief: bool) -> tuple[str, dict[str, Any]]:
    """The name of the method or reference of a label, and the parameters that differ from its defaults.

    Parameters
    ----------
    label, dataset : str
        One of the labels of the table with these data.
    mechanism : str
        Missingness mechanism of the training rows, or their period.
    is_brief : bool
        Whether networks are as small and trained as briefly as possible.

    Examples
    --------
    >>> name, settings = array_settings("mask_input", "mnist", "mar", is_brief=False)
    >>> name, settings["architecture"].generate, settings["max_epochs"]
    ('stablemiss', 'input', 10)
    """
    if label in ("gaussian_and_local", "local_and_ridge"):
        name, settings = array_settings("stablemiss_local", dataset, mechanism, is_brief)
        # The validation rows of the run are not handed to references, and nothing is chosen on others.
        network = StableMissRegressor(
            **settings, on_unseen_missing="ignore", validation_fraction=0.2 if is_brief else 0.02
        )
        return label, {"network": network}
    if label in REFERENCES:
        return label, REFERENCE_SETTINGS.get(label, {})
    if label not in NETWORKS:
        if label in FLAT_LINEAR:
            return label, {"ridge": RIDGE[dataset]}
        is_trained = label in FLAT_NETWORKS and not is_brief
        return label, {**FLAT_TRAINING, **FLAT_NETWORKS[label]} if is_trained else {}
    name, generate, parameters = NETWORKS[label]
    training = dict(TRAINING[dataset])
    training["max_epochs"] = 2 if is_brief else EPOCHS_OF_SHORT_PERIODS.get(mechanism, training["max_epochs"])
    if name == "stablenet":
        training["batch_size"] = STABLENET_BATCH_SIZE
        training["max_epochs"] *= 1 if is_brief else STABLENET_EPOCHS_FACTOR
    return name, {**training, **parameters, "architecture": array_architecture(dataset, generate, is_brief)}
