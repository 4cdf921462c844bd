"""Analysis of a learning-rate surface: all tables of its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from experiments.surface.gains import (
    direct_check,
    direct_reranking,
    rate_gains,
    rate_reranking,
    single_rates,
)
from experiments.surface.grid import Surface, best_single_rate, read_surface
from experiments.surface.recipe_rates import (
    RULES,
    effective_rate,
    measured_rates,
    rule_rates,
    with_rates,
)
from experiments.surface.rules import fit_rates, graph_statistics, regret_curve, rule_regrets
from rebench.analysis.seed_tau import between_seeds
from rebench.analysis.tau import MIN_CELLS
from rebench.drawable import Drawable
from rebench.errors import InputError, UnknownNameError
from rebench.recipes import BENCHMARK_LR
from rebench.tables.columns import usual_split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SurfaceAnswers", "ask_surface"]

# Columns with settings of the training, which should be equal in a surface.
_SETTINGS: Final = (
    "train_split", "network", "channels", "cells_per_stage", "weight_decay", "batch_size",
)  # fmt: skip
_MOST_SHOWN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SurfaceAnswers(Drawable):
    """Tables about a surface; a frame is empty if the surface is too small for it."""

    surface: Surface
    rates: pd.DataFrame
    """A row for each rate: `rate`, `accuracy` (mean over cells), `best_for` (count of cells), `tau`
    (between single seeds) and `seed_sd`."""
    gains: pd.DataFrame
    single_rates: pd.DataFrame
    reranking: pd.DataFrame
    regrets: pd.DataFrame
    curve: pd.DataFrame
    fits: pd.DataFrame
    direct: pd.DataFrame
    direct_reranking: pd.DataFrame
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Return the size of the surface and the names of the tables."""
        size = f"{len(self.surface.cells)} cells at {len(self.surface.rates)} rates"
        return f"{size}, {self.surface.dataset}; answers: {', '.join(self.frames)}"

    def plot(self, *_: str) -> Figure:
        """Return the figure of the surface."""
        from experiments.surface.figures import draw_surface

        return draw_surface(self)

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """Tables by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: frame for name, frame in values.items() if isinstance(frame, pd.DataFrame)}


def ask_surface(
    table: pd.DataFrame,
    *,
    dataset: str | None = None,
    split: str | None = None,
    epochs: int | None = None,
    reference: float = BENCHMARK_LR,
    rules: Sequence[str] = RULES,
    draws: int = 1000,
    seed: int = 0,
) -> SurfaceAnswers:
    """Return all tables about the surface in a long table; each has its own random numbers.

    Args:
        table: a long table with the recipes `fixed(lr=...)`.
        dataset: name of the data set; may be None if the table has only one.
        split: split of the accuracies; if None, the test set or the only split of the table.
        epochs: number of epochs; if None, the largest.
        reference: rate with which other rates are compared.
        rules: recipes whose rates follow from the graph.
        draws: bootstrap draws over functional classes; a fifth of them for rankings.
        seed: seed of all random draws.
    """
    names = sorted(map(str, table["dataset"].unique()))
    if dataset is None and len(names) > 1:
        raise InputError(f"the table has several data sets: {', '.join(names)}; name one")
    if dataset is not None and dataset not in names:
        raise UnknownNameError("data set", dataset, names)
    table = with_rates(table)
    of_data = table["dataset"] == (dataset or names[0])
    split = split or usual_split(table.loc[of_data, "split"].unique())

    def rng(question: int) -> np.random.Generator:
        return np.random.default_rng([seed, question])

    surface = read_surface(table, dataset=dataset or names[0], split=split, epochs=epochs)
    notes = [*surface.notes, *_mixed(table, surface)]
    n = len(surface.cells)

    rates = rule_rates(surface, rules) | measured_rates(surface, table)
    ruled = np.all([np.isfinite(own) for own in rates.values()], axis=0)
    if not ruled.all():
        notes.append(f"{(~ruled).sum()} cells without a path are omitted: rules give them no rate")
    held = surface.take(ruled)
    rates = {name: own[ruled] for name, own in rates.items()}
    empty = pd.DataFrame()
    few_draws = max(draws // 5, 2)
    reranking = fits = single = empty
    if n >= MIN_CELLS and len(surface.seeds) >= 2:
        single = single_rates(surface, reference=reference, draws=few_draws, rng=rng(7))
    if n >= MIN_CELLS and len(surface.seeds) >= 3:
        reranking = rate_reranking(surface, reference=reference, draws=few_draws, rng=rng(1))
    else:
        notes.append(f"tau between rankings needs {MIN_CELLS} cells and 3 seeds: not computed")
    if len(held.cells) >= 2 * MIN_CELLS:
        predictors = {"graph statistics": graph_statistics(held.cells)}
        predictors |= {name: pd.DataFrame({name: np.log2(own)}) for name, own in rates.items()}
        fits = fit_rates(held, predictors, rng=rng(2))
    else:
        notes.append(f"predicting best rates needs {2 * MIN_CELLS} cells: not computed")
    direct = direct_reranking(surface, table, reference=reference, draws=few_draws, rng=rng(6))
    if len(direct):
        learned = {
            label: effective_rate(surface, table, label) for label in direct["recipe"].unique()
        }
        direct["effective_rate"] = direct["recipe"].map(learned)
    regrets = rule_regrets(held, rates)
    notes += _beyond(surface, regrets)
    return SurfaceAnswers(
        surface=surface,
        rates=_by_rate(surface),
        gains=rate_gains(surface, reference=reference),
        single_rates=single,
        reranking=reranking,
        regrets=regrets,
        curve=regret_curve(held, rates),
        fits=fits,
        direct=direct_check(surface, table, reference=reference),
        direct_reranking=direct,
        notes=tuple(notes),
    )


def _by_rate(surface: Surface) -> pd.DataFrame:
    best = np.bincount(np.argmax(surface.means, axis=1), minlength=len(surface.rates))
    every = np.arange(len(surface.cells))[None]
    several = len(surface.cells) >= MIN_CELLS and len(surface.seeds) >= 2
    rows: list[dict[str, Any]] = []
    for column, rate in enumerate(surface.rates):
        runs, tau, seed_sd = surface.accuracy[:, column], np.nan, np.nan
        if several:
            tau = float(between_seeds(runs, runs, every, [100.0]).tau[0, 0])
            seed_sd = float(np.sqrt(runs.var(axis=1, ddof=1).mean()))
        row = {"rate": float(rate), "accuracy": float(runs.mean()), "best_for": int(best[column])}
        rows.append(row | {"tau": tau, "seed_sd": seed_sd})
    return pd.DataFrame(rows)


def _beyond(surface: Surface, regrets: pd.DataFrame) -> list[str]:
    """Return notes if the rates of the surface do not cover the best rates or those of a rule."""
    notes, means = [], surface.means
    for end, column in (("lowest", 0), ("highest", len(surface.rates) - 1)):
        best = means[:, column] > np.delete(means, column, axis=1).max(axis=1)
        if best.any():
            single = best_single_rate(means) == column
            also = ", which is also the best single rate" if single else ""
            notes.append(
                f"{best.sum()} cells ({best.mean():.0%}) are best at the {end} rate, "
                f"{surface.rates[column]:g}{also}. Their best rate may be outside the surface; "
                "then their gain is underestimated"
            )
    own = regrets[(regrets["base"] == "own") & (regrets["outside"] > 0)]
    notes += [
        f"{row.rule} gives {row.outside:.0%} of the cells a rate outside the surface: they count "
        "as trained at the nearest rate"
        for row in own.itertuples()
    ]
    return notes


def _mixed(table: pd.DataFrame, surface: Surface) -> list[str]:
    """Return a note with the settings of the trainings, if the table has them."""
    rows = table[(table["dataset"] == surface.dataset) & (table["epochs"] == surface.epochs)]
    listed = {name: sorted(map(str, rows[name].unique())) for name in _SETTINGS if name in rows}
    if not listed:
        return []
    words = ", ".join(
        f"{name.replace('_', ' ')} "
        f"{'/'.join(kinds) if len(kinds) <= _MOST_SHOWN else f'in {len(kinds)} values'}"
        for name, kinds in listed.items()
    )
    return [f"settings of the trainings: {words}"]
