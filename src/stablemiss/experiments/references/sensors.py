"""Reference models for sensor networks: predict the next readings from incomplete histories.

All of them work on deseasonalised readings (`SensorWindows.deseasonalised`), whose usual value is zero. The
caller adds `SensorWindows.seasonal` to the predictions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from stablemiss.checks import check_bool, check_integer, check_number, shown
from stablemiss.data import Floats
from stablemiss.datasets import Graph
from stablemiss.missingness import MaskAugmentation
from stablemiss.seeding import Rng, draw_seed, to_rng

if TYPE_CHECKING:
    import lightgbm

# Maximum number of readings at a time: those of 100 windows of 232 nodes and 8 hours. Their features take
# 10 MB.
CHUNK_READINGS = 200_000


class Histories(NamedTuple):
    """What a model predicts from.

    Attributes
    ----------
    readings : (n, n_nodes, n_past)
        Deseasonalised readings, the last one most recent; NaN = missing.
    calendar : (n, n_calendar)
        Features that are the same for all nodes.
    """

    readings: NDArray
    calendar: NDArray

    def chunks(self) -> Iterator[tuple[slice, Histories]]:
        """Positions of successive windows, and these windows as float64."""
        n, n_nodes, n_times = self.readings.shape
        length = max(1, CHUNK_READINGS // (n_nodes * n_times))
        for start in range(0, n, length):
            rows = slice(start, start + length)
            yield rows, Histories(*(array[rows].astype(np.float64) for array in self))


class SensorReference(BaseEstimator, ABC):
    """Base class: checks shapes and separates readings from the calendar.

    Subclasses implement `_fit`, and `_predict` for a chunk of windows.
    """

    def fit(self, X: ArrayLike, Y: ArrayLike) -> Self:
        """Fit to windows.

        Parameters
        ----------
        X : (n, n_nodes + n_calendar, n_past)
            Deseasonalised histories; NaN = missing. The rows after those of the nodes are features of the
            calendar, the same at all times, as in ``windows.history(calendar=True)``; there may be none.
        Y : (n, n_nodes, n_future)
            Deseasonalised readings to predict; NaN = missing.
        """
        inputs, target = _windows(X, "X"), _windows(Y, "Y")
        if len(inputs) != len(target) or inputs.shape[1] < target.shape[1]:
            raise ValueError(
                "X and Y must have the same number of windows, and X at least as many rows per window as Y "
                f"has nodes; got shapes {inputs.shape} and {target.shape}."
            )
        if np.isnan(target).all(axis=(0, 1)).any():
            raise ValueError("Y must have an observed reading at each time to predict. Use other windows.")
        self.window_shape_ = inputs.shape[1:]
        self.n_nodes_, self.n_future_ = target.shape[1:]
        self._fit(self._histories(inputs), target)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the deseasonalised readings, (n, n_nodes, n_future).

        Parameters
        ----------
        X : (n, n_nodes + n_calendar, n_past)
            Histories as in `fit`.
        """
        if not hasattr(self, "window_shape_"):
            raise NotFittedError(f"{type(self).__name__} must be fitted before it predicts: call fit(X, Y).")
        inputs = _windows(X, "X")
        if inputs.shape[1:] != self.window_shape_:
            raise ValueError(
                f"X must hold windows of shape {self.window_shape_}, as in fit; got shape {inputs.shape}."
            )
        predicted = np.empty((len(inputs), self.n_nodes_, self.n_future_))
        for rows, chunk in self._histories(inputs).chunks():
            predicted[rows] = self._predict(chunk)
        return predicted

    def _histories(self, inputs: NDArray) -> Histories:
        # The features of the calendar are the same at all times.
        histories = Histories(inputs[:, : self.n_nodes_], inputs[:, self.n_nodes_ :, -1])
        if np.isnan(histories.calendar).any():
            raise ValueError(
                f"X must have no NaN in the rows from {self.n_nodes_} on, which are features of the calendar."
            )
        return histories

    @abstractmethod
    def _fit(self, histories: Histories, target: NDArray) -> None:
        """Fit to histories and target (n, n_nodes, n_future)."""

    @abstractmethod
    def _predict(self, histories: Histories) -> Floats:
        """Predict (n, n_nodes, n_future)."""


