"""The exact recursion of `rebench.recipes` for graph networks, with the ReLU on either side.

before: z_v = sum W relu(z_u), the paper's equation 1. after: h_v = sum relu(W h_u), its code. The
derivation is in `docs/explanation/recursion.md`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rebench.recipes.recursion import (
    ExactUpdate,
    Graphs,
    carried_by_skips,
    exact_update,
)

Array: TypeAlias = npt.NDArray[np.float64]
Order: TypeAlias = Literal["before", "after"]


def update_of(graphs: Graphs, gains: Array, order: Order) -> ExactUpdate:
    """Follow the second moments through all `graphs`, whose weights are N(0, gains / fan_in)."""
    return exact_update(graphs, gains) if order == "before" else _after(graphs, gains)


def _after(graphs: Graphs, gains: Array) -> ExactUpdate:
    carried = carried_by_skips(graphs)
    layers, n = graphs.layers, graphs.layers.shape[1]
    weights = layers * gains
    spread, mean = np.zeros(gains.shape[:2]), np.zeros(gains.shape[:2])  # what enters each vertex
    forward = np.zeros_like(spread)
    spread[:, 0] = 2.0
    for v in range(n):
        if v:
            incoming = weights[:, v] * forward
            spread[:, v] = incoming.sum(axis=1) * (0.5 - 0.5 / np.pi)
            mean[:, v] = np.sqrt(incoming / (2 * np.pi)).sum(axis=1)
        forward[:, v] = (carried[:, v] ** 2 * spread).sum(axis=1) + (
            (carried[:, v] * mean).sum(axis=1) ** 2
        )

    back, backward = np.zeros_like(spread), np.zeros_like(spread)
    back[:, -1] = 1.0
    for v in reversed(range(n)):
        back[:, v] += (weights[:, :, v] * backward).sum(axis=1) / 2
        backward[:, v] = (carried[:, :, v] ** 2 * back).sum(axis=1)
    # E H_v H_w of the gradients by two vertices.
    shared = (carried.transpose(0, 2, 1) * back[:, None, :]) @ carried

    total, square, noise = np.zeros_like(spread), np.zeros_like(spread), np.zeros_like(spread)
    updates, own = np.zeros_like(spread), np.zeros_like(spread)
    total[:, 0] = 2.0  # the stem has no ReLU: no mask halves it
    for v in range(n):
        if v:
            share = layers[:, v] * forward + weights[:, v] * own
            total[:, v] = share.sum(axis=1, where=layers[:, v])
            square[:, v] = (share**2).sum(axis=1, where=layers[:, v])
            noise[:, v] = (weights[:, v] * updates).sum(axis=1) / 2
        reach = carried[:, v] * total
        own[:, v] = (carried[:, v] * reach).sum(axis=1) / 2
        alone = square * np.einsum("gvv->gv", shared) / 4 + noise
        updates[:, v] = (carried[:, v] ** 2 * alone).sum(axis=1) + (
            np.einsum("gv,gvw,gw->g", reach, shared, reach) / 4
        )
    return ExactUpdate(forward=forward, backward=backward, updates=updates)
