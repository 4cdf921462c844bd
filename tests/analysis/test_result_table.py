"""The table of rank comparisons, as texts, Markdown and LaTeX."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from drawings import reranking
from report_tables import run_table

from rebench.analysis import Choices
from rebench.analysis.result_table import (
    alike,
    as_latex,
    as_markdown,
    caption_of,
    legend,
    rank_table,
    summary,
)
from rebench.analysis.study import study

TABLE = pd.DataFrame(
    {"recipe": ["a_b", "c|d"], "K": ["100", "50"], "95 % CI": ["-0.04 to 0.03", "-"],
     "p": ["< 0.001", "1.000"]}
)  # fmt: skip


def test_row_of_one_comparison_is_the_row_of_its_curve():
    found = reranking()
    table = rank_table([found])
    known = found.by_k.dropna(subset=["tau"])
    assert table["K"].tolist() == [f"{percent:g}" for percent in known["top_percent"]]
    [first, *_] = known.to_dict("records")
    assert table.iloc[0].to_dict() == {
        "K": "100", "cells": "60", "tau": f"{first['tau']:.2f}",
        "seed tau": f"{first['seed_tau']:.2f}", "drop": f"{first['drop']:.2f}",
        "95 % CI": f"{first['drop_low']:.2f} to {first['drop_high']:.2f}",
        "corrected tau": f"{first['corrected_tau']:.2f}", "p": f"{first['p_family']:.3f}",
    }  # fmt: skip


def test_several_comparisons_have_a_row_for_each_recipe_and_three_k():
    found = study(run_table(100), Choices(draws=20)).rerankings
    table = rank_table(found)
    expected = itertools.product(("fixed(lr=0.3)", "topology"), ("100", "50", "10"))
    assert list(zip(table["recipe"], table["K"], strict=True)) == list(expected)
    assert table["p"].iloc[0] == f"{found[0].p_adjusted_by_k[100.0]:.3f}"
    assert min(found[0].p_adjusted_by_k.values()) == pytest.approx(found[0].p_adjusted)
    asked = study(run_table(40), Choices(draws=20, top_percent=(100, 60, 30))).rerankings
    assert rank_table(asked)["K"].tolist() == ["100", "60", "30"] * 2


def test_comparisons_are_grouped_by_data_set_and_baseline():
    two = pd.concat([run_table(20), run_table(20, "digits", ("nb201", "mup"))])
    groups = alike(study(two, Choices(draws=20)).rerankings)
    assert [[one.other.name for one in group] for group in groups] == [
        ["fixed(lr=0.3)", "topology"], ["mup"]
    ]  # fmt: skip


def test_summary_names_the_rankings_that_differ():
    one = reranking()
    found = [
        replace(one, p_adjusted=p_value, comparisons=3) for p_value in (0.05, 0.051, float("nan"))
    ]
    name = "topology(base_lr=0.46)"
    assert summary(found) == (
        f"1 of 3 rankings differ from that of benchmark by more than seeds explain (p <= 0.05): "
        f"{name}. In 1 of 3 comparisons with benchmark no difference was detected. "
        f"No p-value could be computed for {name}."
    )
    assert legend(found) == (
        "K: the top K % of the cells by one seed of benchmark; its other seeds are measured. "
        "p: adjusted for all K and 3 comparisons (Holm). "
        "No tau at K = 10, 5, 1: fewer than 10 cells, or all tied."
    )
    other = [replace(own, by="other", contrast="pipeline") for own in found]
    assert legend(other).startswith("K: the top K % of the cells by other. ")
    assert "The code that trained the networks differs, too." in legend(other)


def test_markdown_escapes_its_own_characters():
    assert as_markdown(TABLE) == (
        "| recipe | K | 95 % CI | p |\n| --- | ---: | ---: | ---: |\n"
        "| a\\_b | 100 | -0.04 to 0.03 | \\< 0.001 |\n| c\\|d | 50 | - | 1.000 |\n"
    )


def test_latex_has_rules_escapes_and_minus_signs():
    assert as_latex(TABLE, "A caption.", "tab:x") == (
        "\\begin{table}[t]\n\\centering\n\\caption{A caption.}\n\\label{tab:x}\n"
        "\\begin{tabular}{lrrr}\n\\toprule\nRecipe & $K$ (\\%) & 95\\,\\% CI & $p$ \\\\\n"
        "\\midrule\na\\_b & 100 & $-$0.04 to 0.03 & $<$0.001 \\\\\nc|d & 50 & - & 1.000 \\\\\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )


def test_latex_escapes_every_special_character():
    line = as_latex(pd.DataFrame({"recipe": ["&%$#_{}\\~^"]}), "", "").split("\n")[8]
    plain = r"\textbackslash{}\textasciitilde{}\textasciicircum{} \\"
    assert line == r"\&\%\$\#\_\{\}" + plain


def test_caption_states_the_method_and_what_was_measured():
    one = reranking()
    caption = caption_of([replace(one, p_adjusted=0.1, comparisons=4)])
    for part in (
        r"under topology(base\_lr=0.46), compared with benchmark: 60 cells, 3 seeds, cifar10",
        "runs under the two recipes with different seeds",
        "bootstrap interval over cells",
        "Spearman, 1904",
        "permutation test that exchanges the runs of each cell",
        "adjusted for all $K$ and for 4 comparisons (Holm)",
    ):
        assert part in caption
    assert re.search(r"(?<!\\)(?<!tau)[%_&#]", caption) is None
    smaller = reranking(40)
    assert "Rankings of cells under 2 recipes, compared with benchmark: 60 cells, " in caption_of(
        [one, smaller]
    )


def test_control_characters_of_names_are_shown():
    one = reranking()
    paired = replace(one.paired, other=replace(one.other, name="a\x1b[1m\nb"))
    odd = replace(one, paired=paired)
    assert rank_table([odd, odd])["recipe"].unique().tolist() == ["a\\x1b[1m\\nb"]
    assert r"under a\textbackslash{}x1b[1m\textbackslash{}nb," in caption_of([odd])


def test_result_exports_its_table_in_python(tmp_path: Path):
    one = reranking()
    assert one.to_markdown() == as_markdown(rank_table([one]))
    assert one.to_latex("tab:y") == as_latex(rank_table([one]), caption_of([one]), "tab:y")
    assert one.to_csv(tmp_path / "x.csv") is None
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "x.csv"), one.frame())
