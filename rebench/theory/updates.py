"""First-order feature updates of any network, by reverse mode alone.

J v is the derivative in u of <J^T u, v>: one more pass through a graph that is kept. It needs no
forward-mode rule of any layer, so whatever trains can be measured, batch normalisation included.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["first_order_updates"]


def first_order_updates(
    features: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    directions: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """Return the derivative of every feature as the parameters move along `directions`.

    Args:
        features: outputs that were computed from `parameters`; their graph is kept.
        parameters: what moves.
        directions: how far each parameter moves per unit of time; of the parameters' shapes.
    """
    probes = [torch.zeros_like(feature, requires_grad=True) for feature in features]
    pulled = torch.autograd.grad(
        features, parameters, probes, create_graph=True, allow_unused=True, materialize_grads=True
    )
    # A parameter that reaches no feature pulls back zeros that depend on no probe.
    reached = [i for i, gradient in enumerate(pulled) if gradient.requires_grad]
    return torch.autograd.grad(
        [pulled[i] for i in reached],
        probes,
        [directions[i] for i in reached],
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
