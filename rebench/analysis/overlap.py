"""Measures of a choice that is made in one table and used in the other: overlap and regret.

Both compare a run of one recipe with a run of the other, with different seeds, and average over
such pairs. Their values between seeds compare two runs of one recipe.
`docs/explanation/analysis.md` defines them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd

from rebench.analysis.paired import Columns, Paired
from rebench.analysis.seed_noise import Rng
from rebench.analysis.seed_tau import (
    affordable,
    of_both_recipes,
    resampled,
    run_pairs,
    with_interval,
)
from rebench.analysis.tau import (
    MIN_CELLS,
    Floats,
    Ints,
    counts_of,
    dense_codes,
    last_of_best,
    top_sizes,
)
from rebench.tables.seed_effects import TIE_WIDTH

__all__ = ["transfer"]

_Pair: TypeAlias = tuple[Floats, Floats]


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
    sizes = np.array(top_sizes(n, top_percent))
    counts = counts_of(sample, n)
    first, second = paired.columns
    crossed = _runs(first, second, same=False)
    own = [_runs(table, table, same=True) for table in (first, second)]
    several = [pairs for pairs in own if pairs]

    every = [*crossed, *(pair for pairs in several for pair in pairs)]
    runs = {run.tobytes(): run for pair in every for run in pair}
    least = {key: _least_of_best(run, counts, sizes) for key, run in runs.items()}
    overlap = np.mean(_overlaps(crossed, least, counts), axis=0)
    seed_overlap = np.full(overlap.shape, np.nan)
    if several:
        a, b = (_overlaps(pairs, least, counts) for pairs in (several[0], several[-1]))
        alike = len(several) == 1 or np.array_equal(first[1], second[1])
        seed_overlap = of_both_recipes(a, b, alike=alike)
    best = {key: _least_of_best(run, counts, np.array([1]))[:, 0] for key, run in runs.items()}
    regret = np.mean([_regrets(x, y, best, counts) for x, y in crossed], axis=0)
    seed_regret = np.full(regret.shape, np.nan)
    if own[1]:
        both_ways = [*own[1], *((y, x) for x, y in own[1])]
        seed_regret = np.mean([_regrets(x, y, best, counts) for x, y in both_ways], axis=0)

    classes = int(compared.classes.max()) + 1
    once = with_interval("regret", regret, classes)
    once |= with_interval("seed_regret", seed_regret, classes)
    rows = []
    for column, size in enumerate(sizes):
        few = np.nan if size < MIN_CELLS else 1.0
        row = with_interval("overlap", few * overlap[:, column], classes)
        row |= with_interval("seed_overlap", few * seed_overlap[:, column], classes)
        rows.append(row | once)
    return pd.DataFrame(rows)


def _runs(first: Columns, second: Columns, *, same: bool) -> list[_Pair]:
    """Return pairs of runs [cells] with different seeds."""
    pairs = run_pairs(first[0], second[0], first[1], second[1], same=same)
    return [(x, y) for _, x, y in pairs]


def _least_of_best(run: Floats, counts: Floats, sizes: Ints) -> Floats:
    """Return the least value of the best cells of each sample: [samples, sizes]."""
    codes = dense_codes(run[None])[0]
    order = np.argsort(-codes, kind="stable")
    reached = np.cumsum(counts[:, order], axis=1)
    least: Floats = run[order][last_of_best(codes[order], reached, sizes)]
    return least - TIE_WIDTH / 2


def _overlaps(pairs: Sequence[_Pair], least: Mapping[bytes, Floats], counts: Floats) -> Floats:
    """Return the share of the best of x that are best of y: [pairs, samples, sizes].

    Cells that tie with the last are included. If the two sets then differ in size, the share is of
    the larger one.
    """
    samples, sizes = least[pairs[0][0].tobytes()].shape
    found = np.empty((len(pairs), samples, sizes))
    for column in range(sizes):
        best = {}
        for number, pair in enumerate(pairs):
            for run in pair:
                key = run.tobytes()
                if key not in best:
                    best[key] = np.where(run >= least[key][:, [column]], counts, 0)
            x, y = (best[run.tobytes()] for run in pair)
            common = np.minimum(x, y).sum(axis=1)
            found[number, :, column] = common / np.maximum(x.sum(axis=1), y.sum(axis=1))
    return found


def _regrets(x: Floats, y: Floats, best: Mapping[bytes, Floats], counts: Floats) -> Floats:
    """Return how far the best cell of x is below the best of y, in y: [samples]."""
    chosen = np.where(x >= best[x.tobytes()][:, None], counts, 0)
    taken = (chosen @ y) / chosen.sum(axis=1)
    regrets: Floats = np.where(counts > 0, y, -np.inf).max(axis=1) - taken
    return regrets
