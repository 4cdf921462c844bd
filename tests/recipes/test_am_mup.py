"""The arithmetic-mean rule against hand-computed values."""

import math

import pytest

from cells import Cell, DagCode
from rebench.nets import TinyNet
from rebench.recipes import make_recipe

# Shortest path of the network with five cells a stage: the stem, two shortcuts, and 15 times the
# fewest convolutions through a cell; by hand.
MINIMAL_DEPTHS = {
    "1_01_001": 3,
    "0_00_300": 18,
    "3_03_003": 48,
    "3_30_033": 33,
    "3_33_133": 3,
    "4_04_304": 3,
}


@pytest.mark.parametrize(("code", "depth"), MINIMAL_DEPTHS.items())
def test_rate_is_the_minimal_depth_to_the_minus_three_halves(code: str, depth: int):
    recipe = make_recipe("am-mup", base_lr=0.2)
    found = recipe.hyperparameters(Cell.parse(code)).learning_rate
    assert found == pytest.approx(0.2 * (depth / 3) ** -1.5)
    assert recipe.explain(Cell.parse(code))["minimal depth"] == depth


def test_rate_of_a_graph_code_counts_the_stem():
    recipe = make_recipe("am-mup", base_lr=1.0)
    found = recipe.hyperparameters(DagCode.parse("2_02_102")).learning_rate
    assert found == 1.0  # the skip from input to output: one layer, as in the base graph
    found = recipe.hyperparameters(DagCode.parse("2_02_002")).learning_rate
    assert found == pytest.approx(4**-1.5)


@pytest.mark.parametrize(
    ("code", "parameters", "blocks", "edge_blocks"),
    [
        ("3_33_333", {}, 2, 1),  # no skip path: only the two reduction blocks are residual
        ("3_33_133", {}, 2 + 15, 2 + 15),
        ("3_33_133", {"residual_blocks": 4}, 4, 4),
        ("1_01_001", {}, 2, None),  # nothing runs beside the skips
    ],
)
def test_branches_are_divided_by_the_number_of_blocks(code, parameters, blocks, edge_blocks):
    cell = Cell.parse(code)
    net = TinyNet(cell, channels=4, cells_per_stage=5)
    inits = make_recipe("am-mup", c=1.5, **parameters).layer_inits(net, cell)
    for layer in net.weight_layers():
        divisor = {"reduction": blocks, "edge": edge_blocks}.get(layer.role, 1)
        variance = 1 / layer.fan_in if layer.role == "readout" else 1.5 / (divisor * layer.fan_in)
        assert inits[layer.name].std == pytest.approx(math.sqrt(variance))
