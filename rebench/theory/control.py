"""Training with equal contributions of all weights, and with one rate, side by side.

Chizat & Netrapalli's feature speed control in its simplest form: C_l = eta_l ||grad_l||^2 is set
to the same share of an asked-for drop of the loss, anew at every step.
"""

from __future__ import annotations

import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

from rebench.theory.bafu import measure_feature_updates
from rebench.theory.frames import make_frame
from rebench.theory.images import SmallImages
from rebench.theory.stack import Stack

__all__ = ["controlled_rates", "train_controlled"]


def controlled_rates(
    net: nn.Module, value: torch.Tensor, loss_drop: float
) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Return rates under which all weights contribute equally to a first-order drop of the loss.

    C_l = eta_l ||grad_l||^2 = loss_drop / L. Returns the rates and the gradients, by name.
    """
    named = dict(net.named_parameters())
    gradients = dict(zip(named, torch.autograd.grad(value, list(named.values())), strict=True))
    squares = {
        name: float(gradient.double().square().sum()) for name, gradient in gradients.items()
    }
    reached = [name for name, square in squares.items() if square > 0]
    rates = {name: loss_drop / (len(reached) * squares[name]) for name in reached}
    return rates, gradients


def train_controlled(
    depth: int, images: SmallImages, steps: int, loss_drop: float, seed: int
) -> pd.DataFrame:
    """Train with equal contributions and with one rate; loss drop and feature update per step."""
    rows = []
    for controlled in (True, False):
        generator = torch.Generator().manual_seed(seed)
        pixels = images.pixels.flatten(1)
        net = Stack(64, depth, None, generator, in_features=pixels.shape[1], classes=10)
        order = torch.randperm(len(pixels), generator=generator)[: 64 * steps]
        shared = 0.0
        for step, batch in enumerate(order.view(-1, 64)[:steps]):
            x, labels = pixels[batch], images.labels[batch]

            def loss(out: torch.Tensor, target: torch.Tensor = labels) -> torch.Tensor:
                return F.cross_entropy(out, target)

            value = loss(net(x))
            rates, gradients = controlled_rates(net, value, loss_drop)
            if not controlled:  # the one rate that asks for the same drop at the first step
                squares = sum(float(g.square().sum()) for g in gradients.values())
                shared = shared or loss_drop / squares
                rates = dict.fromkeys(rates, shared)
            feature = f"marks.{depth - 1}"
            row = measure_feature_updates(net, x, loss, [feature], rates).iloc[0]
            with torch.no_grad():
                for name, parameter in net.named_parameters():
                    parameter.sub_(gradients[name], alpha=rates.get(name, 0.0))
                drop = float(value.detach() - loss(net(x)))
            rows.append(
                {
                    "depth": depth,
                    "rule": "controlled" if controlled else "one rate",
                    "step": step,
                    "loss": float(value.detach()),
                    "drop_over_asked": drop / loss_drop,
                    "feature_update": row["full"],
                    "sensitivity": row["sensitivity"],
                    "cosine": row["cosine"],
                }
            )
    return make_frame(rows)
