"""One recipe against another, or against the benchmark, on one data set: everything, at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np
import pandas as pd

from cells.classes import trainable_networks
from rebench.analysis.accuracies import Accuracies, listed
from rebench.analysis.choices import TOP_PERCENT, Selection
from rebench.analysis.concordance import MIN_CELLS
from rebench.analysis.gaps import gaps
from rebench.analysis.improvement import improvement, regression
from rebench.analysis.movement import seed_test
from rebench.analysis.noise import noise_curve, seed_agreement, split_agreement
from rebench.analysis.ranks import Rng, cell_means, rank_agreement
from rebench.drawable import Drawable
from rebench.errors import InputError

__all__ = ["Contrast", "Reranking", "pair", "rerank", "verdict"]

# With fewer, the test rarely sees a change as large as the noise of a run; how rarely is in
# `docs/explanation/analysis.md`.
_FEW_CELLS: Final = 50

Contrast: TypeAlias = Literal["recipe", "pipeline", "pipeline and recipe"]
"""What two tables differ by. Against the published table the training code differs as well."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reranking(Drawable):
    """What re-training moved, with its uncertainty and what seed noise alone would do."""

    dataset: str
    split: str
    before: Accuracies
    """The benchmark or the recipe compared with, of the cells that both tables have."""
    after: Accuracies
    """The re-trained table, of the same cells."""
    contrast: Contrast
    curve: pd.DataFrame
    """`rank_agreement` and, where there are seeds, `seed_test` beside it: one row per K."""
    seeds: pd.DataFrame
    """`seed_agreement` of the table compared with; empty where it has one seed."""
    splits: pd.DataFrame
    """`split_agreement` of each table that has two seeds, with what the baseline's model gives."""
    improvement: dict[str, float]
    gaps: pd.DataFrame
    regression: pd.DataFrame
    """Empty where there are too few cells for one."""
    top: pd.DataFrame
    """The ten best cells before and after: `index`, both means, both ranks."""
    notes: tuple[str, ...]
    p_adjusted: float | None = None
    """The p-value adjusted for the other recipes and data sets of one study (Holm)."""
    comparisons: int = 1
    """How many comparisons that is adjusted for, this one included."""

    drawn_by: ClassVar[str] = "rebench.figures.ranking:draw_reranking"

    @property
    def p_value(self) -> float:
        """That the ranking did not move, adjusted for looking at every K; NaN if untested."""
        return float(self.curve["p_family"].min()) if "p_family" in self.curve else math.nan

    @property
    def p_judged(self) -> float:
        """The p-value to judge by: adjusted, where a study made several comparisons."""
        return self.p_value if self.p_adjusted is None else self.p_adjusted

    @property
    def name(self) -> str:
        """What is compared, in a few words."""
        compared = f"{self.after.name} against {self.before.name}"
        together = "" if self.contrast == "recipe" else f" ({self.contrast})"
        return f"{compared}{together}, {self.dataset}"


def pair(before: Accuracies, after: Accuracies) -> tuple[Accuracies, Accuracies, tuple[str, ...]]:
    """Bring two tables onto the cells that both have; note how many stand in one alone."""
    cells, mine, its = np.intersect1d(before.cells, after.cells, True, True)
    if cells.size == 0:
        raise InputError(
            f"{before.name} ({len(before.cells)} cells) and {after.name} ({len(after.cells)} "
            "cells) have no cell in common"
        )
    notes = [*before.notes, *after.notes]
    for one, other in ((before, after), (after, before)):
        alone = np.setdiff1d(one.cells, cells)
        if alone.size:
            notes.append(listed(one.name, f"cells that {other.name} lacks", alone))
    if before.epochs != after.epochs:
        notes.append(
            f"{before.name} trained for {before.epochs} epochs, {after.name} for {after.epochs}"
        )
    return (
        replace(before, cells=cells, runs=before.runs[mine]),
        replace(after, cells=cells, runs=after.runs[its]),
        tuple(notes),
    )


