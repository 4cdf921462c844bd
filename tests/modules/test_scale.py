"""Scale-invariant weights: the network computes the same if such a weight is tripled."""

import pytest
import torch
from plain_networks import DenseNet, Excited, Former, Llama, Mixer, MobileNet, ResNet, UNet
from torch import nn

from cells import Cell
from rebench.modules import read_network
from rebench.nets import TinyNet


class Odd(nn.Module):
    """Network with unusual layers before its normalisations; comments name what is special."""

    def __init__(self):
        super().__init__()
        conv = {"padding": 1, "kernel_size": 3}
        self.plain = nn.Conv2d(3, 4, bias=False, **conv)  # linear, pooled, then normalised
        self.biased = nn.Conv2d(4, 4, **conv)  # batch normalisation removes its bias
        self.bn = nn.BatchNorm2d(4)
        self.grouped = nn.Conv2d(4, 4, bias=False, **conv)
        self.gn = nn.GroupNorm(2, 4)
        self.biased_grouped = nn.Conv2d(4, 4, **conv)  # group normalisation keeps its bias
        self.gn2 = nn.GroupNorm(2, 4)
        self.curved = nn.Conv2d(4, 4, bias=False, **conv)  # a GELU depends on its scale
        self.bn2 = nn.BatchNorm2d(4)
        self.late = nn.Conv2d(4, 4, **conv)  # a ReLU is between its bias and the norm
        self.bn3 = nn.BatchNorm2d(4)
        self.pair = nn.ModuleList(nn.Conv2d(4, 2, bias=False, **conv) for _ in range(2))
        self.gn3 = nn.GroupNorm(1, 4)  # the relative scale of both parts matters
        self.readout = nn.Linear(4, 3)
        for norm in (self.gn, self.gn2, self.gn3, self.bn):
            nn.init.uniform_(norm.bias)

    def forward(self, x):
        x = self.bn(self.biased(torch.relu(nn.functional.avg_pool2d(self.plain(x), 2)))).relu()
        x = self.gn(self.grouped(x)).relu()
        x = self.gn2(self.biased_grouped(x)).relu()
        x = self.bn2(nn.functional.gelu(self.curved(x))).relu()
        x = self.bn3(self.late(x).relu())
        x = self.gn3(torch.cat([layer(x) for layer in self.pair], 1))
        return self.readout(x.mean((2, 3)))


class Mixed(nn.Module):
    """Network that concatenates two layers and mixes the channels by a gate before the norm."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv1d(3, 2, 1, bias=False) for _ in range(2))
        self.gate, self.bn = nn.Conv1d(3, 4, 1, bias=False), nn.BatchNorm1d(4)
        self.readout = nn.Linear(4, 3)

    def forward(self, x):
        x = x.flatten(2)
        scores = self.gate(x) @ self.gate(x).mT / x.shape[-1]
        joined = torch.cat([part(x) for part in self.parts], 1)
        return self.readout(self.bn(scores.softmax(-1) @ joined).relu().mean(2))


NETWORKS = {
    "resnet": ResNet(),
    "densenet": DenseNet(),
    "mobilenet": MobileNet(),
    "u-net": UNet(),
    "mixer": Mixer(),
    "with biases": Former(packed=True),
    "former": Former(bias=False),
    "packed former": Former(bias=False, packed=True, written=True),
    "mixed": Mixed(),
    "llama": Llama(),
    "squeeze and excitation": Excited(),
    "cell": TinyNet(Cell.parse("3_24_131"), channels=4, cells_per_stage=1),
    "odd": Odd(),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_marked_weights_may_be_scaled_and_others_may_not(name: str):
    generator = torch.Generator().manual_seed(0)
    network = NETWORKS[name].double().train()
    torch.manual_seed(0)
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(module, "eps"):
            module.eps = 1e-12
    inputs = torch.randn(4, 3, 8, 8, generator=generator, dtype=torch.float64)
    if hasattr(network, "embed"):
        inputs = torch.randint(11, (4, 6), generator=generator)
    uses = read_network(network, inputs, tracer="export").uses
    with torch.no_grad():
        before = network(inputs)
        for use in uses:
            weight = network.get_parameter(use.weight.name)
            weight.mul_(3)
            same = torch.allclose(network(inputs), before, rtol=1e-5, atol=1e-9)
            weight.div_(3)
            assert use.normalised == same, use.weight.name
    assert not uses[-1].normalised  # the readout


def test_a_frozen_batch_normalisation_normalises_nothing():
    class Frozen(nn.BatchNorm2d):
        def train(self, mode=True):  # noqa: ARG002 - it stays as it is
            return super().train(mode=False)

    network = nn.Sequential(nn.Conv2d(3, 4, 1), Frozen(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
    for module in network:
        module.training = not isinstance(module, Frozen)
    uses = read_network(network, torch.zeros(2, 3, 4, 4), tracer="export").uses
    assert not any(use.normalised for use in uses)
