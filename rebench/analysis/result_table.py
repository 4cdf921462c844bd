"""Table of rank comparisons: one row for each comparison and K, as text, Markdown and LaTeX."""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pandas as pd

from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.replicates import has_replicates
from rebench.analysis.tau import MIN_CELLS
from rebench.printable import number, printable, probability, span

if TYPE_CHECKING:
    from rebench.analysis.result import Reranking

__all__ = [
    "LEVEL",
    "alike",
    "as_html",
    "as_latex",
    "as_markdown",
    "caption_of",
    "latex_text",
    "legend",
    "overlap_legend",
    "overlap_table",
    "rank_table",
    "regret_sentence",
    "summary",
    "with_notes",
]

LEVEL: Final = 0.05
"""Level of the test: p-values up to this level are significant."""

# Values of K in a table of several comparisons, if the user names no other values.
# A smaller regret is printed with four decimals.
_SMALL: Final = 0.1
_MAIN_PERCENT: Final = (100.0, 50.0, 10.0)
_LATEX: Final = {
    "recipe": "Recipe",
    "K": r"$K$ (\%)",
    "cells": "Cells",
    "tau": r"$\tau$",
    "seed tau": r"Seed $\tau$",
    "drop": "Drop",
    "95 % CI": r"95\,\% CI",
    "corrected tau": r"Corrected $\tau$",
    "p": "$p$",
}
_SPECIAL: Final = {one: f"\\{one}" for one in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def alike(rerankings: Sequence[Reranking]) -> list[list[Reranking]]:
    """Group comparisons with the same table on the same data set."""
    groups = itertools.groupby(rerankings, lambda one: (one.dataset, one.baseline.name))
    return [list(group) for _, group in groups]


def rank_table(rerankings: Sequence[Reranking]) -> pd.DataFrame:
    """Return the texts of one row for each comparison and K; omit rows without tau.

    p is adjusted for all K and all comparisons. Several comparisons (a group of `alike`) have a
    column `recipe`. They show only a few values of K if the values of K are the default.
    """
    several = len(rerankings) > 1
    rows = []
    items = rerankings[0].baseline.space.items
    for one in rerankings:
        usual = tuple(one.by_k["top_percent"]) == TOP_PERCENT
        for row in one.by_k.dropna(subset=["tau"]).to_dict("records"):
            if several and usual and row["top_percent"] not in _MAIN_PERCENT:
                continue
            p_value = one.p_adjusted_by_k[row["top_percent"]]
            taus = {
                name.replace("_", " "): number(row[name]) or "-"
                for name in ("tau", "seed_tau", "drop")
            }
            rows.append(
                ({"recipe": printable(one.other.name, keep="")} if several else {})
                | {"K": f"{row['top_percent']:g}", items: f"{row['n_cells']:.0f}"}
                | taus
                | {"95 % CI": span(row["drop_low"], row["drop_high"]) or "-"}
                | {"corrected tau": number(row["corrected_tau"]) or "-"}
                | {"p": probability(p_value) if math.isfinite(p_value) else "-"}
            )
    return pd.DataFrame(rows)


def overlap_table(one: Reranking) -> pd.DataFrame:
    """Return the texts of overlap, seed overlap and weighted tau, a row per K below 100."""
    curve = one.frame().dropna(subset=["tau"])
    below = curve[curve["top_percent"] < 100]
    return pd.DataFrame(
        {
            "K": f"{row['top_percent']:g}",
            "overlap": number(row["overlap"]) or "-",
            "95 % CI": span(row["overlap_low"], row["overlap_high"]) or "-",
            "seed overlap": number(row["seed_overlap"]) or "-",
            "its 95 % CI": span(row["seed_overlap_low"], row["seed_overlap_high"]) or "-",
            "weighted tau": number(row["weighted_tau"]) or "-",
        }
        for row in below.to_dict("records")
    )


def overlap_legend(one: Reranking) -> str:
    """Explain the columns of `overlap_table`."""
    return one.baseline.space.worded(
        "overlap: share of the K % best cells of one run that are among the K % best of a run of "
        "the other recipe; seed overlap: between seeds of one recipe. weighted tau: of means over "
        "seeds, with the largest weights for the best cells."
    )


def regret_sentence(one: Reranking) -> str:
    """State the regret of the transfer, with its value between seeds; empty if it is unknown."""
    row = one.by_k.iloc[0]
    if not math.isfinite(row["regret"]):
        return ""
    measure = one.baseline.measure
    unit = "points" if measure.is_percent else measure.unit
    digits = 2 if row["regret"] >= _SMALL else 4
    lost = f"{number(row['regret'], digits)} {unit}".strip()
    said = (
        f"Regret of the transfer: the best cell of a run of {one.baseline.name} loses {lost} under "
        f"{one.other.name}"
    )
    if interval := span(row["regret_low"], row["regret_high"], digits):
        said += f" (95 % CI {interval})"
    if math.isfinite(row["seed_regret"]):
        lost = str(number(row["seed_regret"], digits))
        said += f"; the best cell of another seed of {one.other.name} loses {lost}"
        if interval := span(row["seed_regret_low"], row["seed_regret_high"], digits):
            said += f" ({interval})"
    return one.baseline.space.worded(f"{said}.")


def summary(rerankings: Sequence[Reranking]) -> str:
    """State which of several rankings differ from their common baseline."""
    baseline, n = rerankings[0].baseline.name, len(rerankings)
    different = [one.other.name for one in rerankings if one.p_of_verdict <= LEVEL]
    unknown = [one.other.name for one in rerankings if math.isnan(one.p_of_verdict)]
    equal = sum(one.p_of_verdict > LEVEL for one in rerankings)
    said = []
    if different:
        said.append(
            f"{len(different)} of {n} rankings differ from that of {baseline} by more than seeds "
            f"explain (p <= {LEVEL:g}): {', '.join(different)}."
        )
    if equal:
        said.append(f"In {equal} of {n} comparisons with {baseline} no difference was detected.")
    if unknown:
        said.append(f"No p-value could be computed for {', '.join(unknown)}.")
    return " ".join(said)


def legend(rerankings: Sequence[Reranking]) -> str:
    """Explain K and p of a table of comparisons, and name the values of K without tau."""
    several = rerankings[0].comparisons
    one = rerankings[0]
    others = "; its other seeds are measured" if one.by_one_seed else ""
    said = f"K: the top K % of the cells by {one.chooser}{others}. "
    said += f"p: adjusted for all K{f' and {several} comparisons (Holm)' * (several > 1)}."
    if any(one.contrast != "recipe" for one in rerankings):
        said += " The code that trained the networks differs, too."
    lacking = [{*one.by_k.loc[one.by_k["tau"].isna(), "top_percent"]} for one in rerankings]
    if few := sorted(set.intersection(*lacking), reverse=True):
        listed = ", ".join(f"{percent:g}" for percent in few)
        said += f" No tau at K = {listed}: fewer than {MIN_CELLS} cells, or all tied."
    return one.baseline.space.worded(said)


def with_notes(said: str, notes: Sequence[str]) -> str:
    """Return a verdict, then a line for each note."""
    return "\n".join([said, *(f"Note: {note}." for note in notes)])


def as_html(said: str, table: str) -> str:
    """Return a verdict with notes as HTML: the verdict, its table in HTML, the notes."""
    verdict, *notes = (f"<p>{html.escape(line)}</p>" for line in said.split("\n"))
    return "".join([verdict, table, *notes])


def caption_of(rerankings: Sequence[Reranking]) -> str:
    """Return the LaTeX caption of a table of comparisons: the tables and the method."""
    one = rerankings[0]
    compared = one.other.name if len(rerankings) == 1 else f"{len(rerankings)} recipes"
    plain = (
        f"Rankings of cells under {compared}, compared with {one.baseline.name}: {one.measured}. "
    )
    adjusted = ", adjusted for all $K$"
    if one.comparisons > 1:
        adjusted += f" and for {one.comparisons} comparisons (Holm)"
    others = " (the other seeds are measured)" if one.by_one_seed else ""
    test = "permutation test that exchanges the runs of each cell"
    if any(has_replicates(each.paired) for each in rerankings):
        test = "bootstrap test; one run of an equal cell serves as a second run"
    return (
        latex_text(plain)
        + r"$\tau$: Kendall's $\tau_b$ between runs under the two recipes with different seeds, "
        rf"among the top $K$\,\% of cells by {latex_text(one.chooser)}{others}. "
        r"Seed $\tau$: $\tau$ between runs under the same recipe with different seeds (geometric "
        r"mean of both recipes). Drop: seed $\tau$ minus $\tau$, with its 95\,\% bootstrap "
        r"interval over cells. Corrected $\tau$: $\tau$ divided by seed $\tau$ (Spearman, 1904). "
        rf"$p$: one-sided {test}{adjusted}."
    )


def as_latex(table: pd.DataFrame, caption: str, label: str) -> str:
    """Return a table of texts as LaTeX (package booktabs); the caption is LaTeX already."""
    columns = "".join("l" if name == "recipe" else "r" for name in table)
    lines = [" & ".join(_LATEX.get(str(name), str(name)) for name in table)]
    lines += [" & ".join(map(_latex_value, row)) for row in table.to_numpy()]
    head, *body = (f"{line} \\\\" for line in lines)
    return "\n".join(
        [
            "\\begin{table}[t]", "\\centering", f"\\caption{{{caption}}}", f"\\label{{{label}}}",
            f"\\begin{{tabular}}{{{columns}}}", "\\toprule", head, "\\midrule", *body,
            "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
        ]
    )  # fmt: skip


def as_markdown(table: pd.DataFrame) -> str:
    """Return a table of texts as Markdown, with numbers aligned on the right."""
    rule = ["---" if name == "recipe" else "---:" for name in table]
    rows = [[_markdown_value(text) for text in row] for row in table.to_numpy()]
    lines = [[str(name) for name in table], rule, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex_text(text: str) -> str:
    """Return a text for LaTeX: its special characters are escaped."""
    return "".join(_SPECIAL.get(one, one) for one in printable(text, keep=""))


def _latex_value(text: str) -> str:
    """Return a cell of a LaTeX table, with minus signs and `<` in mathematical mode."""
    signs = re.sub(r"(?<![\w.-])-(?=\d)", "$-$", latex_text(text))
    return re.sub("^< ", "$<$", signs)


def _markdown_value(text: str) -> str:
    return re.sub(r"([\\|*_<`])", r"\\\1", text)
