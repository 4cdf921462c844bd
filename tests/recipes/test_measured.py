"""Recipes that measure the network: one-step and fsc."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from cells import Cell
from rebench.errors import InputError
from rebench.nets import Layer, LayeredNet, TinyNet, reference_net
from rebench.recipes import make_recipe
from rebench.recipes.one_step import movement

BASE = Cell.parse("1_01_001")
FULL = Cell.parse("3_33_333")


class Plain(LayeredNet):
    """Two linear layers and a readout, as any user's network could list them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 7)
        self.last = nn.Linear(7, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.first(images).relu_()
        return self.last(self.second(hidden).relu_())

    def weight_layers(self) -> tuple[Layer, ...]:
        roles = {"first": "stem", "second": "edge", "last": "readout"}
        return tuple(
            Layer(name=name, role=role, weight=module.weight, bias=module.bias)
            for (name, role), module in zip(roles.items(), self.children(), strict=True)
        )


def _batch(size: int = 32, side: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(size, 3, side, side, generator=generator)
    return images, torch.randint(10, (size,), generator=generator)


def _tiny(cell: Cell, name: str, seed: int = 0, channels: int = 8, **parameters) -> TinyNet:
    net = TinyNet(cell, channels=channels, cells_per_stage=1)
    make_recipe(name, **parameters).apply_init(net, cell, torch.Generator().manual_seed(seed))
    return net


def test_movement_is_the_derivative_worked_out_by_hand():
    torch.manual_seed(0)
    net = Plain().double()
    x = torch.randn(5, 6, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 3, 0])
    grads = torch.autograd.grad(F.cross_entropy(net(x), y), list(net.parameters()))
    w1, b1, w2, b2 = (-grad for grad in grads[:4])  # the update at learning rate 1
    with torch.no_grad():
        z1 = net.first(x)
        z2 = net.second(z1.relu())
        dz1 = x @ w1.T + b1
        dz2 = (dz1 * (z1 > 0)) @ net.second.weight.T + z1.relu() @ w2.T + b2
    expected = sum(
        (dz.square().mean() / z.square().mean()).item() for dz, z in ((dz1, z1), (dz2, z2))
    )
    assert movement(net, x, y) == pytest.approx(expected / 2, rel=1e-6)


def test_one_step_gives_the_base_rate_to_a_network_that_moves_as_the_base():
    net = _tiny(FULL, "one-step")
    images, labels = _batch()
    recipe = make_recipe("one-step", base_lr=0.3, base_movement=movement(net, images, labels))
    found = recipe.measure(net, FULL, images, labels, torch.Generator())
    assert found.learning_rate == pytest.approx(0.3)


def test_one_step_moves_the_network_as_far_as_the_base_in_an_actual_step():
    """At a hundredth of the rates a step is still linear, and both networks move equally far."""
    images, labels = _batch()
    recipe = make_recipe("one-step", base_lr=1.0)
    net = _tiny(FULL, "one-step")
    rate = recipe.measure(net, FULL, images, labels, _generator(1)).learning_rate
    base = net.sibling(BASE)
    recipe.apply_init(base, BASE, _generator(1))
    moved = [_actual(net, images, labels, rate / 100), _actual(base, images, labels, 1 / 100)]
    assert moved[0] == pytest.approx(moved[1], rel=0.05)


def _actual(net: TinyNet, images: torch.Tensor, labels: torch.Tensor, rate: float) -> float:
    """Return the mean squared change of normalised pre-activations in one step, by brute force."""
    net = net.double().train()
    seen: dict[str, torch.Tensor] = {}
    for layer in net.weight_layers():
        module = net.get_submodule(layer.name)
        normalised = layer.followed_by_norm

        def hook(_module, _inputs, out, name=layer.name, normalised=normalised):
            if normalised:
                mean, std = out.mean((0, 2, 3), keepdim=True), out.std((0, 2, 3), keepdim=True)
                out = (out - mean) / std
            seen[name] = out.detach().clone()

        module.register_forward_hook(hook)
    loss = F.cross_entropy(net(images.double()), labels)
    before, grads = dict(seen), torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
    with torch.no_grad():
        for parameter, grad in zip(net.parameters(), grads, strict=True):
            if grad is not None:
                parameter -= rate * grad
        net(images.double())
    changes = [
        ((seen[name] - value).square().mean() / value.square().mean()).item()
        for name, value in before.items()
        if name != "classifier"
    ]
    return sum(changes) / len(changes)


def test_measured_rules_give_the_reference_network_the_same_rates():
    pytest.importorskip("xautodl")
    images, labels = _batch()
    cell = Cell.parse("3_01_130")
    for name in ("one-step", "fsc"):
        ours = _tiny(cell, name)
        theirs = reference_net(cell, channels=8, cells_per_stage=1)
        theirs.load_state_dict(ours.state_dict())
        rule = make_recipe(name)
        found = [rule.measure(net, cell, images, labels, _generator(1)) for net in (ours, theirs)]
        assert found[0].learning_rate == pytest.approx(found[1].learning_rate, rel=1e-3)
        for key, factor in found[0].layer_multipliers.items():
            assert factor == pytest.approx(found[1].layer_multipliers[key], rel=1e-3)


def test_one_step_works_with_a_given_base_movement_for_any_network():
    torch.manual_seed(0)
    net, x, y = Plain(), torch.randn(9, 6), torch.arange(9) % 4
    with pytest.raises(InputError, match="base_movement must be given for Plain"):
        make_recipe("one-step").measure(net, FULL, x, y, torch.Generator())
    recipe = make_recipe("one-step", base_movement=0.01)
    assert recipe.measure(net, FULL, x, y, torch.Generator()).learning_rate > 0


@pytest.mark.parametrize(
    ("name", "parameters"), [("one-step", {"base_movement": 1.0}), ("fsc", {})]
)
def test_a_network_without_a_gradient_is_refused(name, parameters):
    """All weights and images are 0, and each class occurs once: the gradient is exactly 0."""
    net = Plain()
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    with pytest.raises(InputError, match="Plain has no gradient on this batch"):
        make_recipe(name, **parameters).measure(
            net, FULL, torch.zeros(4, 6), torch.arange(4), torch.Generator()
        )


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("eta_0", "tolerance"), [(1e-2, 0.1), (1e-4, 2e-3)])
def test_fsc_step_lowers_the_loss_by_eta_0(eta_0: float, tolerance: float):
    net = _tiny(FULL, "fsc").double().train()
    images, labels = _batch()
    found = make_recipe("fsc", eta_0=eta_0).measure(net, FULL, images, labels, torch.Generator())
    before = F.cross_entropy(net(images.double()), labels)
    grads = torch.autograd.grad(before, list(net.parameters()), allow_unused=True)
    with torch.no_grad():
        for (name, parameter), grad in zip(net.named_parameters(), grads, strict=True):
            if grad is not None:
                parameter -= found.learning_rate * found.layer_multipliers[name] * grad
        after = F.cross_entropy(net(images.double()), labels)
    assert (before - after).item() / eta_0 == pytest.approx(1, abs=tolerance)


