"""Graphs: what is stored, which neighbours are found, and which input is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from stablemiss.datasets import Graph
from stablemiss.estimators.archive import read_tree, write_tree


def brute_force_neighbours(places: np.ndarray, k: int) -> set[tuple[int, int]]:
    """(neighbour, node) by the haversine formula, which is exact for small distances too."""
    latitude, longitude = np.radians(places).T
    chord = (
        np.sin((latitude[:, None] - latitude) / 2) ** 2
        + np.cos(latitude[:, None]) * np.cos(latitude) * np.sin((longitude[:, None] - longitude) / 2) ** 2
    )
    np.fill_diagonal(chord, np.inf)
    return {
        (int(source), target) for target, row in enumerate(np.argsort(chord, axis=1)[:, :k]) for source in row
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("centre", [(52.5, 13.4), (0.0, 180.0), (89.9, 0.0)])
def test_nearest_neighbours_are_those_on_the_sphere_even_at_the_date_line_and_the_pole(seed, centre):
    rng = np.random.default_rng(seed)
    places = np.array(centre) + rng.normal(scale=0.03, size=(40, 2))
    places[:, 1] = np.where(places[:, 1] > 180, places[:, 1] - 360, places[:, 1])
    graph = Graph.nearest(places, k=4, symmetric=False)
    assert {tuple(edge) for edge in graph.edges.tolist()} == brute_force_neighbours(places, 4)


def test_a_directed_graph_of_neighbours_has_k_incoming_edges_and_a_symmetric_one_both_directions():
    places = np.random.default_rng(0).normal(size=(30, 2))
    directed, symmetric = (Graph.nearest(places, k=3, symmetric=flag) for flag in (False, True))
    assert np.bincount(directed.edges[:, 1]).tolist() == [3] * 30
    edges = {tuple(edge) for edge in symmetric.edges.tolist()}
    assert edges == {edge[::-1] for edge in edges}
    assert edges >= {tuple(edge) for edge in directed.edges.tolist()}


@pytest.mark.parametrize("k", [1, 2, 5])
def test_nodes_at_the_same_place_have_k_neighbours_and_no_self_loops(k):
    places = np.repeat([[52.5, 13.4], [52.6, 13.5]], 6, axis=0)
    graph = Graph.nearest(places, k=k, symmetric=False)
    assert np.bincount(graph.edges[:, 1]).tolist() == [k] * 12
    assert (graph.edges[:, 0] != graph.edges[:, 1]).all()


def test_edges_are_given_by_name_or_position_and_the_order_does_not_matter():
    names = ["a", "b", "c"]
    expected = Graph.from_edges(names, [("a", "b"), ("b", "c")])
    assert Graph.from_edges(names, [(2, 1), (1, 0)]) == expected
    assert Graph.from_edges(names, np.array([[1, 2], [0, 1]])) == expected
    assert expected.n_edges == 4
    assert hash(Graph.from_edges(names, [("c", "b"), (0, "b")])) == hash(expected)


def test_weights_follow_their_edges_in_both_directions():
    graph = Graph.from_edges("abc", [("b", "c"), ("a", "b")], weight=[2.0, 3.0])
    weight = {tuple(edge): value for edge, value in zip(graph.edges.tolist(), graph.edge_weight, strict=True)}
    assert weight == {(1, 2): 2.0, (2, 1): 2.0, (0, 1): 3.0, (1, 0): 3.0}


def test_graphs_differ_by_names_edges_directions_or_weights():
    graphs = [
        Graph.from_edges("abc", [("a", "b")]),
        Graph.from_edges("abd", [("a", "b")]),
        Graph.from_edges("abc", [("a", "c")]),
        Graph.from_edges("abc", [("a", "b")], directed=True),
        Graph.from_edges("abc", [("a", "b")], weight=[2.0]),
        Graph.none("abc"),
    ]
    assert len(set(graphs)) == len(graphs)
    assert graphs[0] != "graph"


def test_self_loops_are_dropped_and_added_on_request_for_every_node():
    graph = Graph.from_edges("abc", [("a", "a"), ("a", "b"), ("c", "c")], weight=[5.0, 1.0, 5.0])
    assert graph == Graph.from_edges("abc", [("a", "b")])
    assert graph.isolated.tolist() == [2]
    index = graph.edge_index(self_loops=True)
    assert index.shape == (2, graph.n_edges + 3)
    assert index[:, -3:].tolist() == [[0, 1, 2], [0, 1, 2]]
    np.testing.assert_array_equal(graph.edge_index(), graph.edges.T)


def test_a_graph_cannot_be_changed_and_does_not_change_with_the_arrays_it_was_made_of():
    edges = np.array([[0, 1], [1, 0]])
    graph = Graph(("a", "b"), edges, np.ones(2))
    edges[:] = 0
    assert graph.n_edges == 2
    with pytest.raises(ValueError, match="read-only"):
        graph.edges[0, 0] = 1
    with pytest.raises(AttributeError):
        graph.names = ("c", "d")
    assert copy.deepcopy(graph) == graph


@pytest.mark.parametrize(
    "graph",
    [
        Graph.none(1),
        Graph.none(["Straße 1", "x" * 50]),
        Graph.from_edges("abc", [("a", "b")], weight=[0.3]),
        Graph.nearest(np.random.default_rng(0).normal(size=(20, 2)), k=3),
    ],
    ids=repr,
)
def test_the_state_survives_an_archive_without_pickle(graph, tmp_path):
    write_tree(tmp_path / "graph", {"graph": graph.state()})
    assert Graph.from_state(read_tree(tmp_path / "graph")["graph"]) == graph


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["a", "b"]},
        {"names": np.array(["a", "a"])},
        {"names": np.zeros(2)},
        {"edges": np.array([[0, 2]])},
        {"edges": np.array([[0, -1]])},
        {"edges": np.array([[0.0, 1.0]])},
        {"edges": np.array([0, 1])},
        {"edges": np.array([[0, 1], [0, 1]]), "edge_weight": np.ones(2)},
        {"edge_weight": np.array([np.nan])},
        {"edge_weight": np.array([0.0])},
        {"edge_weight": np.ones(2)},
    ],
)
def test_a_manipulated_state_raises(change):
    state = Graph.from_edges("ab", [("a", "b")], directed=True).state()
    with pytest.raises(ValueError):
        Graph.from_state(state | change)


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: Graph.from_edges("ab", [("a", "x")]), ["'x'", "not one of the 2 nodes"]),
        (lambda: Graph.from_edges("ab", [(0, 2)]), ["node 2", "0 to 1"]),
        (lambda: Graph.from_edges("ab", [(0, -1)]), ["node -1"]),
        (lambda: Graph.from_edges("ab", [(0, 0.5)]), ["0.5"]),
        (lambda: Graph.from_edges("ab", [("a",)]), ["pair", "('a',)"]),
        (lambda: Graph.from_edges("ab", ["ab"]), ["pair", "'ab'"]),
        (lambda: Graph.from_edges("ab", [("a", "b"), ("a", "b")]), ["'a'", "'b'", "twice"]),
        (lambda: Graph.from_edges("ab", [("a", "b"), ("b", "a")]), ["twice", "directed=True"]),
        (lambda: Graph.from_edges("ab", [("a", "b")], weight=[1, 2]), ["weight", "1 edges", "(2,)"]),
        (lambda: Graph.from_edges("ab", [("a", "b")], weight=[-1]), ["above 0"]),
        (lambda: Graph.from_edges("ab", [("a", "b")], weight=["x"]), ["weight", "numbers"]),
        (lambda: Graph.from_edges(["a", "a"], []), ["'a'", "2 times"]),
        (lambda: Graph.from_edges(["a", ""], []), ["empty"]),
        (lambda: Graph.from_edges([1, 2], []), ["strings", "[1, 2]"]),
        (lambda: Graph.from_edges("ab", [], directed="no"), ["directed", "'no'"]),
        (lambda: Graph.none(0), ["nodes", "0"]),
        (lambda: Graph.none([]), ["names", "[]"]),
        (lambda: Graph.none(2.5), ["nodes", "2.5"]),
        (lambda: Graph.nearest([[1, 2], [3, 4]], k=2), ["k", "from 1 to 1", "2"]),
        (lambda: Graph.nearest([[1, 2], [3, 4]], k=0), ["k", "0"]),
        (lambda: Graph.nearest([1, 2]), ["two columns", "(2,)"]),
        (lambda: Graph.nearest([[1, 2], [np.nan, 4]], k=1, names="ab"), ["'b'", "missing"]),
        (lambda: Graph.nearest([[13.4, 52.5], [113.4, 52.5]], k=1), ["latitudes", "113.4"]),
        (lambda: Graph.nearest([[1, 2], [3, 4]], k=1, names="abc"), ["2 nodes", "3 names"]),
    ],
)
def test_the_error_for_wrong_input_says_what_is_wrong(call, facts):
    with pytest.raises(ValueError) as error:
        call()
    for fact in facts:
        assert fact in str(error.value)


def test_one_node_has_no_neighbours():
    assert Graph.nearest([[52.5, 13.4]], k=1, names="a") == Graph.none("a")
