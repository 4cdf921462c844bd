"""One cell in two tables: published beside re-trained, with an interval and both ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rebench.intervals import half_width, welch_half_width
from rebench.tables.answers import CellName, cell_index
from rebench.tables.columns import MEAN_SEED
from rebench.tables.table import Table

__all__ = ["Comparison", "Side", "compare", "side_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A cell in one table. `low` and `high` are the mean's 95 % t interval, None for one seed.

    `rank` is among the table's own cells, `rank_common` among those that both tables hold.
    """

    name: str
    origin: str
    seeds: dict[int, float]
    mean: float
    low: float | None
    high: float | None
    rank: int
    of: int
    rank_common: int | None
    of_common: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides and re-trained minus published, with its 95 % Welch interval.

    The interval is None where a side has fewer than two seeds: nothing then says how much of the
    difference is noise.
    """

    published: Side
    retrained: Side
    difference: float
    low: float | None
    high: float | None


def compare(
    published: Table,
    retrained: Table,
    cell: CellName,
    dataset: str,
    split: str = "ori-test",
    epochs: int = 200,
) -> Comparison:
    """Compare one cell's accuracy in two tables."""
    key = (dataset, split, epochs)
    index = cell_index(cell)
    common = np.intersect1d(published.group(*key).index, retrained.group(*key).index)
    if index not in common:
        lacking = published if index not in published.group(*key).index else retrained
        raise lacking.group(*key).lacking(index, lacking.name)
    sides = [side_of(table, index, key, common) for table in (published, retrained)]
    samples = [_single_seeds(side.seeds) for side in sides]
    difference = sides[1].mean - sides[0].mean
    low = high = None
    if min(map(len, samples)) > 1:
        half = welch_half_width(
            [(float(np.std(sample, ddof=1)), len(sample)) for sample in samples]
        )
        low, high = difference - half, difference + half
    return Comparison(
        published=sides[0],
        retrained=sides[1],
        difference=difference,
        low=low,
        high=high,
    )


def side_of(
    table: Table,
    index: int,
    key: tuple[str, str, int],
    common: NDArray[np.int64] | None = None,
) -> Side:
    """Return one cell in one table, ranked among its cells and among the `common` ones."""
    seeds = table.seeds(index, *key)
    summary = table.query(index, *key)
    values = _single_seeds(seeds)
    low = high = None
    if len(values) > 1:
        half = half_width(values)
        low, high = summary.mean - half, summary.mean + half
    rank_common = None
    if common is not None:
        means = table.group(*key).mean("accuracy")[common]
        rank_common = 1 + int((means > summary.mean).sum())
    return Side(
        name=table.name,
        origin=table.origin,
        seeds=seeds,
        mean=summary.mean,
        low=low,
        high=high,
        rank=summary.rank,
        of=len(table.group(*key).index),
        rank_common=rank_common,
        of_common=None if common is None else len(common),
    )


def _single_seeds(seeds: dict[int, float]) -> list[float]:
    return [value for seed, value in seeds.items() if seed != MEAN_SEED]
