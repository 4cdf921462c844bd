"""The rule mup, parameter by parameter, against the package of its authors."""

import collections
import functools

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from plain_networks import IMAGES, Former, MobileNet, ResNet
from torch import nn

import rebench

WORDS = torch.zeros(2, 6, dtype=torch.long)
BASE, DELTA, WIDTH = 8, 16, 32


def mlp(width):
    layers = {"stem": nn.Linear(6, width), "relu": nn.ReLU(), "hidden": nn.Linear(width, width)}
    last = {"relu2": nn.ReLU(), "readout": nn.Linear(width, 3)}
    return nn.Sequential(collections.OrderedDict(layers | last))


class Upsampler(nn.Module):
    """Grouped and transposed convolutions, and parameters that are no layer's weight."""

    def __init__(self, width):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.grouped = nn.Conv2d(width, 2 * width, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.norm = nn.GroupNorm(2, width)
        self.scale = nn.Parameter(torch.ones(1, width, 1, 1))
        self.place = nn.Parameter(torch.zeros(1, width, 8, 8))
        self.readout = nn.Linear(width, 10)

    def forward(self, x):
        x = torch.relu(self.stem(x)) + self.place
        x = torch.relu(self.norm(self.up(torch.relu(self.grouped(x)))))
        return self.readout((self.scale * x).mean((2, 3)))


class Pooler(nn.Module):
    """A learned query, whose projection reads no data, and channels mixed by a parameter."""

    def __init__(self, width):
        super().__init__()
        self.embed, self.query = nn.Embedding(11, width), nn.Parameter(torch.ones(1, 1, width))
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.table = nn.Parameter(torch.zeros(width, width))
        self.readout = nn.Linear(width, 3)

    def forward(self, words):
        x = self.embed(words)
        x = x + x.amax(-1, keepdim=True) * self.table.mean(0)
        query = self.q(self.query).expand(len(x), -1, -1)
        return self.readout(F.scaled_dot_product_attention(query, self.k(x), self.v(x))[:, 0])


NETWORKS = {
    "mlp": (mlp, torch.zeros(2, 6)),
    "resnet": (lambda width: ResNet(width=width), IMAGES),
    "mobilenet": (lambda width: MobileNet(width=width), IMAGES),
    "upsampler": (Upsampler, IMAGES),
    "pooler": (Pooler, WORDS),
    **{
        f"{projections} projections, {softmax}": (
            functools.partial(
                Former, packed=projections == "packed", written=softmax == "softmax written out"
            ),
            WORDS,
        )
        for projections in ("packed", "separate")
        for softmax in ("torch's softmax", "softmax written out")
    },
}


def _factors(mup, make, optimizer):
    """Return the factor of the package `mup` on each rate, including that of its readout."""
    networks = [make(width) for width in (WIDTH, BASE, DELTA)]
    for network in networks:
        network.readout = mup.MuReadout(network.readout.in_features, network.readout.out_features)
    model = mup.set_base_shapes(networks[0], networks[1], delta=networks[2])
    made = mup.MuSGD if optimizer == "sgd" else mup.MuAdam
    groups = made(model.parameters(), lr=1.0).param_groups
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    factors = {name: rates[id(parameter)] for name, parameter in model.named_parameters()}
    # MuReadout divides the data by the relative width, as if its weight were that much smaller. So
    # is its gradient, which changes the steps of SGD only.
    factors["readout.weight"] /= model.readout.width_mult() ** (2 if optimizer == "sgd" else 1)
    return factors


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_factor_is_that_of_the_package(name: str, optimizer: str):
    mup = pytest.importorskip("mup")
    make, inputs = NETWORKS[name]
    options = {"rule": "mup", "base_lr": 1.0, "optimizer": optimizer}
    plan = rebench.plan(make(WIDTH), inputs, base=make(BASE), **options)
    assert plan.optimizer == optimizer
    rates = {row.name: row.learning_rate for row in plan.parameters}
    assert rates == _factors(mup, make, optimizer)


def _movements(width, **options):
    """Return the mean movement of each layer in one step, over several initialisations."""
    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(32, 6, generator=generator), torch.arange(32) % 3
    plan = rebench.plan(mlp(width), batch[0], base=mlp(16), **options)
    network = mlp(width)
    total = 0.0
    for _ in range(8):
        plan.init_(network, generator)
        total += plan.check(network, batch)["movement"][:2]  # of the stem and the hidden layer
    return total / 8


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_layers_move_equally_far_at_every_width(optimizer: str):
    options = {"rule": "mup", "base_lr": 1e-3, "optimizer": optimizer}
    grown = _movements(512, **options) / _movements(16, **options)
    assert grown.tolist() == pytest.approx([1, 1], rel=0.3)


def test_topology_does_not_transfer_over_width_and_says_so():
    options = {"base_lr": 1e-3}
    grown = _movements(512, **options) / _movements(16, **options)
    assert grown.min() < 0.1
    plan = rebench.plan(mlp(32), torch.zeros(2, 6), base=mlp(8), **options)
    assert str(plan).splitlines()[-1] == (
        "The base has another width (fan-in 8, here 32). This rule does not transfer rates over"
        " width: check them (plan.check), or use mup."
    )
    same = rebench.plan(mlp(8), torch.zeros(2, 6), base=mlp(8), **options)
    wide = rebench.plan(mlp(32), torch.zeros(2, 6), base=mlp(8), rule="mup")
    for other in (same, wide, rebench.plan(mlp(8), torch.zeros(2, 6), **options)):
        assert "another width" not in str(other)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "separate"])
def test_a_transformer_of_width_256_trains_at_the_rate_of_its_base(packed: bool):
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(11, (32, 6), generator=generator)
    target = torch.randint(10, (32,), generator=generator)
    network, base = (Former(width, packed=packed, classes=10) for width in (256, 16))
    plan = rebench.plan(network, words, rule="mup", base=base, base_lr=0.2)
    plan.init_(network, generator)
    optimiser = torch.optim.SGD(plan.param_groups(network), momentum=0.9)
    for _ in range(45):
        optimiser.zero_grad()
        loss = F.cross_entropy(network(words), target)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.02  # all 32 images are memorised; guessing gives 2.3
