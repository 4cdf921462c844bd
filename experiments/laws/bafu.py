"""Backward-aligned feature updates of any network at any step (Chizat & Netrapalli, 2023).

For features f (a module's output over the whole batch, m numbers), b the loss's gradient in f and
df their first-order change in one step of gradient descent:

- contribution of weight l: C_l = eta_l ||grad_l||^2; their sum is the first-order loss drop;
- sensitivity S = 1 / (m ||b||_rms);
- aligned update: the part of df along -b, of rms -<b, df> / (||b|| sqrt(m));
- at a cut (every path from the weights before it to the loss runs through f) the aligned update's
  rms is S times the sum of the contributions before it; elsewhere this fails.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd
import torch
from torch import nn

from rebench.errors import UnknownNameError

Loss = Callable[[torch.Tensor], torch.Tensor]
Rates = float | Mapping[str, float]


@contextlib.contextmanager
def watch(net: nn.Module, features: Sequence[str]) -> Iterator[dict[str, torch.Tensor]]:
    """Yield a dict that the next forward pass fills with the outputs of the named modules."""
    modules = dict(net.named_modules())
    seen: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, object, torch.Tensor], torch.Tensor]:
        def hook(_module: nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
            # Later in-place operations must not change the stored output.
            seen[name] = output
            return output.clone()

        return hook

    handles = []
    for name in features:
        if name not in modules:
            raise UnknownNameError("module", name, modules)
        handles.append(modules[name].register_forward_hook(keep(name)))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def measure_feature_updates(
    net: nn.Module,
    images: torch.Tensor,
    loss: Loss,
    features: Sequence[str],
    rates: Rates,
    *,
    actual: bool = False,
) -> pd.DataFrame:
    """Measure the updates of named modules' outputs in one step, and restore the network.

    Costs one forward pass, its backward pass, and one more pass per feature.

    Args:
        net: any module, at any step of its training, in the mode it trains in.
        images: the batch.
        loss: from the network's output to a number.
        features: names of modules whose outputs are tensors.
        rates: the learning rate, or one per parameter name; parameters not named stay.
        actual: also take the step and measure its whole update; costs one more forward pass.

    Returns:
        One row per feature, with these columns (definitions at the top of this module):
        `sensitivity`; `contributions`: loss drop by the weights before the feature; `formula`: the
        product of both, which predicts `aligned` at a cut; `full`: rms of the first-order update;
        `aligned`: rms of its part along minus the loss gradient; `cosine`: `aligned / full`. With
        `actual`, `actual_aligned` and `actual_full` are the same of the whole update. The
        attribute `loss_drop` is the sum of all contributions.
    """
    net = copy.deepcopy(net)
    parameters = _trained(net, rates)
    with watch(net, features) as seen:
        value = loss(net(images))
    outputs = [seen[name] for name in features]
    pulled = torch.autograd.grad(
        value, [*parameters.values(), *outputs], retain_graph=True, allow_unused=True,
        materialize_grads=True,
    )  # fmt: skip
    gradients = dict(zip(parameters, pulled, strict=False))
    backward = pulled[len(parameters) :]
    eta = dict.fromkeys(parameters, rates) if isinstance(rates, float) else rates
    steps = {name: -eta[name] * gradients[name] for name in parameters}
    updates = first_order_updates(outputs, list(parameters.values()), list(steps.values()))
    contributions = {
        name: float(eta[name] * gradients[name].double().square().sum()) for name in parameters
    }
    reached = [_ancestors(output, parameters) for output in outputs]
    rows = [
        _row(name, b, update, sum(contributions[p] for p in before))
        for name, b, update, before in zip(features, backward, updates, reached, strict=True)
    ]
    if actual:
        with torch.no_grad(), watch(net, features) as moved:
            for name, parameter in parameters.items():
                parameter.add_(steps[name])
            net(images)
        for row, name, output, b in zip(rows, features, outputs, backward, strict=True):
            after = _row(name, b, moved[name] - output.detach(), 0.0)
            row |= {f"actual_{part}": after[part] for part in ("aligned", "full")}
    frame = pd.DataFrame(rows)
    frame.attrs["loss_drop"] = sum(contributions.values())
    return frame


def _trained(net: nn.Module, rates: Rates) -> dict[str, nn.Parameter]:
    named = {name: p for name, p in net.named_parameters() if p.requires_grad}
    if isinstance(rates, float):
        return named
    for name in rates:
        if name not in named:
            raise UnknownNameError("parameter", name, named)
    return {name: named[name] for name in rates}


def gradients_of(net: nn.Module, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the gradient of every trained parameter, by name; 0 without influence."""
    named = {name: weight for name, weight in net.named_parameters() if weight.requires_grad}
    gradients = torch.autograd.grad(
        value, list(named.values()), allow_unused=True, materialize_grads=True
    )
    return dict(zip(named, gradients, strict=True))


def _row(
    name: str, b: torch.Tensor, update: torch.Tensor, contributions: float
) -> dict[str, object]:
    b64, update64 = b.double(), update.double()
    m = b64.numel()
    norm = float(b64.norm())
    aligned = -float((b64 * update64).sum()) / (norm * math.sqrt(m))
    full = float(update64.norm()) / math.sqrt(m)
    sensitivity = 1 / (math.sqrt(m) * norm)
    return {
        "feature": name,
        "sensitivity": sensitivity,
        "contributions": contributions,
        "formula": sensitivity * contributions,
        "aligned": aligned,
        "full": full,
        "cosine": aligned / full,
    }


def _ancestors(output: torch.Tensor, parameters: Mapping[str, nn.Parameter]) -> list[str]:
    """Return the names of the parameters that an output depends on."""
    pulled = torch.autograd.grad(
        output.sum(), list(parameters.values()), retain_graph=True, allow_unused=True
    )
    return [name for name, part in zip(parameters, pulled, strict=True) if part is not None]


def first_order_updates(
    features: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    directions: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """Return the derivative of every feature as the parameters move along `directions`.

    Args:
        features: outputs that were computed from `parameters`; their graph is kept.
        parameters: parameters to move.
        directions: change of each parameter per unit of time, in the shapes of the parameters.
    """
    probes = [torch.zeros_like(feature, requires_grad=True) for feature in features]
    pulled = torch.autograd.grad(
        features, parameters, probes, create_graph=True, allow_unused=True, materialize_grads=True
    )
    # A parameter without influence on any feature has a zero gradient, without a graph.
    reached = [i for i, gradient in enumerate(pulled) if gradient.requires_grad]
    return torch.autograd.grad(
        [pulled[i] for i in reached],
        probes,
        [directions[i] for i in reached],
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
