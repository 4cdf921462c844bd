"""What the page says about a study, block by block; figures are drawn as their blocks are made."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

import pandas as pd

from rebench.analysis import Reranking, Study
from rebench.extensions import entries
from rebench.report import facts
from rebench.report.blocks import (
    Block,
    Callout,
    Details,
    Figure,
    Heading,
    Table,
    Text,
    signed,
    span,
)
from rebench.report.figures.ranking import (
    draw_head_to_head,
    draw_reranking,
)

__all__ = ["blocks_of"]

_SIGNIFICANT: Final = 0.05

_DRAWERS: Final = {
    "reranking": draw_reranking,
    "differences": draw_head_to_head,
}


def blocks_of(study: Study, figures: Path) -> list[Block]:
    """The blocks of a study's page; figures and their data are saved in `figures`."""
    blocks: list[Block] = [
        Heading(facts.title(study), 1),
        Text([facts.subtitle(study)]),
        *map(_callout, study.rerankings),
        Heading("What was run"),
        Table(facts.trials(study.table), digits=2),
    ]
    for number, reranking in enumerate(study.rerankings, 1):
        blocks += _reranking(reranking, figures, f"{number:02d}")
    blocks += [
        Heading("How to read it"),
        Text(Path(__file__).with_name("how_to_read.txt").read_text("utf-8").split("\n\n")),
        Heading("Notes"),
        Text(facts.notes(study) or ["Nothing: every record was used as it is."]),
        Heading("Provenance"),
        Table(facts.provenance(study)),
        Heading("Reproduce"),
        *facts.reproduce(study),
    ]
    return blocks


def _callout(reranking: Reranking) -> Callout:
    moved = reranking.p_judged <= _SIGNIFICANT
    row = reranking.improvement
    whole = reranking.curve.nlargest(1, "top_percent").iloc[0]
    tau = f"τ {whole['tau']:.2f}" if math.isfinite(whole["tau"]) else ""
    if tau and math.isfinite(whole["tau_low"]):
        tau += f" ({whole['tau_low']:.2f} to {whole['tau_high']:.2f})"
    if tau and math.isfinite(whole["seed_tau"]):
        tau += f", by seed noise alone {whole['seed_tau']:.2f}"
    if tau:
        tau += f", top {whole['top_percent']:g} %. "
    change = (
        f" Accuracy: {signed(row['difference'])} points on average "
        f"({signed(row['low'])} to {signed(row['high'])}), {100 * row['improved']:.0f} % of "
        f"{row['n_cells']:.0f} cells ({row['n_classes']:.0f} functional classes) improved."
    )
    return Callout(reranking.name, tau + reranking.sentence + change, moved)


def _reranking(reranking: Reranking, figures: Path, number: str) -> list[Block]:
    before, after = reranking.before.name, reranking.after.name
    drawn = {}
    for name, draw in _DRAWERS.items():
        # A data set may have any name, and a file may not.
        dataset = re.sub(r"[^\w.-]+", "-", reranking.dataset)[:60]
        path = figures / f"{number}-{dataset}-{name}"
        draw(reranking).save(path)
        caption = entries(__file__, "captions.toml")[name]
        drawn[name] = Figure(path, caption.format(before=before, after=after))
    top = reranking.top.rename(columns={"before": before, "after": after})
    return [
        Heading(reranking.name),
        drawn["reranking"],
        *_curve_blocks(reranking),
        Details("The ten best cells of each ranking", [Table(top, digits=2)]),
        Details("Where accuracy changed", [drawn["differences"]]),
    ]


def _curve_blocks(reranking: Reranking) -> list[Block]:
    """The rows that have a τ; those without one are named."""
    known = reranking.curve["tau"].notna()
    blocks: list[Block] = [Table(_shown(reranking.curve[known]))] if known.any() else []
    if not known.all():
        few = ", ".join(f"{percent:g}" for percent in reranking.curve.loc[~known, "top_percent"])
        blocks.append(Text([f"Without a τ (too few cells, or all of them tied): top {few} %."]))
    return blocks


def _shown(curve: pd.DataFrame) -> pd.DataFrame:
    """Tau at each K beside its noise, intervals in one column each."""
    table = {
        "top K": [f"{percent:g} %" for percent in curve["top_percent"]],
        "cells": curve["n_cells"],
        "τ": curve["tau"],
        "95 %": list(map(span, curve["tau_low"], curve["tau_high"])),
        "seed tau": curve["seed_tau"],
        "drop": curve["drop"],
        "95 % of drop": list(map(span, curve["drop_low"], curve["drop_high"])),
        "ratio": curve["ratio"],
        "p": curve["p_value"],
        "p, all K": curve["p_family"],
        "τ of means": curve["means_tau"],
        "their Spearman": curve["spearman"],
        "weighted τ": curve["weighted_tau"],
    }
    return pd.DataFrame(table).dropna(axis="columns", how="all")
