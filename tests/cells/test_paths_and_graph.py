"""Paths, liveness and degrees against plain enumeration, and the known facts of the space."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cells
from cells import EDGES, SPACE_SIZE, Cell
from cells.ops import index_order
from cells.table import space_ops

indices = st.integers(0, SPACE_SIZE - 1)


def graph_of(cell: Cell) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(4))
    for (target, source), op in zip(EDGES, cell.ops, strict=True):
        if op:
            graph.add_edge(source, target, convolves=op in (2, 3))
    return graph


def enumerated_depths(cell: Cell) -> tuple[int, ...]:
    graph = graph_of(cell)
    paths = nx.all_simple_paths(graph, 0, 3)
    return tuple(
        sorted(
            sum(graph.edges[edge]["convolves"] for edge in itertools.pairwise(path))
            for path in paths
        )
    )


@given(indices)
def test_paths_equal_enumeration(index: int):
    cell = Cell.from_index(index)
    depths = cell.path_depths()
    assert depths == enumerated_depths(cell)
    polynomial = cell.depth_polynomial()
    assert polynomial == tuple(depths.count(d) for d in range(max(depths, default=-1) + 1))
    assert cells.moment(polynomial, 3, 1) == sum((1 + depth) ** 3 for depth in depths)


@given(indices)
def test_live_edges_equal_reachability(index: int):
    cell = Cell.from_index(index)
    graph = graph_of(cell)
    reached = {0, *nx.descendants(graph, 0)}
    leading = {3, *nx.ancestors(graph, 3)}
    expected = tuple(
        (target, source, op)
        for (target, source), op in zip(EDGES, cell.ops, strict=True)
        if op and source in reached and target in leading
    )
    assert cell.edges(live=True) == expected
    assert cell.live_vertices() == {vertex for edge in expected for vertex in edge[:2]}


@given(indices, st.booleans())
def test_degrees_equal_counting(index: int, live: bool):
    cell = Cell.from_index(index)
    graph = graph_of(cell)
    if live:
        on_paths = nx.all_simple_edge_paths(graph, 0, 3)
        graph = graph.edge_subgraph({edge for path in on_paths for edge in path})
    degrees = tuple(graph.in_degree(v) if v in graph else 0 for v in (1, 2, 3))
    assert cell.in_degrees(live=live) == degrees


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
    assert cells.moment(polynomial, 1) == 2**242 * (123 + 121)
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
