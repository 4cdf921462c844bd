"""A learning-rate surface: the accuracy of every cell at every fixed rate, for several seeds.

`read_surface` reads it from a long table; `gains` and `rules` analyse it. A rate is chosen on some
seeds and scored on the others (`seed_folds`), both on the same test images. Otherwise the maximum
over noisy seeds would look like a gain. Intervals of gains count cells and seeds as a sample
(`gained`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cells.table import compile_space
from rebench.analysis.paired import known_runs
from rebench.analysis.tau import Floats, Ints
from rebench.errors import InputError
from rebench.intervals import crossed_mean

__all__ = [
    "FEWEST_RATES",
    "Fold",
    "Surface",
    "at_rates",
    "best_single_rate",
    "gained",
    "log_best_rates",
    "own_columns",
    "read_surface",
    "seed_folds",
]

FEWEST_RATES: Final = 3

_COLUMNS: Final = ("index", "dataset", "split", "epochs", "seed", "rate", "accuracy")
# Rates and seeds that less than this share of the cells have are omitted first. Then cells that
# lack one of the other rates or seeds are omitted.
_MOST: Final = 0.5
_SHOWN: Final = 5
# A column with at most this number of values is a setting, not a measurement.
_FEW_KINDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surface:
    """Accuracies of cells, one of a functional class, at fixed learning rates."""

    dataset: str
    epochs: int
    cells: Ints
    """[cells] benchmark indices, ascending; accuracies are means over the class's members."""
    rates: Floats
    """[rates] ascending."""
    seeds: tuple[int, ...]
    accuracy: Floats
    """[cells, rates, seeds] percent, all finite."""
    notes: tuple[str, ...]
    split: str = "ori-test"

    @property
    def means(self) -> Floats:
        """[cells, rates] means over seeds."""
        return self.accuracy.mean(axis=2)

    def take(self, chosen: NDArray[np.bool_]) -> Surface:
        """Return the surface of the chosen cells."""
        return dataclasses.replace(self, cells=self.cells[chosen], accuracy=self.accuracy[chosen])

    def column(self, rate: float) -> int:
        """Return the column of `rate`."""
        columns = np.flatnonzero(np.isclose(self.rates, rate, rtol=1e-6))
        if not len(columns):
            known = ", ".join(f"{other:g}" for other in self.rates)
            raise InputError(f"the surface has no rate {rate:g}; its rates are {known}")
        return int(columns[0])


class Fold(NamedTuple):
    """Means [cells, rates] over the seeds that choose a rate, and over the seeds that score it."""

    choose: Floats
    score: Floats
    own: Ints
    """[cells] the column of each cell's own rate, by the seeds that choose."""

    @property
    def at_own(self) -> Floats:
        """Scores [cells] at the cells' own rates."""
        return self.score[np.arange(len(self.score)), self.own]


