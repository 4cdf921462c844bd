"""Paths of networks, counted by hand or by `cells`, however the network was read."""

import functools
from collections import defaultdict

import numpy as np
import pytest
import torch
from plain_networks import IMAGES, DenseNet, Excited, Former, Llama, Mixer, MobileNet, ResNet, UNet
from torch import nn

from cells import Cell, DagCode
from cells.ops import AVG_POOL, CONV_1X1, CONV_3X3, SKIP
from cells.paths import multiply
from experiments.laws.dagnet import DagCNN, DagMLP
from experiments.laws.graphs import random_graphs
from rebench.modules import UntraceableError, read_network
from rebench.nets import TinyNet
from rebench.nets.reference import reference_net
from rebench.nets.tiny import CellBlock

TRACERS = ("export", "fx")
T, ONE_PLUS_T2, T_PLUS_T2, ONE_PLUS_T3 = (0, 1), (1, 0, 1), (0, 1, 1), (1, 0, 0, 1)


def product(*factors):
    return functools.reduce(multiply, factors, (1,))


WORDS = torch.zeros(2, 6, dtype=torch.long)
# Each network with the polynomial of its paths: the coefficient of t^k is the number of paths
# through k layers, not counting the readout.
COUNTED = {
    # A stem; five blocks of two layers parallel to an identity, three parallel to one layer.
    "resnet-18": (ResNet(), IMAGES, product(T, *[ONE_PLUS_T2] * 5, *[T_PLUS_T2] * 3)),
    # Layer i reads all before: t (1 + t)^3 with three of them.
    "densenet": (DenseNet(), IMAGES, (0, 1, 3, 3, 1)),
    "mobilenet": (MobileNet(), IMAGES, product(T, ONE_PLUS_T3, ONE_PLUS_T3)),
    # A path has the layers enter and merge, or enter, down, up and merge.
    "u-net": (UNet(), IMAGES, (0, 0, 1, 0, 1)),
    "mixer": (Mixer(), IMAGES, product(T, *[ONE_PLUS_T2] * 4)),
    # A path through attention has two layers: the projection to values, and that of the output.
    "transformer": (Former(packed=True), WORDS, product(T, *[ONE_PLUS_T2] * 4)),
    "llama": (Llama(), WORDS, product(T, *[ONE_PLUS_T2] * 4)),
    "squeeze and excitation": (Excited(), IMAGES, (0, 0, 1)),
}


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("name", COUNTED)
def test_polynomial_is_the_one_counted_by_hand(name: str, tracer: str):
    network, inputs, expected = COUNTED[name]
    graph = read_network(network, inputs, tracer=tracer).graph
    assert graph.depth_polynomial() == expected


def _cells(count: int, seed: int) -> list[Cell]:
    chosen = np.random.default_rng(seed).choice(15_625, count, replace=False)
    return [Cell.from_index(int(index)) for index in chosen]


def _polynomial(network: nn.Module, tracer: str) -> tuple[int, ...]:
    try:
        return read_network(network, IMAGES, tracer=tracer).graph.depth_polynomial()
    except UntraceableError as error:
        return () if "no path leads from the inputs" in str(error) else (-1,)


def _block(cell: Cell) -> nn.Module:
    return nn.Sequential(CellBlock(cell, 3), nn.Conv2d(3, 1, 1))


def test_cells_and_their_networks_have_the_polynomials_of_cells():
    for cell in _cells(20, seed=0):
        assert _polynomial(_block(cell), "fx") == cell.depth_polynomial(), cell
    for cell in _cells(4, seed=1):
        network = TinyNet(cell, channels=1, cells_per_stage=1)
        assert _polynomial(network, "fx") == cell.network_polynomial(1), cell


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("code", ["0_00_024", "4_00_342", "2_13_310", "3_33_333", "3_30_010"])
def test_cells_with_edges_from_empty_vertices_are_read_by_both(code: str, tracer: str):
    cell = Cell.parse(code)  # 0_00_024: a convolution of zeros adds a bias and no path
    network = TinyNet(cell, channels=1, cells_per_stage=1)
    assert _polynomial(network, tracer) == cell.network_polynomial(1)


def test_a_network_that_was_read_still_pools():
    # No other test has 7 channels: the kernel of ones is cached for each width.
    network = TinyNet(Cell.parse("4_44_444"), channels=7, cells_per_stage=1)
    inner = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    read_network(network, inner, tracer="fx")
    assert torch.allclose(network(inner), network(inner.contiguous()), atol=1e-5)


@pytest.mark.parametrize("tracer", TRACERS)
def test_the_network_of_the_benchmark_has_the_same_polynomial(tracer: str):
    pytest.importorskip("xautodl")
    (cell,) = _cells(1, seed=1)
    network = reference_net(cell, channels=1, cells_per_stage=1)
    assert _polynomial(network, tracer) == cell.network_polynomial(1)


@pytest.mark.slow
def test_every_ninth_kind_of_cell_has_its_polynomial():
    """Build one random cell of each group of cells with the same paths, for a ninth of the groups.

    Cells of a group differ only in kernel sizes, or in pooling instead of skips. The cell is drawn
    at random, so every operation occurs on every edge.
    """
    same = {CONV_1X1: CONV_3X3, AVG_POOL: SKIP}
    alike = defaultdict(list)
    for cell in map(Cell.from_index, range(15_625)):
        alike[tuple(same.get(op, op) for op in cell.ops)].append(cell)
    assert len(alike) == 3**6
    rng = np.random.default_rng(4)
    for cells in list(alike.values())[rng.integers(9) :: 9]:
        polynomial = _polynomial(_block(cells[rng.integers(len(cells))]), "fx")
        for cell in cells:
            assert polynomial == cell.depth_polynomial(), cell


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_graph_networks_have_the_polynomial_of_their_code(kind: str, order: str):
    rng = np.random.default_rng(2)
    for code in random_graphs(3, 5, rng, operations=(0, 1, 2)):
        network = (
            DagMLP(code, inputs=192, width=4, order=order)
            if kind == "mlp"
            else DagCNN(code, channels=2, order=order)
        )
        graph = read_network(network, IMAGES).graph
        assert graph.depth_polynomial() == multiply(T, code.depth_polynomial())  # and the stem


def test_layers_of_a_graph_have_the_in_degrees_of_their_edges():
    # Vertex 3 adds three layers, vertex 2 two; the stem feeds vertex 0.
    code = DagCode.parse("2_22_222")
    network = read_network(DagMLP(code, inputs=192, width=4), IMAGES)
    degrees = {use.weight.name: network.graph.degrees[use.edge[0] - 1] for use in network.uses}
    assert degrees == {
        "stem.weight": 1,
        "layers.1_0.weight": 1,
        "layers.2_0.weight": 2,
        "layers.2_1.weight": 2,
        "layers.3_0.weight": 3,
        "layers.3_1.weight": 3,
        "layers.3_2.weight": 3,
        "readout.weight": 1,
    }
    sources = {use.weight.name: (1, *network.graph.degrees)[use.edge[1]] for use in network.uses}
    assert sources["layers.3_2.weight"] == 2
    assert sources["layers.3_1.weight"] == 1
    paths = {use.weight.name: use.paths for use in network.uses}
    assert paths["stem.weight"] == paths["readout.weight"] == 4
    assert paths["layers.3_2.weight"] == 2


def test_reading_leaves_the_model_and_the_random_state_as_they_were():
    network = MobileNet().eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.get_rng_state()
    for tracer in TRACERS:
        read_network(network, IMAGES, tracer=tracer)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module.training for module in network.modules())
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