class HourOfWeek(SensorReference):
    """Predicts that readings will be as usual at their hour of the week: a deviation of zero."""

    def _fit(self, histories: Histories, target: NDArray) -> None:
        pass

    def _predict(self, histories: Histories) -> Floats:
        return np.zeros((len(histories.readings), self.n_nodes_, self.n_future_))


class LastValue(SensorReference):
    """Predicts the last observed deviation of the node in the window, or zero if there is none.

    Examples
    --------
    >>> model = LastValue().fit(np.zeros((1, 2, 3)), np.zeros((1, 2, 1)))
    >>> model.predict([[[1.0, 2.0, np.nan], [np.nan, np.nan, np.nan]]])[0, :, 0]
    array([2., 0.])
    """

    def _fit(self, histories: Histories, target: NDArray) -> None:
        pass

    def _predict(self, histories: Histories) -> Floats:
        last, _ = _last_observed(histories.readings)
        return np.repeat(last[:, :, None], self.n_future_, axis=2)


class DecayedLastValue(SensorReference):
    """Predicts the last observed deviation times a factor, which depends on lead time and age of the reading.

    The factors are the same for all nodes and are fitted by least squares to the observed readings.

    Attributes
    ----------
    factors_ : (n_past, n_future)
        By age of the last reading, from 0 for the most recent one; zero for ages that do not occur in
        training.
    """

    def _fit(self, histories: Histories, target: NDArray) -> None:
        n_past = self.window_shape_[1]
        products, squares = np.zeros((2, n_past, self.n_future_))
        for rows, chunk in histories.chunks():
            last, age = _last_observed(chunk.readings)
            for lead in range(self.n_future_):
                future = target[rows, :, lead]
                is_seen = ~np.isnan(future)
                x, y, ages = last[is_seen], future[is_seen], age[is_seen]
                products[:, lead] += np.bincount(ages, x * y, minlength=n_past)
                squares[:, lead] += np.bincount(ages, x * x, minlength=n_past)
        self.factors_ = products / np.where(squares > 0, squares, 1.0)

    def _predict(self, histories: Histories) -> Floats:
        last, age = _last_observed(histories.readings)
        return last[:, :, None] * self.factors_[age]


