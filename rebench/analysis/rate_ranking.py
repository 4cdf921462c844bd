"""How far a rule for the learning rate could re-rank cells at most, beside seed noise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from rebench.analysis.concordance import Floats, tau_curves
from rebench.analysis.rate_gain import best_single_rate
from rebench.analysis.surface import Surface, own_columns, with_interval
from rebench.errors import InputError

__all__ = ["rate_reranking", "tau_of_seeds"]

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
    sample = np.concatenate([np.arange(n)[None], rng.integers(0, n, size=(draws, n))])
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
            noise[place] += tau_of_seeds(alone[before], alone[after]) / len(turns)
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
            for name, draw in (
                ("tau", tau[place]),
                ("noise", noise[place]),
                ("reranked", noise[place] - tau[place]),
            ):
                row |= with_interval(name, draw[:, column], level)
            rows.append(row)
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def tau_of_seeds(first: Floats, second: Floats) -> Floats:
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
