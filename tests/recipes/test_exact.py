"""The exact recursion against closed forms, and against Monte Carlo at finite width."""

import itertools
import math

import numpy as np
import pytest
from exact_rates import exact_maximal_lr

from cells import Cell, DagCode, all_cells
from experiments.laws.graphs import update_of
from rebench.errors import InputError
from rebench.recipes import make_recipe
from rebench.recipes.recursion import Graphs, degree_gains, exact_update


def _chain(layers: int) -> DagCode:
    return DagCode.parse("_".join("0" * v + "2" for v in range(layers)))


@pytest.mark.parametrize("length", [1, 2, 3, 8, 33])
def test_chain_follows_the_derived_depth_law(length: int):
    # L (2 L^2 + 1) / 6 for L layers, the stem among them (theory notes, section 1)
    graph = _chain(length - 1) if length > 1 else DagCode.parse("1")
    found = exact_maximal_lr(graph)
    assert found == pytest.approx(math.sqrt(6 / (length * (2 * length**2 + 1))), rel=1e-12)


def test_two_layers_after_by_hand():
    # h_0 = stem, E h_0^2 = 2; h_1 = relu(W h_0), C = 2; a the readout. H_1 = a, H_0 = W^T D a with
    # E H_0^2 = C/2 = 1. dh_0 = H_0, so W dh_0 = C D a + noise of variance C E dh_0^2 = 2, and W's
    # own update adds E h_0^2 D a: dy = 4 D a + noise. dh_1 = D dy: E dh_1^2 = (16 + 2) / 2.
    assert exact_maximal_lr(_chain(1), "none", order="after") == pytest.approx(1 / 3)


def test_parallel_paths_add_coherently():
    """With P parallel paths of two layers, the rate falls as 1/P, not as P^-1/2."""

    def bundle(p: int) -> DagCode:
        groups = ["2", *("2" + "0" * v for v in range(1, p)), "0" + "2" * p]
        return DagCode.parse("_".join(groups))

    rates = [exact_maximal_lr(bundle(p)) for p in (40, 80)]
    assert math.log2(rates[1] / rates[0]) == pytest.approx(-1, abs=0.06)


def test_dead_edges_do_not_count():
    dead = DagCode.parse("2_20_002")  # vertex 1 leads nowhere
    assert exact_maximal_lr(dead) == exact_maximal_lr(DagCode.parse("0_20_002"))
    assert exact_maximal_lr(DagCode.parse("2_00_002")) == math.inf


def test_matching_degrees_keep_the_norm_of_every_layer_only_graph():
    codes = ["".join(bits) for bits in itertools.product("02", repeat=10)]
    graphs = [DagCode.parse(f"{c[0]}_{c[1:3]}_{c[3:6]}_{c[6:]}") for c in codes]
    connected = Graphs.of([graph for graph in graphs if graph.n_paths])
    assert len(connected.layers) == 841
    moments = exact_update(connected, degree_gains(connected, "target")).forward
    assert np.unique(moments.round(12)).tolist() == [0, 2]  # 0: dead vertices
    # If the ReLU follows the weights, the source's degree keeps the variance of pre-activations.
    gains = degree_gains(connected, "source", relu_mean=True)
    moments = gains * update_of(connected, gains, "after").forward[:, None, :]
    assert np.unique(moments[connected.layers].round(12)).tolist() == [4]


# Graphs with layers only, with skips, with both, with skips after skips, with a skip into the
# output, and with dead edges.
MC_CODES = ["2_22_222", "2_12", "1_21_022", "2_12_112", "2_21_112_2012", "0_20_022"]


@pytest.mark.parametrize("scale_skips", [False, True], ids=["skips", "scaled-skips"])
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("code", MC_CODES)
def test_recursion_agrees_with_monte_carlo(code: str, order: str, scale_skips: bool):
    degree = "source" if code in MC_CODES[::2] else "target"
    graphs = Graphs.of([DagCode.parse(code)], scale_skips=scale_skips)
    gains = degree_gains(graphs, degree, relu_mean=order == "after")
    exact = update_of(graphs, gains, order)
    rng = np.random.default_rng(len(code) + scale_skips)
    draws = np.array([_simulate(graphs, gains[0], order, rng) for _ in range(24)])
    mean, error = draws.mean(axis=0), draws.std(axis=0) / math.sqrt(len(draws))
    expected = np.stack([exact.forward[0], exact.backward[0], exact.updates[0]])
    # Tolerance: three standard errors, and 5 % for a bias of the order vertices / width.
    assert np.all(np.abs(mean - expected) <= 3 * error + 0.05 * expected), mean / expected


