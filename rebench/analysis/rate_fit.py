"""What predicts a cell's best rate: fits that are scored on cells and seeds they never saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from cells.ops import OP_NAMES
from cells.table import compile_space
from rebench.analysis.concordance import Floats
from rebench.analysis.improvement import features
from rebench.analysis.surface import (
    Surface,
    at_rates,
    class_shares,
    log_best_rates,
    seed_folds,
    with_interval,
)
from rebench.errors import InputError

__all__ = ["fit_rates", "graph_statistics"]

_PENALTIES: Final = tuple(10.0**power for power in range(-2, 5))
# Octaves by which the fitted rates may be moved, all together, to where accuracy is best.
_SHIFTS: Final = np.linspace(-3, 3, 49)
_FEWEST: Final = 20


def graph_statistics(surface: Surface) -> pd.DataFrame:
    """Return what the graphs of the surface's cells say [cells, statistics]."""
    space = compile_space()
    table = features(surface.cells)
    table["live_edges"] = space.live_edges[surface.cells].sum(axis=1)
    live = np.where(space.live_edges, space.ops, -1)[surface.cells]
    for number, name in enumerate(OP_NAMES):
        if name != "none":
            table[f"live_{name}"] = (live == number).sum(axis=1)
    statistics: pd.DataFrame = table
    return statistics


def fit_rates(
    surface: Surface,
    predictors: Mapping[str, pd.DataFrame],
    *,
    parts: int = 10,
    draws: int = 1000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Fit log best rates by ridge regression on some cells and seeds; score on the others.

    Args:
        surface: the accuracies.
        predictors: columns [cells] by the name of their set.
        parts: the cells (functional classes) are dealt into so many parts; each is predicted from
            the others.
        draws: bootstrap draws over functional classes.
        level: coverage of the intervals.
        rng: source of the parts and draws.

    Returns:
        A row per set: `predictors`, `octaves` (root mean square error of log2 of the rate) and
        `octaves_constant` (of the other cells' mean), `gain` (percentage points over the single
        rate that is best for the other cells) with `gain_low` and `gain_high`.
    """
    n = len(surface.cells)
    if n < _FEWEST:
        raise InputError(f"a fit of the best rates needs {_FEWEST} cells, got {n}")
    dealt = rng.permutation(np.arange(n) % parts)
    shares = class_shares(n, draws, rng)
    rows: list[dict[str, Any]] = []
    for name, table in predictors.items():
        columns = table.to_numpy(dtype=np.float64)
        gains, errors, plain = np.zeros(n), np.zeros(n), np.zeros(n)
        folds = seed_folds(surface)
        for fold in folds:
            best = log_best_rates(fold.choose, surface.rates)
            truth = log_best_rates(fold.score, surface.rates)
            for part in range(parts):
                unseen, seen = dealt == part, dealt != part
                fitted = _ridge(columns[seen], best[seen], columns)
                fitted += _shift(surface, fold.choose[seen], fitted[seen])
                constant = int(np.argmax(fold.choose[seen].mean(axis=0)))
                scored, _ = at_rates(fold.score[unseen], surface.rates, 2 ** fitted[unseen])
                gains[unseen] += (scored - fold.score[unseen, constant]) / len(folds)
                errors[unseen] += (fitted - truth)[unseen] ** 2 / len(folds)
                plain[unseen] += (best[seen].mean() - truth[unseen]) ** 2 / len(folds)
        row: dict[str, Any] = {"predictors": name}
        row |= {"octaves": float(np.sqrt(errors.mean()))}
        row |= {"octaves_constant": float(np.sqrt(plain.mean()))}
        rows.append(row | with_interval("gain", shares @ gains, level))
    found: pd.DataFrame = pd.DataFrame(rows)
    return found


def _ridge(columns: Floats, target: Floats, wanted: Floats) -> Floats:
    """Return predictions for the rows `wanted` [cells, columns]."""
    from sklearn.linear_model import RidgeCV  # seconds to import, and needed here alone

    middle, scale = columns.mean(axis=0), columns.std(axis=0)
    varies = scale > 1e-9
    fit = RidgeCV(alphas=_PENALTIES)
    fit.fit((columns - middle)[:, varies] / scale[varies], target)
    predicted: Floats = fit.predict((wanted - middle)[:, varies] / scale[varies])
    return predicted


def _shift(surface: Surface, means: Floats, logs: Floats) -> float:
    """Return the octaves by which rates, all moved together, are best on average."""
    tried, _ = at_rates(means, surface.rates, 2 ** (logs[:, None] + _SHIFTS))
    return float(_SHIFTS[np.argmax(tried.mean(axis=0))])
