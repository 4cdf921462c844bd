"""Codes of general graphs, malformed codes, and a graph of many paths."""

from __future__ import annotations

import math

import pytest

from cells import CellError, DagCode


@pytest.mark.parametrize("text", ["0", "2_02_002", "1_20_012_0210"])
def test_code_round_trips(text: str):
    assert str(DagCode.parse(text)) == text


def test_edges_are_those_of_the_digits_but_none():
    assert DagCode.parse("2_02_100").edges() == ((1, 0, 2), (2, 1, 2), (3, 0, 1))


def test_complete_graph_of_forty_vertices_is_exact():
    code = DagCode.parse("_".join("2" * vertex for vertex in range(1, 40)))
    # A path with k + 1 layers is given by its k inner vertices, chosen from 38.
    assert code.depth_polynomial() == (0, *(math.comb(38, k) for k in range(39)))
    assert code.n_paths == 2**38


@pytest.mark.parametrize(("text", "says"), [
    ("", "expected 1 digits of 0 (none), 1 (skip), 2 (layer) for the edges into vertex 1"),
    ("2_2", "into vertex 2 from earlier vertices, found '2'"),
    ("22_22", "into vertex 1 from earlier vertices, found '22'"),
    ("2_03_002", "into vertex 2 from earlier vertices, found '03'"),
    ("2-02-002", "found '2-02-002'"),
    ("2_0٢", r"found '0\u0662'"),
    ("2" * 10_000_000, "expected 1 digits"),
    ("_".join("2" * v for v in range(1, 300)), "2 to 256 vertices"),
])  # fmt: skip
def test_malformed_code_is_refused_and_shown(text: str, says: str):
    with pytest.raises(CellError) as caught:
        DagCode.parse(text)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("operations", [((2,), (2,)), ((2,), (0, 3)), ((2,), (0, -1)), ((),)])
def test_invalid_operations_are_refused(operations):
    with pytest.raises(CellError, match=r"vertex \d needs \d digits of 0, 1, 2, got \("):
        DagCode(operations)