def read_surface(
    table: pd.DataFrame, *, dataset: str, split: str = "ori-test", epochs: int | None = None
) -> Surface:
    """Read the surface out of a long table with a column `rate`, NaN where a rule decided it."""
    missing = [column for column in _COLUMNS if column not in table]
    if missing:
        raise InputError(f"the table lacks the columns {', '.join(missing)}")
    rows = table[(table["dataset"] == dataset) & (table["split"] == split)]
    rows = rows[rows["rate"].notna()]
    if epochs is None and len(rows):
        epochs = int(rows["epochs"].max())
    rows = rows[rows["epochs"] == epochs]
    distinct = sorted(rows["rate"].unique())
    if len(distinct) < FEWEST_RATES:
        raise InputError(
            "a surface needs runs at three fixed rates or more, such as recipe fixed(lr=0.2), on "
            f"{dataset} {split}; got rates {_listed(distinct) or 'none'}"
        )
    notes: list[str] = []
    rows, unknown = known_runs(rows)
    if len(unknown):
        notes.append(f"{len(unknown)} runs without a finite accuracy are left out")
    rows = rows.drop_duplicates(["index", "rate", "seed", "accuracy"])
    twice = rows[rows.duplicated(["index", "rate", "seed"], keep=False)]
    if len(twice):
        raise InputError(_ambiguous(twice))
    keyed = rows.set_index(["index", "rate", "seed"])["accuracy"]
    wide = _whole(keyed.unstack(["rate", "seed"]), notes)  # noqa: PD010 - pivot_table averages
    classes = compile_space().functional_class[_trained(rows, wide.index)]
    if len(np.unique(classes)) < len(wide):
        members = len(wide) - len(np.unique(classes))
        notes.append(f"{members} cells are averaged with an equal cell (of their functional class)")
    first = wide.index.to_series().groupby(classes).min()
    means = wide.groupby(classes).mean()
    order = np.argsort(first.to_numpy())
    steps, seeds = (sorted(set(means.columns.get_level_values(level))) for level in (0, 1))
    columns = pd.MultiIndex.from_product([steps, seeds])
    values = means[columns].to_numpy(dtype=np.float64)[order]
    return Surface(
        dataset=dataset,
        epochs=int(epochs or 0),
        cells=first.to_numpy(dtype=np.int64)[order],
        rates=np.array(steps),
        seeds=tuple(int(seed) for seed in seeds),
        accuracy=values.reshape(len(values), len(steps), len(seeds)),
        notes=tuple(notes),
        split=split,
    )


def seed_folds(surface: Surface) -> list[Fold]:
    """Return the folds: every seed scores once the rates that the other seeds choose."""
    n = len(surface.seeds)
    if n < 2:
        raise InputError("choosing on some seeds and scoring on others needs two seeds, got one")
    folds = []
    for at in range(n):
        choose = np.delete(surface.accuracy, at, axis=2).mean(axis=2)
        score = surface.accuracy[:, :, at]
        folds.append(Fold(choose=choose, score=score, own=own_columns(surface, choose, n - 1)))
    return folds


def best_single_rate(means: Floats) -> int:
    """Return the column of means [cells, rates] that is best for all cells together."""
    return int(np.argmax(means.mean(axis=0)))


def own_columns(surface: Surface, means: Floats, seeds: int) -> Ints:
    """Return the column of each cell's own rate by `means` [cells, rates] over some `seeds`.

    The gain of a rate over the best single rate is its mean gain over cells, plus the deviation of
    the cell, shrunk by the share that seeds explain. If cells do not differ more than seeds do,
    every cell's own rate is the best single rate.
    """
    single = best_single_rate(means)
    gains = means - means[:, [single]]
    noise = (surface.accuracy - surface.accuracy[:, [single]]).var(axis=2, ddof=1).mean(axis=0)
    common, spread = gains.mean(axis=0), gains.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(spread > 0, np.clip(1 - noise / seeds / spread, 0, 1), 0.0)
    return np.argmax(common + share * (gains - common), axis=1)


def gained(name: str, folds: Floats, chosen: NDArray[np.bool_] | None = None) -> dict[str, float]:
    """Return the mean under `name` of gains [cells, folds], with its interval, `_low` and `_high`.

    Both cells and seeds count as random samples; every fold scores one seed. If `chosen` [cells,
    folds] is given, only the cells that it marks count.
    """
    weight = np.ones(folds.shape) if chosen is None else chosen / chosen.mean(axis=0)
    means = (folds * weight).mean(axis=0)
    parts = means + weight * (folds - means)
    classes = np.arange(len(parts))
    return crossed_mean(parts.mean(axis=1), classes, [parts], classes).named(name)


