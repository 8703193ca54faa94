"""Synthetic data with a known optimal prediction for every row and every mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.checks import check_integer, check_number, shown
from stablemiss.data import Floats, to_numbers, to_table, zero_where_missing
from stablemiss.mixture import GaussianMixture
from stablemiss.seeding import Rng, check_rng, one_of, to_rng

# Variance of the signal divided by the variance of the noise.
SIGNAL_TO_NOISE = 10.0


@dataclass(frozen=True, eq=False)
class Population:
    """Distribution of (x, y): features from a Gaussian mixture, y linear in the features plus Gaussian noise.

    Given all features, the optimal prediction is linear. If some are missing, it is linear with one component
    and nonlinear with several, because the observed values are then informative about the component.

    Parameters
    ----------
    weights : (K,)
        Component weights; their sum is one.
    means : (K, d)
        Component means. If they are further apart, fewer features are needed to identify the component.
    covariances : (K, d, d)
        Component covariances, positive definite. With stronger correlations, missing features are better
        predicted by observed ones.
    coef : (d,)
        Effect of each feature on y.
    intercept : float
        Expected y if all features are zero.
    noise_sd : float
        Standard deviation of the noise, which is the root mean squared error of the optimal prediction from
        complete rows. Raising it makes y harder to predict.

    See Also
    --------
    make_gaussian, make_gaussian_ind, make_gaussian_mix : Draw random populations.

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

    def __post_init__(self) -> None:
        names = ("weights", "means", "covariances", "coef")
        shapes = [to_numbers(name, getattr(self, name)).shape for name in names]
        k, d = shapes[1] if len(shapes[1]) == 2 else (0, 0)
        if shapes != [(k,), (k, d), (k, d, d), (d,)]:
            raise ValueError(
                "weights, means, covariances and coef must have the shapes (K,), (K, d), (K, d, d) and (d,); "
                f"got {', '.join(map(str, shapes))}."
            )
        if (np.asarray(self.weights) < 0).any() or not np.isclose(np.sum(self.weights), 1.0):
            raise ValueError(f"weights must be non-negative and sum to one; got {shown(self.weights)}.")
        check_number(self, intercept="(-inf, inf)", noise_sd="[0, inf)")

    @property
    def n_features(self) -> int:
        return len(self.coef)

    @property
    def mean(self) -> Floats:
        """E[x], (d,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Floats:
        """Cov[x], (d, d): the mean covariance within components plus the covariance of their means."""
        shift = self.means - self.mean
        return np.tensordot(self.weights, self.covariances, axes=1) + (shift.T * self.weights) @ shift

    @property
    def signal_sd(self) -> float:
        """Standard deviation of E[y | complete row]."""
        return float(np.sqrt(self.coef @ self.covariance @ self.coef))

    def draw(self, n: int, rng: Rng) -> tuple[Floats, Floats]:
        """Draw complete rows X (n, d) and targets y (n,).

        Parameters
        ----------
        n : int
            Number of rows. Rows are drawn independently, so components are in random order.
        rng : numpy Generator
            Its state advances, so two calls give different samples.

        Examples
        --------
        >>> X, y = make_gaussian(n_features=4, random_state=0).draw(100, np.random.default_rng(1))
        >>> X.shape, y.shape
        ((100, 4), (100,))
        """
        check_integer({"n": n}, n=0)
        check_rng(rng)
        # DEVIATION: the component of each row is random, whereas the authors' code sorts rows by component,
        # because sorted rows in combination with sorted missing rates make the mask depend on the data.
        component = rng.choice(len(self.weights), size=n, p=self.weights)
        X = rng.standard_normal((n, self.n_features))
        for k, factor in enumerate(self._cholesky_factors()):
            rows = component == k
            X[rows] = self.means[k] + X[rows] @ factor.T
        y = self.intercept + X @ self.coef + self.noise_sd * rng.standard_normal(n)
        return X, y

    def bayes(self, X: NDArray) -> Floats:
        """E[y | observed values], (n,): the prediction with the smallest possible mean squared error.

        It is exact if values are missing completely at random or at random, because the likelihood of the
        mask then cancels.

        Parameters
        ----------
        X : (n, d)
            Rows with NaN for missing values. The prediction for a row without observed values is E[y].

        See Also
        --------
        linear_bayes : The best prediction that is linear in the observed values.
        """
        return self._expect_target(GaussianMixture(self.weights, self.means, self.covariances), X)

    def linear_bayes(self, X: NDArray) -> Floats:
        """E[y | observed values], (n,), under one Gaussian with the mean and covariance of the mixture.

        For each mask it is linear in the observed values. It equals `bayes` if there is one component. The
        row "Optimal" in the paper's results on Gaussian-Mix is probably this prediction.

        Parameters
        ----------
        X : (n, d)
            Rows with NaN for missing values.

        See Also
        --------
        bayes : The optimal prediction.
        """
        overall = GaussianMixture(np.ones(1), self.mean[None], self.covariance[None])
        return self._expect_target(overall, X)

    def _cholesky_factors(self) -> NDArray[np.floating]:
        """Cholesky factors (K, d, d) of the covariances."""
        try:
            return np.linalg.cholesky(self.covariances)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"covariances must be positive definite; got {shown(self.covariances)}. Add a small number "
                "to their diagonals."
            ) from error

    def _expect_target(self, features: GaussianMixture, X: NDArray) -> Floats:
        X = to_table(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X must have {self.n_features} columns, the {self.n_features} features of the population; "
                f"got shape {X.shape}."
            )
        mask = ~np.isnan(X)
        # y is linear in the features, so its expectation is linear in their conditional expectations.
        return self.intercept + features.conditional_mean(zero_where_missing(X, mask), mask) @ self.coef


def make_gaussian(n_features: int = 50, random_state: Any = None, *, rng: Any = None) -> Population:
    """Draw a population with correlated Gaussian features ("Gaussian" in the paper).

    Parameters
    ----------
    n_features : int, default=50
        Number of features. Raising it increases the signal and the redundancy between features.
    random_state : int or Generator, default=None
        An int gives the same population each time.
    rng : int, Generator or None, default=None
        Another name of `random_state`, which it replaces if it is given.

    Returns
    -------
    Population

    See Also
    --------
    make_gaussian_ind : Independent features.
    make_gaussian_mix : A mixture of Gaussians.

    Examples
    --------
    >>> population = make_gaussian(n_features=10, random_state=0)
    >>> X, y = population.draw(5, np.random.default_rng(0))
    >>> X[0, :8] = np.nan
    >>> population.bayes(X).shape
    (5,)
    """
    rng = to_rng(one_of(random_state, rng))
    covariance = _draw_covariance(n_features, rng)
    mean = rng.standard_normal(n_features)
    return _with_target(np.ones(1), mean[None], covariance[None], covariance, rng)


def make_gaussian_ind(n_features: int = 50, random_state: Any = None, *, rng: Any = None) -> Population:
    """Draw a population with independent Gaussian features ("Gaussian-Ind" in the paper).

    Since features are independent, mean imputation followed by least squares is optimal.

    Parameters
    ----------
    n_features : int, default=50
        Number of features. Raising it increases the signal, and reduces the share of each feature in it.
    random_state : int or Generator, default=None
        An int gives the same population each time.
    rng : int, Generator or None, default=None
        Another name of `random_state`, which it replaces if it is given.

    Returns
    -------
    Population

    See Also
    --------
    make_gaussian : Correlated features.
    make_gaussian_mix : A mixture of Gaussians.

    Examples
    --------
    >>> population = make_gaussian_ind(n_features=3, random_state=0)
    >>> X = np.full((1, 3), np.nan)
    >>> bool(np.isclose(population.bayes(X)[0], 1.0 + population.coef @ population.mean))
    True
    """
    rng = to_rng(one_of(random_state, rng))
    # PAPER: Gaussian-Ind keeps the diagonal of Σ.
    covariance = np.diag(np.diag(_draw_covariance(n_features, rng)))
    mean = rng.standard_normal(n_features)
    return _with_target(np.ones(1), mean[None], covariance[None], covariance, rng)


def make_gaussian_mix(
    n_features: int = 50, n_components: int = 3, random_state: Any = None, *, rng: Any = None
) -> Population:
    """Draw a population that is a mixture of Gaussians ("Gaussian-Mix" in the paper).

    The components differ mainly in the correlations of their features and little in their means. The optimal
    prediction depends on the probability of each component given the observed values.

    Parameters
    ----------
    n_features : int, default=50
        Number of features. Raising it makes the components easier to distinguish and increases the signal.
    n_components : int, default=3
        Number of components. Raising it makes the optimal prediction more nonlinear, and a single Gaussian
        a worse approximation.
    random_state : int or Generator, default=None
        An int gives the same population each time.
    rng : int, Generator or None, default=None
        Another name of `random_state`, which it replaces if it is given.

    Returns
    -------
    Population

    See Also
    --------
    make_gaussian : One Gaussian with correlated features.
    make_gaussian_ind : Independent features.

    Examples
    --------
    >>> population = make_gaussian_mix(n_features=6, random_state=0)
    >>> population.means.shape
    (3, 6)
    """
    check_integer({"n_components": n_components}, n_components=1)
    rng = to_rng(one_of(random_state, rng))
    # PAPER: weights uniform on [0, 1), then divided by their sum.
    weights = rng.random(n_components)
    covariances = np.stack([_draw_covariance(n_features, rng) for _ in range(n_components)])
    # DEVIATION: according to the text of the paper, component means are distributed like the mean of
    # "Gaussian"; they are halved here because the authors' code halves them.
    means = rng.standard_normal((n_components, n_features)) / 2
    # AUTHORS' CODE: the scale of the coefficients comes from a separate covariance matrix.
    coef_covariance = _draw_covariance(n_features, rng)
    return _with_target(weights / weights.sum(), means, covariances, coef_covariance, rng)


def _draw_covariance(n_features: int, rng: Rng) -> Floats:
    check_integer({"n_features": n_features}, n_features=(1, 10_000))
    # PAPER: Σ = BBᵀ + D, B of rank 0.7 n with standard normal entries, D diagonal and uniform on [0.01, 0.1].
    # Computed in integers, because 0.7 * 90 is less than 63 in floating point.
    B = rng.standard_normal((n_features, max(1, 7 * n_features // 10)))
    return B @ B.T + np.diag(rng.uniform(0.01, 0.1, n_features))


def _with_target(
    weights: Floats, means: Floats, covariances: Floats, coef_covariance: Floats, rng: Rng
) -> Population:
    """Draw coefficients whose variance is the sum of the entries of `coef_covariance`, and set the noise."""
    # PAPER: the coefficients are drawn from a Gaussian distribution.
    # AUTHORS' CODE: α₀ = 1, α_i = 1 + N(1, 1ᵀΣ1).
    coef = 2.0 + np.sqrt(coef_covariance.sum()) * rng.standard_normal(len(coef_covariance))
    noiseless = Population(weights, means, covariances, coef, intercept=1.0, noise_sd=0.0)
    # DEVIATION: the noise level follows from the signal variance of the population, not of each drawn sample
    # as in the authors' code, because training and test rows must have the same distribution.
    noise_sd = noiseless.signal_sd / np.sqrt(SIGNAL_TO_NOISE)
    return Population(weights, means, covariances, coef, intercept=1.0, noise_sd=noise_sd)
