"""All comparisons of a run: its recipes with each other and with the published table."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pandas as pd

from rebench.analysis.choices import Choices
from rebench.analysis.comparing import third_table
from rebench.analysis.p_values import holm
from rebench.analysis.paired import Accuracies, Paired, read_accuracies, usual_split_of
from rebench.analysis.result import Contrast, Reranking, rerank
from rebench.errors import InputError, UnknownNameError
from rebench.tables import Table
from rebench.tables.retrained import label_of

__all__ = ["BENCHMARK", "Study", "study"]

# Name of the published table, in arguments that also accept the name of a recipe.
BENCHMARK: Final = "benchmark"
# Both names of the recipe of the benchmark. If a run contains this recipe, it is the baseline of
# the other recipes.
_OWN: Final = ("nb201", "fixed")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """Results of a run, with all comparisons of its report."""

    run: str | Path
    table: pd.DataFrame
    choices: Choices
    rerankings: tuple[Reranking, ...]
    """Comparisons by data set; comparisons of recipes of the run come first."""
    notes: tuple[str, ...]


def study(
    run: pd.DataFrame,
    choices: Choices | None = None,
    *,
    name: str | Path = "this run",
    published: Table | None = None,
) -> Study:
    """Compare every recipe of a run with its baseline and with the published table.

    The baseline is the recipe `nb201` of the run, or `fixed` if the run has no `nb201`.

    Args:
        run: all rows of a run, or of any table of re-trained results. Rows without recipes get
            the file name of the run as recipe.
        choices: the settings; by default, those of `Choices`.
        name: folder of the run, for texts and for the command that repeats the report.
        published: the opened published table; `published` of the settings is only its name.
    """
    wanted = choices or Choices()
    if "recipe" not in run:
        run = run.assign(recipe=Path(name).stem)
    known, labels = (sorted(map(str, run[column].unique())) for column in ("dataset", "recipe"))
    against = wanted.against
    published_name = [BENCHMARK] if published is not None or wanted.published else []
    wanted = replace(
        wanted,
        recipes=[label_of(recipe, labels, str(name)) for recipe in wanted.recipes],
        against=against
        if against in (None, BENCHMARK)
        else label_of(against, [*labels, *published_name], str(name)),
    )

    @functools.cache
    def chooser(dataset: str) -> Accuracies | None:
        return None if wanted.by is None else third_table(wanted.by, dataset)

    notes: list[str] = []
    rerankings: list[Reranking] = []
    for dataset in wanted.datasets or known:
        if dataset not in known:
            raise UnknownNameError("data set", dataset, known)
        rows = run[run["dataset"] == dataset]
        split = wanted.split or usual_split_of(rows)
        by_recipe = dict(iter(rows.groupby("recipe", observed=True)))
        trained = _trained(by_recipe, dataset, wanted, notes)
        ours = {
            recipe: read_accuracies(
                by_recipe[recipe], dataset=dataset, split=split, epochs=epochs, recipe=recipe
            )
            for recipe, epochs in trained.items()
        }
        theirs = _published(published, dataset, split, wanted, set(trained.values()))
        for own, recipe, contrast in _comparisons(
            list(ours), dataset, split, wanted, notes, published_name, published=theirs is not None
        ):
            baseline = theirs if own is None else ours[own]
            assert baseline is not None
            paired = Paired.of(baseline, ours[recipe])
            rerankings.append(
                rerank(
                    paired if (third := chooser(dataset)) is None else paired.chosen_by(third),
                    dataset=dataset,
                    split=split,
                    top_percent=wanted.top_percent,
                    by=wanted.by,
                    draws=wanted.draws,
                    contrast=contrast,
                    rng=wanted.seed,  # the same draws as in `compare`
                )
            )
    if not rerankings:
        other = "a published table (--published TABLE, or REBENCH_BENCHMARK)"
        raise InputError(
            f"nothing to compare: the recipes of {name} are {', '.join(labels)}; name one of "
            f"several with --against, or give {other}"
            if len(labels) > 1
            else f"nothing to compare: a report compares two rankings, and {name} has only the "
            f"recipe {labels[0]}; give {other}, or a table with a second recipe. `rebench rank "
            f"{name}` shows how well seeds agree"
        )
    return Study(
        run=name,
        table=run,
        choices=wanted,
        rerankings=tuple(_adjusted(rerankings)),
        notes=tuple(notes),
    )


def _trained(
    by_recipe: Mapping[str, pd.DataFrame], dataset: str, wanted: Choices, notes: list[str]
) -> dict[str, int]:
    """Return the epochs of each recipe: the chosen number, or the longest training.

    The baseline of the run, `nb201` or `fixed`, comes first.
    """
    chosen = {}
    known: set[int] = set()
    for name in sorted(by_recipe, key=lambda name: (name not in _OWN, name)):
        trained = sorted(by_recipe[name]["epochs"].unique())
        known.update(trained)
        if wanted.epochs is None and len(trained) > 1:
            notes.append(
                f"{name} on {dataset} was trained for {', '.join(map(str, trained))} epochs: "
                f"the longest is shown (--epochs shows another)"
            )
        epochs = wanted.epochs if wanted.epochs is not None else int(trained[-1])
        if epochs in trained:
            chosen[name] = epochs
        else:
            notes.append(f"{name} on {dataset} was not trained for {epochs} epochs: left out")
    if not chosen:
        listed = ", ".join(map(str, sorted(known)))
        raise InputError(
            f"no recipe was trained on {dataset} for {wanted.epochs} epochs; the table has {listed}"
        )
    return chosen


def _comparisons(
    ours: Sequence[str],
    dataset: str,
    split: str,
    wanted: Choices,
    notes: list[str],
    published_name: Sequence[str],
    *,
    published: bool,
) -> list[tuple[str | None, str, Contrast]]:
    """Return the pairs of recipes to compare on one data set, None for the published table.

    Pairs of recipes of the run come first: they differ only by the recipe. Recipes of the run and
    the published table also differ by the pipeline that trained them.
    """
    against = wanted.against
    for name in wanted.recipes:
        if name not in ours:
            raise UnknownNameError("recipe", name, ours)
    if against not in (None, BENCHMARK, *ours):
        raise UnknownNameError("recipe", str(against), [*ours, *published_name])
    chosen = [name for name in ours if not wanted.recipes or name in wanted.recipes]
    own = against or next((name for name in _OWN if name in ours), _OWN[0])
    pairs: list[tuple[str | None, str, Contrast]] = []
    if own in ours:
        pairs += [(own, name, "recipe") for name in chosen if name != own]
    if against not in (None, BENCHMARK):
        return pairs
    if published:
        return pairs + [
            (None, name, "pipeline" if name in _OWN else "pipeline and recipe") for name in chosen
        ]
    if against == BENCHMARK:
        raise InputError(
            f"no published accuracies of {dataset} {split}: give --published TABLE with them"
        )
    lacking = (
        f"the published table lacks {dataset} {split}"
        if published_name
        else "no published accuracies were given (--published)"
    )
    notes.append(
        f"{dataset}: the recipes are compared with the recipe {own} of the table, because {lacking}"
        if own in ours
        else f"{dataset}: nothing to compare with: {lacking}, and the table lacks the recipes "
        f"{' and '.join(_OWN)}"
    )
    return pairs


def _published(
    table: Table | None, dataset: str, split: str, wanted: Choices, trained: set[int]
) -> Accuracies | None:
    """Return the published accuracies at the epochs of the run, else at the most epochs."""
    if table is None or wanted.against not in (None, BENCHMARK):
        return None
    offered = {key.epochs for key in table.keys if key[:2] == (dataset, split)}
    if not offered:
        return None
    epochs = max(trained & offered or offered)
    rows = table.frame(dataset=dataset, split=split, epochs=epochs)
    return read_accuracies(rows, dataset=dataset, split=split, name=BENCHMARK)


def _adjusted(rerankings: Sequence[Reranking]) -> list[Reranking]:
    """Adjust the p-values for all compared recipes and data sets, in two families.

    One family compares recipes of the run. The other compares with the published table, where the
    pipeline differs too.
    """
    result = list(rerankings)
    for alone in (True, False):
        places = [at for at, one in enumerate(rerankings) if (one.contrast == "recipe") is alone]
        adjusted = holm([rerankings[at].p_value for at in places])
        for at, p_value in zip(places, adjusted, strict=True):
            result[at] = replace(rerankings[at], p_adjusted=float(p_value), comparisons=len(places))
    return result
