"""What seed noise alone does to a ranking: the baseline that a change of recipe is held against.

Two runs of the same recipe do not rank cells alike: seeds differ, and choosing the top K % by a
noisy mean keeps cells that were lucky, whose order a second run does not confirm. Tau therefore
falls with K although nothing changed. `seed_agreement` and `split_agreement` show it between the
seeds of one table, `noise_curve` and `rerun_curves` simulate it for any number of seeds (what is
drawn is `SeedNoise`'s). Whether a re-trained table differs by more is `movement`'s question.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from rebench.analysis.choices import TOP_PERCENT, Selection
from rebench.analysis.concordance import TIE_WIDTH, Floats, tau_curves
from rebench.analysis.ranks import Rng, as_columns, cell_means, interval
from rebench.analysis.seed_noise import SeedNoise, common_unit, pooled_sd
from rebench.errors import InputError

__all__ = ["noise_curve", "rerun_curves", "seed_agreement", "split_agreement", "summary"]

_BLOCK: Final = 1 << 20
# More ways to split the seeds than this are sampled.
_MAX_SPLITS: Final = 200


def noise_curve(
    values: ArrayLike,
    seeds: tuple[int, int],
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    by: Selection = "benchmark",
    draws: int = 400,
    level: float = 0.95,
    rng: Rng = None,
) -> pd.DataFrame:
    """Return the tau that two independent means of `seeds` runs of one recipe would show.

    One row per K: `top_percent`, `tau` (median over draws), `tau_low`, `tau_high`.
    """
    rng = np.random.default_rng(rng)
    model = SeedNoise.fit(values)
    blocks = []
    for size in _blocks(draws, len(model.means)):
        true = model.true_means(size, rng)
        first, second = (
            true + rng.standard_normal(true.shape) * model.run_sd / math.sqrt(k) for k in seeds
        )
        blocks.append(tau_curves(first, second, top_percent, by=by)[0])
    return summary(np.concatenate(blocks), top_percent, level)


def seed_agreement(
    values: ArrayLike,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    seeds: Sequence[int] | None = None,
) -> pd.DataFrame:
    """Return tau between single seeds of one table, for each ordered pair, at each K.

    The first seed of a pair decides the top K %; only cells that have both count. Rows:
    `first`, `second`, `top_percent`, `n_cells`, `tau`.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise InputError(f"seed agreement needs accuracies [cells, seeds], got {array.shape}")
    names = list(seeds) if seeds is not None else list(range(array.shape[1]))
    tables = []
    for one, other in itertools.permutations(range(array.shape[1]), 2):
        found = _split_tau(array, (one,), (other,), top_percent, "benchmark")
        if found is None:
            continue
        tau, taken = found
        table = pd.DataFrame({"top_percent": list(top_percent), "n_cells": taken, "tau": tau})
        table.insert(0, "second", names[other])
        table.insert(0, "first", names[one])
        tables.append(table)
    if not tables:
        raise InputError("no two seeds have a cell in common")
    return pd.concat(tables, ignore_index=True)


