"""Graph of a sensor network: which sensors exchange information."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stablemiss.checks import check_bool, check_integer, is_integer, shown, to_list
from stablemiss.data import Floats, to_numbers
from stablemiss.stored import check_stored, stored_array
from stablemiss.text import count

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Nodes with names, and directed edges with weights. It is immutable and holds no self loops.

    An edge (i, j) means that node j receives information from node i. Undirected edges are stored in both
    directions. An edge from a node to itself is dropped, because a network always knows the history of a
    node itself; `edge_index` adds self loops for layers that need them. An isolated node, which has no edges,
    is valid: it is predicted from its own history and the calendar alone.

    Create a graph by `from_edges`, `nearest` or `none`.

    Attributes
    ----------
    names : tuple of str
        Names of the nodes, without duplicates, in the order of the columns of the readings.
    edges : (n_edges, 2) int64
        Positions of the source and the target of each edge, sorted by target and then by source; read-only.
    edge_weight : (n_edges,) float64
        Positive weight of each edge, 1 if not given; read-only.

    See Also
    --------
    SensorWindows : Histories and futures of the nodes.
    load_sensor_folder : Reads the edges from a file.

    Examples
    --------
    >>> graph = Graph.from_edges(["a", "b", "c"], [("a", "b")])
    >>> graph
    Graph(3 nodes, 2 edges, 1 isolated node)
    >>> graph.edges.tolist()
    [[1, 0], [0, 1]]
    """

    names: tuple[str, ...]
    edges: Indices
    edge_weight: Floats

    def __post_init__(self) -> None:
        names = to_names(self.names)
        edges = to_numbers("edges", self.edges, np.int64)
        weight = to_numbers("edge_weight", self.edge_weight)
        if edges.ndim != 2 or edges.shape[1] != 2 or weight.shape != (len(edges),):
            raise ValueError(
                "edges must have the shape (n_edges, 2) and edge_weight (n_edges,); got shapes "
                f"{edges.shape} and {weight.shape}."
            )
        if not (np.isfinite(weight).all() and (weight > 0).all()):
            raise ValueError("Weights of edges must be finite and above 0. Leave out edges of weight 0.")
        if len(edges) and not (edges.min() >= 0 and edges.max() < len(names)):
            raise ValueError(
                f"Edges must refer to the nodes 0 to {len(names) - 1}; got positions from {edges.min()} to "
                f"{edges.max()}."
            )
        is_loop = edges[:, 0] == edges[:, 1]
        edges, weight = edges[~is_loop], weight[~is_loop]
        order = np.lexsort((edges[:, 0], edges[:, 1]))
        edges, weight = edges[order], weight[order]
        repeated = np.flatnonzero((edges[1:] == edges[:-1]).all(axis=1))
        if len(repeated):
            source, target = (names[node] for node in edges[repeated[0]])
            raise ValueError(
                f"The edge from {source!r} to {target!r} occurs twice. Remove one of them; if the list holds "
                "both directions of each edge, pass directed=True."
            )
        edges.flags.writeable = weight.flags.writeable = False
        for field, value in (("names", names), ("edges", edges), ("edge_weight", weight)):
            object.__setattr__(self, field, value)

    @classmethod
    def from_edges(
        cls,
        names: Iterable[str],
        edges: Iterable[Sequence[str | int]],
        weight: ArrayLike | None = None,
        directed: bool = False,
    ) -> Graph:
        """Create a graph from a list of edges.

        Parameters
        ----------
        names : iterable of str
            Names of the nodes. Nodes without edges are allowed.
        edges : iterable of pairs
            Source and target of each edge: names (str), or positions counted from 0 (int). Self loops are
            dropped. An edge that occurs twice raises ValueError.
        weight : (n_edges,), default=None
            Positive weights of the edges. None gives all edges the weight 1.
        directed : bool, default=False
            False adds the opposite direction of each edge; a list that holds both directions then raises
            ValueError instead of counting edges twice. True keeps the edges as given.

        See Also
        --------
        nearest : Edges by geographic distance.

        Examples
        --------
        >>> Graph.from_edges(["a", "b"], [("a", "b"), (1, 1)], weight=[0.5, 1.0], directed=True).edge_weight
        array([0.5])
        """
        check_bool({"directed": directed}, "directed")
        names = to_names(names)
        position = {name: i for i, name in enumerate(names)}
        pairs = [_to_pair(edge, position) for edge in edges]
        array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        weights = np.ones(len(array)) if weight is None else to_numbers("weight", weight)
        if weights.shape != (len(array),):
            raise ValueError(
                f"weight must have one entry for each of the {len(array)} edges; got shape {weights.shape}."
            )
        if not directed:
            is_loop = array[:, 0] == array[:, 1]
            array = np.concatenate([array, array[~is_loop, ::-1]])
            weights = np.concatenate([weights, weights[~is_loop]])
        return cls(names, array, weights)

    @classmethod
    def nearest(
        cls, coordinates: ArrayLike, k: int = 8, names: Iterable[str] | None = None, symmetric: bool = True
    ) -> Graph:
        """Connect each node with its k nearest nodes, by distance on the sphere.

        Parameters
        ----------
        coordinates : (n, 2)
            Latitude and longitude in degrees (WGS84), without missing values. Nodes may have the same
            coordinates, such as the two directions of a road.
        k : int, default=8
            Number of neighbours, from 1 to n - 1. Raising it spreads information further in each layer of a
            network, and costs time in proportion.
        names : iterable of str, default=None
            Names of the nodes. None means "0", "1", ….
        symmetric : bool, default=True
            True adds the opposite direction of every edge, so a node has at least k neighbours. False gives
            each node exactly k incoming edges, from its k nearest nodes.

        See Also
        --------
        from_edges : A given list of edges.

        Examples
        --------
        >>> places = [(52.50, 13.30), (52.50, 13.31), (52.50, 13.40)]
        >>> Graph.nearest(places, k=1, symmetric=False).edges.tolist()
        [[1, 0], [0, 1], [1, 2]]
        """
        from scipy.spatial import KDTree

        check_bool({"symmetric": symmetric}, "symmetric")
        places = check_coordinates(coordinates)
        n = len(places)
        names = to_names(map(str, range(n)) if names is None else names)
        if len(names) != n:
            raise ValueError(f"names must have one entry for each of the {n} nodes; got {len(names)} names.")
        missing = np.flatnonzero(np.isnan(places).any(axis=1))
        if len(missing):
            raise ValueError(
                f"coordinates must have no missing values; node {names[missing[0]]!r} has none. Leave such "
                "nodes out, or list the edges (Graph.from_edges)."
            )
        check_integer({"k": k}, k=(1, max(1, n - 1)))
        if n == 1:
            return cls.none(names)
        # The order of distances along a straight line through the sphere is that along its surface.
        latitude, longitude = np.radians(places).T
        points = np.column_stack(
            [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
        )
        found = KDTree(points).query(points, k=k + 1)[1]
        # A node is usually the first of its own neighbours, but among nodes at the same place it may come
        # later or not at all; then the last one found is dropped instead.
        is_self = found == np.arange(n)[:, None]
        is_self[~is_self.any(axis=1), -1] = True
        sources = found[~is_self]
        edges = np.column_stack([sources, np.repeat(np.arange(n), k)])
        if symmetric:
            edges = np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)
        return cls(names, edges, np.ones(len(edges)))

    @classmethod
    def none(cls, nodes: int | Iterable[str]) -> Graph:
        """Create a graph without edges, in which every node is predicted on its own.

        Parameters
        ----------
        nodes : int or iterable of str
            Number of nodes, or their names.

        Examples
        --------
        >>> Graph.none(3)
        Graph(3 nodes, 0 edges, 3 isolated nodes)
        """
        if is_integer(nodes) or not isinstance(nodes, Iterable):
            check_integer({"nodes": nodes}, nodes=1)
            nodes = map(str, range(nodes))  # type: ignore[arg-type]
        return cls(to_names(nodes), np.zeros((0, 2), dtype=np.int64), np.zeros(0))

    @property
    def n_nodes(self) -> int:
        return len(self.names)

    @property
    def n_edges(self) -> int:
        """Number of directed edges; an undirected one counts twice."""
        return len(self.edges)

    @property
    def isolated(self) -> Indices:
        """Positions of the nodes without edges."""
        return np.setdiff1d(np.arange(self.n_nodes), self.edges)

    def edge_index(self, self_loops: bool = False) -> Indices:
        """Sources and targets as two rows, (2, n_edges), the layout of graph layers in torch.

        Parameters
        ----------
        self_loops : bool, default=False
            True appends an edge from each node to itself, in order. Layers that average over incoming edges,
            such as graph attention, need them, because isolated nodes have no others.

        Examples
        --------
        >>> Graph.from_edges("ab", [("a", "b")], directed=True).edge_index(self_loops=True).tolist()
        [[0, 0, 1], [1, 0, 1]]
        """
        check_bool({"self_loops": self_loops}, "self_loops")
        loops = np.tile(np.arange(self.n_nodes if self_loops else 0), (2, 1))
        return np.concatenate([self.edges.T, loops], axis=1)

    def state(self) -> dict[str, NDArray]:
        """The graph as plain arrays, from which `from_state` restores it."""
        return {
            "names": np.array(self.names),
            "edges": self.edges.copy(),
            "edge_weight": self.edge_weight.copy(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Graph:
        """Restore a graph from its state; raises ValueError if the state was manipulated.

        Examples
        --------
        >>> graph = Graph.none(2)
        >>> Graph.from_state(graph.state()) == graph
        True
        """
        names, edges = state["names"], state["edges"]
        is_text = isinstance(names, np.ndarray) and names.ndim == 1 and names.dtype.kind == "U"
        check_stored(is_text, "names must be an array of strings")
        # `stored_array` needs the number of edges, because there may be none.
        n_edges = len(edges) if isinstance(edges, np.ndarray) and edges.ndim == 2 else 0
        return cls(
            tuple(names.tolist()),
            stored_array(state, "edges", (n_edges, 2), np.int64, lowest=0, highest=len(names) - 1),
            stored_array(state, "edge_weight", (n_edges,), lowest=0),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return (
            self.names == other.names
            and np.array_equal(self.edges, other.edges)
            and np.array_equal(self.edge_weight, other.edge_weight)
        )

    def __hash__(self) -> int:
        return hash((self.names, self.edges.tobytes(), self.edge_weight.tobytes()))

    def __repr__(self) -> str:
        counts = ((self.n_nodes, "node"), (self.n_edges, "edge"), (len(self.isolated), "isolated node"))
        return f"Graph({', '.join(count(n, noun) for n, noun in counts)})"


def to_names(names: Any, what: str = "names") -> tuple[str, ...]:
    """Convert names of nodes to a tuple; raise ValueError unless they are distinct and not empty.

    Parameters
    ----------
    names : iterable of str
        The names.
    what : str, default="names"
        What the names are called in error messages.

    Examples
    --------
    >>> to_names(["a", "b", "a"])
    Traceback (most recent call last):
    ValueError: names must be distinct; 'a' occurs 2 times.
    """
    # A string is accepted here, as a sequence of names of one character.
    items = list(names) if isinstance(names, str) else to_list(names)
    if not items or not all(isinstance(name, str) and name for name in items):
        raise ValueError(f"{what} must be strings, at least one and none of them empty; got {shown(names)}.")
    items = [str(name) for name in items]
    name, times = Counter(items).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{what} must be distinct; {name!r} occurs {times} times.")
    return tuple(items)


def check_coordinates(coordinates: ArrayLike) -> Floats:
    """Convert coordinates (latitude and longitude in degrees) to (n, 2); NaN = unknown.

    Examples
    --------
    >>> check_coordinates([(113.3, 52.5)])
    Traceback (most recent call last):
    ValueError: coordinates must be latitudes from -90 to 90 and longitudes from -180 to 360, in degrees; \
got latitudes from 113.3 to 113.3 and longitudes from 52.5 to 52.5.
    """
    if coordinates is None:
        raise ValueError(
            "There are no coordinates; pass those of the nodes, list the edges (Graph.from_edges), or use no "
            "graph (graph=None)."
        )
    places = to_numbers("coordinates", coordinates)
    if places.ndim != 2 or places.shape[1] != 2 or not len(places):
        raise ValueError(
            f"coordinates must have two columns, latitude and longitude, and a row for each node; got shape "
            f"{places.shape}."
        )
    if np.isnan(places).all():
        return places
    low, high = np.nanmin(places, axis=0), np.nanmax(places, axis=0)
    if (low < [-90, -180]).any() or (high > [90, 360]).any():
        raise ValueError(
            "coordinates must be latitudes from -90 to 90 and longitudes from -180 to 360, in degrees; got "
            f"latitudes from {low[0]} to {high[0]} and longitudes from {low[1]} to {high[1]}."
        )
    return places


def _to_pair(edge: Any, position: Mapping[str, int]) -> tuple[int, int]:
    ends = to_list(edge)
    if ends is None or len(ends) != 2:
        raise ValueError(f"Each edge must be a pair of nodes, source and target; got {shown(edge)}.")
    pair = []
    for end in ends:
        if is_integer(end):
            if not 0 <= end < len(position):
                raise ValueError(
                    f"Edge {shown(edge)} refers to node {end}, but there are nodes 0 to {len(position) - 1}."
                )
            pair.append(int(end))
        elif isinstance(end, str) and end in position:
            pair.append(position[end])
        else:
            raise ValueError(
                f"Edge {shown(edge)} names the node {shown(end)}, which is not one of the {len(position)} "
                "nodes. Correct the name, or remove the edge."
            )
    return pair[0], pair[1]
