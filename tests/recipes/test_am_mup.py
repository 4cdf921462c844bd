"""The arithmetic-mean rule against hand-computed values."""

import math
from collections import Counter
from itertools import pairwise

import pytest

from cells import EDGES, OP_NAMES, SPACE_SIZE, Cell, DagCode, all_cells
from rebench.nets import TinyNet
from rebench.recipes import make_recipe
from rebench.recipes.am_mup import minimal_depth

# Shortest path of the network with five cells in each stage, by hand. The stem and two shortcuts
# are 3 layers; with the additions after the shortcuts they count 5. To this add 15 times the layers
# on a cell's shortest path; with additions, also the vertices where edges meet.
LAYERS = {
    "1_01_001": 3,
    "0_00_300": 18,
    "3_03_003": 48,
    "3_30_033": 33,  # a diamond
    "3_33_133": 3,
    "4_04_304": 3,
}
LAYERS_AND_ADDITIONS = {
    "1_01_001": 5,  # one path of skips, without additions
    "0_00_300": 20,
    "3_03_003": 50,
    "3_30_033": 50,  # two layers, and their sum
    "3_33_133": 20,  # the skip from input to output, and the sum after it
    "4_04_304": 20,  # one layer or three pools, each with the sum
}


@pytest.mark.parametrize(
    ("code", "additions", "depth", "base"),
    [(code, False, depth, 3) for code, depth in LAYERS.items()]
    + [(code, True, depth, 5) for code, depth in LAYERS_AND_ADDITIONS.items()],
)
def test_rate_is_the_minimal_depth_to_the_minus_three_halves(code, additions, depth, base):
    recipe = make_recipe("am-mup", base_lr=0.2, additions=additions)
    explained = recipe.explain(Cell.parse(code))
    assert (explained["minimal depth"], explained["minimal depth of the base"]) == (depth, base)
    found = recipe.hyperparameters(Cell.parse(code)).learning_rate
    assert found == pytest.approx(0.2 * (depth / base) ** -1.5)


def test_rate_of_a_graph_code_counts_the_stem():
    recipe = make_recipe("am-mup", base_lr=1.0)
    found = recipe.hyperparameters(DagCode.parse("2_02_102")).learning_rate
    assert found == pytest.approx(2**-1.5)  # the skip from input to output, and the sum after it
    found = recipe.hyperparameters(DagCode.parse("2_02_002")).learning_rate
    assert found == pytest.approx(4**-1.5)


def test_minimal_depth_equals_the_shortest_of_all_routes():
    # Independent check: list the four routes, and count the convolutions and additions of each.
    routes = [(0, 3), (0, 1, 3), (0, 2, 3), (0, 1, 2, 3)]
    for index in range(0, SPACE_SIZE, 7):
        cell = Cell.from_index(index)
        ops = dict(zip(EDGES, cell.ops, strict=True))
        lengths = []
        used = set()
        for route in routes:
            edges = [(v, u) for u, v in pairwise(route)]
            if all(ops[edge] for edge in edges):
                used.update(edges)
        into = Counter(target for target, _ in used)
        for route in routes:
            edges = [(v, u) for u, v in pairwise(route)]
            if set(edges) <= used:
                names = [OP_NAMES[ops[edge]] for edge in edges]
                convolutions = sum(name.startswith("nor_conv") for name in names)
                lengths.append((convolutions, convolutions + sum(into[v] > 1 for v in route)))
        if lengths:
            assert minimal_depth(cell, additions=False) == min(first for first, _ in lengths)
            assert minimal_depth(cell, additions=True) == min(second for _, second in lengths)


def test_only_cells_of_one_path_without_convolutions_keep_the_base_rate():
    # With additions, only cells with a single path, of skips and pools, keep the base rate. Without
    # additions, every cell with a path of skips and pools keeps it.
    cells = [cell for cell in all_cells() if cell.depth_polynomial()]
    kept = dict.fromkeys((True, False), 0)
    for additions in kept:
        recipe = make_recipe("am-mup", base_lr=1.0, additions=additions)
        kept[additions] = sum(recipe.hyperparameters(c).learning_rate == 1.0 for c in cells)
    assert kept[True] == sum(c.depth_polynomial() == (1,) for c in cells)
    assert kept[False] == sum(c.depth_polynomial()[0] > 0 for c in cells)
    assert kept[True] / len(cells) < 0.07 < 0.55 < kept[False] / SPACE_SIZE


@pytest.mark.parametrize("additions", [True, False])
def test_records_from_before_additions_counted_are_no_records_of_this_rule(additions):
    """Old records name ``am-mup`` without parameters; their rates, and so their ids, differ."""
    recipe = make_recipe("am-mup", additions=additions)
    assert recipe.spec.label == f"am-mup(additions={additions})"
    assert make_recipe(recipe.spec) == recipe


@pytest.mark.parametrize(
    ("code", "parameters", "blocks", "edge_blocks"),
    [
        ("3_33_333", {}, 2, 1),  # no skip path: only the two reduction blocks are residual
        ("3_33_133", {}, 2 + 15, 2 + 15),
        ("3_33_133", {"residual_blocks": 4}, 4, 4),
        ("1_01_001", {}, 2, None),  # nothing is parallel to the skips
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


def test_a_graph_code_has_one_block_or_the_given_number():
    graph = DagCode.parse("2_12_002")
    assert make_recipe("am-mup").count_blocks(graph) == 1
    assert make_recipe("am-mup", residual_blocks=7).count_blocks(graph) == 7
