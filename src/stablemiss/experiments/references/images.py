"""Reference models for images: predict the complete image from an incomplete one.

Images may have any shape, such as (height, width), or be flat; NaN = missing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from stablemiss.checks import check_integer, check_number
from stablemiss.data import Bools, Floats, to_numbers, zero_where_missing
from stablemiss.mixture import GaussianMixture
from stablemiss.seeding import to_rng

# Number of images at a time in factor analysis: 250 matrices of 90 × 90 take 16 MB, and more are no faster.
CHUNK_ROWS = 250


class ImageReference(BaseEstimator, ABC):
    """Base class: checks shapes and flattens images. Subclasses implement `_fit` and `_predict`."""

    def fit(self, X: ArrayLike, Y: ArrayLike) -> Self:
        """Fit to incomplete images X and complete images Y.

        Parameters
        ----------
        X : (n, …)
            Images; NaN = missing.
        Y : (n, …)
            The complete images, with the same number of pixels.
        """
        values, target = _flat(X, "X"), _flat(Y, "Y")
        if values.shape != target.shape or not target.size:
            raise ValueError(
                "X and Y must have the same number of images and pixels, at least one of each; got shapes "
                f"{np.shape(X)} and {np.shape(Y)}."
            )
        if np.isnan(target).any():
            raise ValueError("Y must be complete; it contains NaN.")
        self.image_shape_ = np.shape(Y)[1:]
        self._fit(values, target)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the complete images, in the shape of Y.

        Parameters
        ----------
        X : (n, …)
            Images; NaN = missing.
        """
        if not hasattr(self, "image_shape_"):
            raise NotFittedError(f"{type(self).__name__} must be fitted before it predicts: call fit(X, Y).")
        values, n_pixels = _flat(X, "X"), math.prod(self.image_shape_)
        if values.shape[1] != n_pixels:
            raise ValueError(f"X must have {n_pixels} pixels, as in fit; got shape {np.shape(X)}.")
        return self._predict(values).reshape(-1, *self.image_shape_)

    @abstractmethod
    def _fit(self, values: Floats, target: Floats) -> None:
        """Fit to flat images, both (n, d)."""

    @abstractmethod
    def _predict(self, values: Floats) -> Floats:
        """Predict flat images, (n, d)."""


class LabelGaussian(ImageReference):
    """One Gaussian with the mean and covariance of the complete training images.

    It predicts the missing pixels by their exact conditional mean given the observed ones. Observed pixels
    are returned as they are, because in this task they have no noise: x equals y wherever x is observed.
    The incomplete training images are not used, so the prediction does not depend on the missingness in
    training.

    Parameters
    ----------
    ridge : float, default=1e-3
        Added to the variance of each pixel, in units of their mean variance. Raising it shrinks predictions
        towards the mean image. Pixels that are constant in all training images need a positive value. On
        validation images of MNIST, values from 1e-6 to 1e-2 are equally good with 16,000 training images.

    Examples
    --------
    >>> Y = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> LabelGaussian(ridge=1e-6).fit(Y, Y).predict([[5.0, np.nan]]).round(3)
    array([[5., 5.]])
    """

    def __init__(self, ridge: float = 1e-3):
        self.ridge = ridge

    def _fit(self, values: Floats, target: Floats) -> None:
        check_number(self, ridge="(0, inf)")
        mean = target.mean(axis=0)
        centred = target - mean
        covariance = centred.T @ centred / len(target)
        # Images that are all equal have no variance; then any ridge will do.
        scale = covariance.diagonal().mean() or 1.0
        covariance.flat[:: len(mean) + 1] += self.ridge * scale
        self.gaussian_ = GaussianMixture(np.ones(1), mean[None], covariance[None])

    def _predict(self, values: Floats) -> Floats:
        is_observed = ~np.isnan(values)
        return self.gaussian_.conditional_mean(zero_where_missing(values, is_observed), is_observed)


