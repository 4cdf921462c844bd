"""What the page says about a study, block by block; figures are drawn as their blocks are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pandas as pd

from rebench import __version__
from rebench.analysis import Reranking, verdict
from rebench.figures.ranking import (
    draw_contrasts,
    draw_head_to_head,
    draw_improvement,
    draw_reranking,
    draw_seeds,
)
from rebench.figures.style import DATASET_NAMES
from rebench.report.blocks import Block, Callout, Code, Details, Figure, Heading, Table, Text
from rebench.report.study import BENCHMARK, Study
from rebench.report.theory import theory_blocks

__all__ = ["blocks_of"]

_SIGNIFICANT: Final = 0.05

_HOW_TO_READ: Final = (
    """τ is Kendall's tau-b between two rankings of the same cells: 1 for the same order, 0 for no
    relation, -1 for the reverse. Among the top K % it is computed on the cells that the table
    compared with ranks best; cells that tie with the last one are in.""",
    "Intervals are 95 %. Around τ: bootstrap over cells, each draw with its own top K %.",
    """Seed noise alone: the τ that another run of the recipe compared with would show, with as
    many seeds, on the same cells. It falls with K although nothing changes, because the best cells
    were chosen partly for their luck. Only what lies below it is evidence of another ranking.""",
    """p is one-sided: how often τ is as low when the runs of every cell are dealt out anew between
    the two tables, which is all that seeds do. p over all K allows for having looked at every K.
    Effect: τ of noise alone minus τ seen.""",
    "With fewer than 10 cells no τ is given.",
)


def blocks_of(study: Study, figures: Path, theory: Path | None = None) -> list[Block]:
    """Return the blocks of a study's page; figures and their data are saved in `figures`.

    Args:
        study: what the page is about.
        figures: a folder.
        theory: the folder of the laws' verdicts, if the page is to have them.
    """
    blocks: list[Block] = [
        Heading(f"Re-ranking report: {study.run.resolve().name}", 1),
        *[_callout(found) for found in study.rerankings],
        Heading("What was run"),
        Table(_trials(study.table), digits=2),
    ]
    for place, found in enumerate(study.rerankings):
        blocks += _reranking(found, figures, f"{place + 1:02d}")
    blocks += _controls(study, figures)
    if theory is not None:
        blocks += [Heading("The theory, measured"), *theory_blocks(theory, figures)]
    blocks += [
        Heading("Cost"),
        Table(_cost(study.table), digits=2),
        Heading("How to read it"),
        Text(_HOW_TO_READ),
        Heading("Notes"),
        Text(_notes(study) or ["Nothing: every record was used as it is."]),
        Heading("Provenance"),
        Table(_provenance(study)),
        Heading("Reproduce"),
        *_reproduce(study),
    ]
    return blocks


def _callout(found: Reranking) -> Callout:
    curve = found.curve
    moved = bool("p_family" in curve and (curve["p_family"] <= _SIGNIFICANT).any())
    row = found.improvement
    change = (
        f" Accuracy: {row['difference']:+.2f} points on average "
        f"({row['low']:+.2f} to {row['high']:+.2f}), {100 * row['improved']:.0f} % of "
        f"{row['n_cells']:.0f} cells improved."
    )
    return Callout(_title(found), verdict(found) + change, moved)


def _title(found: Reranking) -> str:
    dataset = DATASET_NAMES.get(found.dataset, found.dataset)
    return f"{dataset}: {found.pairing.after_name} against {found.pairing.before_name}"


def _trials(table: pd.DataFrame) -> pd.DataFrame:
    """One row per data set and recipe: cells, seeds, epochs, trials, how many diverged."""
    rows = []
    for (dataset, recipe), group in table.groupby(["dataset", "recipe"], sort=True):
        trials = group.drop_duplicates("trial_id") if "trial_id" in group else group
        row = {
            "data set": dataset,
            "recipe": recipe,
            "cells": int(trials["index"].nunique()),
            "seeds": ", ".join(str(seed) for seed in sorted(trials["seed"].unique())),
            "epochs": ", ".join(str(epochs) for epochs in sorted(trials["epochs"].unique())),
            "trials": len(trials),
        }
        if "status" in trials:
            row["diverged"] = int((trials["status"] == "diverged").sum())
        if "learning_rate" in trials:
            low, high = trials["learning_rate"].min(), trials["learning_rate"].max()
            row["learning rates"] = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        if "channels" in trials:
            skeletons = trials[["channels", "cells_per_stage"]].drop_duplicates()
            row["skeleton (C, N)"] = ", ".join(f"{c}, {n}" for c, n in skeletons.to_numpy())
        rows.append(row)
    found: pd.DataFrame = pd.DataFrame(rows)
    return found


def _reranking(found: Reranking, figures: Path, number: str) -> list[Block]:
    stem = f"{number}-{found.dataset}"
    draw_reranking(found, figures / f"{stem}-reranking")
    draw_seeds(found, figures / f"{stem}-seeds")
    draw_improvement(found, figures / f"{stem}-improvement")
    draw_head_to_head(found, figures / f"{stem}-differences")
    before, after = found.pairing.before_name, found.pairing.after_name
    shown = ["top_percent", "n_cells", "tau", "tau_low", "tau_high", "spearman", "weighted_tau"]
    noise = ["null_tau", "null_low", "null_high", "effect", "p_value", "p_family"]
    curve = found.curve[shown + [name for name in noise if name in found.curve]]
    top = found.top.rename(columns={"before": before, "after": after})
    return [
        Heading(_title(found)),
        Figure(
            figures / f"{stem}-reranking",
            f"(a) Mean accuracy of each cell under {after} and {before}; the dashed line is "
            "equality. (b) Kendall's τ among the top K %, with its bootstrap interval; grey: what "
            "seed noise alone would give. (c) Accuracy gaps between all pairs of cells.",
        ),
        Table(
            curve.assign(
                top_percent=[f"{percent:g} %" for percent in curve["top_percent"]],
                tau=[
                    "too few" if pd.isna(tau) and n < 10 else tau
                    for tau, n in zip(curve["tau"], curve["n_cells"], strict=True)
                ],
            ).rename(columns=_COLUMNS)
        ),
        Details(
            "The ten best cells of each ranking",
            [Table(top, digits=2)],
        ),
        Details(
            "τ beside that between single seeds",
            [
                Figure(
                    figures / f"{stem}-seeds",
                    f"τ of {after} against {before} (means over seeds) beside τ between single "
                    f"seeds of {before}, which are noisier than means.",
                )
            ],
        ),
        Details(
            "Where accuracy changed",
            [
                Figure(
                    figures / f"{stem}-differences",
                    f"(a) Cells under both recipes. (b) Differences, {after} minus {before}, with "
                    "their mean and its 95 % interval.",
                ),
                Figure(
                    figures / f"{stem}-improvement",
                    f"Mean difference, {after} minus {before}, against the cell's graph and cost.",
                ),
                *([Table(found.regression)] if len(found.regression) else []),
                Text(
                    [
                        (
                            "Regression: points of accuracy per standard deviation of the feature, "
                            "with HC3 intervals."
                        )
                    ]
                    if len(found.regression)
                    else ["Too few cells for a regression."]
                ),
            ],
        ),
        Details(
            "Gaps between cells, and how many pairs seeds can tell apart",
            [Table(found.gaps)] if len(found.gaps) else [Text(["One cell has no gap."])],
        ),
    ]


_COLUMNS: Final = {
    "top_percent": "top K",
    "n_cells": "cells",
    "tau": "τ",
    "tau_low": "low",
    "tau_high": "high",
    "weighted_tau": "weighted τ",
    "null_tau": "noise alone",
    "null_low": "noise low",
    "null_high": "noise high",
    "p_value": "p",
    "p_family": "p, all K",
}


def _controls(study: Study, figures: Path) -> list[Block]:
    if not study.contrasts:
        return []
    blocks: list[Block] = [
        Heading("Controls"),
        Text(
            [
                """Is it the rule, or merely another learning rate? Recipes of this run against each
                other, on their common cells. A rule earns its name where it beats a fixed rate that
                is as large; topology-lr and topology-init hold its two halves apart."""
            ]
        ),
    ]
    shown = ["after", "before", "n_cells", "difference", "low", "high", "p_value", "improved"]
    for dataset, table in study.contrasts.items():
        draw_contrasts(table, figures / f"controls-{dataset}")
        name = DATASET_NAMES.get(dataset, dataset)
        blocks += [
            Figure(
                figures / f"controls-{dataset}",
                f"{name}: mean paired differences in accuracy between recipes.",
            ),
            Table(table[shown]),
        ]
    return blocks


def _cost(table: pd.DataFrame) -> pd.DataFrame:
    if "seconds" not in table:
        found: pd.DataFrame = pd.DataFrame({"cost": ["not in this table"]})
        return found
    trials = table.drop_duplicates("trial_id") if "trial_id" in table else table
    cost = trials.groupby(["dataset", "recipe"])["seconds"].agg(["size", "sum", "mean", "max"])
    cost = cost.reset_index()
    total: pd.DataFrame = pd.DataFrame(
        {
            "data set": cost["dataset"],
            "recipe": cost["recipe"],
            "trials": cost["size"],
            "device hours": cost["sum"] / 3600,
            "seconds a trial": cost["mean"],
            "longest, seconds": cost["max"],
        }
    )
    return total


def _notes(study: Study) -> list[str]:
    notes = list(study.notes)
    for found in study.rerankings:
        notes += [f"{found.dataset}: {note}" for note in found.notes]
    return list(dict.fromkeys(notes))


def _provenance(study: Study) -> pd.DataFrame:
    facts: list[tuple[str, str]] = [
        ("results", str(study.run)),
        (
            "compared with",
            str(study.published)
            if any(found.pairing.before_name == BENCHMARK for found in study.rerankings)
            else "recipes of the run itself",
        ),
        ("split", study.split),
        ("rebench that wrote this page", __version__),
        ("bootstrap draws and simulated runs", f"{study.draws}, random seed {study.seed}"),
    ]
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
                facts.append((label, "; ".join(values[:8])))
    if "started" in study.table and study.table["started"].notna().any():
        span = f"{study.table['started'].min()} to {study.table['ended'].max()}"
        facts.append(("trained from, to", span))
    found: pd.DataFrame = pd.DataFrame(facts, columns=["what", "value"])
    return found


def _reproduce(study: Study) -> list[Block]:
    given = f" --published {study.published}" if study.published else ""
    spec = study.run / "spec.json"
    lines = [f"rebench report {study.run}{given} --draws {study.draws} --seed {study.seed}"]
    blocks: list[Block] = [
        Text(["The page, from the records (equal inputs give equal pages):"]),
        Code("\n".join(lines)),
    ]
    if spec.is_file():
        content = json.dumps(json.loads(spec.read_text()), indent=1)
        blocks += [
            Text(["The records: submit this sweep again; trials that have a record are skipped."]),
            Details("The sweep", [Code(content)]),
        ]
    return blocks