class RidgeOnLags(SensorReference):
    """Ridge regression, the same for all nodes: one set of coefficients for each lead time.

    The features of a node are its readings, which of them are observed, and the calendar. With a graph, the
    means of its neighbours' observed readings at each time are added in the same form.

    Parameters
    ----------
    alpha : float, default=100.0
        Penalty on the sum of the squared coefficients, as in scikit-learn's `Ridge`; the intercept is free.
        Raising it shrinks them towards zero.
    carry : bool, default=True
        Whether a missing reading is replaced by the last one before it or, if there is none, by the next one
        after it. False replaces it by zero, as is done in any case if all readings of the node are missing.
    graph : Graph, default=None
        Neighbours of each node, with weights. None uses the node alone.

    Attributes
    ----------
    coefficients_ : (n_features + 1, n_future)
        The last row is the intercept.
    """

    def __init__(self, alpha: float = 100.0, carry: bool = True, graph: Graph | None = None):
        self.alpha = alpha
        self.carry = carry
        self.graph = graph

    def _fit(self, histories: Histories, target: NDArray) -> None:
        check_number(self, alpha="[0, inf)")
        check_bool(self, "carry")
        self.neighbours_ = _neighbours(self.graph, self.n_nodes_)
        width = 2 * _n_lags(self) + histories.calendar.shape[1] + 1
        gram, moments = np.zeros((self.n_future_, width, width)), np.zeros((self.n_future_, width))
        for rows, chunk in histories.chunks():
            features = self._features(chunk)
            future = target[rows].reshape(-1, self.n_future_)
            for lead in range(self.n_future_):
                is_seen = ~np.isnan(future[:, lead])
                seen = features[is_seen]
                gram[lead] += seen.T @ seen
                moments[lead] += seen.T @ future[is_seen, lead]
        penalty = np.append(np.full(width - 1, float(self.alpha)), 0.0)
        # Least squares, because without a penalty, features such as indicators of all weekdays and the
        # intercept are collinear.
        self.coefficients_ = np.column_stack(
            [
                np.linalg.lstsq(g + np.diag(penalty), m, rcond=None)[0]
                for g, m in zip(gram, moments, strict=True)
            ]
        )

    def _predict(self, histories: Histories) -> Floats:
        shape = (-1, self.n_nodes_, self.n_future_)
        return (self._features(histories) @ self.coefficients_).reshape(shape)

    def _features(self, histories: Histories) -> Floats:
        """Features and a constant 1 of each node in each window, (n · n_nodes, n_features + 1)."""
        lags = _lags(histories.readings, self.neighbours_)
        n = len(lags)
        is_observed = ~np.isnan(lags).reshape(n, -1)
        filled = np.nan_to_num(_carried(lags) if self.carry else lags).reshape(n, -1)
        return np.hstack([filled, is_observed, _by_node(histories), np.ones((n, 1))])


