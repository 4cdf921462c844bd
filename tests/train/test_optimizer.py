"""SGD against PyTorch's SGD, single and stacked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rebench.nets import Stacked
from rebench.runs import Protocol
from rebench.train import StackedSGD


def gradients(shape: tuple[int, ...], step: int, copy: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + copy)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def sgd_of(parameters: dict[str, nn.Parameter], protocol: Protocol, copies: int = 0) -> StackedSGD:
    net: nn.Module = nn.ParameterDict(parameters)
    return StackedSGD(
        Stacked(net, copies) if copies else net,
        momentum=protocol.momentum,
        nesterov=protocol.nesterov,
        weight_decay=protocol.weight_decay,
    )


def torch_result(protocol: Protocol, rates: dict[str, list[float]], copy: int, steps: int):
    """Return the result of torch.optim.SGD for the same gradients, one group for each parameter."""
    parameters = {
        "a": nn.Parameter(gradients((3, 2), -1, copy)),
        "b": nn.Parameter(gradients((4,), -2, copy)),
    }
    optimizer = torch.optim.SGD(
        [{"params": [value], "lr": 1.0} for value in parameters.values()],
        momentum=protocol.momentum,
        nesterov=protocol.nesterov,
        weight_decay=protocol.weight_decay,
    )
    for step in range(steps):
        for group, (name, value) in zip(optimizer.param_groups, parameters.items(), strict=True):
            group["lr"] = rates[name][step]
            value.grad = gradients(tuple(value.shape), step, copy)
        optimizer.step()
    return parameters


@pytest.mark.parametrize(("nesterov", "momentum"), [(True, 0.8), (False, 0.8), (False, 0.0)])
def test_single_network_moves_as_in_torch(nesterov: bool, momentum: float):
    protocol = Protocol(nesterov=nesterov, momentum=momentum, weight_decay=0.01)
    parameters = {
        "a": nn.Parameter(gradients((3, 2), -1, 0)),
        "b": nn.Parameter(gradients((4,), -2, 0)),
    }
    sgd = sgd_of(parameters, protocol)
    rates = {"a": [0.1, 0.05, 0.2], "b": [0.3, 0.15, 0.6]}
    for step in range(3):
        sgd.set_rates([rates["a"][step]], [{"b": 3.0}])
        for value in parameters.values():
            value.grad = gradients(tuple(value.shape), step, 0)
        sgd.step()
    expected = torch_result(protocol, rates, 0, 3)
    for name in parameters:
        assert torch.allclose(parameters[name], expected[name], rtol=1e-12)


def test_stacked_copies_move_each_at_its_own_rate():
    protocol = Protocol(momentum=0.9, weight_decay=5e-4)
    parameters = {
        name: nn.Parameter(torch.stack([gradients(shape, key, copy) for copy in range(3)]))
        for name, shape, key in (("a", (3, 2), -1), ("b", (4,), -2))
    }
    sgd = sgd_of(parameters, protocol, 3)
    rates, factors = [0.1, 0.2, 0.4], [{}, {"a": 0.5}, {"b": 2.0}]
    for step in range(4):
        sgd.set_rates(rates, factors)
        for name, value in parameters.items():
            shape = (3, 2) if name == "a" else (4,)
            value.grad = torch.stack([gradients(shape, step, copy) for copy in range(3)])
        sgd.step()
    for copy in range(3):
        own = {name: [rates[copy] * factors[copy].get(name, 1.0)] * 4 for name in "ab"}
        expected = torch_result(protocol, own, copy, 4)
        for name in parameters:
            assert torch.allclose(parameters[name][copy], expected[name], rtol=1e-12)


def test_parameter_without_gradient_does_not_change():
    dead = nn.Parameter(torch.ones(3))
    sgd = sgd_of({"dead": dead}, Protocol(weight_decay=0.1))
    sgd.set_rates([1.0])
    sgd.step()
    assert dead.tolist() == [1, 1, 1]


def test_momentum_is_saved_and_loaded_for_each_copy():
    def stepped(steps: int) -> tuple[nn.Parameter, StackedSGD]:
        value = nn.Parameter(torch.ones(2, 3, dtype=torch.float64))
        sgd = sgd_of({"w": value}, Protocol(), 2)
        sgd.set_rates([0.1, 0.3], [{}, {}])
        for step in range(steps):
            value.grad = gradients((2, 3), step, 0)
            sgd.step()
        return value, sgd

    whole, _ = stepped(3)
    value, first = stepped(2)
    second = sgd_of({"w": value}, Protocol(), 2)
    second.load_momenta(first.momenta())
    second.set_rates([0.1, 0.3], [{}, {}])
    value.grad = gradients((2, 3), 2, 0)
    second.step()
    assert torch.equal(value, whole)
