"""Paths, liveness and degrees against plain enumeration, and the known facts of the space."""

from __future__ import annotations

import itertools
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cells
from cells import EDGES, SPACE_SIZE, Cell, DagCode, Graph, moment
from cells.ops import index_order
from cells.table import space_ops

indices = st.integers(0, SPACE_SIZE - 1)


@st.composite
def codes(draw) -> DagCode:
    vertices = draw(st.integers(2, 7))
    digits = [[draw(st.integers(0, 2)) for _ in range(v)] for v in range(1, vertices)]
    return DagCode(tuple(map(tuple, digits)))


graphs = indices.map(Cell.from_index) | codes()


def drawn(graph: Graph) -> nx.DiGraph:
    drawn = nx.DiGraph()
    drawn.add_nodes_from(range(graph.n_vertices))
    for target, source, op in graph.edges():
        drawn.add_edge(source, target, layer=op in graph.LAYERS)
    return drawn


@given(graphs)
def test_paths_equal_enumeration(graph: Graph):
    edges, counts = drawn(graph), Counter[int]()
    for path in nx.all_simple_paths(edges, 0, graph.n_vertices - 1):
        counts[sum(edges.edges[edge]["layer"] for edge in itertools.pairwise(path))] += 1
    polynomial = graph.depth_polynomial()
    assert polynomial == tuple(counts[depth] for depth in range(max(counts, default=-1) + 1))
    assert graph.n_paths == counts.total()
    for offset in (0, 1, 3):
        expected = sum(count * (depth + offset) ** 3 for depth, count in counts.items())
        assert moment(polynomial, 3, offset) == expected
    if isinstance(graph, Cell):
        assert graph.path_depths() == tuple(1 + depth for depth in sorted(counts.elements()))


@given(graphs)
def test_live_edges_and_degrees_equal_reachability(graph: Graph):
    edges, last = drawn(graph), graph.n_vertices - 1
    on_paths = {edge for path in nx.all_simple_edge_paths(edges, 0, last) for edge in path}
    live = edges.edge_subgraph(on_paths)
    assert graph.live_vertices() == set(live)
    assert {(source, target) for target, source, _ in graph.edges(live=True)} == on_paths
    for own, kept in ((edges, False), (live, True)):
        degrees = tuple(own.in_degree(v) if v in own else 0 for v in range(1, last + 1))
        assert graph.in_degrees(live=kept) == degrees
    if isinstance(graph, DagCode):
        pruned = graph.pruned()
        assert pruned.edges() == graph.edges(live=True)
        assert pruned.n_vertices == graph.n_vertices


def test_cell_has_an_edge_for_each_operation_but_none():
    cell = Cell.parse("3_04_131")
    assert cell.edges() == ((1, 0, 3), (2, 1, 4), (3, 0, 1), (3, 1, 3), (3, 2, 1))


def network_graph(cell: Cell, cells_per_stage: int) -> tuple[nx.DiGraph, object, object]:
    """Return the whole network as one weighted graph: a convolution has weight 1."""
    graph = nx.DiGraph()
    graph.add_edge("image", (0, 0), weight=1)
    block = 0
    for stage in range(3):
        for _ in range(cells_per_stage):
            for (target, source), op in zip(EDGES, cell.ops, strict=True):
                if op:
                    graph.add_edge((block, source), (block, target), weight=int(op in (2, 3)))
            graph.add_edge((block, 3), (block + 1, 0), weight=0)
            block += 1
        if stage < 2:
            graph.add_edge((block, 0), (block, "a"), weight=1)
            graph.add_edge((block, "a"), (block, "b"), weight=1)
            graph.add_edge((block, "b"), (block + 1, 0), weight=0)
            graph.add_edge((block, 0), (block + 1, 0), weight=1)
            block += 1
    return graph, "image", (block, 0)


