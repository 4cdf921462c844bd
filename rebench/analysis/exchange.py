"""A null without a model: the runs of every cell, exchanged between the two tables.

If a cell's runs in both tables have one true accuracy and one distribution of noise, whatever its
shape, it is chance which of them stand in which table. Dealing them out anew, cell by cell, gives
tables that differ by seeds alone and could as well have been seen. What it takes to get there (one
scale, noise of one size) is in `docs/explanation/analysis.md`, with what is lost on the way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rebench.analysis.concordance import Floats, Ints, dense_codes
from rebench.analysis.ranks import Rng, cell_means
from rebench.analysis.seed_noise import pooled_sd

__all__ = ["Exchange", "evened"]

# More ways to deal out the runs of a cell than this are sampled.
_MAX_DEALS: Final = 2000
_AT_ONCE: Final = 1 << 20
# Knots of the map between the two scales: one for so many cells, and no more than these.
_CELLS_A_KNOT: Final = 8
_MAX_KNOTS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Every way to deal out the runs of each cell, as codes that order as the means do."""

    n_deals: Ints
    """[cells] how many ways there are."""
    blocks: Ints
    """[cells] numbers of the blocks of cells that are dealt alike."""
    first: Ints
    """[cells, deals] of the means of the runs dealt to the first table."""
    second: Ints
    """[cells, deals] of the means of the others."""

    @classmethod
    def build(
        cls, a: Floats, b: Floats, rng: Rng = None, *, classes: Ints | None = None
    ) -> Exchange:
        """Prepare `centred` [cells, seeds] of the same cells, NaN where a seed is missing.

        `rng` is used only where there are too many deals to list. Cells of one of the `classes`
        (numbers [cells]) with as many runs are dealt alike, whatever their runs have in common.
        """
        rng = np.random.default_rng(rng)
        b = _on_scale_of(a, b)
        counts = np.stack([np.isfinite(a).sum(axis=1), np.isfinite(b).sum(axis=1)], axis=1)
        runs = evened(a, b, counts)
        kinds = np.unique(counts, axis=0)
        listed = [_deals(int(k_a), int(k_b), rng) for k_a, k_b in kinds]
        most = max(len(deals) for deals in listed)
        means = np.zeros((2, len(a), most))
        n_deals = np.empty(len(a), dtype=np.int64)
        for kind, deals in zip(kinds, listed, strict=True):
            rows = np.flatnonzero((counts == kind).all(axis=1))
            seen = runs[rows]
            values = seen[np.isfinite(seen)].reshape(len(rows), kind.sum())
            n_deals[rows] = len(deals)
            dealt = deals.astype(np.float64).T
            means[0, rows, : len(deals)] = values @ dealt / kind[0]
            means[1, rows, : len(deals)] = values @ (1 - dealt) / kind[1]
        first, second = (dense_codes(table.reshape(1, -1)).reshape(table.shape) for table in means)
        return cls(n_deals=n_deals, blocks=_blocks(counts, classes), first=first, second=second)

    def draw(self, draws: int, rng: Rng = None) -> Iterator[tuple[Ints, Ints]]:
        """Deal all runs out anew `draws` times; yield codes [some draws, cells] of both tables."""
        rng = np.random.default_rng(rng)
        cells = np.arange(len(self.n_deals))
        _, one_of_each = np.unique(self.blocks, return_index=True)
        apart = np.array_equal(self.blocks, cells)
        step = max(1, _AT_ONCE // len(cells))
        for start in range(0, draws, step):
            size = (min(step, draws - start), len(one_of_each))
            deal = rng.integers(0, self.n_deals[one_of_each], size=size)
            if not apart:
                deal = deal[:, self.blocks]
            yield self.first[cells, deal], self.second[cells, deal]


def _blocks(counts: Ints, classes: Ints | None) -> Ints:
    """Number the blocks of cells that are of one class and have as many runs in both tables."""
    if classes is None:
        return np.arange(len(counts))
    blocks: Ints = np.unique(np.column_stack([classes, counts]), axis=0, return_inverse=True)[1]
    return blocks.reshape(-1)


def _deals(k_a: int, k_b: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return [deals, k_a + k_b]: which runs the first table gets; all ways, or a sample."""
    total = k_a + k_b
    if math.comb(total, k_a) > _MAX_DEALS:
        order = np.argsort(rng.random((_MAX_DEALS, total)), axis=1)
        return np.asarray(order < k_a)
    chosen = list(itertools.combinations(range(total), k_a))
    deals = np.zeros((len(chosen), total), dtype=bool)
    for row, places in enumerate(chosen):
        deals[row, places] = True
    return deals


def _on_scale_of(a: Floats, b: Floats) -> Floats:
    """Bring `b` to the scale of `a`: equal quantiles of cell means are made equal.

    The map is monotone and linear between few knots. What it gets wrong sets the runs of a cell
    apart, which makes exchanged tables agree less and the test careful, not bold.
    """
    means_a, means_b = cell_means(a), cell_means(b)
    n_knots = max(2, min(_MAX_KNOTS, len(a) // _CELLS_A_KNOT + 1))
    shares = np.linspace(0, 1, n_knots)
    to, at = np.quantile(means_a, shares), np.quantile(means_b, shares)
    distinct = np.concatenate([[True], np.diff(at) > 1e-9])
    to, at = to[distinct], at[distinct]
    if len(at) == 1:
        return np.asarray(b - at[0] + to[0])
    place = np.clip(np.searchsorted(at, b, side="right") - 1, 0, len(at) - 2)
    slope = np.diff(to) / np.diff(at)
    return to[place] + slope[place] * (b - at[place])  # beyond the ends too


def evened(a: Floats, b: Floats, counts: Ints) -> Floats:
    """Return all runs [cells, seeds of both], spread so that dealing them out keeps their noise.

    Means of k_a runs with variance s_a and of k_b with s_b differ with variance s_a/k_a + s_b/k_b.
    Dealt out at random they differ with S (1/k_a + 1/k_b), S the variance of all runs of a cell;
    that is the same where k_a = k_b or s_a = s_b, and else the runs' distances from their cell's
    mean are multiplied by the root of the ratio.
    """
    runs = np.concatenate([a, b], axis=1)
    k_a, k_b = counts.T
    if not ((k_a >= 2).any() and (k_b >= 2).any()):
        return runs  # one table shows no noise of its own: it is taken to be the other's
    s_a, s_b = pooled_sd(a) ** 2, pooled_sd(b) ** 2
    wanted = s_a / k_a + s_b / k_b
    within = (k_a - 1) * s_a + (k_b - 1) * s_b + wanted * k_a * k_b / (k_a + k_b)
    dealt = within / (k_a + k_b - 1) * (1 / k_a + 1 / k_b)
    factor = np.sqrt(wanted / dealt)[:, None]
    centre = cell_means(runs)[:, None]
    return centre + factor * (runs - centre)
