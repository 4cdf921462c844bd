"""What predicts a maximal learning rate: equation 8 in its versions, and the baselines beside it.

A correlation alone says little: it cannot see a wrong slope or a wrong scale, and a rule that
counts paths correlates too. Every predictor is scored by r, by slope and by typical factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from cells import DagCode, moment
from rebench.recipes import exact_maximal_lr
from rebench.theory.estimate import correlation, correlation_gain, log_slope, rms_log_factor
from rebench.theory.graph_lr import SearchSettings, draw_net, rate_factors
from rebench.theory.images import SmallImages
from rebench.theory.updates import first_order_updates

__all__ = ["OFFSETS", "PERFECT", "best_possible", "one_step_lr", "predict", "score"]

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
            row["kernel area alone"] = 1 / side**2
        row["path count"] = code.n_paths**-0.5
        rule: Literal["source", "target"] = "source" if settings.rule == "source" else "target"
        row["exact recursion"] = (
            exact_maximal_lr(code, rule, order=settings.order, relu_mean=False) / side**2
        )
        row["one step"] = one_step_lr(code, kernel, images, settings)
        row["constant"] = 1.0
        rows.append(row)
    return pd.DataFrame(rows)


def one_step_lr(
    code: DagCode, kernel: int | None, images: SmallImages, settings: SearchSettings
) -> float:
    """Return the rate at which one step moves the output vertex by 1 in mean square.

    Measured to first order on the very networks and a first batch, cross-entropy, all seeds.
    """
    moments = []
    batch = images.pixels[: settings.batch_size]
    labels = images.labels[: settings.batch_size]
    for seed in range(settings.seeds):
        generator = torch.Generator().manual_seed(seed)
        net = draw_net(code, kernel, batch, settings, generator)
        named = dict(net.named_parameters())
        gradients = torch.autograd.grad(F.cross_entropy(net(batch), labels), list(named.values()))
        factors = rate_factors(net, settings)
        steps = [-factors[name] * grad for name, grad in zip(named, gradients, strict=True)]
        output = net.vertices(batch)[code.n_vertices - 1]
        (update,) = first_order_updates([output], list(named.values()), steps)
        moments.append(float(update.square().mean()))
    return float(np.mean(moments) ** -0.5)


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
