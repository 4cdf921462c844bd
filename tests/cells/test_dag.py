"""General graph codes: statistics against enumeration, and malformed codes."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import CellError, DagCode, moment


@st.composite
def codes(draw) -> DagCode:
    vertices = draw(st.integers(2, 7))
    digits = [[draw(st.integers(0, 2)) for _ in range(v)] for v in range(1, vertices)]
    return DagCode(tuple(map(tuple, digits)))


def graph_of(code: DagCode) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(code.n_vertices))
    for target, source, op in code.edges():
        graph.add_edge(source, target, layer=op == 2)
    return graph


@given(codes())
def test_paths_equal_enumeration(code: DagCode):
    graph = graph_of(code)
    counts: dict[int, int] = {}
    for path in nx.all_simple_paths(graph, 0, code.n_vertices - 1):
        depth = sum(graph.edges[edge]["layer"] for edge in itertools.pairwise(path))
        counts[depth] = counts.get(depth, 0) + 1
    polynomial = code.depth_polynomial()
    assert {depth: count for depth, count in enumerate(polynomial) if count} == counts
    assert code.n_paths == sum(counts.values())
    for offset in (0, 1, 3):
        expected = sum(count * (depth + offset) ** 3 for depth, count in counts.items())
        assert moment(polynomial, 3, offset) == expected


@given(codes())
def test_live_vertices_equal_reachability(code: DagCode):
    graph = graph_of(code)
    last = code.n_vertices - 1
    live = {0, *nx.descendants(graph, 0)} & {last, *nx.ancestors(graph, last)}
    assert code.live_vertices() == (live if nx.has_path(graph, 0, last) else set())
    pruned = code.pruned()
    assert pruned.in_degrees() == code.in_degrees(live=True)
    assert pruned.depth_polynomial() == code.depth_polynomial()


@given(codes())
def test_code_round_trips(code: DagCode):
    assert DagCode.parse(str(code)) == code


def test_complete_graph_of_forty_vertices_is_exact():
    code = DagCode.parse("_".join("2" * vertex for vertex in range(1, 40)))
    # A path with k + 1 layers is given by its k inner vertices, chosen from 38.
    assert code.depth_polynomial() == (0, *(math.comb(38, k) for k in range(39)))
    assert code.n_paths == 2**38


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected 1 digits of 0 (none), 1 (skip), 2 (layer) for the edges into vertex 1"),
        ("2_2", "into vertex 2 from earlier vertices, found '2'"),
        ("22_22", "into vertex 1 from earlier vertices, found '22'"),
        ("2_03_002", "into vertex 2 from earlier vertices, found '03'"),
        ("2-02-002", "found '2-02-002'"),
        ("2_0٢", r"found '0\u0662'"),
        ("2" * 10_000_000, "expected 1 digits"),
        ("_".join("2" * v for v in range(1, 300)), "2 to 256 vertices"),
    ],
)
def test_malformed_code_is_refused_and_shown(text: str, says: str):
    with pytest.raises(CellError) as caught:
        DagCode.parse(text)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("operations", [((2,), (2,)), ((2,), (0, 3)), ((2,), (0, -1)), ((),)])
def test_invalid_operations_are_refused(operations):
    with pytest.raises(CellError, match=r"vertex \d needs \d digits of 0, 1, 2, got \("):
        DagCode(operations)
