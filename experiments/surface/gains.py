"""The gain and the change of ranking that the choice of the learning rate brings.

Functions compare single rates for all cells, every cell's own best rate, and recipes that were
trained directly on the cells of a surface.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import special

from experiments.surface.grid import (
    Fold,
    Surface,
    at_rates,
    best_single_rate,
    gained,
    own_columns,
    seed_folds,
)
from rebench.analysis.paired import complete
from rebench.analysis.seed_tau import TauSamples, at_k, between_seeds, resampled
from rebench.analysis.tau import MIN_CELLS, Floats, top_mask
from rebench.errors import InputError
from rebench.intervals import crossed_mean

__all__ = [
    "direct_check",
    "direct_reranking",
    "of_most",
    "rate_gains",
    "rate_reranking",
    "single_rates",
]

_TOP: Final = (100.0, 50.0, 20.0)
_SINGLE: Final = "best single rate"
_OWN: Final = "own best rate"
_LEVEL: Final = 0.95


def rate_gains(
    surface: Surface, *, reference: float, top_percent: Sequence[float] = (*_TOP, 10.0)
) -> pd.DataFrame:
    """Return the gain from the choice of the rate, among the best cells at the reference rate.

    Rates and the best cells are chosen on some seeds; the gain is scored on the others. Noise makes
    the choice worse than the optimum, so `gain` is slightly too small. `in_sample` uses the highest
    mean of each cell and is too large. The true gain is between both.

    Args:
        surface: the accuracies.
        reference: rate with which other rates are compared, such as the benchmark's.
        top_percent: the values of K.

    Returns:
        A row per contrast and K: `of`, `over`, `top_percent`, `n_cells`, `gain` (percentage
        points) with `gain_low` and `gain_high` (`gained`), `in_sample`.
    """
    start, mean, folds = surface.column(reference), surface.means, seed_folds(surface)
    for_all = f"{reference:g} for all"

    def gains(fold: Fold) -> list[Floats]:
        at_start = fold.score[:, start]
        single = fold.score[:, best_single_rate(fold.choose)]
        return [fold.at_own - at_start, fold.at_own - single, single - at_start]

    by_seed = np.stack([gains(fold) for fold in folds], axis=2)
    lucky = gains(Fold(choose=mean, score=mean, own=np.argmax(mean, axis=1)))
    rows: list[dict[str, Any]] = []
    contrasts = ((_OWN, for_all), (_OWN, _SINGLE), (_SINGLE, for_all))
    for (of, over), gain, in_sample in zip(contrasts, by_seed, lucky, strict=True):
        for percent in top_percent:
            *chosen, best = (
                top_mask(means[:, start], percent)
                for means in (*(fold.choose for fold in folds), mean)
            )
            among = np.stack(chosen, axis=1)
            row = {"of": of, "over": over, "top_percent": percent}
            row |= {"n_cells": round(float(among.sum(axis=0).mean()))}
            row |= gained("gain", gain, among)
            rows.append(row | {"in_sample": float(in_sample[best].mean())})
    return pd.DataFrame(rows)


def rate_reranking(
    surface: Surface, *, reference: float, draws: int = 200, rng: np.random.Generator
) -> pd.DataFrame:
    """Return tau of the rankings at one rate, at the best single rate and at own best rates.

    Seeds are divided into three groups. Each group chooses the rates once; the other two groups
    are the two seeds of `between_seeds`.

    Returns:
        A row per pair and K: `before`, `after`, `top_percent`, and `at_k`'s keys (bootstrap over
        functional classes).
    """
    n, k = len(surface.cells), len(surface.seeds)
    if k < 3:
        raise InputError(f"two rankings and the choice of rates need three seeds, got {k}")
    groups = [surface.accuracy[:, :, part] for part in np.array_split(np.arange(k), 3)]
    start = surface.column(reference)
    sample = resampled(np.arange(n), draws, rng)
    turns: dict[tuple[str, str], list[TauSamples]] = {}
    for choose in groups:
        means = choose.mean(axis=2)
        scored = np.stack([group.mean(axis=2) for group in groups if group is not choose], axis=2)
        rankings = {
            f"{reference:g} for all": scored[:, start],
            _SINGLE: scored[:, best_single_rate(means)],
            _OWN: scored[np.arange(n), own_columns(surface, means, choose.shape[2])],
        }
        for before, after in itertools.combinations(rankings, 2):
            agreed = between_seeds(rankings[before], rankings[after], sample, _TOP)
            turns.setdefault((before, after), []).append(agreed)
    rows: list[dict[str, Any]] = []
    for (before, after), seen in turns.items():
        tau, seed_tau = (np.mean(drawn, axis=0) for drawn in list(zip(*seen, strict=True))[:2])
        mean = TauSamples(tau, seed_tau, seen[-1].n_cells)
        for column, percent in enumerate(_TOP):
            named = {"before": before, "after": after, "top_percent": percent}
            rows.append(named | at_k(mean, column))
    return pd.DataFrame(rows)


def single_rates(
    surface: Surface, *, reference: float, draws: int = 200, rng: np.random.Generator
) -> pd.DataFrame:
    """Return tau of the ranking at `reference` and the ranking at each other rate for all cells.

    A rate that trains all cells badly also changes their ranking. So the change by a recipe is to
    be compared with the changes in this table.

    Returns:
        A row per rate: `rate`, `accuracy` (mean over cells), and the keys of the dicts that the
        functions `at_k` (tau, seed tau, drop) and `of_most` (an interval of the drop) return.
    """
    start = surface.column(reference)
    sample = resampled(np.arange(len(surface.cells)), draws, rng)
    rows = []
    for column, rate in enumerate(surface.rates):
        if column == start:
            continue
        after = surface.accuracy[:, column]
        agreed = between_seeds(surface.accuracy[:, start], after, sample, [100.0])
        row = {"rate": float(rate), "accuracy": float(after.mean())}
        rows.append(row | at_k(agreed, 0) | of_most(agreed, 0, len(surface.rates) - 1))
    return pd.DataFrame(rows)


def direct_check(surface: Surface, table: pd.DataFrame, *, reference: float) -> pd.DataFrame:
    """Compare the surface with recipes that were trained directly, cell by cell.

    Returns:
        A row for each recipe without a fixed `rate`: `recipe`, `n_cells`, `trained` and
        `interpolated` (means over cells at the same rates), their `difference`, and `gain` over
        the rate `reference` for all cells. Both have `_low` and `_high` (cells and seeds crossed).
    """
    start = surface.column(reference)
    rows: list[dict[str, Any]] = []
    for label, runs in _trained_directly(surface, table):
        cells = np.searchsorted(surface.cells, runs["index"].to_numpy())
        seeds = np.searchsorted(surface.seeds, runs["seed"].to_numpy())
        own = surface.accuracy[cells, :, seeds]
        rates = runs["learning_rate"].to_numpy(dtype=np.float64)
        expected, _ = at_rates(own, surface.rates, rates)
        trained = runs["accuracy"]
        both = runs.assign(
            expected=expected, difference=trained - expected, gain=trained - own[:, start]
        )
        means = both.groupby("index")[["accuracy", "expected"]].mean()
        row: dict[str, Any] = {
            "recipe": label,
            "n_cells": len(means),
            "trained": float(means["accuracy"].mean()),
            "interpolated": float(means["expected"].mean()),
        }
        classes = np.arange(len(means))
        for name in ("difference", "gain"):
            values = both.pivot_table(name, "index", "seed").to_numpy()
            whole, columns = complete(values)
            part = values[whole][:, columns]
            row |= crossed_mean(np.nanmean(values, axis=1), classes, [part], classes[whole]).named(
                name
            )
        rows.append(row)
    return pd.DataFrame(rows)


def direct_reranking(
    surface: Surface,
    table: pd.DataFrame,
    *,
    reference: float,
    draws: int = 200,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return tau of the ranking at one rate for all cells and the ranking of direct trainings.

    Returns:
        A row for each recipe and K: `recipe`, `top_percent`, and the keys of `at_k` (bootstrap over
        functional classes) and of `of_most`, for the number of recipes with default parameters.
        Recipes with other parameters were trained for another question.
    """
    start = surface.column(reference)
    trained = list(_trained_directly(surface, table))
    plain = max(sum("(" not in label for label, _ in trained), 1)
    rows: list[dict[str, Any]] = []
    for label, own in trained:
        runs = own.pivot_table(index="index", columns="seed", values="accuracy").dropna()
        if len(runs) < MIN_CELLS or runs.shape[1] < 2:
            continue
        cells = np.searchsorted(surface.cells, runs.index.to_numpy())
        seeds = np.searchsorted(surface.seeds, runs.columns.to_numpy())
        before = surface.accuracy[np.ix_(cells, [start], seeds)][:, 0]
        sample = resampled(np.arange(len(runs)), draws, rng)
        agreed = between_seeds(before, runs.to_numpy(), sample, _TOP)
        for column, percent in enumerate(_TOP):
            row = {"recipe": label, "top_percent": percent}
            rows.append(row | at_k(agreed, column) | of_most(agreed, column, plain))
    return pd.DataFrame(rows)


