"""What predicts a maximal learning rate: equation 8 in its versions, and the baselines beside it.

A correlation alone says little: it cannot see a wrong slope or a wrong scale, and a rule that
counts paths correlates too. Every predictor is scored by r, by slope and by typical factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from cells import DagCode, moment
from rebench.recipes.recursion import Graphs, exact_update
from rebench.theory.estimate import correlation, correlation_gain, log_slope, rms_log_factor
from rebench.theory.graph_lr import SearchSettings, draw_net, rate_factors
from rebench.theory.graphs import edge_variances, with_stem
from rebench.theory.images import SmallImages
from rebench.theory.updates import first_order_updates

__all__ = [
    "OFFSETS",
    "PERFECT",
    "best_possible",
    "one_step_lr",
    "one_step_moments",
    "predict",
    "score",
]

# Depths of paths as layers of the graph; as the code of the cells counts; and its MLPs' and CNNs'.
OFFSETS = (0, 1, 3)

PERFECT = "perfect rule"


def predict(
    graphs: Sequence[tuple[DagCode, int | None]], images: SmallImages, settings: SearchSettings
) -> pd.DataFrame:
    """Return the learning rate of every (code, kernel side) by every predictor, up to a scale."""
    rows = []
    for code, kernel in graphs:
        side, depths = kernel or 1, code.depth_polynomial()
        row: dict[str, float] = {
            f"eq. 8, L+{offset}" if offset else "eq. 8, L": moment(depths, 3, offset) ** -0.5
            / side**2
            for offset in OFFSETS
        }
        if any(k for _, k in graphs):
            row["eq. 8, L, q = side"] = moment(depths, 3) ** -0.5 / side
            row["eq. 8, L+3, q = side"] = moment(depths, 3, 3) ** -0.5 / side
            row["kernel area alone"] = 1 / side**2
        row["path count"] = code.n_paths**-0.5
        row["exact recursion"] = _recursion_lr(code, settings) / side**2
        row["one step"] = one_step_lr(code, kernel, images, settings)
        row["constant"] = 1.0
        rows.append(row)
    return pd.DataFrame(rows)


def _recursion_lr(code: DagCode, settings: SearchSettings) -> float:
    """Return what the exact recursion says of a graph; a ReLU behind the stem makes it an edge."""
    variances = edge_variances(code, settings.rule)
    if settings.released:
        code, variances = with_stem(code), np.pad(variances, ((1, 0), (1, 0)))
        variances[1, 0] = 2.0
    update = exact_update(Graphs.of([code]), variances[None], order=settings.order)
    return float(update.learning_rate[0])


def one_step_lr(
    code: DagCode, kernel: int | None, images: SmallImages, settings: SearchSettings
) -> float:
    """Return the rate at which one step moves the output vertex by 1 in mean square.

    Measured to first order on the very networks and a first batch, cross-entropy, all seeds.
    """
    moments = one_step_moments(code, kernel, images, settings)
    return float(np.mean([whole for whole, _ in moments]) ** -0.5)


def one_step_moments(
    code: DagCode, kernel: int | None, images: SmallImages, settings: SearchSettings
) -> list[tuple[float, float]]:
    """Return the mean squared update of the output vertex at rate 1, whole and by biases alone.

    A pair for each seed.
    """
    moments = []
    batch = images.pixels[: settings.batch_size]
    labels = images.labels[: settings.batch_size]
    for seed in range(settings.seeds):
        generator = torch.Generator().manual_seed(seed)
        net = draw_net(code, kernel, batch, settings, generator).to(batch.device)
        # A dead edge keeps weights that nothing depends on.
        named = dict(net.named_parameters())
        gradients = torch.autograd.grad(
            F.cross_entropy(net(batch), labels), list(named.values()),
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        factors = rate_factors(net, settings)
        steps = [-factors[name] * grad for name, grad in zip(named, gradients, strict=True)]
        biases = [
            step if name.endswith("bias") else torch.zeros_like(step)
            for name, step in zip(named, steps, strict=True)
        ]
        output = net.vertices(batch)[code.n_vertices - 1]
        whole, alone = (
            first_order_updates([output], list(named.values()), part)[0] for part in (steps, biases)
        )
        moments.append((float(whole.square().mean()), float(alone.square().mean())))
    return moments


def score(
    predictions: Mapping[str, npt.NDArray[np.float64]],
    measured: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return how well each predictor does against the measured rates.

    Returns:
        One row per predictor: `r` with its interval; `slope` of log measured on log predicted
        (1 where the rule has the right power); `factor` with its interval, the typical factor
        between measured rate and c * prediction; `gain` with its interval, its r minus that of
        the first predictor on the same graphs.
    """
    rows = []
    first = next(iter(predictions.values()))
    for name, values in predictions.items():
        gain = correlation_gain(values, first, measured, rng)
        r = correlation(values, measured, rng)
        factor = rms_log_factor(values, measured, rng)
        varies = bool(np.ptp(values) > 0)
        rows.append(
            {
                "predictor": name,
                "r": r.value,
                "r_low": r.low,
                "r_high": r.high,
                "slope": log_slope(values, measured) if varies else float("nan"),
                "factor": factor.value,
                "factor_low": factor.low,
                "factor_high": factor.high,
                "gain": gain.value,
                "gain_low": gain.low,
                "gain_high": gain.high,
            }
        )
    return pd.DataFrame(rows)


def best_possible(
    measured: npt.NDArray[np.float64], noise: npt.NDArray[np.float64]
) -> dict[str, float]:
    """Return the `r` and `factor` of a rule that knows every rate but not the seeds' noise.

    The variance of the measured rates is that of the true ones plus the noise's: the share of the
    former is the square of the r. 0 where noise alone explains all differences; nan of one seed.
    """
    errors = np.log(noise)
    share = 1 - float(np.mean((measured * errors) ** 2) / np.var(measured, ddof=1))
    r = max(share, 0.0) ** 0.5 if np.isfinite(share) else share
    return {"r": r, "factor": float(np.exp(np.sqrt(np.mean(errors**2))))}