def at_rates(means: Floats, rates: Floats, wanted: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return accuracies [cells, ...] at the rates `wanted`, and a mask of rates that are outside.

    Between the surface's rates the accuracy is linear in the logarithm of the rate. Outside, it is
    the accuracy at the nearest rate.
    """
    steps, asked = np.log2(rates), np.log2(wanted)
    place = np.clip(np.searchsorted(steps, asked, side="right") - 1, 0, len(steps) - 2)
    share = np.clip((asked - steps[place]) / (steps[place + 1] - steps[place]), 0, 1)
    rows = np.arange(len(means)).reshape(-1, *[1] * (asked.ndim - 1))
    found: Floats = means[rows, place] * (1 - share) + means[rows, place + 1] * share
    slack = 1e-9
    return found, (asked < steps[0] - slack) | (asked > steps[-1] + slack)


def log_best_rates(means: Floats, rates: Floats) -> Floats:
    """Return log2 of each cell's best rate: the vertex of a parabola around the best rate.

    If the best rate is the smallest or the largest rate, it is returned unchanged.
    """
    steps = np.log2(rates)
    best = np.argmax(means, axis=1)
    inner = np.clip(best, 1, len(steps) - 2)
    rows = np.arange(len(means))
    low, middle, high = (means[rows, inner + shift] for shift in (-1, 0, 1))
    before, after = steps[inner] - steps[inner - 1], steps[inner + 1] - steps[inner]
    # Slopes left and right of the middle; the parabola's derivative is linear between them.
    left, right = (middle - low) / before, (high - middle) / after
    bend = left - right
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(bend > 0, (left * after + right * before) / (2 * bend), 0.0)
    vertex = steps[inner] + np.clip(shift, -before / 2, after / 2)
    return np.where(best == inner, vertex, steps[best])


def _whole(wide: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return the cells that have every rate and seed that most cells have."""
    present = wide.notna()
    for level, name in ((0, "rate"), (1, "seed")):
        labels = wide.columns.get_level_values(level)
        share = {one: present.loc[:, labels == one].any(axis=1).mean() for one in labels.unique()}
        few = sorted(one for one, portion in share.items() if portion < _MOST)
        if few:
            notes.append(f"{name} {_listed(few)}: fewer than half of the cells have it; left out")
            wide = wide.loc[:, ~labels.isin(few)]
            present = wide.notna()
    if wide.columns.get_level_values("rate").nunique() < FEWEST_RATES:
        raise InputError(
            f"fewer than {FEWEST_RATES} rates were trained on half of the cells: train the rest"
        )
    whole = present.all(axis=1)
    if not whole.any():
        raise InputError(
            f"no cell has all of the surface's {wide.shape[1]} rates and seeds: train the rest"
        )
    lacking = wide.index[~whole].tolist()
    if lacking:
        notes.append(
            f"{len(lacking)} cells lack some rate or seed and are left out: {_listed(lacking)}"
        )
    return wide[whole]


def _trained(rows: pd.DataFrame, cells: pd.Index[int]) -> Ints:
    """Return, for each of `cells`, the cell that was trained in its place.

    Tables with the column `trained_as` say which: cells that compute the same were trained once.
    In other tables every cell was trained itself.
    """
    if "trained_as" not in rows:
        return cells.to_numpy(dtype=np.int64)
    trained = rows.drop_duplicates("index").set_index("index")["trained_as"].reindex(cells)
    return trained.to_numpy(dtype=np.int64)


def _listed(values: Sequence[float]) -> str:
    shown = ", ".join(f"{value:g}" for value in values[:_SHOWN])
    return shown + (f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else "")


def _ambiguous(twice: pd.DataFrame) -> str:
    first = twice.iloc[0]
    known = {*_COLUMNS, "recipe"}
    kinds = {name: len(twice[name].unique()) for name in twice if name not in known}
    settings = [str(name) for name, count in kinds.items() if 1 < count <= _FEW_KINDS]
    hint = f"; runs differ in {', '.join(settings)}: choose one" if settings else ""
    return (
        f"cell {first['index']} has several accuracies at rate {first['rate']:g} for seed "
        f"{first['seed']}{hint}"
    )
