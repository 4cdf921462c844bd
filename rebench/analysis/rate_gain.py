"""What a cell's own learning rate gains over one rate for all, and which cell would be picked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rebench.analysis.concordance import Floats
from rebench.analysis.ranks import top_cells
from rebench.analysis.surface import (
    Fold,
    Surface,
    at_rates,
    class_shares,
    own_columns,
    seed_folds,
    with_interval,
)

__all__ = ["TOP_SHOWN", "best_single_rate", "picks", "rate_gains"]

TOP_SHOWN: Final = (100.0, 50.0, 20.0, 10.0)

_CONTRASTS: Final = (
    ("own best rate", "{rate:g} for all"),
    ("own best rate", "best single rate"),
    ("best single rate", "{rate:g} for all"),
)


def best_single_rate(means: Floats) -> int:
    """Return the column of means [cells, rates] that is best for all cells together."""
    return int(np.argmax(means.mean(axis=0)))


def rate_gains(
    surface: Surface,
    *,
    reference: float,
    top_percent: Sequence[float] = TOP_SHOWN,
    draws: int = 1000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return what the choice of the rate gains, among the best cells at the reference rate.

    Rates, and the cells that are the best, are chosen on some seeds; the gain is scored on the
    others. Noise makes the choice worse than the best, so the gain is a little too small;
    `in_sample`, where each cell's highest mean counts, is too large: the truth lies between.

    Args:
        surface: the accuracies.
        reference: the rate that others are compared with: the benchmark's, say.
        top_percent: the values of K.
        draws: bootstrap draws over functional classes.
        level: coverage of the intervals.
        rng: source of the draws.

    Returns:
        A row per contrast and K: `of`, `over`, `top_percent`, `n_cells`, `gain` (percentage
        points) with `gain_low` and `gain_high` (bootstrap over functional classes), `in_sample`.
    """
    start = surface.column(reference)
    shares = class_shares(len(surface.cells), draws, rng)
    folds = seed_folds(surface)
    mean = surface.accuracy.mean(axis=2)
    lucky = Fold(choose=mean, score=mean, own=np.argmax(mean, axis=1))
    rows = []
    for percent in top_percent:
        gained, sizes = [], []
        for fold in folds:
            chosen = top_cells(fold.choose[:, start], percent)
            sizes.append(int(chosen.sum()))
            gained.append(_gains(fold, start, shares, chosen))
        found = np.mean(gained, axis=0)
        in_sample = _gains(lucky, start, shares[:1], top_cells(mean[:, start], percent))[:, 0]
        for place, (of, over) in enumerate(_CONTRASTS):
            rows.append(
                {
                    "of": of,
                    "over": over.format(rate=reference),
                    "top_percent": percent,
                    "n_cells": round(float(np.mean(sizes))),
                    **with_interval("gain", found[place], level),
                    "in_sample": float(in_sample[place]),
                }
            )
    table: pd.DataFrame = pd.DataFrame(rows).sort_values(
        ["of", "over", "top_percent"], ascending=[False, True, False], ignore_index=True
    )
    return table


def picks(surface: Surface, rules: Mapping[str, Floats], *, reference: float) -> pd.DataFrame:
    """Return which cell a perfect search would pick under each choice of the rate.

    Args:
        surface: the accuracies.
        rules: rates [cells] by the rule's name.
        reference: the benchmark's rate.

    Returns:
        A row per choice: `rate_of`, `cell` (picked on all seeds), `rate` it is trained at,
        `accuracy` (picked on some seeds, scored on the others), `cells` (how many different ones
        the folds pick).
    """
    mean = surface.accuracy.mean(axis=2)
    folds = seed_folds(surface)
    start = surface.column(reference)
    rows = []
    for name, rates_on in _choices(surface, rules, start).items():
        scores, cells = [], []
        for fold in folds:
            rates = rates_on(fold.choose, len(folds) - 1)
            one = int(np.argmax(at_rates(fold.choose, surface.rates, rates)[0]))
            cells.append(one)
            scores.append(at_rates(fold.score, surface.rates, rates)[0][one])
        rates = rates_on(mean, len(folds))
        best = int(np.argmax(at_rates(mean, surface.rates, rates)[0]))
        rows.append(
            {
                "rate_of": name,
                "cell": int(surface.cells[best]),
                "rate": float(rates[best]),
                "accuracy": float(np.mean(scores)),
                "cells": len(set(cells)),
            }
        )
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def _gains(fold: Fold, start: int, shares: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Return the three gains [contrasts, draws], each draw with its own best single rate."""
    choose, score = fold.choose, fold.score
    own = score[np.arange(len(score)), fold.own]
    inside = shares * chosen
    total = np.maximum(inside.sum(axis=1), 1e-12)
    single = np.argmax(shares @ choose, axis=1)
    at_own, at_start = inside @ own / total, inside @ score[:, start] / total
    at_single = (inside @ score)[np.arange(len(shares)), single] / total
    return np.array([at_own - at_start, at_own - at_single, at_single - at_start])


def _choices(
    surface: Surface, rules: Mapping[str, Floats], start: int
) -> dict[str, Callable[[Floats, int], Floats]]:
    """Return, by name, how rates [cells] follow from the means that choose them."""
    rates = surface.rates
    n = len(surface.cells)
    choices: dict[str, Callable[[Floats, int], Floats]] = {
        f"{rates[start]:g} for all": functools.partial(_always, np.full(n, rates[start])),
        "best single rate": lambda means, _: np.full(n, rates[best_single_rate(means)]),
        "own best rate": lambda means, seeds: rates[own_columns(surface, means, seeds)],
    }
    return choices | {name: functools.partial(_always, own) for name, own in rules.items()}


def _always(rates: Floats, _: Floats, __: int) -> Floats:
    return rates
