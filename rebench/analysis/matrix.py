"""Comparison of all recipes of a table, or of all its data sets, with each other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import pandas as pd

from rebench.analysis.accuracy_change import crossed_difference
from rebench.analysis.drop import rank_curve
from rebench.analysis.p_values import holm
from rebench.analysis.paired import Accuracies, Paired, read_accuracies, usual_split_of
from rebench.analysis.tau import MIN_CELLS, refuse_small_top
from rebench.errors import InputError, UnknownNameError
from rebench.tables.retrained import label_of

__all__ = ["Across", "read_rankings", "tau_matrix"]

Across: TypeAlias = Literal["recipes", "datasets"]


def read_rankings(
    rows: pd.DataFrame,
    across: Across,
    *,
    datasets: Sequence[str] = (),
    recipes: Sequence[str] = (),
    split: str | None = None,
    epochs: int | None = None,
    name: str = "table",
) -> tuple[dict[str, dict[str, Accuracies]], list[str]]:
    """Return the rankings of a long table, by the data set or recipe that they share, and notes.

    A table without a column `recipe` counts as one recipe, `name`. If empty or None, `datasets`
    and `recipes` are all, `split` is the usual split of each data set, and `epochs` the longest
    training of each recipe. A note tells which rankings lack this split or number of epochs.
    """
    if "recipe" not in rows:
        rows = rows.assign(recipe=name)
    known = sorted(map(str, rows["dataset"].unique()))
    for dataset in datasets:
        if dataset not in known:
            raise UnknownNameError("data set in this table", dataset, known)
    labels = sorted(map(str, rows["recipe"].unique()))
    chosen = [label_of(recipe, labels, "this table") for recipe in recipes] or labels
    found: dict[str, dict[str, Accuracies]] = {}
    notes = []
    for dataset, recipe in itertools.product(datasets or known, chosen):
        own = rows[(rows["dataset"] == dataset) & (rows["recipe"] == recipe)]
        if own.empty:
            continue
        measured = split or usual_split_of(own)
        own = own[own["split"] == measured]
        longest = epochs or own["epochs"].max()
        own = own[own["epochs"] == longest]
        if own.empty:
            trained = f" after {epochs} epochs" if epochs else ""
            notes.append(f"{recipe} on {dataset} is left out: it has no {measured}{trained}")
            continue
        by_recipe = across == "recipes"
        shared, label = (dataset, recipe) if by_recipe else (recipe, f"{dataset} {measured}")
        found.setdefault(shared, {})[label] = read_accuracies(
            own,
            dataset=dataset,
            split=measured,
            epochs=int(longest),
            recipe=recipe,
            name=label,
        )
    several = {shared: tables for shared, tables in found.items() if len(tables) > 1}
    if not several:
        raise InputError(
            f"there are no two {across} to compare: the table contains {', '.join(known)} "
            f"under {', '.join(labels)}{''.join(f'; {note}' for note in notes[:3])}"
        )
    return several, notes


def tau_matrix(
    tables: Mapping[str, Accuracies],
    top_percent: Sequence[float] = (100.0,),
    *,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Compare every two rankings on their common cells, with the agreement between seeds.

    The first ranking of a pair is the baseline, which selects the top K % (see `compare`).

    Each pair is compared with the same random draws as in `compare` with this seed.

    Args:
        tables: the rankings by name.
        top_percent: the values of K.
        draws: bootstrap draws, and permutations for the p-values; see `compare`.
        seed: seed of the draws of each pair.

    Returns:
        One row per pair and K, and notes. The columns are `first`, `second`, those of `rank_curve`,
        `points` (mean difference of accuracies) with `_low` and `_high`, and `p_adjusted`
        (`p_family` adjusted for all pairs by Holm's method).
    """
    frames: list[pd.DataFrame] = []
    notes: list[str] = []
    most = 0
    for first, second in itertools.combinations(tables, 2):
        paired = Paired.of(tables[first], tables[second])
        most = max(most, len(paired))
        curve, said = rank_curve(paired, top_percent, draws=draws, rng=seed)
        notes += [*paired.notes, *said]
        curve.insert(0, "first", first)
        curve.insert(1, "second", second)
        frames.append(curve.assign(**crossed_difference(paired).named("points")))
    found = pd.concat(frames, ignore_index=True)
    if found["n_cells"].max() < MIN_CELLS:
        refuse_small_top(most, top_percent)
    judged = found.groupby(["first", "second"], sort=False)["p_family"].min()
    factors = (holm(judged) / judged).rename("p_adjusted")
    found = found.join(factors, on=["first", "second"])
    found["p_adjusted"] = (found["p_family"] * found["p_adjusted"]).clip(upper=1)
    return found, tuple(dict.fromkeys(notes))
