"""One step of gradient descent in ReLU MLPs of any widths, drawn: what `depth_recursion` averages.

Weights N(0, 2 / fan_in), readout N(0, 1 / n_L^2), one input of squared norm n_0, loss derivative 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from experiments.laws.depth_recursion import TERMS, unequal_width_moment

# Of the rate at which E[(dz_L)^2] = 1.
STEP_FACTORS = (0.01, 0.1, 1.0)


def sample_updates(
    widths: Sequence[int], *, draws: int, readouts: int, generator: torch.Generator
) -> pd.DataFrame:
    """Draw networks and return their updates of one step of gradient descent.

    Args:
        widths: of the input and of every layer.
        draws: networks drawn.
        readouts: drawn for each.
        generator: what draws them.

    Returns:
        One row per draw and layer: `linear`, the mean over units and readouts of the first-order
        (dz_l)^2 / eta^2 by forward-mode products; `own`, `cross` and `passed`, its three terms;
        and per step factor f `actual_f`, that of the whole update at eta = f times the rate at
        which E[(dz_L)^2] = 1 in wide networks.
    """
    depth = len(widths) - 1
    chunk = max(1, min(draws, 2**26 // sum(a * b for a, b in itertools.pairwise(widths))))
    frames = []
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        columns = _sample_chunk(widths, size, readouts, generator)
        frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
        frame["draw"] = np.repeat(np.arange(start, start + size), depth)
        frame["layer"] = np.tile(np.arange(1, depth + 1), size)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _sample_chunk(
    widths: Sequence[int], size: int, readouts: int, generator: torch.Generator
) -> dict[str, npt.NDArray[np.float64]]:
    depth = len(widths) - 1
    weights = [
        torch.randn(size, fan_out, fan_in, generator=generator) * math.sqrt(2 / fan_in)
        for fan_in, fan_out in itertools.pairwise(widths)
    ]
    x = torch.randn(size, 1, widths[0], generator=generator)
    x *= math.sqrt(widths[0]) / x.norm(dim=-1, keepdim=True)
    activations, pre, gates = [x], [], []
    for weight in weights:
        z = activations[-1] @ weight.mT
        pre.append(z)
        gates.append((z > 0).float())
        activations.append(z.clamp(min=0))
    backward = [
        torch.randn(size, readouts, widths[-1], generator=generator) / widths[-1] * gates[-1]
    ]
    for layer in range(depth - 1, 0, -1):
        backward.insert(0, backward[0] @ weights[layer] * gates[layer - 1])

    tangent = torch.zeros(size, readouts, widths[0])
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in ("linear", *TERMS)}
    for layer, weight in enumerate(weights):
        gated = tangent * gates[layer - 1] if layer else tangent
        passed = gated @ weight.mT
        own = backward[layer] * activations[layer].square().sum(-1, keepdim=True)
        tangent = passed + own
        products = (tangent.square(), own.square(), 2 * own * passed, passed.square())
        for kept, product in zip(parts.values(), products, strict=True):
            kept.append(product.mean((1, 2)))
    columns = {name: torch.stack(kept, 1).double().numpy() for name, kept in parts.items()}
    for factor in STEP_FACTORS:
        eta = factor * unequal_width_moment(widths) ** -0.5
        new, squares = x.expand(-1, readouts, -1), []
        for layer, weight in enumerate(weights):
            overlap = (new * activations[layer]).sum(-1, keepdim=True)
            z = new @ weight.mT - eta * backward[layer] * overlap
            squares.append((z - pre[layer]).square().mean((1, 2)) / eta**2)
            new = z.clamp(min=0)
        columns[f"actual_{factor:g}"] = torch.stack(squares, 1).double().numpy()
    return columns
