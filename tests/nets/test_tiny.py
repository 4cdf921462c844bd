"""TinyNet against the benchmark's own network: keys, init, outputs, gradients, statistics."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from cells import EDGES, Cell, all_cells
from rebench.errors import InputError
from rebench.nets import Stacked, TinyNet, channelwise, reference_net, tiny
from rebench.nets.channelwise import average_of_neighbours, average_of_pixels
from rebench.nets.tiny import computed_edges

SMALL = {"channels": 4, "cells_per_stage": 1, "classes": 7}

# Cells of these tests: four well-known ones, and special graphs. In these, vertices are always
# zero, constant, equal because of skips, or read by several edges.
CELLS = [
    *(Cell.from_index(index) for index in (0, 11, 284, 6111)),
    *map(
        Cell.parse,
        (
            "1_11_111",  # only skips
            "4_44_444",  # only pools: pooled values are shared
            "2_33_333",
            "3_22_222",
            "0_00_000",  # no path: the output is zero
            "0_02_002",  # no path, but the output is a pattern made of biases
            "0_03_003",
            "0_03_113",  # a constant vertex through a 3x3 kernel: borders differ
            "0_03_102",
            "0_03_104",
            "0_03_101",
            "0_22_131",  # a live vertex adds a bias
            "0_02_320",  # vertex 2 is dead and only a bias
            "0_00_123",  # every term but one is a bias
            "0_00_022",
            "1_14_131",
            "3_40_110",  # vertex 2 is dead
            "1_02_003",
            "2_10_410",
        ),
    ),
]


@pytest.fixture(autouse=True)
def _seeded_default_init():
    with torch.random.fork_rng():
        torch.manual_seed(2)
        yield


def randomised(net: nn.Module, seed: int) -> nn.Module:
    """Set every parameter and statistic to random values, because biases are zero at init."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in itertools.chain(net.named_parameters(), net.named_buffers()):
            if name.endswith("running_var"):
                value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
            elif value.is_floating_point():
                value += 0.2 * torch.randn(value.shape, generator=generator)
    return net


def images(batch: int = 6, size: int = 16, seed: int = 0, **options) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 3, size, size, generator=generator, **options)


def pair(cell: Cell, seed: int = 1) -> tuple[nn.Module, TinyNet]:
    """Return the reference network and ours with the same weights, in double precision.

    In single precision the two can differ much if a constant pattern is normalised, because its
    variance over the batch is only rounding noise.
    """
    reference = randomised(reference_net(cell, **SMALL), seed).double()
    ours = TinyNet(cell, **SMALL).double()
    ours.load_state_dict(reference.state_dict())
    return reference, ours


def test_cells_of_this_file_cover_every_operation_on_every_edge():
    for position in range(len(EDGES)):
        assert {cell.ops[position] for cell in CELLS} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.code)
def test_state_dict_equals_the_references_key_by_key(cell):
    torch.manual_seed(3)
    reference = reference_net(cell, **SMALL).state_dict()
    torch.manual_seed(3)
    ours = TinyNet(cell, **SMALL).state_dict()
    assert list(ours) == list(reference)
    # The default init makes the same draws in the same order.
    assert all(torch.equal(ours[key], reference[key]) for key in reference)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.code)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_outputs_gradients_and_statistics_agree(cell, training):
    batch = images(dtype=torch.float64)
    labels = torch.arange(len(batch)) % SMALL["classes"]
    reference, ours = (net.train(training) for net in pair(cell))
    losses = []
    for net in (reference, ours):
        logits = net(batch)
        nn.functional.cross_entropy(logits, labels).backward()
        losses.append(logits.detach())
    torch.testing.assert_close(losses[1], losses[0], rtol=0, atol=1e-6)
    for (name, expected), (_, actual) in zip(
        reference.named_parameters(), ours.named_parameters(), strict=True
    ):
        # A weight without influence has a gradient of zero in the reference, and no gradient here.
        gradient = torch.zeros_like(actual) if actual.grad is None else actual.grad
        wanted = torch.zeros_like(actual) if expected.grad is None else expected.grad
        torch.testing.assert_close(gradient, wanted, rtol=1e-6, atol=1e-6, msg=name)
    used = used_modules(ours)
    statistics = dict(ours.named_buffers())
    for name, expected in reference.named_buffers():
        if name.rpartition(".")[0] in used:
            torch.testing.assert_close(statistics[name], expected, rtol=0, atol=1e-6, msg=name)


def used_modules(net: TinyNet) -> set[str]:
    """Return the modules that contribute to the output, found by autograd."""
    net = copy.deepcopy(net)
    net.zero_grad()
    net(images(dtype=torch.float64)).square().sum().backward()
    return {
        name.rpartition(".")[0] for name, value in net.named_parameters() if value.grad is not None
    }


@pytest.mark.parametrize("index", [0, 11, 284, 6111])
def test_benchmark_size_in_single_precision_is_the_same_to_the_bit(index):
    cell = Cell.from_index(index)
    reference, ours = reference_net(cell), TinyNet(cell)
    ours.load_state_dict(reference.state_dict())
    for training in (True, False):
        with torch.no_grad():
            expected = reference.train(training)(images(4, 32))
            actual = ours.train(training)(images(4, 32))
        assert torch.equal(actual, expected)


def test_computed_edges_equal_brute_force_over_all_cells():
    """Independent check: an edge is computed if its source has a value and its target is read."""
    into = {1: [(1, 0)], 2: [(2, 0), (2, 1)], 3: [(3, 0), (3, 1), (3, 2)]}
    for cell in all_cells():
        op_of = dict(zip(EDGES, cell.ops, strict=True))
        # A bias can make the output of a convolution of zeros nonzero. The pool of zeros is zero.
        # `valued` are the vertices that are not always zero.
        valued = {0}
        for target in (1, 2, 3):
            ops = [(source, op_of[target, source]) for _, source in into[target]]
            if any(op in (2, 3) or (op and source in valued) for source, op in ops):
                valued.add(target)
        read, expected = {3}, set()
        for target in (3, 2, 1):
            for edge in into[target]:
                if target in read and op_of[edge] and (edge[1] in valued):
                    expected.add(edge)
                    read.add(edge[1])
        assert set(computed_edges(cell)) == expected


