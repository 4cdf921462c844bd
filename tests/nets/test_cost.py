"""Costs by formula, compared with networks: their parameters, and their FLOPs by hooks."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from cells import Cell
from cells.cost import CostModel
from rebench.nets import TinyNet, reference_net
from rebench.nets.tiny import computed_edges

SAMPLE = [Cell.from_index(index) for index in random.Random(1).sample(range(15_625), 25)]
SHAPES = {(32, 10), (32, 100), (16, 120)}


def parameters(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def flops(net: nn.Module, side: int) -> int:
    """Return the multiply-adds of one image, counted by hooks on convolutions and classifier."""
    counted = []

    def count(module, _, out):
        if isinstance(module, nn.Conv2d):
            counted.append(out[0].numel() * module.weight[0].numel())
        else:
            counted.append(module.weight.numel() + module.bias.numel())

    hooks = [
        module.register_forward_hook(count)
        for module in net.modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
    ]
    with torch.no_grad():
        net.eval()(torch.zeros(1, 3, side, side))
    for hook in hooks:
        hook.remove()
    return sum(counted)


@pytest.mark.parametrize(("channels", "cells_per_stage"), [(16, 5), (4, 1), (6, 2)])
def test_parameters_equal_the_closed_form(channels, cells_per_stage):
    for cell in SAMPLE[:: 5 if channels == 16 else 2]:
        for side, classes in SHAPES:
            model = CostModel(
                image_side=side, classes=classes, channels=channels, cells_per_stage=cells_per_stage
            )
            net = TinyNet(cell, channels=channels, cells_per_stage=cells_per_stage, classes=classes)
            assert parameters(net) == model.of(cell).params


@pytest.mark.parametrize("side", [32, 16])
def test_flops_of_the_benchmarks_network_equal_the_closed_form(side):
    model = CostModel(image_side=side, classes=7, channels=4, cells_per_stage=2)
    for cell in SAMPLE[::3]:
        net = reference_net(cell, channels=4, cells_per_stage=2, classes=7)
        assert flops(net, side) == model.flops(cell.ops) == model.of(cell).flops


@pytest.mark.parametrize("side", [16, 14, 9])
def test_flops_of_our_network_leave_out_exactly_the_edges_that_are_not_computed(side):
    model = CostModel(image_side=side, classes=7, channels=4, cells_per_stage=1)
    less = 0
    for cell in SAMPLE:
        run = [cell.op(*edge) for edge in computed_edges(cell)]
        counted = flops(TinyNet(cell, channels=4, cells_per_stage=1, classes=7), side)
        assert counted == model.flops(run)
        less += counted < model.flops(cell.ops)
    assert less > 0
