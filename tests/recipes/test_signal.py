"""Signal propagation at init, in real networks without normalisation.

If the ReLU is before the weights, the target's in-degree keeps every vertex at the same mean
square. If it is after them, the source's in-degree, corrected by the mean of the ReLU, keeps every
pre-activation. The effects of the other rules were computed by hand: the last vertex of a diamond
sums two branches; a bottleneck is two diamonds in a row.
"""

import math
from dataclasses import replace

import pytest
import torch

from cells import DagCode
from experiments.laws.dagnet import DagMLP
from experiments.laws.graphs import edge_variances
from rebench.recipes import make_recipe
from rebench.recipes.init import initialise
from rebench.recipes.recursion import Graphs, degree_gains, exact_update

CHAIN, DIAMOND, BOTTLENECK = "2_02_002", "2_20_022", "2_20_022_0002_00020_000022"
WIDTH = 384
MATCHING = "the source's in-degree with the mean of the ReLU"
MET = 1 + 1 / math.pi  # E h^2 of two summed ReLUs over that of independent zero-mean terms


def _nets(code: str, where: str, name: str, draws: int, **parameters):
    graph = DagCode.parse(code)
    rule = None if name == MATCHING else make_recipe(name, **parameters)
    for draw in range(draws):
        net = DagMLP(graph, inputs=WIDTH, width=WIDTH, order=where)
        generator = torch.Generator().manual_seed(draw)
        if rule is None:
            _draw_after(net, graph, generator)
        else:
            rule.apply_init(net, graph, generator)
        yield net


def _draw_after(net: DagMLP, graph: DagCode, generator: torch.Generator) -> None:
    """The init for a ReLU behind the weights: by the source's in-degree and the ReLU's mean."""
    variances = edge_variances(graph, "source-mean")
    inits = dict(make_recipe("topology-exact").layer_inits(net, graph))
    for layer in net.weight_layers():
        if layer.edge is not None:
            std = math.sqrt(variances[layer.edge] / layer.fan_in)
            inits[layer.name] = replace(inits[layer.name], std=std)
    initialise(net, inits, generator)


def _images(draw: int, n: int = 16) -> torch.Tensor:
    return torch.randn(n, WIDTH, generator=torch.Generator().manual_seed(1000 + draw))


def _vertices(code: str, name: str, **parameters) -> tuple[list[float], list[float]]:
    """Return E z_v^2 / E z_0^2 of every vertex, ReLU before the weights, and its error."""
    rows = []
    with torch.no_grad():
        for draw, net in enumerate(_nets(code, "before", name, 12, **parameters)):
            values = net.vertices(_images(draw))
            rows.append([float(value.square().mean()) for value in values.values()])
    return _summary(rows)


def _pre_activations(code: str, name: str, **parameters) -> tuple[list[float], list[float]]:
    """Return E y_e^2 of every layer over that of the first, ReLU after the weights."""
    rows = []
    with torch.no_grad():
        for draw, net in enumerate(_nets(code, "after", name, 12, **parameters)):
            row: list[float] = []
            for module in net.layers.values():
                module.register_forward_hook(lambda _m, _i, y, row=row: row.append(_square(y)))
            net(_images(draw))
            rows.append(row)
    return _summary(rows)


def _square(values: torch.Tensor) -> float:
    return float(values.square().mean())


def _summary(rows: list[list[float]]) -> tuple[list[float], list[float]]:
    table = torch.tensor(rows, dtype=torch.float64)
    mean = table.mean(dim=0)
    error = table.std(dim=0) / math.sqrt(len(rows)) / mean[0]
    return (mean / mean[0]).tolist(), error.tolist()


def _assert_equal(found: tuple[list[float], list[float]], expected: list[float]) -> None:
    for value, error, wanted in zip(*found, expected, strict=True):
        assert abs(value - wanted) < 3 * error + 0.02 * wanted, (found, expected)


@pytest.mark.parametrize("code", [CHAIN, DIAMOND, BOTTLENECK])
def test_target_degree_is_flat_before(code: str):
    found = _vertices(code, "topology", degree="target")
    _assert_equal(found, [1.0] * len(found[0]))


@pytest.mark.parametrize("code", [CHAIN, DIAMOND, BOTTLENECK])
def test_source_degree_with_the_relu_s_mean_is_flat_after(code: str):
    found = _pre_activations(code, MATCHING)
    _assert_equal(found, [1.0] * len(found[0]))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (CHAIN, [1, 1, 1, 1]),
        (DIAMOND, [1, 1, 1, 2]),  # two branches, each of variance 1
        (BOTTLENECK, [1, 1, 1, 2, 1, 1, 2]),  # the next layer halves the doubled variance
    ],
)
def test_source_degree_before_doubles_where_branches_meet(code: str, expected: list[float]):
    _assert_equal(_vertices(code, "topology", degree="source"), expected)


# Layers in order: into 1, into 2, two into 3, out to 4, out to 5, two into 6.
@pytest.mark.parametrize(
    ("degree", "expected"),
    [
        # The paper's own rule in its own code: right but for the mean of the ReLU.
        ("source", [1, 1, 1, 1, MET, MET, MET, MET]),
        # The appendix's: halved where branches meet, restored behind it, but for the mean.
        ("target", [1, 1, 0.5, 0.5, MET, MET, MET / 2, MET / 2]),
    ],
)
def test_degrees_without_the_relu_s_mean_after(degree: str, expected: list[float]):
    _assert_equal(_pre_activations(BOTTLENECK, "topology", degree=degree), expected)


# With skips nothing is flat: their terms add up coherently. Scaled by d^-1/2 they keep the norm.
@pytest.mark.parametrize("scale_skips", [False, True])
@pytest.mark.parametrize("code", ["2_12_112", "1_21_022"])
def test_skips_grow_as_in_the_recursion_and_scaled_skips_are_flat(code: str, scale_skips: bool):
    graphs = Graphs.of([DagCode.parse(code)], scale_skips=scale_skips)
    exact = exact_update(graphs, degree_gains(graphs, "target")).forward[0] / 2
    graph, rule, rows = (DagCode.parse(code), make_recipe("topology-exact"), [])
    with torch.no_grad():
        for draw in range(12):
            net = DagMLP(graph, inputs=WIDTH, width=WIDTH, scale_skips=scale_skips)
            rule.apply_init(net, graph, torch.Generator().manual_seed(draw))
            rows.append([_square(value) for value in net.vertices(_images(draw)).values()])
    _assert_equal(_summary(rows), exact.tolist())
    if scale_skips:
        assert exact == pytest.approx(1)
    else:
        assert exact.max() >= 1.5