class BoostingOnLags(SensorReference):
    """LightGBM on the features of single nodes: one model for each lead time, the same for all nodes.

    The features of a node are its readings (NaN where missing, which LightGBM treats by itself), the
    calendar, and its number as a category. With a graph, the means of its neighbours' observed readings at
    each time are added.

    Parameters
    ----------
    masked_copies : int, default=0
        Number of copies of the rows in addition to the original ones. In half of them all readings of a node
        are hidden, as in an outage, in the other half single readings at random (see `MaskAugmentation`).
        Raising it improves accuracy when the missingness changes; time and
        memory grow in proportion.
    max_rows : int, default=400_000
        Number of pairs of window and node to train on, drawn at random from those with an observed target.
    n_trees : int, default=100
        Number of trees for each lead time. Raising it needs a smaller `learning_rate`.
    learning_rate : float, default=0.1
        Shrinkage of each tree. Raising it needs fewer trees and loses some accuracy.
    n_leaves : int, default=31
        Leaves per tree. Raising it captures higher-order interactions and overfits sooner.
    node_category : bool, default=True
        Whether the number of the node is a feature, so that nodes can differ. It helps as long as each node
        behaves as in training, and hurts if that changes.
    graph : Graph, default=None
        Neighbours of each node, with weights. None uses the node alone.
    n_threads : int, default=None
        Number of LightGBM's threads; None uses OpenMP's setting. The trees do not depend on it.
    random_state : int, Generator or None, default=None
        Draws the rows and what the copies hide.
    """

    def __init__(
        self,
        masked_copies: int = 0,
        max_rows: int = 400_000,
        n_trees: int = 100,
        learning_rate: float = 0.1,
        n_leaves: int = 31,
        node_category: bool = True,
        graph: Graph | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
    ):
        self.masked_copies = masked_copies
        self.max_rows = max_rows
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.n_leaves = n_leaves
        self.node_category = node_category
        self.graph = graph
        self.n_threads = n_threads
        self.random_state = random_state

    def _fit(self, histories: Histories, target: NDArray) -> None:
        check_integer(self, masked_copies=(0, 1000), max_rows=1, n_trees=1, n_leaves=(2, 131_072))
        check_integer(self, n_threads=1, unless=None)
        check_bool(self, "node_category")
        check_number(self, learning_rate="(0, 1]")
        self.neighbours_ = _neighbours(self.graph, self.n_nodes_)
        rng = to_rng(self.random_state)
        drawn = self._draw_rows(target, rng)
        table = self._with_copies(self._table(histories, drawn), rng)
        future = np.tile(target[drawn // self.n_nodes_, drawn % self.n_nodes_], (self.masked_copies + 1, 1))
        params = self._params(len(drawn), rng)
        self.boosters_ = [self._boost(table, future[:, lead], params) for lead in range(self.n_future_)]

    def _draw_rows(self, target: NDArray, rng: Rng) -> NDArray[np.int64]:
        """Draw pairs of window and node, as ascending positions window · n_nodes + node."""
        candidates = np.flatnonzero(~np.isnan(target).all(axis=2))
        if len(candidates) <= self.max_rows:
            return candidates
        return np.sort(rng.choice(candidates, self.max_rows, replace=False))

    def _table(self, histories: Histories, drawn: NDArray[np.int64]) -> NDArray[np.float32]:
        """Features of the drawn pairs. Single precision, because trees need no more and rows are many."""
        parts = []
        for rows, chunk in histories.chunks():
            first = rows.start * self.n_nodes_
            stop = first + len(chunk.readings) * self.n_nodes_
            inside = drawn[np.searchsorted(drawn, first) : np.searchsorted(drawn, stop)] - first
            parts.append(self._features(chunk)[inside])
        return np.concatenate(parts)

    def _features(self, histories: Histories) -> NDArray[np.float32]:
        """Features of each node in each window, (n · n_nodes, n_features); the lags come first."""
        lags = _lags(histories.readings, self.neighbours_)
        columns: list[NDArray] = [lags.reshape(len(lags), -1), _by_node(histories)]
        if self.node_category:
            columns.append(np.tile(np.arange(self.n_nodes_), len(histories.readings))[:, None])
        return np.hstack(columns).astype(np.float32)

    def _with_copies(self, table: NDArray[np.float32], rng: Rng) -> NDArray[np.float32]:
        """The rows, followed by copies in which lags are hidden."""
        n_lags = _n_lags(self)
        augmentation = MaskAugmentation.of(np.arange(n_lags))
        # Readings of the node come before the means of its neighbours: each hidden as a whole.
        outage = MaskAugmentation.of(np.arange(n_lags) // self.window_shape_[1])
        copies = np.tile(table, (self.masked_copies + 1, 1))
        for start in range(len(table), len(copies), len(table)):
            lags = copies[start : start + len(table), :n_lags]
            is_outage = rng.random((len(table), 1)) < 0.5
            masks = (source.draw(len(table), rng) for source in (outage, augmentation))
            lags[~np.where(is_outage, *masks)] = np.nan
        return copies

    def _params(self, n_rows: int, rng: Rng) -> dict[str, Any]:
        return {
            "objective": "regression",
            "learning_rate": float(self.learning_rate),
            "num_leaves": int(self.n_leaves),
            # With twenty rows per leaf, very small tables could not be split at all.
            "min_data_in_leaf": max(1, min(20, n_rows // 10)),
            "seed": draw_seed(rng),
            "num_threads": self.n_threads or 0,
            # Together these make the trees independent of the number of threads.
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }

    def _boost(self, table: NDArray[np.float32], future: NDArray, params: dict[str, Any]) -> lightgbm.Booster:
        # Imported late, so that the other models can be imported quickly.
        import lightgbm

        is_seen = ~np.isnan(future)
        categories = [table.shape[1] - 1] if self.node_category else []
        rows = lightgbm.Dataset(
            table[is_seen], future[is_seen], categorical_feature=categories, params=params
        )
        return lightgbm.train(params, rows, num_boost_round=int(self.n_trees))

    def _predict(self, histories: Histories) -> Floats:
        table = self._features(histories)
        columns = [booster.predict(table, num_threads=self.n_threads or 0) for booster in self.boosters_]
        return np.column_stack(columns).reshape(-1, self.n_nodes_, self.n_future_)


def _windows(windows: ArrayLike, name: str) -> NDArray:
    """Windows (n, rows, times) as an array of floats, which is not copied if it is one."""
    array = np.asarray(windows)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    if array.ndim != 3 or not array.shape[1] or not array.shape[2]:
        raise ValueError(f"{name} must hold windows, (n, nodes, times); got shape {array.shape}.")
    if np.isinf(array).any():
        raise ValueError(f"{name} contains infinite values. Replace them with NaN if they are unknown.")
    return array


def _last_observed(readings: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The last observed reading and its age in steps, both (n, n_nodes); zero if there is none."""
    newest_first = readings[:, :, ::-1]
    age = (~np.isnan(newest_first)).argmax(axis=2)
    last = np.take_along_axis(newest_first, age[:, :, None], axis=2)[:, :, 0]
    return np.nan_to_num(last), age


def _neighbours(graph: Graph | None, n_nodes: int) -> Floats | None:
    """`neighbour_weights` of a graph that was checked."""
    if graph is None:
        return None
    if not isinstance(graph, Graph) or graph.n_nodes != n_nodes:
        raise ValueError(f"graph must be a Graph of the {n_nodes} nodes of Y, or None; got {shown(graph)}.")
    return neighbour_weights(graph)


def neighbour_weights(graph: Graph) -> Floats:
    """Weights of the neighbours of each node, (n_nodes, n_nodes): row = target, column = source."""
    weights = np.zeros((graph.n_nodes, graph.n_nodes))
    weights[graph.edges[:, 1], graph.edges[:, 0]] = graph.edge_weight
    return weights


def means_of_neighbours(readings: Floats, weights: Floats) -> Floats:
    """Mean of the observed readings of each node's neighbours, (n, n_nodes, n_past); NaN if there are none.

    Parameters
    ----------
    readings : (n, n_nodes, n_past)
        NaN = missing.
    weights : (n_nodes, n_nodes)
        Result of `neighbour_weights`.
    """
    is_observed = ~np.isnan(readings)
    total = weights @ np.where(is_observed, readings, 0.0)
    weight = weights @ is_observed.astype(np.float64)
    return np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)


def _n_lags(model: RidgeOnLags | BoostingOnLags) -> int:
    """Number of readings from which a node is predicted: its own, and means of its neighbours."""
    return model.window_shape_[1] * (1 if model.graph is None else 2)


def _lags(readings: Floats, neighbours: Floats | None) -> Floats:
    """Readings of each node in each window, and the means of its neighbours' observed readings.

    Parameters
    ----------
    readings : (n, n_nodes, n_past)
        NaN = missing.
    neighbours : (n_nodes, n_nodes) or None
        Result of `_neighbours`.

    Returns
    -------
    (n · n_nodes, 1 or 2, n_past)
        NaN where a reading, or those of all neighbours, are missing.
    """
    blocks = [readings]
    if neighbours is not None:
        blocks.append(means_of_neighbours(readings, neighbours))
    return np.stack(blocks, axis=2).reshape(-1, len(blocks), readings.shape[2])


def _carried(lags: Floats) -> Floats:
    """Fill missing lags with the last one before or, if there is none, the next one after; else NaN."""
    is_observed, steps = ~np.isnan(lags), np.arange(lags.shape[-1])
    earlier = np.maximum.accumulate(np.where(is_observed, steps, -1), axis=-1)
    # The first observed step: nothing before it is observed.
    first = is_observed.argmax(axis=-1)[..., None]
    return np.take_along_axis(lags, np.where(earlier >= 0, earlier, first), axis=-1)


def _by_node(histories: Histories) -> Floats:
    """The calendar of the window of each node, (n · n_nodes, n_calendar)."""
    return np.repeat(histories.calendar, histories.readings.shape[1], axis=0)