def _trained_directly(surface: Surface, table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield recipes without a fixed `rate`, with their runs on the cells of the surface."""
    if not {"learning_rate", "recipe", "rate", "accuracy", "seed"} <= set(table):
        return
    ours = table[(table["dataset"] == surface.dataset) & (table["epochs"] == surface.epochs)]
    ours = ours[(ours["split"] == surface.split) & ours["rate"].isna()]
    ours = ours[ours["index"].isin(surface.cells) & ours["seed"].isin(surface.seeds)]
    for label in sorted(map(str, ours["recipe"].unique())):
        yield label, ours[ours["recipe"] == label]


def of_most(agreed: TauSamples, column: int, several: int) -> dict[str, float]:
    """Return an interval of `drop` that is valid for the largest of `several` drops.

    The keys are `most_low` and `most_high`. The level is Bonferroni's. The interval is normal,
    with the standard deviation of the draws, because few draws reach such extreme percentiles.
    """
    drawn = agreed.drop[:, column]
    known = drawn[np.isfinite(drawn)]
    if len(known) < 2:
        return {"most_low": math.nan, "most_high": math.nan}
    half = float(special.ndtri(1 - (1 - _LEVEL) / 2 / several) * known[1:].std())
    return {"most_low": float(drawn[0]) - half, "most_high": float(drawn[0]) + half}
