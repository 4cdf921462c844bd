"""Rules for the learning rate on a surface: the regret of each, and fits that predict best rates.

Rules, and fits to other cells, are compared with a cell's own best rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cells.ops import OP_NAMES
from cells.table import compile_space
from experiments.surface.grid import (
    Surface,
    at_rates,
    best_single_rate,
    gained,
    log_best_rates,
    seed_folds,
)
from rebench.analysis.tau import Floats, Ints
from rebench.data import data_spec
from rebench.errors import InputError
from rebench.spaces.nb201 import cost_model

__all__ = ["fit_rates", "graph_statistics", "regret_curve", "rule_regrets"]

# The same rate for every cell. With equal widths, muP is such a rule.
_CONSTANT: Final = "constant"
# Number of base rates per octave, from one end of the surface to the other.
_STEPS: Final = 8
_PENALTIES: Final = tuple(10.0**power for power in range(-2, 5))
# Shifts of all fitted rates, in octaves; the shift with the best accuracy is used.
_SHIFTS: Final = np.linspace(-3, 3, 49)
_FEWEST: Final = 20
# Number of parts of the cells; each part is predicted from the others.
_PARTS: Final = 10


def regret_curve(surface: Surface, rules: Mapping[str, Floats]) -> pd.DataFrame:
    """Return the regret of rules against the cells' own best rates, at every base rate.

    The ratios between the rates of the cells are kept, and their geometric mean takes every value
    of a grid over the surface. Own best rates are chosen on some seeds, and everything is scored on
    the others.

    Returns:
        A row per rule and mean rate: `rule`, `mean_rate`, `regret` in percentage points. A cell
        with a rate outside the surface counts as trained at the nearest rate.
    """
    grid, own = _grid(surface), _own_best(surface)
    frames = []
    for name, rates in _with_constant(surface, rules).items():
        _, score, _ = _by_base(surface, _ratios(rates), grid)
        regret = own.mean() - score.mean(axis=(0, 1))
        frames.append(pd.DataFrame({"rule": name, "mean_rate": grid, "regret": regret}))
    return pd.concat(frames, ignore_index=True)


def rule_regrets(surface: Surface, rules: Mapping[str, Floats]) -> pd.DataFrame:
    """Compare every rule, at its own and at its best base rate, with constants.

    The best base rate is chosen on some seeds, for the mean over cells, and scored on the others.

    Returns:
        A row per rule and `base` ("own" or "best"): `rule`, `mean_rate` (geometric), `regret`,
        `over_constant` (percentage points over the best single rate), `over_same_mean` (over the
        constant rate equal to the rule's mean rate), each of the three with `_low` and `_high`
        (`gained`), and `outside`.
    """
    grid, own = _grid(surface), _own_best(surface)
    alike = np.ones(len(surface.cells))
    constant_choose, constant, _ = _by_base(surface, alike, grid)
    at_best = _at_best(constant_choose, constant)
    rows: list[dict[str, Any]] = []

    def add(rule: str, base: str, rate: float, scored: Floats, same: Floats, past: float) -> None:
        row: dict[str, Any] = {"rule": rule, "base": base, "mean_rate": rate}
        row |= gained("regret", own - scored)
        row |= gained("over_constant", scored - at_best)
        row |= gained("over_same_mean", scored - same)
        rows.append(row | {"outside": past})

    for name, rates in _with_constant(surface, rules).items():
        ratios = _ratios(rates)
        if name != _CONSTANT:
            mean = _mean(rates)
            _, here, past = _by_base(surface, ratios, np.array([mean]))
            _, same, _ = _by_base(surface, alike, np.array([mean]))
            add(name, "own", mean, here[..., 0].T, same[..., 0].T, float(past.mean()))
        choose, score, past = _by_base(surface, ratios, grid)
        best = int(np.argmax(choose.mean(axis=(0, 1))))
        scored, same = _at_best(choose, score), _at_best(choose, constant)
        add(name, "best", float(grid[best]), scored, same, float(past[:, best].mean()))
    return pd.DataFrame(rows)


def graph_statistics(cells: Ints) -> pd.DataFrame:
    """Return statistics of the graphs of benchmark indices `cells` [cells, statistics].

    Cells without a path have no multiplier (the topology rule's) and no depth: NaN.
    """
    space = compile_space()
    paths, depths = space.n_paths[cells].astype(np.float64), space.depths[cells]
    with np.errstate(invalid="ignore"):
        mean_depth = depths @ np.arange(depths.shape[1]) / paths
    table = pd.DataFrame(
        {
            "n_paths": paths,
            "mean_depth": mean_depth,
            "log2_multiplier": np.log2(space.lr_multiplier[cells]),
            "log2_flops": np.log2(cost_model(data_spec("cifar10")).flops(space.ops[cells])),
            "live_edges": space.live_edges[cells].sum(axis=1),
        }
    )
    live = np.where(space.live_edges, space.ops, -1)[cells]
    for number, name in enumerate(OP_NAMES):
        if name != "none":
            table[f"live_{name}"] = (live == number).sum(axis=1)
    return table


def fit_rates(
    surface: Surface, predictors: Mapping[str, pd.DataFrame], *, rng: np.random.Generator
) -> pd.DataFrame:
    """Fit log best rates by ridge regression on some cells and seeds; score on the others.

    Args:
        surface: the accuracies.
        predictors: columns [cells] by the name of their set.
        rng: random generator that divides the cells (functional classes) into parts.

    Returns:
        A row per set: `predictors`, `octaves` (root mean square error of log2 of the rate) and
        `octaves_constant` (of the other cells' mean), `gain` (percentage points over the single
        rate that is best for the other cells) with `gain_low` and `gain_high`.
    """
    n = len(surface.cells)
    if n < _FEWEST:
        raise InputError(f"a fit of the best rates needs {_FEWEST} cells, got {n}")
    dealt = rng.permutation(np.arange(n) % _PARTS)
    folds = seed_folds(surface)
    rows: list[dict[str, Any]] = []
    for name, table in predictors.items():
        columns = table.to_numpy(dtype=np.float64)
        gains, errors, plain = np.zeros((n, len(folds))), np.zeros(n), np.zeros(n)
        for number, fold in enumerate(folds):
            best = log_best_rates(fold.choose, surface.rates)
            truth = log_best_rates(fold.score, surface.rates)
            for part in range(_PARTS):
                unseen, seen = dealt == part, dealt != part
                fitted = _ridge(columns[seen], best[seen], columns)
                # Shift all rates to the best mean accuracy.
                moved = 2 ** (fitted[seen, None] + _SHIFTS)
                tried, _ = at_rates(fold.choose[seen], surface.rates, moved)
                fitted += _SHIFTS[best_single_rate(tried)]
                constant = best_single_rate(fold.choose[seen])
                scored, _ = at_rates(fold.score[unseen], surface.rates, 2 ** fitted[unseen])
                gains[unseen, number] = scored - fold.score[unseen, constant]
                errors[unseen] += (fitted - truth)[unseen] ** 2 / len(folds)
                plain[unseen] += (best[seen].mean() - truth[unseen]) ** 2 / len(folds)
        row: dict[str, Any] = {"predictors": name, "octaves": float(np.sqrt(errors.mean()))}
        row |= {"octaves_constant": float(np.sqrt(plain.mean()))}
        rows.append(row | gained("gain", gains))
    return pd.DataFrame(rows)


def _ridge(columns: Floats, target: Floats, wanted: Floats) -> Floats:
    """Return predictions for the rows `wanted` [cells, columns]."""
    # Imported here, because the import takes seconds.
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fit = make_pipeline(StandardScaler(), RidgeCV(alphas=_PENALTIES)).fit(columns, target)
    return np.asarray(fit.predict(wanted))


def _grid(surface: Surface) -> Floats:
    """Return mean rates from one end of the surface to the other, including its rates."""
    steps = np.log2(surface.rates)
    between = np.linspace(0, 1, _STEPS, endpoint=False)
    inner = steps[:-1, None] + between * np.diff(steps)[:, None]
    return 2 ** np.append(inner.ravel(), steps[-1])


def _mean(rates: Floats) -> float:
    return float(np.exp(np.log(rates).mean()))


def _ratios(rates: Floats) -> Floats:
    """Return rates divided by their geometric mean."""
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise InputError("a rule has no rate for some cell: remove the cells without a path")
    return rates / _mean(rates)


def _with_constant(surface: Surface, rules: Mapping[str, Floats]) -> dict[str, Floats]:
    return {_CONSTANT: np.ones(len(surface.cells)), **rules}


def _own_best(surface: Surface) -> Floats:
    """Return accuracies [cells, folds] at each cell's own best rate, chosen on other seeds."""
    return np.stack([fold.at_own for fold in seed_folds(surface)], axis=1)


def _by_base(
    surface: Surface, ratios: Floats, grid: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return accuracies [folds, cells, grid] at rates `ratios` times `grid`.

    The first array is over the seeds that choose a rate, the second over those that score it. The
    mask marks rates outside the surface.
    """
    wanted, folds = ratios[:, None] * grid, seed_folds(surface)
    choose = [at_rates(fold.choose, surface.rates, wanted) for fold in folds]
    score = [at_rates(fold.score, surface.rates, wanted)[0] for fold in folds]
    return np.array([accuracies for accuracies, _ in choose]), np.array(score), choose[0][1]


def _at_best(choose: Floats, score: Floats) -> Floats:
    """Return accuracies [cells, folds] of `score` at the base rate with the best mean `choose`."""
    best = np.argmax(choose.mean(axis=1), axis=1)
    return score[np.arange(len(best)), :, best].T