def test_any_skeleton_and_input_size_are_possible():
    net = TinyNet(Cell.from_index(11), channels=6, cells_per_stage=2, classes=3)
    assert net(images(2, 8)).shape == (2, 3)
    assert net.features(images(2, 24)).shape == (2, 24)
    for odd in (9, 14, 28):  # 28, 14 and 7 are the sides in Fashion-MNIST's network
        assert net(images(2, odd)).isfinite().all()


@pytest.mark.parametrize("field", ["channels", "cells_per_stage", "classes"])
def test_bad_size_names_the_field(field):
    with pytest.raises(InputError, match=f"{field} must be at least 1, got 0"):
        TinyNet(Cell.from_index(0), **{field: 0})


@pytest.mark.parametrize("build", [TinyNet, reference_net])
def test_layers_describe_every_weight(build):
    cell = Cell.parse("3_20_310")
    net = build(cell, **SMALL)
    layers = net.weight_layers()
    weights = {name for name, value in net.named_parameters() if value.dim() > 1}
    assert {layer.parameter for layer in layers} == weights
    assert all(layer.weight is net.get_parameter(layer.parameter) for layer in layers)
    first = {layer.edge: layer for layer in layers if layer.position == 0}
    assert {edge: layer.fan_in for edge, layer in first.items()} == {
        (1, 0): 4 * 9,
        (2, 0): 4,
        (3, 0): 4 * 9,
    }
    assert {edge for edge, layer in first.items() if layer.computed} == {(1, 0), (3, 0)}
    roles = [layer.role for layer in layers]
    assert roles[0] == "stem"
    assert roles[-1] == "readout"
    assert roles.count("reduction") == 4
    assert roles.count("shortcut") == 2
    assert [layer.followed_by_norm for layer in layers if layer.role == "shortcut"] == [False] * 2


def test_networks_can_be_copied_and_pickled():
    net = TinyNet(Cell.from_index(11), **SMALL)
    again = pickle.loads(pickle.dumps(copy.deepcopy(net)))
    torch.testing.assert_close(again(images()), net(images()))


PLAIN = {
    average_of_neighbours: functools.partial(
        F.avg_pool2d, kernel_size=3, stride=1, padding=1, count_include_pad=False
    ),
    average_of_pixels: lambda values: values.mean((2, 3)),
}


def _with_gradient(operation, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values = images.clone().requires_grad_()
    results = operation(values)
    loss = (results * torch.linspace(-1, 2, results.shape[-1])).sum()
    # Not `backward`, which would convert the gradients to the memory layout of `values`.
    return results, *torch.autograd.grad(loss, values)


@pytest.mark.parametrize("operation", PLAIN)
@pytest.mark.parametrize("shape", [(3, 5, 8, 8), (2, 16, 4, 6), (2, 3, 5, 7), (1, 40, 1, 1)])
def test_averages_have_the_same_bits_as_pytorchs(operation, shape):
    # Sums of nine numbers are rounded otherwise in bf16.
    exact = [torch.float32] + [torch.bfloat16] * (operation is not average_of_neighbours)
    for dtype in exact:
        images = torch.randn(shape).to(dtype).contiguous(memory_format=torch.channels_last)
        ours, theirs = _with_gradient(operation, images), _with_gradient(PLAIN[operation], images)
        for own, other in zip(ours, theirs, strict=True):
            assert torch.equal(own, other)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_average_for_a_gpu_has_the_gradient_of_pytorch_on_a_cpu(layout):
    images = torch.randn(2, 3, 5, 7, dtype=torch.float64).contiguous(memory_format=layout)
    ours = _with_gradient(channelwise._AverageOnGPU.apply, images)
    theirs = _with_gradient(PLAIN[average_of_neighbours], images.contiguous())
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize(
    ("average", "lies"), [(average_of_pixels, True), (PLAIN[average_of_pixels], False)]
)
def test_gradient_of_a_mean_of_pixels_keeps_their_layout(average, lies):
    images = torch.randn(3, 5, 8, 8).contiguous(memory_format=torch.channels_last)
    _, gradient = _with_gradient(average, images)
    assert gradient.is_contiguous(memory_format=torch.channels_last) is lies


@pytest.mark.parametrize("copies", [1, 2])
def test_kernels_with_folded_statistics_equal_the_normalisation(copies, monkeypatch):
    nets = [TinyNet(284, **SMALL).eval() for _ in range(copies)]
    for parameters in (itertools.chain(net.parameters(), net.buffers()) for net in nets):
        for values in parameters:
            if values.dim() == 1:  # of a normalisation, or the classifier's bias
                values.data.uniform_(0.5, 2.0)
    net = Stacked.from_nets(nets) if copies > 1 else nets[0]
    plain = net(images())
    monkeypatch.setattr(tiny, "in_bf16", lambda _: True)
    folded = net(images())
    assert not torch.equal(plain, folded)
    torch.testing.assert_close(plain, folded, rtol=1e-4, atol=1e-5)


def test_averages_in_bf16_are_near_those_in_float32():
    images = torch.randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last)
    averages = average_of_neighbours(images.bfloat16())
    assert averages.dtype == torch.bfloat16
    torch.testing.assert_close(
        averages.float(), average_of_neighbours(images), rtol=0.02, atol=0.02
    )
