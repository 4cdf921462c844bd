"""Training-free rankings of cells, and how well they do on a table. No network is built here.

Parameters and FLOPs are the baselines that every table of proxies must show; the path statistics
are those of `cells`. Proxies that need a network and a batch are in `net_proxies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

import cells
from rebench.analysis.ranks import aligned
from rebench.datasets import benchmark_data, data_spec
from rebench.errors import InputError, UnknownNameError
from rebench.intervals import spearman_interval
from rebench.search.literature import PROXY_SPEARMAN
from rebench.search.search_space import SearchSpace
from rebench.search.tabular import SearchTable

__all__ = ["PROXIES", "proxy_scores", "rank_correlation", "rate_proxies"]

Floats: TypeAlias = NDArray[np.float64]


def _deepest(space: cells.table.Space) -> Floats:
    convolutions = np.arange(space.depths.shape[1])
    return np.where(space.depths > 0, convolutions, 0).max(axis=1).astype(np.float64)


def _mean_depth(space: cells.table.Space) -> Floats:
    convolutions = np.arange(space.depths.shape[1])
    return (space.depths @ convolutions) / np.maximum(space.n_paths, 1)


# name -> (what it is, score of each of the 15,625 cells; higher ranks better)
PROXIES: Final[
    Mapping[str, tuple[str, Callable[[cells.table.Space, cells.CostModel], NDArray[np.generic]]]]
] = {
    "params": ("parameters of the benchmark's network", lambda s, d: d.params(s.ops)),
    "flops": ("floating-point operations", lambda s, d: d.flops(s.ops)),
    "paths": ("paths from input to output", lambda s, _: s.n_paths),
    "deepest": ("convolutions on the deepest path", lambda s, _: _deepest(s)),
    "mean-depth": ("mean convolutions over the paths", lambda s, _: _mean_depth(s)),
    "cubed-depths": ("sum of (1 + convolutions)^3 over the paths", lambda s, _: s.sum_cubed_depths),
    "live-edges": ("edges that lie on a path", lambda s, _: s.live_edges.sum(axis=1)),
}


def proxy_scores(name: str, space: SearchSpace, dataset: str) -> Floats:
    """Return a proxy's score of every cell of a space; higher is expected to be better."""
    if name not in PROXIES:
        raise UnknownNameError("proxy", name, PROXIES)
    spec = benchmark_data(dataset) or data_spec("cifar10")
    scores = PROXIES[name][1](cells.table.compile_space(), spec.cost_model())
    return np.asarray(scores, dtype=np.float64)[space.indices]


def rank_correlation(
    scores: ArrayLike, accuracy: ArrayLike, level: float = 0.95
) -> dict[str, float]:
    """Return Spearman's correlation with its interval, Kendall's tau-b and the number of cells.

    The interval is that of `rebench.intervals.spearman_interval`.

    Args:
        scores: one value a cell.
        accuracy: of the same cells (see `rebench.analysis.ranks.aligned`), one value a cell.
        level: coverage of the interval.
    """
    columns = aligned(scores, accuracy)
    first, second = (column[:, 0] for column in columns)
    n = len(first)
    if n < 4 or max(column.shape[1] for column in columns) > 1:
        shapes = " and ".join(str(column.shape) for column in columns)
        raise InputError(f"a rank correlation needs one value of 4 cells or more, got {shapes}")
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return dict.fromkeys(("spearman", "low", "high", "kendall"), np.nan) | {"n": n}
    spearman = float(stats.spearmanr(first, second).statistic)
    _, low, high = spearman_interval(spearman, n, level)
    return {
        "spearman": spearman,
        "low": low,
        "high": high,
        "kendall": float(stats.kendalltau(first, second).statistic),
        "n": n,
    }


def rate_proxies(table: SearchTable, scores: Mapping[str, ArrayLike] | None = None) -> pd.DataFrame:
    """Return how each proxy ranks a table's cells, best first.

    `answer` is the mean final accuracy of the cells that the proxy scores highest, ties included
    (`tied` many): what choosing by it alone would give. `published` is the correlation of
    `rebench.search.literature`, a column only where there is one for the data set and `scores`.

    Args:
        table: whose final accuracies to rank by.
        scores: further proxies, such as `net_proxies` gives, by name: a value for each cell, by
            benchmark index where they are a series, else in the order of the table's cells.
    """
    columns: dict[str, ArrayLike] = {
        name: proxy_scores(name, table.space, table.dataset) for name in PROXIES
    }
    rows = []
    for name, given in {**columns, **(scores or {})}.items():
        values = _of_cells(given, table)
        best = values == values.max()
        rows.append(
            {
                "proxy": name,
                **rank_correlation(values, table.final),
                "answer": float(table.final[best].mean()),
                "tied": int(best.sum()),
                "regret": table.best - float(table.final[best].mean()),
            }
        )
    rated = pd.DataFrame(rows).sort_values("spearman", ascending=False, ignore_index=True)
    published = PROXY_SPEARMAN.get(table.dataset, {})
    if not published.keys().isdisjoint(scores or {}):
        rated.insert(2, "published", rated["proxy"].map(published))
    return rated


def _of_cells(values: ArrayLike, table: SearchTable) -> Floats:
    """Return one value for each of a table's cells, in its order."""
    final = table.final
    known = pd.Series(final, index=table.space.indices) if isinstance(values, pd.Series) else final
    _, ordered = aligned(known, values)
    return ordered[:, 0]
