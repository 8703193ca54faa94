"""A linear state space model with missing readings, fitted by EM, as a reference for sensor networks."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stablemiss.checks import check_choice, check_integer, check_number
from stablemiss.data import Floats
from stablemiss.experiments.references.sensors import Histories, SensorReference
from stablemiss.seeding import to_rng

# Before `KalmanEM` is fitted: share of each state that remains after a step, from the fastest state of a node
# to the slowest one, and that of common states.
FASTEST, SLOWEST, COMMON = 0.5, 0.98, 0.8
# Before it is fitted: share of the variance of a node that is noise.
NOISE_SHARE = 0.2


class KalmanEM(SensorReference):
    """A linear-Gaussian state space model, fitted by EM.

    A few states move by state(t) = dynamics · state(t − 1) + disturbance, and readings are
    loadings · state(t) + noise, independent between readings. Missing readings are skipped, so that the
    filter uses exactly what is observed. Each window is predicted from its own history.

    Parameters
    ----------
    n_states : int, default=2
        Number of states. Raising it costs time and memory in proportion to its square.
    scope : {"node", "network"}, default="node"
        "node": each node has states of its own and is predicted from its own history; the parameters are the
        same for all nodes. Two states are a fast and a slow deviation. "network": the states are common to
        all nodes, whose loadings and noise differ; it needs more states. As noise has no memory, a node
        whose readings are all too high for a reason of its own then moves the predictions of the others.
    n_steps : int, default=30
        Number of EM steps. Raising it increases the likelihood further.
    max_sequences : int, default=20_000
        Number of sequences to fit to, drawn at random: pairs of window and node for "node", windows for
        "network". Raising it costs time in proportion.
    min_noise : float, default=1e-3
        Smallest noise variance, in units of the mean variance of all nodes.
    random_state : int, Generator or None, default=None
        Draws the sequences.

    Attributes
    ----------
    dynamics_, disturbance_ : (n_states, n_states)
        Matrix of the dynamics, and covariance of the disturbances.
    start_ : (n_states, n_states)
        Covariance of the states at the first time of a window; their mean is zero.
    loadings_ : (n_nodes, n_states)
        Only one row for "node".
    noise_ : (n_nodes,)
        Noise variance of each node; only one for "node".
    log_likelihoods_ : list of float
        Sum of the log-likelihoods of the sequences before each step; no step decreases it.

    Notes
    -----
    History and future of a training window are one sequence, and sequences are treated as independent. If
    windows overlap, a reading counts once for each of them. The covariance at the first time of a window is
    estimated like the other parameters. With windows that start at all hours it is that of the states in the
    long run.
    """

    def __init__(
        self,
        n_states: int = 2,
        scope: Literal["node", "network"] = "node",
        n_steps: int = 30,
        max_sequences: int = 20_000,
        min_noise: float = 1e-3,
        random_state: Any = None,
    ):
        self.n_states = n_states
        self.scope = scope
        self.n_steps = n_steps
        self.max_sequences = max_sequences
        self.min_noise = min_noise
        self.random_state = random_state

    def _fit(self, histories: Histories, target: NDArray) -> None:
        check_choice(self, scope=("node", "network"))
        check_integer(self, n_states=(1, self.n_nodes_) if self.scope == "network" else 1)
        check_integer(self, n_steps=1, max_sequences=1)
        check_number(self, min_noise="(0, inf)")
        sequences = self._draw_sequences(histories.readings, target)
        self._start(sequences)
        self.log_likelihoods_: list[float] = []
        for _ in range(self.n_steps):
            self._step(sequences)

    def _draw_sequences(self, past: NDArray, future: NDArray) -> Histories:
        """Draw sequences of all times of a window, (n, 1 or n_nodes, n_times), without a calendar."""
        is_seen = ~np.isnan(past).all(axis=2) | ~np.isnan(future).all(axis=2)
        # Sequences without any reading say nothing.
        window, node = np.nonzero(is_seen if self.scope == "node" else is_seen.any(axis=1, keepdims=True))
        if len(window) > self.max_sequences:
            rng = to_rng(self.random_state)
            drawn = np.sort(rng.choice(len(window), self.max_sequences, replace=False))
            window, node = window[drawn], node[drawn]
        if self.scope == "node":
            parts = [array[window, node][:, None] for array in (past, future)]
        else:
            parts = [array[window] for array in (past, future)]
        return Histories(np.concatenate(parts, axis=2), np.zeros((len(window), 0)))

    def _start(self, sequences: Histories) -> None:
        """First values of the parameters."""
        k = self.n_states
        covariance = _covariance(sequences)
        variance = covariance.diagonal()
        self.floor_ = self.min_noise * (variance.mean() or 1.0)
        if self.scope == "node":
            self.loadings_ = np.ones((1, k))
            strength = np.full(k, max((1 - NOISE_SHARE) * variance[0] / k, self.floor_))
            persistence = 1 - np.geomspace(1 - FASTEST, 1 - SLOWEST, k)
        else:
            eigenvalues, eigenvectors = np.linalg.eigh(covariance)
            self.loadings_ = eigenvectors[:, -k:].copy()
            strength = np.maximum(eigenvalues[-k:], self.floor_)
            persistence = np.full(k, COMMON)
        self.noise_ = np.maximum(variance - self.loadings_**2 @ strength, self.floor_)
        self.dynamics_ = np.diag(persistence)
        self.start_ = np.diag(strength)
        self.disturbance_ = np.diag((1 - persistence**2) * strength)

    def _step(self, sequences: Histories) -> None:
        """One step of EM."""
        sums = None
        for _, chunk in sequences.chunks():
            part = self._expect(chunk.readings)
            sums = part if sums is None else Moments(*(a + b for a, b in zip(sums, part, strict=True)))
        assert sums is not None
        self.log_likelihoods_.append(float(sums.log_likelihood))
        self._maximise(sums, len(sequences.readings))

    def _filter(self, readings: Floats) -> Filtered:
        """Distributions of the states given the readings so far, for sequences (n, n_nodes, n_times)."""
        n, _, n_times = readings.shape
        k = self.n_states
        expected, mean = np.zeros((2, n_times, n, k))
        prior, covariance = np.zeros((2, n_times, n, k, k))
        log_likelihood = 0.0
        for t in range(n_times):
            if t == 0:
                prior[t] = self.start_
            else:
                expected[t] = mean[t - 1] @ self.dynamics_.T
                prior[t] = self.dynamics_ @ covariance[t - 1] @ self.dynamics_.T + self.disturbance_
            mean[t], covariance[t], log_density = self._update(readings[:, :, t], expected[t], prior[t])
            log_likelihood += log_density
        return Filtered(expected, prior, mean, covariance, log_likelihood)

    def _update(self, readings: Floats, expected: Floats, prior: Floats) -> tuple[Floats, NDArray, float]:
        """Mean and covariance of the states given the readings of one time, and log density of these.

        Parameters
        ----------
        readings : (n, n_nodes)
            NaN = missing.
        expected, prior : (n, k), (n, k, k)
            Mean and covariance of the states without these readings.
        """
        n, k = expected.shape
        is_observed = ~np.isnan(readings)
        error = np.where(is_observed, readings - expected @ self.loadings_.T, 0.0)
        # Information form: nodes are many and states are few, so no matrix is as large as the network.
        weighted = self.loadings_ / self.noise_[:, None]
        products = (self.loadings_[:, :, None] * weighted[:, None, :]).reshape(-1, k * k)
        information = (is_observed.astype(np.float64) @ products).reshape(n, k, k)
        gain = np.eye(k) + prior @ information
        posterior = np.linalg.solve(gain, prior)
        covariance = (posterior + posterior.transpose(0, 2, 1)) / 2
        score = error @ weighted
        change = _product(covariance, score)
        distance = (error**2 / self.noise_).sum() - (score * change).sum()
        log_det = np.linalg.slogdet(gain)[1].sum() + (is_observed @ np.log(2 * np.pi * self.noise_)).sum()
        return expected + change, covariance, -0.5 * float(log_det + distance)

    def _expect(self, readings: Floats) -> Moments:
        """Expected moments of the states given all readings of each sequence."""
        filtered = self._filter(readings)
        mean, covariance = filtered.mean.copy(), filtered.covariance.copy()
        n_times, n, k = mean.shape
        successive = np.zeros((k, k))
        for t in range(n_times - 2, -1, -1):
            # Regression of the state at t on the one at t + 1.
            back = np.linalg.solve(filtered.prior[t + 1], self.dynamics_ @ filtered.covariance[t])
            backward = back.transpose(0, 2, 1)
            mean[t] += _product(backward, mean[t + 1] - filtered.expected[t + 1])
            covariance[t] += backward @ (covariance[t + 1] - filtered.prior[t + 1]) @ back
            successive += (covariance[t + 1] @ back).sum(axis=0) + mean[t + 1].T @ mean[t]
        moments = covariance + mean[..., :, None] * mean[..., None, :]
        by_time = readings.transpose(2, 0, 1).reshape(n_times * n, -1)
        is_observed = ~np.isnan(by_time)
        y, weight = np.where(is_observed, by_time, 0.0), is_observed.astype(np.float64)
        return Moments(
            log_likelihood=np.array(filtered.log_likelihood),
            states=moments.sum(axis=1),
            successive=successive,
            by_node=(weight.T @ moments.reshape(-1, k * k)).reshape(-1, k, k),
            cross=y.T @ mean.reshape(-1, k),
            square=(y**2).sum(axis=0),
            n_readings=weight.sum(axis=0),
        )

    def _maximise(self, sums: Moments, n_sequences: int) -> None:
        """Parameters with the largest expected likelihood."""
        self.start_ = sums.states[0] / n_sequences
        before, after = sums.states[:-1].sum(axis=0), sums.states[1:].sum(axis=0)
        self.dynamics_ = np.linalg.solve(before, sums.successive.T).T
        n_pairs = n_sequences * (len(sums.states) - 1)
        disturbance = (after - self.dynamics_ @ sums.successive.T) / n_pairs
        self.disturbance_ = (disturbance + disturbance.T) / 2
        # A node without readings keeps its parameters.
        is_seen = sums.n_readings > 0
        solved = np.linalg.solve(sums.by_node[is_seen], sums.cross[is_seen, :, None])[:, :, 0]
        left = sums.square[is_seen] - (solved * sums.cross[is_seen]).sum(axis=1)
        self.loadings_[is_seen] = solved
        self.noise_[is_seen] = np.maximum(left / sums.n_readings[is_seen], self.floor_)

    def _predict(self, histories: Histories) -> Floats:
        readings = histories.readings
        if self.scope == "node":
            readings = readings.reshape(-1, 1, readings.shape[2])
        state, future = self._filter(readings).mean[-1], []
        for _ in range(self.n_future_):
            state = state @ self.dynamics_.T
            future.append(state @ self.loadings_.T)
        return np.stack(future, axis=2).reshape(-1, self.n_nodes_, self.n_future_)


class Filtered(NamedTuple):
    """Distributions of the states, each with the axes (n_times, n, …).

    Attributes
    ----------
    expected, prior : (n_times, n, k), (n_times, n, k, k)
        Mean and covariance given the readings before each time.
    mean, covariance : (n_times, n, k), (n_times, n, k, k)
        Mean and covariance given the readings up to each time.
    log_likelihood : float
        Log density of the observed readings of all sequences.
    """

    expected: Floats
    prior: Floats
    mean: Floats
    covariance: Floats
    log_likelihood: float


class Moments(NamedTuple):
    """Sums over sequences of what the M-step needs; s(t) is the state at time t.

    Attributes
    ----------
    log_likelihood : ()
    states : (n_times, k, k)
        E[s(t) s(t)ᵀ] for each time.
    successive : (k, k)
        E[s(t + 1) s(t)ᵀ], summed over time.
    by_node : (n_nodes, k, k)
        E[s(t) s(t)ᵀ], summed over the times at which the node is observed.
    cross : (n_nodes, k)
        Reading times E[s(t)], summed over the same times.
    square, n_readings : (n_nodes,)
        Sum of the squared readings, and number of readings.
    """

    log_likelihood: Floats
    states: Floats
    successive: Floats
    by_node: Floats
    cross: Floats
    square: Floats
    n_readings: Floats


def _covariance(sequences: Histories) -> Floats:
    """Covariances of the readings of two nodes at times at which both are observed; their mean is zero."""
    n_nodes = sequences.readings.shape[1]
    products, together = np.zeros((2, n_nodes, n_nodes))
    for _, chunk in sequences.chunks():
        by_node = chunk.readings.transpose(1, 0, 2).reshape(n_nodes, -1)
        weight = (~np.isnan(by_node)).astype(np.float64)
        readings = np.nan_to_num(by_node)
        products += readings @ readings.T
        together += weight @ weight.T
    return products / np.maximum(together, 1.0)


def _product(matrices: Floats, vectors: Floats) -> Floats:
    """Products (n, k) of matrices (n, k, k) and vectors (n, k)."""
    return (matrices @ vectors[:, :, None])[:, :, 0]