def rerank(
    before: Accuracies,
    after: Accuracies,
    *,
    dataset: str,
    split: str = "ori-test",
    top_percent: Sequence[float] = TOP_PERCENT,
    by: Selection = "benchmark",
    draws: int = 1000,
    contrast: Contrast = "recipe",
    rng: Rng = None,
) -> Reranking:
    """Compare `after` with `before` on their common cells."""
    rng = np.random.default_rng(rng)
    before, after, said = pair(before, after)
    a, b = before.runs, after.runs
    notes = list(said)
    classes = trainable_networks(before.cells)
    curve = rank_agreement(a, b, top_percent, by=by, draws=draws, classes=classes, rng=rng)
    try:
        noise = seed_test(a, b, top_percent, by=by, draws=max(draws, 19), classes=classes, rng=rng)
    except InputError as error:
        notes.append(f"no noise baseline: {error}")
    else:
        curve = curve.merge(noise.drop(columns=["n_cells", "tau"]), on="top_percent")
        notes += [
            f"{name} has one seed a cell: its noise is taken to be that of {other}"
            for name, other in _single_seeded(before, after)
        ]
        if len(a) < _FEW_CELLS:
            notes.append(f"with {len(a)} cells the test of movement sees only large changes")
    several = np.isfinite(a).sum(axis=0) > 0
    seeds = pd.DataFrame(columns=["first", "second", "top_percent", "n_cells", "tau"])
    if several.sum() > 1:
        seeds = seed_agreement(a, top_percent, seeds=before.seeds)
    fit = pd.DataFrame()
    try:
        fit = regression(a, b, before.cells, classes=classes)
    except InputError as error:
        notes.append(str(error))
    return Reranking(
        dataset=dataset,
        split=split,
        before=before,
        after=after,
        contrast=contrast,
        curve=curve,
        seeds=seeds,
        splits=_splits((before, after), top_percent, by, draws, rng),
        improvement=improvement(a, b, classes=classes),
        gaps=gaps(a, b) if len(a) > 1 else pd.DataFrame(),
        regression=fit,
        top=_top(before, after),
        notes=tuple(notes),
    )


def verdict(found: Reranking, *, level: float = 0.05) -> str:
    """Say in one sentence whether the ranking moved by more than seed noise explains."""
    curve = found.curve.dropna(subset=["tau"])
    if curve.empty:
        few = len(found.before.cells)
        return f"Too few cells in common ({few}; {MIN_CELLS} are needed): nothing can be said."
    if "p_family" not in curve:
        return "Each table has one seed a cell, so seed noise cannot be told from a change."
    smallest = curve.loc[curve["p_family"].idxmin()]
    shown = f"{_p_text(found.p_value)}, over all K"
    if found.comparisons > 1:
        shown += f"; {_p_text(found.p_judged)}, over all {found.comparisons} comparisons"
    if found.p_judged > level:
        return (
            f"The ranking did not move by more than seed noise explains ({shown})."
            + _more_than_expected(curve)
        )
    return (
        f"The ranking moved by more than seed noise explains ({shown}): among the top "
        f"{smallest['top_percent']:g} % tau is {smallest['tau']:.3f}, where noise alone gives "
        f"{smallest['null_tau']:.3f}."
        + "".join(
            f" That is if {name}, with one seed a cell, is no noisier than {other}."
            for name, other in _single_seeded(found.before, found.after)
        )
    )


def _p_text(p_value: float) -> str:
    return f"p = {p_value:.3f}" if p_value >= 0.001 else "p < 0.001"


def _more_than_expected(curve: pd.DataFrame) -> str:
    """Say where the tables agree more than two independent sets of runs would."""
    most = curve.nlargest(1, "top_percent").iloc[0]
    if not most["tau"] > most["null_high"]:
        return ""
    return (
        f" Among the top {most['top_percent']:g} % tau is {most['tau']:.3f}, above the "
        f"{most['null_low']:.3f} to {most['null_high']:.3f} of noise alone: the tables agree more "
        "than independent runs do. They may share runs, or a seed may favour the same cells in "
        "both; or few seeds overstate the noise."
    )


def _splits(
    paired: Sequence[Accuracies],
    top_percent: Sequence[float],
    by: Selection,
    draws: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Split each table's seeds in two, and simulate as many: `table`, ..., `simulated`."""
    tables = []
    for table in paired:
        values = table.runs
        half = int(np.isfinite(values).sum(axis=1).max()) // 2
        if half == 0:
            continue
        try:
            seen = split_agreement(values, top_percent, seeds=(half, half), by=by, rng=rng)
        except InputError:  # every cell lacks a seed of every split
            continue
        drawn = noise_curve(
            values, (half, half), top_percent, by=by, draws=min(max(draws, 20), 200), rng=rng
        )
        seen.insert(0, "table", table.name)
        tables.append(seen.assign(simulated=drawn["tau"]).dropna(subset=["tau"]))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _single_seeded(before: Accuracies, after: Accuracies) -> list[tuple[str, str]]:
    """Return the tables that have one seed a cell, each with the name of the other."""
    return [
        (one.name, other.name)
        for one, other in ((after, before), (before, after))
        if not (np.isfinite(one.runs).sum(axis=1) >= 2).any()
    ]


def _top(before: Accuracies, after: Accuracies, size: int = 10) -> pd.DataFrame:
    table = pd.DataFrame({"index": before.cells})
    for side, runs in (("before", before.runs), ("after", after.runs)):
        table[side] = cell_means(runs)
        table[f"rank_{side}"] = table[side].rank(ascending=False, method="min").astype(int)
    table["difference"] = table["after"] - table["before"]
    best = table[(table["rank_before"] <= size) | (table["rank_after"] <= size)]
    return best.sort_values(["rank_after", "rank_before", "index"]).reset_index(drop=True)
