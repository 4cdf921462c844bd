"""DagMLP and DagCNN against formulas written out by hand."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from cells import Cell, DagCode
from experiments.laws.dagnet import DagCNN, DagMLP
from rebench.errors import InputError

CODE = DagCode.parse("2_12_022")  # 1 = W 0; 2 = 0 + W 1; 3 = W 1 + W 2
INPUTS = 12


@pytest.fixture(autouse=True)
def _seeded_default_init():
    with torch.random.fork_rng():
        torch.manual_seed(2)
        yield


def images(*lead: int, size: int = 2) -> torch.Tensor:
    return torch.randn(*lead, 3, size, size, generator=torch.Generator().manual_seed(0))


def relu(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(min=0)


def gelu(values: torch.Tensor) -> torch.Tensor:
    return values * (1 + torch.erf(values / math.sqrt(2))) / 2


def matrices(net: nn.Module) -> dict[str, torch.Tensor]:
    return {name.removesuffix(".weight"): value.T for name, value in net.named_parameters()}


@pytest.mark.parametrize(("name", "sigma"), [("relu", relu), ("gelu", gelu)])
def test_mlp_before_equals_equation_1_written_out(name, sigma):
    net = DagMLP(CODE, inputs=INPUTS, width=8, classes=4, activation=name)
    w = matrices(net)
    z0 = images(5).flatten(1) @ w["stem"]
    z1 = sigma(z0) @ w["layers.1_0"]
    z2 = z0 + sigma(z1) @ w["layers.2_1"]
    z3 = sigma(z1) @ w["layers.3_1"] + sigma(z2) @ w["layers.3_2"]
    torch.testing.assert_close(net(images(5)), sigma(z3) @ w["readout"])


def test_mlp_after_equals_the_released_codes_convention_written_out():
    net = DagMLP(CODE, inputs=INPUTS, width=8, order="after", scale_skips=True)
    w = matrices(net)
    h0 = images(5).flatten(1) @ w["stem"]
    h1 = relu(h0 @ w["layers.1_0"])
    h2 = h0 / math.sqrt(2) + relu(h1 @ w["layers.2_1"])
    h3 = relu(h1 @ w["layers.3_1"]) + relu(h2 @ w["layers.3_2"])
    torch.testing.assert_close(net(images(5)), h3 @ w["readout"])


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_biases_and_an_active_stem_are_those_written_out(kind):
    # On images of one pixel a kernel of one pixel is a matrix, too.
    code = DagCode.parse("2_12")
    if kind == "mlp":
        net = DagMLP(code, inputs=3, width=8, order="after", biases=True, active_stem=True)
    else:
        net = DagCNN(code, channels=8, kernel_size=1, order="after", biases=True, active_stem=True)
    x = images(5, size=1)

    def layer(name, values):
        weight, bias = net.get_parameter(f"{name}.weight"), net.get_parameter(f"{name}.bias")
        return values @ weight.flatten(1).T + bias

    h0 = relu(layer("stem", x.flatten(1)))
    h2 = h0 + relu(layer("layers.2_1", relu(layer("layers.1_0", h0))))
    torch.testing.assert_close(net(x), layer("readout", h2))
    biases = {entry.name: entry.bias for entry in net.weight_layers()}
    assert all(bias is net.get_parameter(f"{name}.bias") for name, bias in biases.items())


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_cnn_equals_patches_times_matrices(kernel_size):
    """Compare with a convolution that is written out: pad, cut patches, multiply."""
    net = DagCNN(CODE, channels=4, kernel_size=kernel_size, order="after")
    w = {name.removesuffix(".weight"): value for name, value in net.named_parameters()}
    pad = kernel_size // 2

    def conv(values, name):
        patches = F.unfold(F.pad(values, [pad] * 4), kernel_size)
        return (w[name].flatten(1) @ patches).view(len(values), -1, 6, 6)

    h0 = conv(images(3, size=6), "stem")
    h1 = relu(conv(h0, "layers.1_0"))
    h2 = h0 + relu(conv(h1, "layers.2_1"))
    h3 = relu(conv(h1, "layers.3_1")) + relu(conv(h2, "layers.3_2"))
    expected = h3.mean((2, 3)) @ w["readout"].T
    torch.testing.assert_close(net(images(3, size=6)), expected)


def test_dead_edges_are_not_run_but_keep_their_weights():
    net = DagMLP(DagCode.parse("2_02_200"), inputs=INPUTS, width=8)
    assert sorted(net.vertices(images(2))) == [0, 3]
    assert {layer.edge: layer.computed for layer in net.weight_layers() if layer.edge} == {
        (1, 0): False,
        (2, 1): False,
        (3, 0): True,
    }


def test_graph_without_a_path_gives_zero():
    net = DagCNN(DagCode.parse("0"), channels=4)
    assert torch.equal(net(images(2, size=4)), torch.zeros(2, 10))


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_layers_list_every_weight_and_stem_first(kind, order):
    net = build(kind, order=order)
    layers = net.weight_layers()
    names = [name for name, value in net.named_parameters() if value.dim() > 1]
    assert [layer.parameter for layer in layers] == names
    assert all(layer.weight is net.get_parameter(layer.parameter) for layer in layers)
    assert [layer.role for layer in layers] == ["stem", *["edge"] * 4, "readout"]
    assert [layer.edge for layer in layers[1:-1]] == [(1, 0), (2, 1), (3, 1), (3, 2)]


def build(kind: str, **options) -> nn.Module:
    if kind == "mlp":
        return DagMLP(CODE, inputs=INPUTS, width=8, classes=4, **options)
    return DagCNN(CODE, channels=4, classes=4, **options)


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_sibling_differs_in_the_graph_alone_and_moves_no_random_state(kind):
    net = build(kind, order="after")
    state = torch.random.get_rng_state()
    other = net.sibling(DagCode.parse("2_02"))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [layer.edge for layer in other.weight_layers()] == [None, (1, 0), (2, 1), None]
    assert (type(other), other.order, other.activation) == (type(net), "after", "relu")
    assert other(images(2)).shape == (2, 4)
    assert str(net.code) == str(CODE)
    pickle.loads(pickle.dumps(copy.deepcopy(other)))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DagMLP(CODE, inputs=0), InputError, "inputs must be at least 1, got 0"),
        (lambda: DagMLP(CODE, inputs=4, width=-1), InputError, "width must be at least 1"),
        (lambda: DagCNN(CODE, kernel_size=4), InputError, "kernel_size must be odd, got 4"),
        (lambda: DagCNN(CODE).sibling(Cell.from_index(0)), InputError, "over a graph code"),
    ],
)
def test_bad_options_name_the_field_and_what_is_valid(make, error, message):
    with pytest.raises(error, match=message):
        make()
