"""Facts of a report: its title, the trials, their origin, and how to repeat them."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from rebench.analysis import Study
from rebench.analysis.choices import Choices
from rebench.report.blocks import Block, Code, Details, Text
from rebench.runs.files import read_file
from rebench.tables.columns import seed_name
from rebench.version import version

__all__ = ["notes", "provenance", "reproduce", "subtitle", "title", "trials"]

# A title counts the names if there are more than this.
_NAMED: Final = 3


def title(study: Study) -> str:
    """Return the compared recipes, the baseline, the data sets and the number of cells."""
    other = list(dict.fromkeys(reranking.other.name for reranking in study.rerankings))
    baseline = list(dict.fromkeys(reranking.baseline.name for reranking in study.rerankings))
    datasets = list(dict.fromkeys(reranking.dataset for reranking in study.rerankings))
    cells = max(len(reranking.baseline.cells) for reranking in study.rerankings)
    compared = f"{_listed(other, 'recipes')} against {_listed(baseline, 'recipes')}"
    return f"{compared} on {_listed(datasets, 'data sets')}: {cells:,} cells"


def subtitle(study: Study) -> str:
    """Return the seeds, epochs and split, and the folder of the records."""
    cells = study.table.groupby(["dataset", "recipe", "index"], observed=True)
    counts = cells["seed"].nunique()
    number_of = " to ".join(dict.fromkeys((f"{counts.min()}", f"{counts.max()}")))
    epochs = ", ".join(str(number) for number in sorted(study.table["epochs"].unique()))
    several = "one seed" if number_of == "1" else f"{number_of} seeds"
    splits = " and ".join(dict.fromkeys(reranking.split for reranking in study.rerankings))
    return f"{several} a cell, {epochs} epochs, accuracy on {splits}; from {study.run}"


def _listed(names: Sequence[str], what: str) -> str:
    if len(names) > _NAMED:
        return f"{len(names)} {what}"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def trials(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per data set and recipe: cells, seeds, epochs, trials and cost."""
    rows = []
    for (dataset, recipe), group in table.groupby(["dataset", "recipe"], sort=True):
        # A table has a row for each measured split and epoch; only one row has the time.
        one_each = "trial_id" in group
        runs = group.groupby("trial_id", observed=True).first() if one_each else group
        # Unknown seeds are negative; run 1 comes before run 2.
        seeds = sorted(runs["seed"].unique(), key=lambda seed: (seed < 0, abs(seed)))
        row = {
            "data set": dataset,
            "recipe": recipe,
            "cells": int(runs["index"].nunique()),
            "seeds": ", ".join(map(seed_name, seeds)),
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
    return pd.DataFrame(rows)


def notes(study: Study) -> list[str]:
    """Return all notes on omitted, assumed and selected data, without duplicates."""
    said = list(study.notes)
    for reranking in study.rerankings:
        said += [f"{reranking.dataset}: {note}" for note in reranking.notes]
    return list(dict.fromkeys(said))


def provenance(study: Study) -> pd.DataFrame:
    """Return the origin of the numbers: versions, devices, times."""
    rows = [("rebench (this page)", version())]
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
        rows.append(("time of training", span))
    return pd.DataFrame(rows, columns=["item", "value"])


def reproduce(study: Study) -> list[Block]:
    """Return the command that makes this page, and the sweep of its trials."""
    spec = Path(study.run) / "spec.json"
    command = shlex.join(["rebench", "report", str(study.run), *_options(study.choices)])
    blocks: list[Block] = [
        Text(["To make this page again from the records (equal inputs give equal pages):"]),
        Code(command),
    ]
    try:
        content = json.dumps(json.loads(read_file(spec)), indent=1)
    except (OSError, ValueError, RecursionError):
        return blocks  # no run, or a damaged file, which `status` reports
    return [
        *blocks,
        Text(["To train again, write this sweep to a file, such as again.json, and submit it."]),
        Details("The sweep", [Code(content)]),
    ]


def _options(chosen: Choices) -> list[str]:
    """Return the options of ``rebench report RUN`` for the same study."""
    values = dataclasses.asdict(chosen)
    values["top"] = ",".join(f"{percent:g}" for percent in values.pop("top_percent"))
    repeated = [("dataset", name) for name in values.pop("datasets")]
    repeated += [("recipe", name) for name in values.pop("recipes")]
    words = [*repeated, *((name, value) for name, value in values.items() if value is not None)]
    return [text for name, value in words for text in (f"--{name}", str(value))]