@pytest.mark.parametrize("code", ["1_01_001", "3_34_131", "0_00_200", "2_32_041", "0_00_000"])
def test_network_polynomial_equals_enumeration_of_the_whole_network(code: str):
    cell = Cell.parse(code)
    graph, first, last = network_graph(cell, 1)
    graph.add_nodes_from([first, last])
    counts: dict[int, int] = {}
    for path in nx.all_simple_paths(graph, first, last):
        depth = sum(graph.edges[edge]["weight"] for edge in itertools.pairwise(path))
        counts[depth] = counts.get(depth, 0) + 1
    polynomial = cell.network_polynomial(cells_per_stage=1)
    assert {depth: count for depth, count in enumerate(polynomial) if count} == counts


def test_network_polynomial_is_exact_beyond_int64():
    full = Cell.parse("3_33_333")  # c(t) = t + 2 t^2 + t^3 = t (1 + t)^2
    polynomial = full.network_polynomial(cells_per_stage=40)
    # By hand: t (t + t^2)^2 t^120 (1 + t)^240 = t^123 (1 + t)^242.
    assert sum(polynomial) == 2**242
    assert moment(polynomial, 1) == 2**242 * (123 + 121)
    assert len(polynomial) == 366


@pytest.fixture(scope="module")
def space() -> cells.Space:
    return cells.compile_space()


def test_space_has_the_known_path_counts(space):
    assert np.bincount(space.n_paths).tolist() == [341, 2356, 4736, 4096, 4096]


def test_space_has_the_known_multipliers(space):
    connected = space.lr_multiplier[space.n_paths > 0]
    assert len(np.unique(connected)) == 46
    assert np.isnan(space.lr_multiplier).sum() == 341
    assert connected.max() == 1.0
    assert connected.min() == pytest.approx(0.0890870806, abs=5e-11)
    assert connected.mean() == pytest.approx(0.2860, abs=5e-5)


def test_space_has_the_known_liveness_facts(space):
    path = space.n_paths > 0
    convolves = np.isin(space.ops, (2, 3)) & space.live_edges
    assert (path & ~convolves.any(axis=1)).sum() == 1642
    sources, targets = [source for _, source in EDGES], [target for target, _ in EDGES]
    degree, degree_live = (
        np.array([(1, *cell.in_degrees(live=live)) for cell in cells.all_cells()])  # 1 for vertex 0
        for live in (False, True)
    )
    source, target = degree[:, sources], degree_live[:, targets]
    # Cells in which the released code's degree (source, with dead edges) and the appendix's degree
    # (target, live edges only) differ at some live convolution.
    assert ((source != target) & convolves).any(axis=1).sum() == 10_976
    # Cells in which dead edges change the degree of a live convolution's source, or of any live
    # vertex.
    assert ((source != degree_live[:, sources]) & convolves).any(axis=1).sum() == 800
    wrong = (degree != degree_live) & (degree_live > 0)
    assert wrong.any(axis=1).sum() == 3_104


def test_network_multiplier_spans_the_known_factor():
    sums = [int(cell.describe()["network_sum_cubed_depths"]) for cell in cells.all_cells()]
    connected = [cubed for cubed in sums if cubed]
    assert (max(connected) / min(connected)) ** 0.5 == pytest.approx(7.8e5, rel=0.01)
    assert max(connected) < 2**63


@settings(max_examples=25)
@given(indices)
def test_arrays_equal_the_single_cell(space, index: int):
    cell = Cell.from_index(index)
    assert tuple(space.ops[index]) == cell.ops
    assert space.n_paths[index] == len(cell.path_depths()) == cell.n_paths
    facts = cell.describe()
    assert space.sum_cubed_depths[index] == facts["sum_cubed_depths"]
    assert space.lr_multiplier[index] == facts["lr_multiplier"] or not cell.n_paths
    assert (space.functional_class == facts["functional_class"]).sum() == facts["class_size"]
    live = {(target, source) for target, source, _ in cell.edges(live=True)}
    assert space.live_edges[index].tolist() == [edge in live for edge in EDGES]
    assert space.functional_class[index] == facts["functional_class"]


@pytest.mark.parametrize("cached", [cells.functional_classes, index_order, space_ops])
def test_cached_arrays_are_read_only(cached):
    with pytest.raises(ValueError, match="read-only"):
        cached()[0] = 1
