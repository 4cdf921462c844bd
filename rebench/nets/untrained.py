"""Scores of a network from one batch, without training: gradient norm, SNIP, SynFlow, NASWOT.

A score predicts the ranking of networks by accuracy; `rebench.search` measures how well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from rebench.nets.tiny import ConvBN, TinyNet

__all__ = ["grad_norm", "grad_norm_of", "layer_gradients", "naswot", "snip", "snip_of", "synflow"]


Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]


def layer_gradients(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> list[Pair]:
    """Return (weight, gradient of the cross-entropy) of every layer with a gradient."""
    torch.autograd.backward(F.cross_entropy(net.forward(images), labels))
    pairs = ((layer.weight.detach(), layer.weight.grad) for layer in net.weight_layers())
    return [(weight, grad) for weight, grad in pairs if grad is not None]


def grad_norm_of(pairs: Iterable[Pair]) -> float:
    """Return the sum over layers of the gradient's norm."""
    return sum(float(grad.norm()) for _, grad in pairs)


def snip_of(pairs: Iterable[Pair]) -> float:
    """Return the sum over all weights of |weight x gradient|."""
    return sum(float((weight * grad).abs().sum()) for weight, grad in pairs)


def grad_norm(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the sum over layers of the gradient's norm (Abdelfattah et al., ICLR 2021)."""
    return grad_norm_of(layer_gradients(net, images, labels))


def snip(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the sum of |weight x gradient| (Lee et al., ICLR 2019; sum by Abdelfattah et al.)."""
    return snip_of(layer_gradients(net, images, labels))


def synflow(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> float:  # noqa: ARG001 - data-free
    """Return the log of the sum of |weight| x output gradient (Tanaka et al., NeurIPS 2020).

    The input is all ones, and all weights are replaced by their absolute values, in double
    precision. As in Abdelfattah et al., batch normalisation has no effect: in evaluation mode with
    fresh statistics it is the identity. With batch normalisation the score is hardly informative.
    """
    net.double().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    with torch.no_grad():
        for value in net.state_dict().values():
            if value.is_floating_point():
                value.abs_()
    ones = torch.ones(1, *images.shape[1:], dtype=torch.float64)
    torch.autograd.backward(net.forward(ones).sum())
    pairs = ((layer.weight.detach(), layer.weight.grad) for layer in net.weight_layers())
    flow = sum(float((weight * grad).sum()) for weight, grad in pairs if grad is not None)
    return float(np.log(flow)) if flow > 0 else -np.inf


def naswot(net: TinyNet, images: torch.Tensor, labels: torch.Tensor) -> float:  # noqa: ARG001 - label-free
    """Return the log-determinant of the kernel of ReLU patterns (Mellor et al., ICML 2021).

    Entry (i, j) counts, over all ReLUs, the units with the same state for images i and j. A ReLU
    counts once for each convolution that reads it, as in the benchmark's network. ReLUs on edges
    that cannot reach the output do not count.
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
