"""Synthetic data with a known truth: the best possible prediction for every row and every mask is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats, hide, to_table
from stablemiss.mixture import GaussianMixture
from stablemiss.seeding import Rng, to_rng

# Variance of the signal over variance of the noise.
SIGNAL_TO_NOISE = 10.0


@dataclass(frozen=True, eq=False)
class Population:
    """The mechanism of (x, y): features from a Gaussian mixture, y linear in them plus Gaussian noise.

    y is linear given *all* features. Given some, the best prediction is linear for one component and
    curved for several, because what is seen also tells which component the row came from.

    Parameters
    ----------
    weights : (K,)
        Shares of the components, summing to one.
    means : (K, d)
        Further apart: components easier to tell from few observed features.
    covariances : (K, d, d)
        Positive definite. More correlation: missing features are better replaced by observed ones.
    coef : (d,)
        Effect of each feature on y.
    intercept : float
        y where all features are zero.
    noise_sd : float
        Standard deviation of what no feature explains: the error that even the complete row leaves.

    Examples
    --------
    >>> population = Population(
    ...     np.ones(1), np.zeros((1, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]]), np.ones(2), 0.0, 0.1
    ... )
    >>> population.bayes(np.array([[2.0, np.nan], [np.nan, np.nan]])).tolist()
    [3.0, 0.0]
    """

    weights: Floats
    means: Floats
    covariances: Floats
    coef: Floats
    intercept: float
    noise_sd: float

    @property
    def n_features(self) -> int:
        return len(self.coef)

    @property
    def mean(self) -> Floats:
        """E[x], (d,), over all components."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Floats:
        """Cov[x], (d, d): the mean covariance within components plus the covariance of their means."""
        apart = self.means - self.mean
        return np.tensordot(self.weights, self.covariances, axes=1) + (apart.T * self.weights) @ apart

    @property
    def signal_sd(self) -> float:
        """Standard deviation of E[y | complete row]."""
        return float(np.sqrt(self.coef @ self.covariance @ self.coef))

    def draw(self, n: int, rng: Rng) -> tuple[Floats, Floats]:
        """Complete rows X (n, d) and targets y (n,).

        Parameters
        ----------
        n : int
            Number of rows; each is drawn independently, so components come in random order.
        rng : numpy Generator
            Moves on with each call: two calls give two samples.

        Examples
        --------
        >>> X, y = make_gaussian(n_features=4, random_state=0).draw(100, np.random.default_rng(1))
        >>> X.shape, y.shape
        ((100, 4), (100,))
        """
        # DEVIATION: the authors' code sorts the rows by component; here a row's component is drawn, because
        # sorted rows that meet sorted missing rates tie the mask to the data.
        component = rng.choice(len(self.weights), size=n, p=self.weights)
        X = rng.standard_normal((n, self.n_features))
        for k, factor in enumerate(np.linalg.cholesky(self.covariances)):
            own = component == k
            X[own] = self.means[k] + X[own] @ factor.T
        y = self.intercept + X @ self.coef + self.noise_sd * rng.standard_normal(n)
        return X, y

    def bayes(self, X: NDArray) -> Floats:
        """E[y | observed cells], (n,): no predictor has a smaller mean squared error.

        Exact whenever the mask tells no more about the missing cells than the observed ones do (missing
        completely at random, or at random): the mask's own likelihood then cancels.

        Parameters
        ----------
        X : (n, d)
            Rows with NaN for missing; a row without any observed cell gets E[y].
        """
        return self._expect_target(GaussianMixture(self.weights, self.means, self.covariances), X)

    def linear_bayes(self, X: NDArray) -> Floats:
        """The same for one Gaussian with the mixture's overall mean and covariance, (n,).

        Linear in the observed cells for each mask; equal to `bayes` when there is one component. The paper's
        "Optimal" on mixtures is probably this one.

        Parameters
        ----------
        X : (n, d)
            Rows with NaN for missing.
        """
        overall = GaussianMixture(np.ones(1), self.mean[None], self.covariance[None])
        return self._expect_target(overall, X)

    def _expect_target(self, features: GaussianMixture, X: NDArray) -> Floats:
        X = to_table(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X should have rows of the population's {self.n_features} features, but has shape {X.shape}."
            )
        mask = ~np.isnan(X)
        # y is linear in the complete row, so its expectation is that of the features put through the line.
        return self.intercept + features.conditional_mean(hide(X, mask), mask) @ self.coef