class FactorAnalysisEM(ImageReference):
    """Factor analysis of the incomplete images: the complete ones are not used.

    The model is x = mean + loadings · z + noise with standard normal factors z and one noise variance for
    each pixel, fitted by EM to the observed pixels. The missing pixels are predicted by their conditional
    mean given the observed ones. Observed pixels are returned as they are, because in this task they have no
    noise.

    Parameters
    ----------
    n_factors : int, default=90
        Number of factors. Raising it describes more detail, and costs time and memory in proportion to its
        square.
    n_steps : int, default=10
        Number of EM steps. Raising it increases the likelihood further.
    min_noise : float, default=0.1
        Smallest noise variance of a pixel, in units of the mean variance of all pixels. Raising it shrinks
        predictions towards the mean image. Without such a bound the likelihood depends mostly on pixels at
        the border, which hardly vary, and predictions of the others become worse.
    max_rows : int, default=None
        Number of training images to use, drawn at random. None uses all of them.
    random_state : int, Generator or None, default=None
        Draws these images.

    Attributes
    ----------
    mean_ : (d,)
        Mean of each pixel.
    loadings_ : (d, n_factors)
        Influence of each factor on each pixel.
    noise_ : (d,)
        Noise variance of each pixel.
    log_likelihoods_ : list of float
        Log-likelihood of the observed pixels before each step; no step decreases it.
    """

    def __init__(
        self,
        n_factors: int = 90,
        n_steps: int = 10,
        min_noise: float = 0.1,
        max_rows: int | None = None,
        random_state: Any = None,
    ):
        self.n_factors = n_factors
        self.n_steps = n_steps
        self.min_noise = min_noise
        self.max_rows = max_rows
        self.random_state = random_state

    def _fit(self, values: Floats, target: Floats) -> None:
        check_integer(self, n_factors=(1, values.shape[1]), n_steps=1)
        check_integer(self, max_rows=1, unless=None)
        check_number(self, min_noise="(0, inf)")
        if self.max_rows is not None and self.max_rows < len(values):
            rows = to_rng(self.random_state).choice(len(values), self.max_rows, replace=False)
            values = values[np.sort(rows)]
        if np.isnan(values).all():
            raise ValueError("X has no observed pixel. Use images that are observed in part.")
        self._start(values)
        self.log_likelihoods_: list[float] = []
        for _ in range(self.n_steps):
            self._step(values)

    def _start(self, values: Floats) -> None:
        """Mean and variance of each pixel; loadings from the covariances of pixels observed together."""
        is_observed = ~np.isnan(values)
        total = np.where(is_observed, values, 0.0).sum(axis=0)
        count = is_observed.sum(axis=0)
        self.mean_ = np.where(count > 0, total / np.maximum(count, 1), total.sum() / count.sum())
        deviations = zero_where_missing(values - self.mean_, is_observed)
        together = is_observed.T.astype(np.float64) @ is_observed
        covariance = deviations.T @ deviations / np.maximum(together, 1.0)
        variance = covariance.diagonal()
        self.floor_ = self.min_noise * (variance.mean() or 1.0)
        eigenvalues, eigenvectors = np.linalg.eigh(covariance)
        strength = np.sqrt(np.maximum(eigenvalues[-self.n_factors :], self.floor_))
        self.loadings_ = eigenvectors[:, -self.n_factors :] * strength
        self.noise_ = np.maximum(variance - (self.loadings_**2).sum(axis=1), self.floor_)

    def _step(self, values: Floats) -> None:
        """One step of EM. The last factor of `z` below is the constant 1, whose loading is the mean."""
        d, k = self.loadings_.shape
        above, right = np.triu_indices(k + 1)
        moments, cross, square = np.zeros((d, len(above))), np.zeros((d, k + 1)), np.zeros(d)
        log_likelihood = 0.0
        for _, chunk, is_observed in _chunks(values):
            factors = self._factors(chunk, is_observed)
            z = np.column_stack([factors.mean, np.ones(len(chunk))])
            z_moments = z[:, :, None] * z[:, None, :]
            z_moments[:, :k, :k] += factors.covariance
            weight, filled = is_observed.astype(np.float64), zero_where_missing(chunk, is_observed)
            moments += weight.T @ z_moments[:, above, right]
            cross += filled.T @ z
            square += (filled**2).sum(axis=0)
            log_likelihood += factors.log_likelihood
        self.log_likelihoods_.append(log_likelihood)
        self._maximise(moments, cross, square)

    def _factors(self, values: Floats, is_observed: Bools) -> Factors:
        """Distribution of the factors of each image given its observed pixels."""
        k = self.n_factors
        above, right = np.triu_indices(k)
        weight = is_observed / self.noise_
        deviations = zero_where_missing(values - self.mean_, is_observed)
        # All precisions in one product of matrices, for which their upper triangles are enough.
        triangles = weight @ (self.loadings_[:, above] * self.loadings_[:, right])
        precision = _symmetric(triangles, k) + np.eye(k)
        covariance = np.linalg.inv(precision)
        score = (weight * deviations) @ self.loadings_
        mean = (covariance @ score[:, :, None])[:, :, 0]
        log_det = (
            np.linalg.slogdet(precision)[1].sum() + (is_observed @ np.log(2 * np.pi * self.noise_)).sum()
        )
        distance = (weight * deviations**2).sum() - (score * mean).sum()
        return Factors(mean, covariance, -0.5 * float(log_det + distance))

    def _maximise(self, moments: Floats, cross: Floats, square: Floats) -> None:
        """Regress each pixel on the factors, by their expected moments over the images that show it.

        Parameters
        ----------
        moments : (d, (k + 1)(k + 2) / 2)
            Upper triangles of the sums of z zᵀ over these images.
        cross : (d, k + 1)
            Sums of x z.
        square : (d,)
            Sums of x².
        """
        k = self.n_factors
        matrices = _symmetric(moments, k + 1)
        count = matrices[:, k, k]
        # A pixel that no image shows keeps its parameters.
        is_shown = count > 0
        solved = np.linalg.solve(matrices[is_shown], cross[is_shown, :, None])[:, :, 0]
        self.loadings_[is_shown], self.mean_[is_shown] = solved[:, :k], solved[:, k]
        variance = (square[is_shown] - (solved * cross[is_shown]).sum(axis=1)) / count[is_shown]
        self.noise_[is_shown] = np.maximum(variance, self.floor_)

    def _predict(self, values: Floats) -> Floats:
        predicted = np.empty(values.shape)
        for rows, chunk, is_observed in _chunks(values):
            expected = self.mean_ + self._factors(chunk, is_observed).mean @ self.loadings_.T
            predicted[rows] = np.where(is_observed, chunk, expected)
        return predicted


