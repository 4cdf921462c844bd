"""A stack against K lone networks: outputs, gradients, statistics and whole training runs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import pytest
import torch
from torch import nn

from cells import Cell, DagCode
from experiments.laws.dagnet import DagCNN, DagMLP
from rebench.errors import InputError
from rebench.nets import Stacked, TinyNet, reference_net

SMALL = {"channels": 4, "cells_per_stage": 1, "classes": 5}
CELLS = [Cell.parse(code) for code in ("3_23_413", "2_33_333", "1_44_214", "0_22_131", "0_03_113")]
COPIES = 3
DAG = DagCode.parse("2_12_022")
MLP = functools.partial(DagMLP, DAG, inputs=192, width=8, classes=5)
CNN = functools.partial(DagCNN, DAG, channels=4, classes=5)
BUILDS: list[Callable[[], nn.Module]] = [
    *(functools.partial(net, cell, **SMALL) for net in (TinyNet, reference_net) for cell in CELLS),
    MLP,
    functools.partial(MLP, order="after", biases=True, active_stem=True),
    functools.partial(CNN, order="after", kernel_size=5, biases=True, active_stem=True),
]


@pytest.fixture(autouse=True)
def _seeded_default_init():
    with torch.random.fork_rng():
        torch.manual_seed(2)
        yield


def networks(build: Callable[[], nn.Module]) -> list[nn.Module]:
    nets = [build() for _ in range(COPIES)]
    for seed, net in enumerate(nets):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return nets


def batches(steps: int, size: int, *, shared: bool, batch: int = 8) -> list:
    """Images [B, 3, size, size] or [K, B, 3, size, size] with labels [K, B]."""
    generator = torch.Generator().manual_seed(5)
    lead = () if shared else (COPIES,)
    return [
        (
            torch.randn(*lead, batch, 3, size, size, generator=generator),
            torch.randint(5, (COPIES, batch), generator=generator),
        )
        for _ in range(steps)
    ]


def losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of every copy, shape [K]."""
    flat = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return flat.view(labels.shape).mean(1)


def own(images: torch.Tensor, index: int) -> torch.Tensor:
    return images if images.dim() == 4 else images[index]


def sgd(module: nn.Module, state: dict, rates: torch.Tensor) -> None:
    """Take an SGD step by hand; `rates` has one entry, or one for each copy."""
    for name, value in module.named_parameters():
        if value.grad is None:
            continue
        gradient = value.grad + 5e-4 * value.detach()
        state[name] = gradient if name not in state else 0.9 * state[name] + gradient
        step = gradient + 0.9 * state[name]
        rate = rates.view(-1, *[1] * (value.dim() - 1)) if rates.dim() else rates
        value.data -= rate * step
        value.grad = None


def train_both(nets: list[nn.Module], stack: Stacked, data: list, rates: torch.Tensor) -> None:
    states = [{} for _ in nets]
    stacked_state = {}
    for images, labels in data:
        losses(stack(images), labels).sum().backward()
        sgd(stack, stacked_state, rates)
        for index, net in enumerate(nets):
            logits = net(own(images, index))
            nn.functional.cross_entropy(logits, labels[index]).backward()
            sgd(net, states[index], rates[index])


def assert_same(nets: list[nn.Module], stack: Stacked, tolerance: float) -> None:
    for net, state in zip(nets, stack.unstack(), strict=True):
        for key, value in net.state_dict().items():
            size = max(1.0, value.abs().max().item())
            torch.testing.assert_close(state[key], value, rtol=0, atol=tolerance * size, msg=key)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own-images"])
def test_training_equals_single_networks_in_double_precision(build, shared):
    """In double precision a wrong term is larger than rounding; rates are large, batches small."""
    nets = [net.double() for net in networks(build)]
    stack = Stacked.from_nets(nets)
    data = [(x.double(), y) for x, y in batches(3, 8, shared=shared)]
    train_both(nets, stack, data, torch.tensor([0.01, 0.1, 0.05]))
    assert_same(nets, stack, 1e-8)
    images, _ = data[0]
    expected = [net.eval()(own(images, index)) for index, net in enumerate(nets)]
    torch.testing.assert_close(stack.eval()(images), torch.stack(expected), rtol=0, atol=1e-8)


def test_diverged_copy_does_not_change_the_others():
    nets = networks(BUILDS[1])
    with torch.no_grad():
        nets[1].stem[0].weight.fill_(float("nan"))
        nets[2].cells[2].layers[0].op[1].weight.fill_(float("inf"))
    stack = Stacked.from_nets(nets)
    images, labels = batches(1, 8, shared=True)[0]
    logits = stack(images)
    losses(logits, labels).sum().backward()
    torch.testing.assert_close(logits[0], nets[0](images), rtol=1e-5, atol=1e-5)
    assert not logits[1].isfinite().any()
    for parameter in stack.parameters():
        assert parameter.grad is None or parameter.grad[0].isfinite().all()


def test_stack_of_one_and_mode_are_kept():
    net = networks(BUILDS[0])[0].eval()
    stack = Stacked.from_nets([net])
    images, _ = batches(1, 8, shared=True)[0]
    assert not any(module.training for module in stack.modules())
    torch.testing.assert_close(stack(images)[0], net(images), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(stack(images[None])[0], net(images), rtol=1e-5, atol=1e-5)


def test_sources_are_not_shared_with_the_stack():
    nets = networks(BUILDS[0])
    before = copy.deepcopy(nets[0].state_dict())
    stack = Stacked.from_nets(nets)
    stack(batches(1, 8, shared=True)[0][0])
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.zero_()
    assert all(torch.equal(nets[0].state_dict()[key], before[key]) for key in before)


def test_flat_images_are_stacked_too():
    nets = networks(MLP)
    flat = batches(1, 8, shared=False)[0][0].flatten(2)
    expected = torch.stack([net(flat[index]) for index, net in enumerate(nets)])
    torch.testing.assert_close(Stacked.from_nets(nets)(flat), expected)


def test_padding_stride_and_bias_are_stacked():
    nets = [
        nn.Sequential(
            nn.Conv2d(3, 2, 3, padding=1),
            nn.Conv2d(2, 2, 3, padding=1),
            nn.Conv2d(2, 4, 3, padding=1, stride=2, bias=False),
        )
        for _ in range(COPIES)
    ]
    images, _ = batches(1, 2, shared=False)[0]
    expected = [net(images[index]) for index, net in enumerate(nets)]
    stack = Stacked.from_nets(nets)
    torch.testing.assert_close(stack(images), torch.cat(expected, 1))


@pytest.mark.parametrize(
    ("nets", "message"),
    [
        ([], "at least one network"),
        ([TinyNet(CELLS[0], **SMALL), TinyNet(CELLS[1], **SMALL)], "one architecture, got 2"),
        # Skip and pool have no weights: only the cell tells these networks apart.
        ([TinyNet(Cell.parse(f"1_{op}0_001"), **SMALL) for op in "14"], "one architecture"),
        ([nn.Sequential(nn.LayerNorm(4))], "cannot stack 0 .LayerNorm.; .* Conv2d"),
        ([nn.Sequential(nn.Conv2d(4, 4, 3, groups=2))], "groups=1"),
        ([nn.Sequential(nn.Conv2d(4, 4, 3, padding_mode="circular"))], "zero padding"),
    ],
)
def test_networks_that_cannot_be_stacked_are_refused(nets, message):
    with pytest.raises(InputError, match=message):
        Stacked.from_nets(nets)