def make_gaussian(n_features: int = 50, random_state: Any = None) -> Population:
    """A population of correlated Gaussian features ("Gaussian" in the paper).

    Parameters
    ----------
    n_features : int
        More features: a larger signal, and more ways to make up for a missing one.
    random_state : None, int or Generator
        An int gives the same population each time.

    Examples
    --------
    >>> population = make_gaussian(n_features=10, random_state=0)
    >>> X, y = population.draw(5, np.random.default_rng(0))
    >>> X[0, :8] = np.nan
    >>> population.bayes(X).shape
    (5,)
    """
    rng = to_rng(random_state)
    covariance = _draw_covariance(n_features, rng)
    mean = rng.standard_normal(n_features)
    return _with_target(np.ones(1), mean[None], covariance[None], covariance, rng)


def make_gaussian_ind(n_features: int = 50, random_state: Any = None) -> Population:
    """A population of independent Gaussian features ("Gaussian-Ind" in the paper).

    No feature tells anything about another, so replacing each missing one by its mean is optimal and least
    squares on mean-imputed rows is all that is needed.

    Parameters
    ----------
    n_features : int
        More features: a larger signal, of which each feature carries a smaller share.
    random_state : None, int or Generator
        An int gives the same population each time.

    Examples
    --------
    >>> population = make_gaussian_ind(n_features=3, random_state=0)
    >>> hidden = np.full((1, 3), np.nan)
    >>> bool(np.isclose(population.bayes(hidden)[0], 1.0 + population.coef @ population.mean))
    True
    """
    rng = to_rng(random_state)
    # PAPER: Gaussian-Ind keeps the diagonal of Σ.
    covariance = np.diag(np.diag(_draw_covariance(n_features, rng)))
    mean = rng.standard_normal(n_features)
    return _with_target(np.ones(1), mean[None], covariance[None], covariance, rng)


def make_gaussian_mix(n_features: int = 50, n_components: int = 3, random_state: Any = None) -> Population:
    """A population in which several Gaussians are mixed ("Gaussian-Mix" in the paper).

    The components differ mostly in how their features are correlated, little in their means; the best
    prediction must first judge from the observed cells which component a row belongs to.

    Parameters
    ----------
    n_features : int
        More features: components easier to tell apart, and a larger signal.
    n_components : int
        More components: the best prediction bends more, and a single Gaussian loses more against it.
    random_state : None, int or Generator
        An int gives the same population each time.

    Examples
    --------
    >>> population = make_gaussian_mix(n_features=6, random_state=0)
    >>> population.means.shape
    (3, 6)
    """
    if n_components < 1:
        raise ValueError(f"n_components should be at least 1, but is {n_components}.")
    rng = to_rng(random_state)
    # PAPER: shares uniform on [0, 1), then divided by their sum.
    weights = rng.random(n_components)
    covariances = np.stack([_draw_covariance(n_features, rng) for _ in range(n_components)])
    # DEVIATION: the paper's text draws the means of components like that of Gaussian; they are halved here
    # because the authors' code halves them.
    means = rng.standard_normal((n_components, n_features)) / 2
    # As in the authors' code, the spread of the coefficients follows a covariance of no component.
    unrelated = _draw_covariance(n_features, rng)
    return _with_target(weights / weights.sum(), means, covariances, unrelated, rng)


def _draw_covariance(n_features: int, rng: Rng) -> Floats:
    if n_features < 1:
        raise ValueError(f"n_features should be at least 1, but is {n_features}.")
    # PAPER: Σ = BBᵀ + D, B of rank 0.7 n with standard normal entries, D diagonal and uniform on [0.01, 0.1].
    # In whole numbers, since 0.7 * 90 in floating point falls short of 63.
    B = rng.standard_normal((n_features, max(1, 7 * n_features // 10)))
    return B @ B.T + np.diag(rng.uniform(0.01, 0.1, n_features))


def _with_target(weights: Floats, means: Floats, covariances: Floats, scale: Floats, rng: Rng) -> Population:
    # PAPER: α₀ = 1, α_i = 1 + N(1, 1ᵀΣ1).
    coef = 2.0 + np.sqrt(scale.sum()) * rng.standard_normal(len(scale))
    noiseless = Population(weights, means, covariances, coef, intercept=1.0, noise_sd=0.0)
    # DEVIATION: the authors' code takes the signal's variance from each sample; the population's is used here
    # because training and test rows must come from one mechanism.
    noise_sd = noiseless.signal_sd / np.sqrt(SIGNAL_TO_NOISE)
    return Population(weights, means, covariances, coef, intercept=1.0, noise_sd=noise_sd)