def _simulate(graphs: Graphs, gains, order: str, rng, width: int = 160):
    """Return mean squares of z, n df/dz and dz per vertex in one random network of `width`."""
    layers, skips, size = graphs.layers[0], graphs.skips[0], graphs.layers.shape[1]
    pairs = [(v, u) for v in range(size) for u in range(v)]
    weights = {
        (v, u): rng.normal(0, math.sqrt(gains[v, u] / width), (width, width))
        for v, u in pairs
        if layers[v, u]
    }
    values = [rng.normal(0, math.sqrt(2), width)]
    open_ = {}
    for v in range(1, size):
        total = np.zeros(width)
        for u in range(v):
            total += skips[v, u] * values[u]
            if layers[v, u]:
                if order == "before":
                    open_[v, u] = values[u] > 0
                    total += weights[v, u] @ (open_[v, u] * values[u])
                else:
                    y = weights[v, u] @ values[u]
                    open_[v, u] = y > 0
                    total += open_[v, u] * y
        values.append(total)
    readouts = [_move(graphs, weights, values, open_, order, rng) for _ in range(5)]
    backward, updates = np.mean(readouts, axis=0)
    return np.mean(np.square(values), axis=1), backward, updates


def _move(graphs: Graphs, weights, values, open_, order: str, rng):
    skips, size, width = graphs.skips[0], len(values), len(values[0])
    back = [np.zeros(width) for _ in range(size)]
    back[-1] = rng.normal(size=width)
    if order == "before":
        back[-1] = back[-1] * (values[-1] > 0)
    for v in reversed(range(size)):
        for u in range(v):
            back[u] += skips[v, u] * back[v]
            if (v, u) in weights:
                if order == "before":
                    back[u] += open_[v, u] * (weights[v, u].T @ back[v])
                else:
                    back[u] += weights[v, u].T @ (open_[v, u] * back[v])
    moved = [back[0]]
    for v in range(1, size):
        total = np.zeros(width)
        for u in range(v):
            total += skips[v, u] * moved[u]
            if (v, u) in weights and order == "before":
                seen = open_[v, u] * values[u]
                total += weights[v, u] @ (open_[v, u] * moved[u]) + back[v] * (seen @ seen) / width
            elif (v, u) in weights:
                own = open_[v, u] * back[v] * (values[u] @ values[u]) / width
                total += open_[v, u] * (weights[v, u] @ moved[u] + own)
        moved.append(total)
    return np.mean(np.square(back), axis=1), np.mean(np.square(moved), axis=1)


def test_learning_rate_of_cells_is_relative_to_the_base_and_finite():
    recipe = make_recipe("topology-exact", base_lr=0.3)
    assert recipe.hyperparameters(Cell.parse("1_01_001")).learning_rate == 0.3
    graphs = Graphs.of(list(all_cells()))
    gains = degree_gains(graphs, "target")
    rates = exact_update(graphs, gains, batch_norm=True).learning_rate
    assert np.isinf(rates).sum() == 341  # cells without a path
    cell = Cell.from_index(11)
    found = recipe.hyperparameters(cell).learning_rate
    base = rates[Cell.parse("1_01_001").index]
    assert found == pytest.approx(0.3 * rates[11] / base, rel=1e-12)


def test_chain_of_convolutions_behind_batch_normalisation_by_hand():
    # Every output has variance 1. Behind a ReLU a variance of (1 - 1/pi) / 2 is left, so the gain
    # is g = 2 / (1 - 1/pi). An own update gives 1/C = 1/2: alpha_0 = 1/2, alpha_1 = 1/2 + g/2 / 2.
    # Gradients: 1 at vertex 1, half of which passes its ReLU; g/2 at vertex 0.
    # E dz_1^2 = alpha_1^2 / 2 + g * (alpha_0^2 * g/2 / 2), against alpha_0^2 / 2 in the base.
    g = 2 / (1 - 1 / math.pi)
    moved = (1 / 2 + g / 4) ** 2 / 2 + g * (1 / 4 * g / 2 / 2)
    recipe = make_recipe("topology-exact", base_lr=1.0)
    found = recipe.hyperparameters(Cell.parse("0_00_300")).learning_rate
    assert found == pytest.approx(math.sqrt((1 / 8) / moved))


def test_init_keeps_the_norm():
    layer = _Edge()
    before = make_recipe("topology-exact").layer_init(layer, DagCode.parse("2_22_222"))
    assert before.std == pytest.approx(math.sqrt(2 / (3 * 100)))


class _Edge:
    """A layer from vertex 2 into vertex 3, as a rule sees it."""

    name, role, edge, fan_in = "edge", "edge", (3, 2), 100


def test_graphs_of_several_sizes_are_refused():
    with pytest.raises(InputError, match=r"must be of one size, got \[3, 4\] vertices"):
        Graphs.of([_chain(3), _chain(2), _chain(3)])
