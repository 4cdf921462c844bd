"""What was run: the page's title, the trials, their origin, and how to repeat them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from rebench.analysis import Study
from rebench.analysis.choices import Choices
from rebench.report.blocks import Block, Code, Details, Text
from rebench.report.figures.style import DATASET_NAMES
from rebench.version import version

__all__ = ["is_control", "notes", "provenance", "reproduce", "subtitle", "title", "trials"]

# More names than this in a title are counted instead.
_NAMED: Final = 3


def title(study: Study) -> str:
    """Say which recipes were trained, against what, on which data sets and how many cells."""
    after = list(dict.fromkeys(reranking.after.name for reranking in study.rerankings))
    after.sort(key=is_control)
    before = list(dict.fromkeys(reranking.before.name for reranking in study.rerankings))
    datasets = list(dict.fromkeys(reranking.dataset for reranking in study.rerankings))
    cells = max(len(reranking.before.cells) for reranking in study.rerankings)
    shown = _listed([DATASET_NAMES.get(name, name) for name in datasets], "data sets")
    compared = f"{_listed(after, 'recipes')} against {_listed(before, 'recipes')}"
    return f"{compared} on {shown}: {cells:,} cells"


def subtitle(study: Study) -> str:
    """Say how the cells were trained, and in which folder the records lie."""
    seeds = sorted(study.table["seed"].unique())
    epochs = ", ".join(str(number) for number in sorted(study.table["epochs"].unique()))
    several = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    return f"{several} a cell, {epochs} epochs, accuracy on {study.choices.split}; from {study.run}"


def _listed(names: Sequence[str], what: str) -> str:
    if len(names) > _NAMED:
        return f"{len(names)} {what}"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def is_control(recipe: str) -> bool:
    """Say whether a recipe has one rate for all cells: what rules are held against, and follow."""
    return recipe.partition("(")[0] in ("fixed", "nb201")


def trials(table: pd.DataFrame) -> pd.DataFrame:
    """One row per data set and recipe: cells, seeds, epochs, trials, and what they cost."""
    rows = []
    for (dataset, recipe), group in table.groupby(["dataset", "recipe"], sort=True):
        # A table has a row for each split and epoch that was measured, times on one of them.
        one_each = "trial_id" in group
        runs = group.groupby("trial_id", observed=True).first() if one_each else group
        row = {
            "data set": dataset,
            "recipe": recipe,
            "cells": int(runs["index"].nunique()),
            "seeds": ", ".join(str(seed) for seed in sorted(runs["seed"].unique())),
            "epochs": ", ".join(str(epochs) for epochs in sorted(runs["epochs"].unique())),
            "trials": len(runs),
        }
        if "status" in runs:
            row["diverged"] = int((runs["status"] == "diverged").sum())
        if "seconds" in runs:
            row["device hours"] = runs["seconds"].sum(min_count=1) / 3600
            row["seconds a trial"] = runs["seconds"].mean()
        if "learning_rate" in runs:
            low, high = runs["learning_rate"].min(), runs["learning_rate"].max()
            row["learning rates"] = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        if "channels" in runs:
            skeletons = runs[["channels", "cells_per_stage"]].drop_duplicates()
            row["skeleton (C, N)"] = ", ".join(f"{c}, {n}" for c, n in skeletons.to_numpy())
        rows.append(row)
    shown = pd.DataFrame(rows)
    shown["control"] = shown["recipe"].map(is_control)
    return shown.sort_values(["data set", "control", "recipe"]).drop(columns="control")


def notes(study: Study) -> list[str]:
    """Everything that was left out, assumed or chosen, each once."""
    said = list(study.notes)
    for reranking in study.rerankings:
        said += [f"{reranking.dataset}: {note}" for note in reranking.notes]
    return list(dict.fromkeys(said))


def provenance(study: Study) -> pd.DataFrame:
    """The origin of the numbers: versions, devices, times."""
    rows = [("rebench that wrote this page", version())]
    for column, label in (
        ("environment", "trained with"),
        ("device", "devices"),
        ("host", "hosts"),
        ("spec_hash", "spec hash"),
        ("network", "networks"),
    ):
        if column in study.table:
            values = sorted(str(value) for value in study.table[column].dropna().unique())
            if values:
                rows.append((label, "; ".join(values[:8])))
    if "started" in study.table and study.table["started"].notna().any():
        span = f"{study.table['started'].min()} to {study.table['ended'].max()}"
        rows.append(("trained from, to", span))
    return pd.DataFrame(rows, columns=["what", "value"])


def reproduce(study: Study) -> list[Block]:
    """The command that makes this page again, and the sweep that was trained."""
    spec = Path(study.run) / "spec.json"
    command = shlex.join(["rebench", "report", str(study.run), *_options(study.choices)])
    blocks: list[Block] = [
        Text(["The page, from the records (equal inputs give equal pages):"]),
        Code(command),
    ]
    if spec.is_file():
        content = json.dumps(json.loads(spec.read_text()), indent=1)
        blocks += [
            Text(["The records: submit this sweep again; trials that have a record are skipped."]),
            Details("The sweep", [Code(content)]),
        ]
    return blocks


def _options(chosen: Choices) -> list[str]:
    """The words to type after ``rebench report RUN`` for the same study."""
    values = {
        "--published": [chosen.published],
        "--dataset": chosen.datasets,
        "--recipe": chosen.recipes,
        "--against": [chosen.against],
        "--split": [chosen.split],
        "--epochs": [chosen.epochs],
        "--top": [",".join(f"{percent:g}" for percent in chosen.top_percent)],
        "--by": [chosen.by],
        "--draws": [chosen.draws],
        "--seed": [chosen.seed],
    }
    return [
        text
        for name, given in values.items()
        for value in given
        if value is not None
        for text in (name, str(value))
    ]
