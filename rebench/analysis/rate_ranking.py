"""How far the choice of the learning rate re-ranks cells, beside seed noise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from rebench.analysis.concordance import Floats, Ints, tau_curves
from rebench.analysis.rate_gain import best_single_rate
from rebench.analysis.surface import Surface, own_columns, with_interval
from rebench.errors import InputError

__all__ = [
    "moved_intervals",
    "rate_reranking",
    "resampled",
    "single_rates",
    "tau_between_seeds",
]

# (ranking, other ranking), each scored on seeds of its own.
_PAIRS: Final = (
    ("reference", "single"),
    ("reference", "own"),
    ("single", "own"),
)


def rate_reranking(
    surface: Surface,
    *,
    reference: float,
    top_percent: Sequence[float] = (100.0, 50.0, 20.0),
    draws: int = 200,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return tau between the rankings at one rate, at the best single rate and at own best rates.

    Three disjoint groups of seeds take turns: one chooses the rates, the second scores one ranking
    and the third the other. What the same ranking shows between two groups is seed noise: if the
    choice of the rate re-ranked nothing, tau would be the geometric mean of the two rankings' own
    (`noise`). `reranked` is that less tau.

    Returns:
        A row per pair and K: `before`, `after`, `top_percent`, `n_cells`, `tau`, `noise` and
        `reranked`, each with `_low` and `_high` (bootstrap over functional classes).
    """
    groups = _thirds(surface)
    start = surface.column(reference)
    n = len(surface.cells)
    sample = resampled(n, draws, rng)
    names = {
        "reference": f"{reference:g} for all",
        "single": "best single rate",
        "own": "own best rate",
    }
    shape = (len(_PAIRS), 1 + draws, len(top_percent))
    tau, noise = np.zeros(shape), np.zeros(shape)
    sizes = np.zeros(len(top_percent))
    turns = list(itertools.permutations(groups))
    for choose, first, second in turns:
        own = own_columns(surface, choose.mean(axis=2), choose.shape[2])
        single = best_single_rate(choose.mean(axis=2))
        one, other = (
            {
                "reference": group[:, start],
                "single": group[:, single],
                "own": group[np.arange(n), own],
            }
            for group in (first.mean(axis=2), second.mean(axis=2))
        )
        # A ranking's own agreement, in samples of the same cells.
        alone = {
            name: tau_curves(one[name][sample], other[name][sample], top_percent)[0] for name in one
        }
        for place, (before, after) in enumerate(_PAIRS):
            found, taken = tau_curves(one[before][sample], other[after][sample], top_percent)
            tau[place] += found / len(turns)
            noise[place] += _tau_of_seeds(alone[before], alone[after]) / len(turns)
            sizes = taken[0].astype(np.float64)
    rows = []
    for place, (before, after) in enumerate(_PAIRS):
        for column, percent in enumerate(top_percent):
            row: dict[str, str | float] = {
                "before": names[before],
                "after": names[after],
                "top_percent": percent,
                "n_cells": int(sizes[column]),
            }
            row |= moved_intervals(tau[place][:, column], noise[place][:, column], level)
            rows.append(row)
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def single_rates(
    surface: Surface,
    *,
    reference: float,
    draws: int = 200,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return tau between the ranking at `reference` for all and that at every other single rate.

    A rate that trains cells badly re-ranks them, too: what a recipe does is seen beside this.

    Returns:
        A row per rate: `rate`, `accuracy` (mean over cells), and between runs of different seeds
        `tau`, `noise` and `reranked`, as in `rate_reranking`.
    """
    start = surface.column(reference)
    sample = resampled(len(surface.cells), draws, rng)
    before = surface.accuracy[:, start]
    rows = []
    for column, rate in enumerate(surface.rates):
        if column == start:
            continue
        after = surface.accuracy[:, column]
        tau, noise, _ = tau_between_seeds(before, after, sample, [100.0])
        row = {"rate": float(rate), "accuracy": float(after.mean())}
        rows.append(row | moved_intervals(tau[:, 0], noise[:, 0], level))
    return pd.DataFrame(rows)


def tau_between_seeds(
    before: Floats, after: Floats, sample: Ints, top_percent: Sequence[float]
) -> tuple[Floats, Floats, Ints]:
    """Return tau of two tables [cells, seeds], what seeds alone leave of it, and cells by K.

    Both [samples, K], of runs of different seeds, the mean over their pairs.
    """
    pairs = list(itertools.combinations(range(after.shape[1]), 2))
    tau, noise = np.zeros((2, len(sample), len(top_percent)))
    for i, j in pairs:
        for one, other in ((i, j), (j, i)):
            found, taken = tau_curves(before[sample, one], after[sample, other], top_percent)
            tau += found / (2 * len(pairs))
        alone = [tau_curves(x[sample, i], x[sample, j], top_percent)[0] for x in (before, after)]
        noise += _tau_of_seeds(*alone) / len(pairs)
    return tau, noise, taken[0]


def moved_intervals(tau: Floats, noise: Floats, level: float) -> dict[str, float]:
    """Return `tau`, `noise` and noise less tau, `reranked`, with intervals; from [samples]."""
    drawn = {"tau": tau, "noise": noise, "reranked": noise - tau}
    row: dict[str, float] = {}
    for name, values in drawn.items():
        row |= with_interval(name, values, level)
    return row


def resampled(n: int, draws: int, rng: np.random.Generator) -> Ints:
    """Return [1 + draws, n]: all of n cells, and then samples of them with replacement."""
    return np.concatenate([np.arange(n)[None], rng.integers(0, n, size=(draws, n))])


def _tau_of_seeds(first: Floats, second: Floats) -> Floats:
    """Return tau of two rankings that only seeds tell apart, from each ranking's with itself."""
    geometric: Floats = np.sqrt(np.clip(first, 0, 1) * np.clip(second, 0, 1))
    return geometric


def _thirds(surface: Surface) -> list[Floats]:
    """Return accuracies [cells, rates, seeds] of three disjoint groups of seeds."""
    n = len(surface.seeds)
    if n < 3:
        raise InputError(f"two rankings and the choice of rates need three seeds, got {n}")
    parts = np.array_split(np.arange(n), 3)
    return [surface.accuracy[:, :, part] for part in parts]
