"""What a report is about: a run's table, what it is compared with, and every comparison made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from rebench.analysis import (
    TOP_PERCENT,
    Accuracies,
    Reranking,
    contrasts,
    read_accuracies,
    rerank,
)
from rebench.analysis.ranks import Selection
from rebench.errors import InputError, UnknownNameError
from rebench.tables import open_table
from rebench.tables.opening import read_rows

__all__ = ["BENCHMARK", "Study", "study"]

# The name of the published table, where a recipe's name could stand.
BENCHMARK: Final = "benchmark"
# What a recipe is compared with where nothing is published: the benchmark's own, re-trained.
_OWN_BASELINE: Final = "nb201"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """A run's results with every comparison that its report shows."""

    run: str | Path
    table: pd.DataFrame
    split: str
    rerankings: tuple[Reranking, ...]
    contrasts: dict[str, pd.DataFrame]
    published: str | Path | None
    notes: tuple[str, ...]
    draws: int
    seed: int
    options: tuple[str, ...]
    """What to type after ``rebench report RUN`` for the same study."""


def study(
    run: str | Path,
    *,
    published: str | Path | None = None,
    datasets: Sequence[str] = (),
    recipes: Sequence[str] = (),
    against: str | None = None,
    split: str = "ori-test",
    epochs: int | None = None,
    top_percent: Sequence[float] = TOP_PERCENT,
    by: Selection = "benchmark",
    draws: int = 1000,
    seed: int = 0,
) -> Study:
    """Compare every recipe of a run with the published table, or with a recipe of the run.

    Args:
        run: a run or any table of re-trained results, by name (see `open_table`).
        published: an ingested benchmark or any other table.
        datasets: which data sets; all of the run if empty.
        recipes: which recipes; all but the one compared with if empty.
        against: "benchmark" or a recipe of the run. If None: the published table where it has the
            data set, else the run's own `nb201` records.
        split: where accuracies are measured.
        epochs: of the run's trials; needed only where a recipe was trained for several.
        top_percent: the values of K.
        by: which table decides the top K %.
        draws: bootstrap draws and simulated tables.
        seed: of all random draws: equal seeds give equal reports.
    """
    table = read_rows(run)
    if "recipe" not in table:  # any long table may stand for a run: one recipe, named as its file
        table = table.assign(recipe=Path(run).stem)
    known = sorted(table["dataset"].unique())
    notes: list[str] = []
    found: list[Reranking] = []
    controls: dict[str, pd.DataFrame] = {}
    for name in datasets or known:
        if name not in known:
            raise UnknownNameError("data set in this run", name, known)
        ours = _by_recipe(table, name, split, epochs, notes)
        base, others = _sides(ours, name, published, split, against, notes)
        for recipe in _wanted(recipes, others, ours):
            rng = np.random.default_rng([seed, len(found)])
            found.append(
                rerank(
                    base,
                    ours[recipe],
                    dataset=name,
                    split=split,
                    top_percent=top_percent,
                    by=by,
                    draws=draws,
                    rng=rng,
                )
            )
        if len(ours) > 1:
            controls[name] = contrasts(ours)
    if not found:
        raise InputError(
            "nothing to compare: the run has one recipe and no published table was given "
            "(--published TABLE, or REBENCH_BENCHMARK)"
        )
    return Study(
        run=run,
        table=table,
        split=split,
        rerankings=tuple(found),
        contrasts=controls,
        published=published,
        notes=tuple(notes),
        draws=draws,
        seed=seed,
        options=tuple(
            _options(
                {
                    "--published": [str(published)] if published else [],
                    "--dataset": datasets,
                    "--recipe": recipes,
                    "--against": [against] if against else [],
                    "--split": [split] if split != "ori-test" else [],
                    "--epochs": [str(epochs)] if epochs else [],
                    "--top": [_percentages(top_percent)] if top_percent != TOP_PERCENT else [],
                    "--by": [by] if by != "benchmark" else [],
                    "--draws": [str(draws)],
                    "--seed": [str(seed)],
                }
            )
        ),
    )


def _options(chosen: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, values in chosen.items():
        for value in values:
            yield from (name, value)


def _percentages(top_percent: Sequence[float]) -> str:
    return ",".join(f"{percent:g}" for percent in top_percent)


def _by_recipe(
    table: pd.DataFrame, dataset: str, split: str, epochs: int | None, notes: list[str]
) -> dict[str, Accuracies]:
    """Return every recipe's accuracies; the benchmark's own first, as what others are held to."""
    rows = table[table["dataset"] == dataset]
    names = sorted(rows["recipe"].unique(), key=lambda name: (name != _OWN_BASELINE, name))
    found = {}
    for name in names:
        one = rows[rows["recipe"] == name]
        trained = sorted(one["epochs"].unique())
        if epochs is None and len(trained) > 1:
            notes.append(
                f"{name} on {dataset} was trained for {', '.join(map(str, trained))} epochs: "
                f"the longest is shown (--epochs shows another)"
            )
        chosen = epochs if epochs is not None else int(trained[-1])
        if chosen not in trained:
            notes.append(f"{name} on {dataset} was not trained for {chosen} epochs: left out")
            continue
        found[name] = read_accuracies(
            rows, dataset=dataset, split=split, epochs=chosen, recipe=name
        )
    if not found:
        raise InputError(f"no recipe was trained on {dataset} for {epochs} epochs")
    return found


def _sides(
    ours: dict[str, Accuracies],
    dataset: str,
    published: str | Path | None,
    split: str,
    against: str | None,
    notes: list[str],
) -> tuple[Accuracies, list[str]]:
    """Return what is compared with, and the recipes that are compared with it."""
    if against not in (None, BENCHMARK):
        if against not in ours:
            raise UnknownNameError("recipe in this run", str(against), [*ours, BENCHMARK])
        return ours[str(against)], [name for name in ours if name != against]
    if published is not None:
        base = open_table(published)
        trained = {one.epochs for one in ours.values()}
        offered = {key.epochs for key in base.keys if key[:2] == (dataset, split)}
        if offered:
            # The benchmark after as many epochs as ours, else after its 200 (or its longest).
            same = trained & offered
            epochs = max(same) if same else max(offered)
            long = base.frame(dataset=dataset, split=split, epochs=epochs)
            return read_accuracies(long, dataset=dataset, split=split, name=BENCHMARK), list(ours)
    if against == BENCHMARK:
        raise InputError(f"no published accuracies of {dataset} {split}: give --published TABLE")
    if _OWN_BASELINE not in ours:
        notes.append(
            f"{dataset}: no published table and no {_OWN_BASELINE} records to compare with"
        )
        return next(iter(ours.values())), []
    notes.append(
        f"{dataset}: compared with the run's own {_OWN_BASELINE}: no published table has it"
    )
    return ours[_OWN_BASELINE], [name for name in ours if name != _OWN_BASELINE]


def _wanted(
    recipes: Sequence[str], others: Sequence[str], ours: dict[str, Accuracies]
) -> list[str]:
    for name in recipes:
        if name not in ours:
            raise UnknownNameError("recipe in this run", name, ours)
    return [name for name in others if not recipes or name in recipes]
