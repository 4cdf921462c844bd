"""Content of a report: its blocks in order; figures are drawn with their blocks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rebench.analysis import Reranking, Study
from rebench.analysis.result_table import (
    LEVEL,
    alike,
    legend,
    overlap_legend,
    overlap_table,
    rank_table,
    regret_sentence,
    summary,
)
from rebench.extensions import entries
from rebench.printable import span
from rebench.report import facts
from rebench.report.blocks import Block, Callout, Details, Figure, Heading, TableBlock, Text
from rebench.report.figures.ranking import draw_comparison

__all__ = ["blocks_of"]


def blocks_of(study: Study, figures: Path) -> list[Block]:
    """Return the blocks of a study's page; save its figures and their data in `figures`."""
    blocks: list[Block] = [
        Heading(facts.title(study), 1),
        Text([facts.subtitle(study)]),
        *_results(study.rerankings),
        Heading("What was run"),
        TableBlock(facts.trials(study.table), digits=2),
    ]
    number = itertools.count(1)
    for group in alike(study.rerankings):
        for one in group:
            blocks.append(Heading(one.name))
            blocks += [_callout(one, "Verdict")] if len(group) > 1 else []
            blocks += _reranking(one, figures, f"{next(number):02d}")
    blocks += [
        Heading("How to read it"),
        Text(Path(__file__).with_name("how_to_read.txt").read_text("utf-8").split("\n\n")),
        Heading("Notes"),
        Text(facts.notes(study) or ["None: every record was used without changes."]),
        Heading("Provenance"),
        TableBlock(facts.provenance(study)),
        Heading("Reproduce"),
        *facts.reproduce(study),
    ]
    return blocks


def _results(rerankings: Sequence[Reranking]) -> list[Block]:
    """Return the verdicts; several comparisons with the same table get a table and a summary."""
    blocks: list[Block] = []
    for group in alike(rerankings):
        if len(group) == 1:
            blocks.append(_callout(group[0]))
            continue
        where = f", {group[0].dataset}" if group[0].dataset else ""
        blocks += [
            Heading(f"Recipes against {group[0].baseline.name}{where}"),
            Text([summary(group)]),
            TableBlock(rank_table(group)),
            Text([legend(group)]),
        ]
    return blocks


def _callout(reranking: Reranking, label: str = "") -> Callout:
    changed = reranking.p_of_verdict <= LEVEL
    return Callout(label or reranking.name, reranking.sentence, changed=changed)


def _reranking(reranking: Reranking, figures: Path, number: str) -> list[Block]:
    baseline, other = reranking.baseline.name, reranking.other.name
    # The name of a data set may contain characters that are not allowed in files.
    dataset = re.sub(r"[^\w.-]+", "-", reranking.dataset)[:60]
    drawn = {}
    for name, caption in entries(__file__, "captions.toml").items():
        path = figures / f"{number}-{dataset}-{name}"
        draw_comparison(reranking, name).save(path)
        drawn[name] = Figure(path, caption.format(baseline=baseline, other=other))
    top = reranking.top.rename(columns={"baseline": baseline, "other": other})
    return [
        drawn["reranking"],
        *_curve_blocks(reranking),
        Details("The ten best cells of each ranking", [TableBlock(top, digits=2)]),
        Details("Accuracy of each cell under both recipes", [drawn["differences"]]),
    ]


def _curve_blocks(reranking: Reranking) -> list[Block]:
    """Return the table of all K with tau, its explanation, and further measures."""
    known = reranking.frame().dropna(subset=["tau"])
    if known.empty:
        return [Text([legend([reranking])])]
    blocks: list[Block] = [TableBlock(rank_table([reranking])), Text([legend([reranking])])]
    overlaps = overlap_table(reranking)
    if len(overlaps):
        blocks += [TableBlock(overlaps), Text([overlap_legend(reranking)])]
    if regret := regret_sentence(reranking):
        blocks.append(Text([regret]))
    blocks.append(Details("Further measures at each K", [TableBlock(_further(known))]))
    return blocks


def _further(curve: pd.DataFrame) -> pd.DataFrame:
    """Return intervals of tau and seed tau, p at each K, and measures of means over seeds."""
    table = {
        "K": [f"{percent:g}" for percent in curve["top_percent"]],
        "95 % CI of tau": list(map(span, curve["tau_low"], curve["tau_high"])),
        "95 % CI of seed tau": list(map(span, curve["seed_tau_low"], curve["seed_tau_high"])),
        "p at this K": curve["p_value"],
        "tau of means": curve["means_tau"],
        "Spearman of means": curve["spearman"],
    }
    return pd.DataFrame(table).dropna(axis="columns", how="all")