class Factors(NamedTuple):
    """Distribution of the factors given the observed pixels.

    Attributes
    ----------
    mean : (n, k)
    covariance : (n, k, k)
    log_likelihood : float
        Log density of the observed pixels of all n images.
    """

    mean: NDArray
    covariance: NDArray
    log_likelihood: float


def _flat(images: ArrayLike, name: str) -> Floats:
    """Images as rows (n, d) of float64."""
    array = to_numbers(name, images)
    if array.ndim < 2:
        raise ValueError(f"{name} must hold images, (n, height, width) or (n, d); got shape {array.shape}.")
    if np.isinf(array).any():
        raise ValueError(f"{name} contains infinite values. Replace them with NaN if they are unknown.")
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _chunks(values: Floats) -> Iterator[tuple[slice, Floats, Bools]]:
    """Positions of successive rows, the rows, and their mask, True = observed."""
    for start in range(0, len(values), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        yield rows, values[rows], ~np.isnan(values[rows])


def _symmetric(triangles: Floats, width: int) -> Floats:
    """Symmetric matrices (n, width, width) from their upper triangles, (n, width (width + 1) / 2)."""
    above, right = np.triu_indices(width)
    matrices = np.empty((len(triangles), width, width))
    matrices[:, above, right] = triangles
    matrices[:, right, above] = triangles
    return matrices
