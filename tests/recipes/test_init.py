"""Statistics of the weights that recipes draw."""

import math

import pytest
import torch

from cells import Cell
from rebench.nets import Layer, TinyNet
from rebench.recipes import make_recipe, parse_recipe
from rebench.recipes.init import init_rate_factor

FULL = Cell.parse("3_33_333")


def _drawn(name: str, cell: Cell = FULL, **parameters) -> dict[str, Layer]:
    net = TinyNet(cell, channels=128, cells_per_stage=1)
    recipe = make_recipe(name, **parameters)
    recipe.apply_init(net, cell, torch.Generator().manual_seed(1))
    return {layer.name: layer for layer in net.weight_layers()}


def _assert_std(layer: Layer, expected: float) -> None:
    n = layer.weight.numel()
    four_errors = 4 * (2 * n) ** -0.5
    assert layer.weight.std().item() == pytest.approx(expected, rel=max(0.02, four_errors))
    assert abs(layer.weight.mean().item()) < 5 * expected / math.sqrt(n)


# Degrees of the complete cell's edges, in order, and of conv_a, conv_b, shortcut; by hand.
@pytest.mark.parametrize(
    ("degree", "edges", "block"),
    [("source", [1, 1, 1, 1, 1, 2], [2, 1, 2]), ("target", [1, 2, 2, 3, 3, 3], [1, 2, 2])],
)
def test_topology_draws_two_over_degree_times_fan_in(degree, edges, block):
    layers = _drawn("topology", degree=degree)
    stages = [(0, 128), (2, 256), (4, 512)]
    for position, width in stages:
        for edge, count in enumerate(edges):
            layer = layers[f"cells.{position}.layers.{edge}.op.1"]
            _assert_std(layer, math.sqrt(2 / (count * 9 * width)))
    for position, width in [(1, 128), (3, 256)]:
        for part, fan_in, count in zip(
            ("conv_a.op.1", "conv_b.op.1", "downsample.1"),
            (9 * width, 9 * 2 * width, width),
            block,
            strict=True,
        ):
            _assert_std(layers[f"cells.{position}.{part}"], math.sqrt(2 / (count * fan_in)))
    _assert_std(layers["stem.0"], math.sqrt(2 / 27))
    _assert_std(layers["classifier"], 2 / 512)
    assert layers["classifier"].bias.abs().max() == 0


def test_default_init_has_the_spread_of_pytorch_s():
    drawn = _drawn("nb201")
    fresh = {
        layer.name: layer
        for layer in TinyNet(FULL, channels=128, cells_per_stage=1).weight_layers()
    }
    for name, layer in drawn.items():
        _assert_std(layer, fresh[name].weight.std().item())
        bound = fresh[name].fan_in ** -0.5
        assert layer.weight.abs().max() <= bound
        assert layer.weight.abs().max() > 0.99 * bound
    assert 0 < drawn["classifier"].bias.abs().max() <= 512**-0.5


@pytest.mark.parametrize(("init", "readout"), [("he", 512**-0.5), ("mean-field", 2 / 512)])
def test_fixed_draws_he_with_either_readout(init: str, readout: float):
    layers = _drawn("fixed", init=init, lr=0.3)
    _assert_std(layers["cells.4.layers.0.op.1"], math.sqrt(2 / (9 * 512)))
    _assert_std(layers["classifier"], readout)


def test_init_resets_normalisation():
    net = TinyNet(FULL, channels=4, cells_per_stage=1)
    norm = net.stem[1]
    net.train()(torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        norm.weight.fill_(3.0)
        norm.bias.fill_(1.0)
    make_recipe("topology").apply_init(net, FULL, torch.Generator().manual_seed(0))
    assert norm.weight.eq(1).all()
    assert norm.bias.eq(0).all()
    assert norm.running_mean.eq(0).all()
    assert norm.num_batches_tracked == 0


@pytest.mark.parametrize(
    ("recipe", "factor"), [("fixed", 1.0), ("topology-lr", 1.0), ("fixed(init=he)", 1 / 6)]
)
def test_the_rate_that_an_init_leaves(recipe: str, factor: float):
    """He's init has six times the variance of PyTorch's: 2 / fan_in and 1 / (3 fan_in).

    It divides the effective rate by six.
    """
    rule, net = parse_recipe(recipe), TinyNet(FULL, channels=4, cells_per_stage=1)
    assert init_rate_factor(net, rule.layer_inits(net, FULL)) == pytest.approx(factor)


@pytest.mark.parametrize(("whole", "plain", "split"), [
    ("topology", "topology-lr", "topology(init_at={part})"),
    ("topology", "topology-lr", "topology-lr(init_at={part})"),
    ("fixed(init=he)", "fixed", "fixed(init=he,init_at={part})"),
])  # fmt: skip
@pytest.mark.parametrize("part", ["normalised", "others"])
def test_an_init_of_a_part_has_the_rules_size_there_and_pytorchs_elsewhere(
    whole, plain, split, part
):
    net = TinyNet(FULL, channels=4, cells_per_stage=1)
    whole, plain, split = map(parse_recipe, (whole, plain, split.format(part=part)))
    for layer in net.weight_layers():
        # Stem, edges and reductions have a normalisation behind them, shortcuts and readout none.
        normalised = layer.role in ("stem", "edge", "reduction")
        owner = whole if normalised == (part == "normalised") else plain
        assert split.layer_init(layer, FULL).std == owner.layer_init(layer, FULL).std
    assert split.hyperparameters(FULL) == plain.hyperparameters(FULL)


def test_two_rates_scale_the_weights_before_normalisation_only():
    net = TinyNet(FULL, channels=4, cells_per_stage=1)
    recipe = parse_recipe("two-rates(normalised_lr=0.025)")
    found = recipe.measure(net, FULL, torch.empty(0), torch.empty(0), torch.Generator())
    assert found.learning_rate == 0.1
    scaled = {layer.parameter for layer in net.weight_layers() if layer.followed_by_norm}
    assert scaled == {
        x.parameter for x in net.weight_layers() if x.role in ("stem", "edge", "reduction")
    }
    assert dict(found.layer_multipliers) == dict.fromkeys(scaled, 0.25)
    same = parse_recipe("two-rates").measure(
        net, FULL, torch.empty(0), torch.empty(0), torch.Generator()
    )
    assert not same.layer_multipliers
