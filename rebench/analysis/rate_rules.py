"""Rules for the learning rate on a surface: what each costs beside the cells' own best rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rebench.analysis.concordance import Floats
from rebench.analysis.surface import (
    Surface,
    at_rates,
    class_shares,
    seed_folds,
    with_interval,
)
from rebench.errors import InputError

__all__ = [
    "CONSTANT",
    "best_bases",
    "regret_curve",
    "rule_regrets",
]

# The same rate for every cell; muP is another name for it where all cells have one width.
CONSTANT: Final = "constant"
# Base rates tried from one end of the surface to the other, so many to an octave.
_STEPS: Final = 8


def regret_curve(surface: Surface, rules: Mapping[str, Floats]) -> pd.DataFrame:
    """Return how far rules fall short of the cells' own best rates, whatever their base rate.

    Rates keep their ratios; their geometric mean runs over the surface. Own best rates are chosen
    on some seeds, and everything is scored on the others.

    Returns:
        A row per rule and mean rate: `rule`, `mean_rate`, `base_factor` (on the rule's own base
        rate), `regret` (percentage points), `outside` (share of cells whose rate the surface does
        not reach; they count as trained at its end).
    """
    rows: list[dict[str, Any]] = []
    grid = _grid(surface)
    own = _own_best(surface)
    for name, rates in _with_constant(surface, rules).items():
        accuracies, outside = _by_base(surface, _ratios(rates), grid)
        regret = own.mean() - accuracies["score"].mean(axis=(0, 1))
        for place, mean_rate in enumerate(grid):
            rows.append(
                {
                    "rule": name,
                    "mean_rate": float(mean_rate),
                    "base_factor": float(mean_rate / _mean(rates)),
                    "regret": float(regret[place]),
                    "outside": float(outside[:, place].mean()),
                }
            )
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def rule_regrets(
    surface: Surface,
    rules: Mapping[str, Floats],
    *,
    draws: int = 1000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Compare every rule, at its own and at its best base rate, with constants.

    The best base rate is chosen on some seeds, for the mean over cells, and scored on the others.

    Returns:
        A row per rule and `base` ("own" or "best"): `rule`, `mean_rate` (geometric), `regret`,
        `over_constant` (percentage points over the best single rate), `over_same_mean` (over the
        constant at the rule's own mean rate: is it scaled, or merely larger?), each of the three
        with `_low` and `_high` (bootstrap over functional classes), and `outside`.
    """
    grid, own = _grid(surface), _own_best(surface)
    shares = class_shares(len(surface.cells), draws, rng)
    constant, _ = _by_base(surface, np.ones(len(surface.cells)), grid)
    at_best = _at_best(constant, shares, constant)
    rows: list[dict[str, Any]] = []
    for name, rates in _with_constant(surface, rules).items():
        ratios = _ratios(rates)
        tried, outside = _by_base(surface, ratios, grid)
        best = int(np.argmax(tried["choose"].mean(axis=(0, 1))))
        for base in ("own", "best"):
            if base == "own":
                if name == CONSTANT:
                    continue
                mean_rate = _mean(rates)
                here, past = _by_base(surface, ratios, np.array([mean_rate]))
                same, _ = _by_base(surface, np.ones_like(ratios), np.array([mean_rate]))
                scored = here["score"][..., 0].mean(axis=0) @ shares.T
                larger = same["score"][..., 0].mean(axis=0) @ shares.T
                beyond = float(past.mean())
            else:
                mean_rate, beyond = float(grid[best]), float(outside[:, best].mean())
                scored, larger = _at_best(tried, shares, tried), _at_best(tried, shares, constant)
            row: dict[str, Any] = {"rule": name, "base": base, "mean_rate": mean_rate}
            for what, drawn in (
                ("regret", own @ shares.T - scored),
                ("over_constant", scored - at_best),
                ("over_same_mean", scored - larger),
            ):
                row |= with_interval(what, drawn, level)
            rows.append(row | {"outside": beyond})
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def best_bases(surface: Surface, rules: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return every rule's rates [cells] at the base rate that is best for all cells together."""
    means, grid = surface.accuracy.mean(axis=2), _grid(surface)
    found = {}
    for name, rates in rules.items():
        ratios = _ratios(rates)
        accuracies, _ = at_rates(means, surface.rates, ratios[:, None] * grid)
        found[name] = ratios * grid[np.argmax(accuracies.mean(axis=0))]
    return found


def _grid(surface: Surface) -> Floats:
    """Return mean rates from one end of the surface to the other, its own rates among them."""
    steps = np.log2(surface.rates)
    between = np.linspace(0, 1, _STEPS, endpoint=False)
    inner = steps[:-1, None] + between * np.diff(steps)[:, None]
    grid: Floats = 2 ** np.append(inner.ravel(), steps[-1])
    return grid


def _mean(rates: Floats) -> float:
    return float(np.exp(np.log(rates).mean()))


def _ratios(rates: Floats) -> Floats:
    """Return rates relative to their geometric mean."""
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise InputError("a rule has no rate for some cell: leave out the cells without a path")
    ratios: Floats = rates / _mean(rates)
    return ratios


def _with_constant(surface: Surface, rules: Mapping[str, Floats]) -> dict[str, Floats]:
    return {CONSTANT: np.ones(len(surface.cells)), **rules}


def _own_best(surface: Surface) -> Floats:
    """Return every cell's accuracy at its own best rate [cells], chosen on other seeds."""
    scored = [fold.score[np.arange(len(fold.score)), fold.own] for fold in seed_folds(surface)]
    means: Floats = np.mean(scored, axis=0)
    return means


def _by_base(
    surface: Surface, ratios: Floats, grid: Floats
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Return accuracies [folds, cells, grid] on choosing and scoring seeds; what lies outside."""
    wanted = ratios[:, None] * grid
    folds = seed_folds(surface)
    choose = [at_rates(fold.choose, surface.rates, wanted) for fold in folds]
    score = [at_rates(fold.score, surface.rates, wanted)[0] for fold in folds]
    found = {"choose": np.array([one for one, _ in choose]), "score": np.array(score)}
    return found, choose[0][1]


def _at_best(tried: dict[str, Floats], shares: Floats, scored: dict[str, Floats]) -> Floats:
    """Return the mean accuracy [draws] of `scored` where `tried` is best on the choosing seeds."""
    rows = np.arange(len(shares))
    found: Floats = np.mean(
        [
            (shares @ score)[rows, np.argmax(shares @ choose, axis=1)]
            for choose, score in zip(tried["choose"], scored["score"], strict=True)
        ],
        axis=0,
    )
    return found