def test_fsc_layers_have_equal_shares():
    net = _tiny(Cell.parse("2_13_310"), "fsc").train()
    images, labels = _batch()
    factors = (
        make_recipe("fsc")
        .measure(net, net.cell, images, labels, torch.Generator())
        .layer_multipliers
    )
    loss = F.cross_entropy(net(images), labels)
    names = [name for name, _ in net.named_parameters()]
    grads = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
    shares: dict[float, float] = {}
    for name, grad in zip(names, grads, strict=True):
        if grad is not None and grad.any():
            shares[factors[name]] = shares.get(factors[name], 0.0) + float(grad.square().sum())
    computed = [layer for layer in net.weight_layers() if layer.computed]
    assert len(shares) == len(computed)
    for factor, square in shares.items():
        assert factor * square == pytest.approx(1 / len(computed), rel=1e-3)


def test_fsc_init_gives_the_last_feature_sensitivity_one():
    net = _tiny(FULL, "fsc", channels=32).train()
    images, labels = _batch(64)
    features = net.features(images)
    loss = F.cross_entropy(net.classifier(features), labels)
    (gradient,) = torch.autograd.grad(loss, features)
    m = gradient.numel()
    sensitivity = 1 / (m * gradient.square().mean().sqrt().item())
    assert sensitivity == pytest.approx(1, rel=0.15)


# By hand: 1 / (8 (1 - 1/2)^(1/2)) and 1 / (8 (1 - 1/4)^(1/2)); one output has no uncertainty.
@pytest.mark.parametrize(("classes", "std"), [(2, 0.1767767), (4, 0.1443376), (1, 0.125)])
def test_fsc_readout_depends_on_the_number_of_classes(classes: int, std: float):
    layer = Layer(name="last", role="readout", weight=torch.zeros(classes, 8))
    assert make_recipe("fsc").layer_init(layer, FULL).std == pytest.approx(std)


def test_fsc_says_whether_it_is_refreshed():
    assert not make_recipe("fsc").refreshed
    assert make_recipe("fsc", refresh=True).refreshed
