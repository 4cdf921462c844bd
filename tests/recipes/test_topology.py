"""The paper's rule against hand-computed values."""

import math

import pytest

from cells import Cell, DagCode
from rebench.errors import InputError
from rebench.recipes import edge_degree, make_recipe

# code -> L = 1 + convolutions of every path, found by hand.
PATHS_BY_HAND = {
    "1_01_001": [1],
    "3_03_003": [4],
    "0_00_300": [2],
    "0_00_100": [1],
    "3_33_333": [2, 3, 3, 4],
    "3_30_033": [3, 3],
    "1_11_111": [1, 1, 1, 1],
    "3_00_010": [2],
    "4_04_204": [1, 2],
    "3_30_100": [1],
    "0_30_002": [3],
    "2_13_310": [2, 2],
}


@pytest.mark.parametrize(("code", "depths"), PATHS_BY_HAND.items())
def test_learning_rates_are_the_ones_computed_by_hand(code: str, depths: list[int]):
    cell = Cell.parse(code)
    total = sum(depth**3 for depth in depths)
    for name in ("topology", "topology-lr"):
        found = make_recipe(name).hyperparameters(cell).learning_rate
        assert found == pytest.approx(0.46 * total**-0.5, rel=1e-12)
    found = make_recipe("paths", base_lr=2.0).hyperparameters(cell).learning_rate
    assert found == pytest.approx(2.0 / math.sqrt(len(depths)), rel=1e-12)


def test_network_depth_is_relative_to_the_base_network():
    # The base network with one cell in each stage has four paths. Each has the stem, and in each of
    # two residual blocks the two convolutions of the branch or the one of the shortcut. The depths
    # are 3, 4, 4, 5; their cubes sum to 27 + 2 * 64 + 125 = 280.
    recipe = make_recipe("topology", depth="network", base_lr=1.0, cells_per_stage=1)
    base = recipe.hyperparameters(Cell.parse("1_01_001"))
    assert base.learning_rate == pytest.approx(1.0)
    # One 3x3 convolution in each of three cells: depths 6, 7, 7, 8.
    found = recipe.hyperparameters(Cell.parse("0_00_300")).learning_rate
    assert found == pytest.approx(math.sqrt(280 / (6**3 + 2 * 7**3 + 8**3)))


def test_network_depth_spans_the_factor_that_makes_it_unusable():
    recipe = make_recipe("topology", depth="network")
    base = recipe.hyperparameters(Cell.parse("1_01_001")).learning_rate
    full = recipe.hyperparameters(Cell.parse("3_33_333")).learning_rate
    assert base / full == pytest.approx(7.8e5, rel=0.01)  # also computed independently


def test_rate_of_a_chain_is_by_hand():
    found = make_recipe("topology").hyperparameters(DagCode.parse("2_02_002")).learning_rate
    assert found == pytest.approx(0.46 / math.sqrt(4**3))


def test_network_depth_of_a_graph_is_refused():
    with pytest.raises(InputError, match="depth must be 'cell' for graph 2_02"):
        make_recipe("topology", depth="network").hyperparameters(DagCode.parse("2_02"))


# In-degrees by hand, in the order of EDGES: 1<-0, 2<-0, 2<-1, 3<-0, 3<-1, 3<-2.
DEGREES_BY_HAND = {
    ("3_33_333", "source"): [1, 1, 1, 1, 1, 2],
    ("3_33_333", "target"): [1, 2, 2, 3, 3, 3],
    # Vertices 1 and 2 do not reach vertex 3, so only the edge 3<-0 is live.
    ("3_33_300", "source"): [1, 1, 1, 1, 1, 2],
    ("3_33_300", "target"): [1, 2, 2, 1, 1, 1],
    ("3_33_300", "target-live"): [0, 0, 0, 1, 1, 1],
    ("3_33_300", "source-live"): [1, 1, 0, 1, 0, 0],
}


@pytest.mark.parametrize(("code", "degree"), DEGREES_BY_HAND)
def test_degrees_are_the_ones_counted_by_hand(code: str, degree: str):
    edges = [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    found = [edge_degree(Cell.parse(code), edge, degree) for edge in edges]
    assert found == DEGREES_BY_HAND[code, degree]


@pytest.mark.parametrize("edge", [(4, 0), (0, 1), (2, 2), (3, -1)])
def test_degree_of_a_missing_vertex_is_refused(edge: tuple[int, int]):
    with pytest.raises(InputError, match=r"0 <= source < target < 4, got"):
        edge_degree(Cell.from_index(11), edge, "target")
