"""Training-free proxies that need a network and one batch: gradient norm, SNIP, synflow, NASWOT.

Networks are `TinyNet` with PyTorch's default init, as the benchmark's; each cell is scored on one
initialisation from its own stream of the seed. Needs torch, so nothing else in `rebench.search`
imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from numpy.typing import NDArray

from cells import Cell
from rebench.errors import UnknownNameError
from rebench.nets import TinyNet
from rebench.nets.tiny import ConvBN

__all__ = ["NET_PROXIES", "init_seed", "net_proxy_scores"]

Floats: TypeAlias = NDArray[np.float64]


def _by_gradient(
    net: TinyNet,
    images: torch.Tensor,
    labels: torch.Tensor,
    measure: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> float:
    """Sum a measure of (weight, gradient of the cross-entropy) over the layers that get one."""
    torch.autograd.backward(F.cross_entropy(net.forward(images), labels))
    pairs = ((layer.weight.detach(), layer.weight.grad) for layer in net.weight_layers())
    return sum(float(measure(weight, grad)) for weight, grad in pairs if grad is not None)


def _grad_norm(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Sum over layers of the norm of the loss's gradient (Abdelfattah et al., ICLR 2021)."""
    return _by_gradient(net, images, labels, lambda _, grad: grad.norm())


def _snip(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Sum of |weight x gradient| (Lee et al., ICLR 2019, summed as by Abdelfattah et al.)."""
    return _by_gradient(net, images, labels, lambda weight, grad: (weight * grad).abs().sum())


def _synflow(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> float:  # noqa: ARG001 - data-free
    """Log of the sum of |weight| x gradient of the output (Tanaka et al., NeurIPS 2020).

    The input is ones and all weights are replaced by their absolute values, in double precision.
    Batch normalisation is left out (evaluation mode with fresh statistics is the identity), as
    Abdelfattah et al. do: with it the flow says next to nothing.
    """
    net.double().eval()
    with torch.no_grad():
        for value in net.state_dict().values():
            if value.is_floating_point():
                value.abs_()
    ones = torch.ones(1, *images.shape[1:], dtype=torch.float64)
    torch.autograd.backward(net.forward(ones).sum())
    pairs = ((layer.weight.detach(), layer.weight.grad) for layer in net.weight_layers())
    flow = sum(float((weight * grad).sum()) for weight, grad in pairs if grad is not None)
    return float(np.log(flow)) if flow > 0 else -np.inf


def _naswot(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> float:  # noqa: ARG001 - label-free
    """Log-determinant of the kernel of ReLU patterns (Mellor et al., ICML 2021).

    Entry (i, j) counts, over all ReLUs, the units in the same state for images i and j. A ReLU
    counts once for each convolution that reads it, as in the benchmark's own network; those on
    edges that cannot reach the output do not count.
    """
    kernel = torch.zeros(len(images), len(images), dtype=torch.float64)

    def count(values: torch.Tensor) -> None:
        on = (values.flatten(1) > 0).float()
        kernel.add_(on @ on.T + (1 - on) @ (1 - on).T)

    hooks = [
        module.register_forward_pre_hook(lambda _, inputs: count(inputs[0]))
        for module in net.modules()
        if isinstance(module, ConvBN)
    ]
    hooks.append(net.lastact[0].register_forward_hook(lambda _, __, output: count(output)))
    with torch.no_grad():
        net.forward(images)
    for hook in hooks:
        hook.remove()
    sign, log_determinant = torch.linalg.slogdet(kernel)
    return float(log_determinant) if sign > 0 else -np.inf


Proxy: TypeAlias = Callable[[TinyNet, torch.Tensor, torch.Tensor], float]

NET_PROXIES: Final[Mapping[str, tuple[str, Proxy]]] = {
    "grad-norm": ("norm of the loss's gradient", _grad_norm),
    "snip": ("sum of |weight x gradient of the loss|", _snip),
    "synflow": ("log sum of |weight| x gradient of the output, data-free", _synflow),
    "naswot": ("log-determinant of the kernel of ReLU patterns", _naswot),
}


def init_seed(seed: int, index: int) -> int:
    """Return the seed of torch's generator that a cell's network is initialised from."""
    return int(np.random.SeedSequence((seed, index)).generate_state(1, np.uint32)[0])


def net_proxy_scores(
    names: Iterable[str],
    indices: Iterable[int],
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    seed: int = 0,
    channels: int = 16,
    cells_per_stage: int = 5,
    classes: int = 10,
    on_cell: Callable[[int], None] | None = None,
) -> dict[str, Floats]:
    """Return each proxy's score of each cell; higher is expected to be better.

    A cell that a proxy cannot tell anything about (no flow, a singular kernel) gets -inf.

    Args:
        names: among `NET_PROXIES`.
        indices: benchmark indices of the cells.
        images: normalised batch, (n, 3, height, width).
        labels: its classes, (n,).
        seed: each cell's initialisation comes from (seed, index).
        channels: of the network's first stage.
        cells_per_stage: of the network.
        classes: of the data set.
        on_cell: called with each index when it is done, for progress.
    """
    chosen = list(names)
    for name in chosen:
        if name not in NET_PROXIES:
            raise UnknownNameError("proxy", name, NET_PROXIES)
    scores: dict[str, list[float]] = {name: [] for name in chosen}
    for index in indices:
        for name in chosen:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(init_seed(seed, index))
                net = TinyNet(
                    Cell.from_index(index),
                    channels=channels,
                    cells_per_stage=cells_per_stage,
                    classes=classes,
                )
            scores[name].append(NET_PROXIES[name][1](net, images, labels))
        if on_cell:
            on_cell(index)
    return {name: np.array(values) for name, values in scores.items()}