def split_agreement(
    values: ArrayLike,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    seeds: tuple[int, int] | None = None,
    by: Selection = "benchmark",
    rng: Rng = None,
) -> pd.DataFrame:
    """Return tau between means over two disjoint groups of one table's seeds: noise, as it is seen.

    No model is behind it, so it checks `noise_curve` for as many seeds; but a table of k seeds
    shows only means of k / 2 of them. Cells that lack a seed of a split are left out of it.

    Args:
        values: accuracies [cells, seeds].
        top_percent: the values of K.
        seeds: how many seeds the groups have; two halves (one left out where they are odd) if None.
        by: which group decides the top K %.
        rng: needed only where there are too many splits to take all.

    Returns:
        One row per K: `top_percent`, `seeds` (such as "1 + 1"), `splits`, `tau` (mean over
        splits), `tau_low`, `tau_high` (the lowest and the highest: splits share seeds, so this is
        no interval of confidence). NaN where any split has too few cells.
    """
    array = as_columns(values)
    total = array.shape[1]
    sizes = seeds if seeds is not None else (total // 2, total // 2)
    if min(sizes) < 1 or sum(sizes) > total:
        wanted = " + ".join(str(size) for size in sizes)
        raise InputError(f"splitting seeds needs two groups of at least one: {wanted} of {total}")
    curves = []
    for first, second in _splits(total, sizes, rng):
        found = _split_tau(array, first, second, top_percent, by)
        if found is not None:
            curves.append(found[0])
    if not curves:
        raise InputError(f"no cell has the {sum(sizes)} seeds that the split needs")
    taus = np.array(curves)
    return pd.DataFrame(
        {
            "top_percent": list(top_percent),
            "seeds": f"{sizes[0]} + {sizes[1]}",
            "splits": len(taus),
            "tau": taus.mean(axis=0),
            "tau_low": taus.min(axis=0),
            "tau_high": taus.max(axis=0),
        }
    )


def rerun_curves(
    a: Floats,
    b: Floats,
    top_percent: Sequence[float],
    *,
    by: Selection,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Simulate taus [draws, K] of `centred` tables that rank truly as `a`, with the noise of both.

    The means of `a` stay as they are, with the cells that they select; `b` is replaced by runs of
    the same cells, with as many seeds as it has and, where it has several, its own noise. Where
    `a` has one seed a cell and `b` more, the roles are exchanged.
    """
    several_a, several_b = ((np.isfinite(x).sum(axis=1) >= 2).any() for x in (a, b))
    fixed, other = (a, b) if several_a else (b, a)
    model = SeedNoise.of_centred(fixed)
    seeds = np.isfinite(other).sum(axis=1)
    run_sd, unit = model.run_sd, model.unit
    if several_a and several_b:
        run_sd, unit = _noise_on_scale_of(model, other)
    blocks = []
    for size in _blocks(draws, len(model.means)):
        kept = model.means[None]
        drawn = model.rerun(seeds, size, rng, run_sd=run_sd, unit=unit)
        first, second = (kept, drawn) if several_a else (drawn, kept)
        blocks.append(tau_curves(first, second, top_percent, by=by)[0])
    return np.concatenate(blocks)


def summary(curves: Floats, top_percent: Sequence[float], level: float) -> pd.DataFrame:
    """Return the median and an interval of `curves` [draws, K], one row per K."""
    low, high = interval(curves, level)
    middle, _ = interval(curves, 0.0)
    return pd.DataFrame(
        {"top_percent": list(top_percent), "tau": middle, "tau_low": low, "tau_high": high}
    )


def _split_tau(
    values: Floats,
    first: Sequence[int],
    second: Sequence[int],
    top_percent: Sequence[float],
    by: Selection,
) -> tuple[Floats, Floats] | None:
    """Return tau and number of cells at each K between means of two groups of seeds, if any."""
    whole = np.isfinite(values[:, [*first, *second]]).all(axis=1)
    if not whole.any():
        return None
    one, other = (values[whole][:, list(group)].mean(axis=1)[None] for group in (first, second))
    tau, taken = tau_curves(one, other, top_percent, by=by)
    return tau[0], taken[0].astype(np.float64)


def _splits(
    total: int, sizes: tuple[int, int], rng: Rng
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield all ordered pairs of disjoint groups of seeds, or some of them."""
    if math.comb(total, sizes[0]) * math.comb(total - sizes[0], sizes[1]) <= _MAX_SPLITS:
        for first in itertools.combinations(range(total), sizes[0]):
            left = [seed for seed in range(total) if seed not in first]
            for second in itertools.combinations(left, sizes[1]):
                yield first, second
        return
    if rng is None:
        raise InputError(f"{total} seeds have too many splits to take all: give rng")
    rng = np.random.default_rng(rng)
    for _ in range(_MAX_SPLITS):
        order = rng.permutation(total).tolist()
        yield tuple(order[: sizes[0]]), tuple(order[sizes[0] : sum(sizes)])


def _noise_on_scale_of(model: SeedNoise, other: Floats) -> tuple[Floats, float]:
    """Return the noise of a run of `other` [cells of `model`] and its unit, on `model`'s scale.

    Tau knows only ranks, so noise counts relative to how far apart neighbours in rank are: the
    noise at each rank of `other` is multiplied by the ratio of the two tables' spreads there.
    """
    n = len(model.means)
    means = cell_means(other)
    reach = max(5, n // 10)
    low, high = np.maximum(np.arange(n) - reach, 0), np.minimum(np.arange(n) + reach, n - 1)
    spreads = [np.sort(x)[high] - np.sort(x)[low] for x in (model.means, means)]
    ratio = np.maximum(spreads[0], TIE_WIDTH) / np.maximum(spreads[1], TIE_WIDTH)
    run_sd = np.empty(n)
    by_rank = pooled_sd(other)[np.argsort(means, kind="stable")] * ratio
    run_sd[np.argsort(model.means, kind="stable")] = by_rank
    return run_sd, common_unit(other[np.isfinite(other)]) * float(np.median(ratio))


def _blocks(draws: int, n_cells: int) -> list[int]:
    step = max(1, _BLOCK // n_cells)
    return [min(step, draws - start) for start in range(0, draws, step)]
