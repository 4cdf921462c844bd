"""Measures of a choice that is made in one table and used in the other: overlap and regret.

Both compare a run of one recipe with a run of the other, with different seeds, and average over
such pairs. Their values between seeds compare two runs of one recipe.
`docs/explanation/analysis.md` defines them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rebench.analysis.concordance import MIN_CELLS, Floats, Ints, dense_codes, top_sizes
from rebench.analysis.paired import Columns, Paired
from rebench.analysis.ranking import (
    affordable,
    of_both_recipes,
    resampled,
    run_pairs,
    with_interval,
)
from rebench.analysis.seed_noise import Rng

__all__ = ["transfer"]


def transfer(
    paired: Paired, top_percent: Sequence[float], *, draws: int = 1000, rng: Rng = None
) -> pd.DataFrame:
    """Return overlap and regret of the transfer, and their values between seeds, at each K.

    Returns:
        One row per K: `overlap`, `seed_overlap`, `regret` and `seed_regret` with `_low` and
        `_high` (bootstrap over functional classes). The regret is that of the best cell, so it is
        equal at all K. Overlaps are NaN for fewer than `MIN_CELLS` cells.
    """
    compared = paired.repeated
    n = len(compared)
    sample = resampled(compared.classes, affordable(draws, n), np.random.default_rng(rng))
    sizes = top_sizes(n, top_percent)
    first, second = paired.columns
    crossed = _runs(first, second, same=False)
    own = [_runs(table, table, same=True) for table in (first, second)]
    several = [pairs for pairs in own if pairs]

    overlap = np.mean([_overlaps(x, y, sample, sizes) for x, y in crossed], axis=0)
    seed_overlap = np.full(overlap.shape, np.nan)
    if several:
        a, b = (
            np.array([_overlaps(x, y, sample, sizes) for x, y in pairs])
            for pairs in (several[0], several[-1])
        )
        alike = len(several) == 1 or np.array_equal(first[1], second[1])
        seed_overlap = of_both_recipes(a, b, alike=alike)
    regret = np.mean([_regrets(x, y, sample) for x, y in crossed], axis=0)
    seed_regret = np.full(regret.shape, np.nan)
    if own[1]:
        both_ways = [*own[1], *((y, x) for x, y in own[1])]
        seed_regret = np.mean([_regrets(x, y, sample) for x, y in both_ways], axis=0)

    classes = int(compared.classes.max()) + 1
    once = with_interval("regret", regret, classes) | with_interval(
        "seed_regret", seed_regret, classes
    )
    rows = []
    for column, size in enumerate(sizes):
        few = np.nan if size < MIN_CELLS else 1.0
        row = with_interval("overlap", few * overlap[:, column], classes)
        row |= with_interval("seed_overlap", few * seed_overlap[:, column], classes)
        rows.append(row | once)
    return pd.DataFrame(rows)


def _runs(first: Columns, second: Columns, *, same: bool) -> list[tuple[Floats, Floats]]:
    """Return pairs of runs [cells] with different seeds."""
    pairs = run_pairs(first[0], second[0], first[1], second[1], same=same)
    return [(x, y) for _, x, y in pairs]


def _overlaps(x: Floats, y: Floats, sample: Ints, sizes: Sequence[int]) -> Floats:
    """Return the share of the best of x that are best of y, in each sample: [samples, sizes].

    Cells that tie with the last are included. If the two sets then differ in size, the share is of
    the larger one.
    """
    codes = dense_codes(np.stack([x, y])).astype(np.int32)[:, sample]
    ordered = np.sort(codes, axis=2)
    found = np.empty((len(sample), len(sizes)))
    for column, size in enumerate(sizes):
        best = codes >= ordered[:, :, [-size]]
        common = (best[0] & best[1]).sum(axis=1)
        found[:, column] = common / best.sum(axis=2).max(axis=0)
    return found


def _regrets(x: Floats, y: Floats, sample: Ints) -> Floats:
    """Return how far the best cell of x is below the best of y, in y: [samples]."""
    chosen, used = x[sample], y[sample]
    best = chosen == chosen.max(axis=1, keepdims=True)
    taken = np.where(best, used, 0).sum(axis=1) / best.sum(axis=1)
    regrets: Floats = used.max(axis=1) - taken
    return regrets
