"""A network together with a simple model, for images and for sensors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from stablemiss.architectures import CNN, GraphTemporal
from stablemiss.data import Floats
from stablemiss.estimators import StableMissRegressor
from stablemiss.estimators.arrays import ArrayScoreMixin
from stablemiss.experiments.references.images import LabelGaussian
from stablemiss.experiments.references.sensors import RidgeOnLags


class GaussianAndNetwork(ArrayScoreMixin, BaseEstimator):
    """Completes images by a Gaussian, and corrects them by a network that also reads the incomplete image.

    The Gaussian has the mean and covariance of the complete training images; it gives the best linear
    completion under every mask. A network for images of two channels, the incomplete image and its
    completion, predicts the difference between the complete image and its completion. It learns from
    completions of the images to which the Gaussian was fitted, which are slightly better than those of new
    images. Keep a fitted model with joblib or pickle; it has no `save`.

    Parameters
    ----------
    network : StableMissRegressor, default=None
        The network. None: StableMissRegressor with ``architecture=CNN(generate="local")``.
    ridge : float, default=1e-3
        As in `LabelGaussian`.

    See Also
    --------
    LabelGaussian : The Gaussian alone.

    Examples
    --------
    >>> images = np.random.default_rng(0).normal(size=(40, 6, 6)).cumsum(axis=1)
    >>> incomplete = np.where(np.random.default_rng(1).random(images.shape) < 0.3, np.nan, images)
    >>> network = StableMissRegressor(CNN((4, 4, 4), generate="local"), max_epochs=1, random_state=0)
    >>> GaussianAndNetwork(network).fit(incomplete, images).predict(incomplete[:2]).shape
    (2, 6, 6)
    """

    def __init__(self, network: StableMissRegressor | None = None, ridge: float = 1e-3):
        self.network = network
        self.ridge = ridge

    def fit(self, X: ArrayLike, Y: ArrayLike, **fit_params: Any) -> Self:
        """Fit the Gaussian to the complete images Y, then the network to what it leaves.

        Parameters
        ----------
        X, Y : (n, height, width)
            Incomplete images of one channel, NaN where missing, and the complete ones.
        **fit_params
            Passed to `fit` of the network.
        """
        network = self.network or StableMissRegressor(CNN(generate="local"))
        images, complete = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
        if images.ndim != 3 or complete.shape != images.shape:
            raise ValueError(
                "GaussianAndNetwork reads images of one channel: X and Y must both have shape "
                f"(n, height, width); got {images.shape} and {complete.shape}. Fit one model for each "
                "channel, such as X[:, 0] and Y[:, 0]."
            )
        if np.isnan(complete).any():
            raise ValueError(
                "Y must be complete, because the Gaussian is that of complete images, but it contains NaN. "
                "Without complete images, fit StableMissRegressor alone."
            )
        self.image_shape_ = images.shape[1:]
        self.gaussian_ = LabelGaussian(self.ridge).fit(images, complete)
        completed = self.gaussian_.predict(images)
        self.network_ = clone(network).fit(_channels(images, completed), complete - completed, **fit_params)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Complete images, (n, height, width)."""
        check_is_fitted(self)
        images = np.asarray(X, dtype=np.float64)
        if images.ndim != 3 or images.shape[1:] != self.image_shape_:
            height, width = self.image_shape_
            raise ValueError(
                f"X must hold images of one channel, with shape (n, {height}, {width}), as in fit; got "
                f"{images.shape}."
            )
        completed = self.gaussian_.predict(images)
        return completed + self.network_.predict(_channels(images, completed))


class NetworkAndRidge(ArrayScoreMixin, BaseEstimator):
    """The mean of the predictions of a network for sensors and of ridge regression on each sensor's history.

    Readings should be relative to their means by hour of the week (`SensorWindows.deseasonalised`). Keep a
    fitted model with joblib or pickle; it has no `save`.

    Parameters
    ----------
    network : StableMissRegressor, default=None
        The network. None: StableMissRegressor with ``architecture=GraphTemporal(generate="local")``, which
        has no graph.
    alpha : float, default=100.0
        As in `RidgeOnLags`.

    See Also
    --------
    RidgeOnLags : The ridge regression alone.

    Examples
    --------
    >>> readings = np.random.default_rng(0).normal(size=(60, 3, 12))
    >>> network = StableMissRegressor(GraphTemporal(channels=4), max_epochs=1, random_state=0)
    >>> model = NetworkAndRidge(network).fit(readings[:, :, :8], readings[:, :, 8:])
    >>> model.predict(readings[:2, :, :8]).shape
    (2, 3, 4)
    """

    def __init__(self, network: StableMissRegressor | None = None, alpha: float = 100.0):
        self.network = network
        self.alpha = alpha

    def fit(self, X: ArrayLike, Y: ArrayLike, **fit_params: Any) -> Self:
        """Fit both.

        Parameters
        ----------
        X : (n, n_nodes, n_past), or (n, n_nodes + 19, n_past) with the calendar
            Histories; NaN = missing.
        Y : (n, n_nodes, n_future)
            Futures; NaN = missing.
        **fit_params
            Passed to `fit` of the network.
        """
        network = self.network or StableMissRegressor(GraphTemporal(generate="local"))
        shapes = np.shape(X), np.shape(Y)
        if any(len(shape) != 3 for shape in shapes):
            raise ValueError(
                "NetworkAndRidge reads windows of sensors: X must have shape (n, nodes, times) and Y "
                f"(n, nodes, times to predict); got {shapes[0]} and {shapes[1]}. SensorWindows makes them, "
                "by history() and future()."
            )
        self.ridge_ = RidgeOnLags(self.alpha).fit(X, Y)
        self.network_ = clone(network).fit(X, Y, **fit_params)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Futures, (n, n_nodes, n_future)."""
        check_is_fitted(self)
        return (self.ridge_.predict(X) + self.network_.predict(X)) / 2


def _channels(images: Floats, completed: Floats) -> Floats:
    """The incomplete image and its completion as channels, (n, 2, height, width)."""
    return np.stack([images, completed], axis=1)
