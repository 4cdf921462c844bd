"""Facts of a study on its page, from tables made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from drawings import reranking
from report_tables import run_table

from rebench.analysis import Choices, Study
from rebench.analysis.result_table import legend, rank_table, summary
from rebench.analysis.study import study
from rebench.report.blocks import Callout, Code, Details, Heading, TableBlock, Text
from rebench.report.content import _callout, _curve_blocks, _results
from rebench.report.facts import _listed, notes, provenance, reproduce, subtitle, trials
from rebench.version import version


def _study(table: pd.DataFrame, *, run: Path = Path("runs/mine"), notes=(), **chosen) -> Study:
    chosen = Choices(**{"split": "ori-test", **chosen})
    return Study(run=run, table=table, choices=chosen, rerankings=(), notes=notes)


@pytest.mark.parametrize(
    ("names", "said"),
    [("a", "a"), ("ab", "a and b"), ("abc", "a, b and c"), ("abcd", "4 recipes")],
)
def test_more_than_three_names_are_counted(names: str, said: str):
    assert _listed(list(names), "recipes") == said


def test_trials_are_counted_by_data_set_and_recipe():
    rows = pd.DataFrame(
        {
            "trial_id": ["x", "x", "y", "z"],
            "dataset": ["d", "d", "d", "c"],
            "recipe": "r",
            "index": [1, 1, 2, 3],
            "seed": [5, 5, 4, 5],
            "epochs": [9, 9, 9, 3],
            "status": ["done", "done", "diverged", "done"],
            "learning_rate": [0.1, 0.1, 0.25, 0.123456],
            "channels": [4, 4, 4, 8],
            "cells_per_stage": [1, 1, 2, 5],
            "seconds": [np.nan, 1800.0, 5400.0, 10.0],
        }
    )
    assert trials(rows).to_dict("records") == [
        {
            "data set": "c", "recipe": "r", "cells": 1, "seeds": "5", "epochs": "3", "trials": 1,
            "diverged": 0, "device hours": 10 / 3600, "seconds a trial": 10.0,
            "learning rates": "0.123", "skeleton (C, N)": "8, 5",
        },
        {
            "data set": "d", "recipe": "r", "cells": 2, "seeds": "4, 5", "epochs": "9", "trials": 2,
            "diverged": 1, "device hours": 2.0, "seconds a trial": 3600.0,
            "learning rates": "0.1 to 0.25", "skeleton (C, N)": "4, 1, 4, 2",
        },
    ]  # fmt: skip
    named = rows.astype({"trial_id": "category"})
    assert trials(named[named["dataset"] == "c"])["trials"].tolist() == [1]
    plain = rows[["dataset", "recipe", "index", "seed", "epochs"]]
    assert trials(plain)["trials"].tolist() == [1, 3]  # each row is a trial
    assert list(trials(plain).columns) == [
        "data set", "recipe", "cells", "seeds", "epochs", "trials"
    ]  # fmt: skip
    unknown = plain.assign(seed=[-3, -2, 888, -1])
    assert trials(unknown)["seeds"].tolist() == ["mean", "888, run 1, run 2"]


def test_provenance_names_what_is_known_and_of_many_eight():
    rows = pd.DataFrame({"host": [f"n{at}" for at in range(9)], "device": "cpu"})
    rows["environment"] = None
    rows["started"] = [f"2026-01-0{at + 1}" for at in range(9)]
    rows["ended"] = [f"2026-02-0{at + 1}" for at in range(9)]
    assert provenance(_study(rows)).to_numpy().tolist() == [
        ["rebench (this page)", version()],
        ["devices", "cpu"],
        ["hosts", "; ".join(f"n{at}" for at in range(8))],
        ["time of training", "2026-01-01 to 2026-02-09"],
    ]
    assert len(provenance(_study(rows.assign(started=None)))) == 3


def test_subtitle_and_notes_say_each_thing_once():
    study = _study(run_table(4).assign(epochs=[12] * 6 + [200] * 30), notes=("first", "first"))
    study = replace(study, rerankings=(reranking(),))
    assert subtitle(study) == (
        "3 seeds a cell, 12, 200 epochs, accuracy on ori-test; from runs/mine"
    )
    assert subtitle(_study(run_table(4).assign(seed=1))).startswith("one seed a cell, 200 epochs")
    rows = run_table(4)
    fewer = rows[(rows["index"] > rows["index"].min()) | (rows["seed"] == rows["seed"].min())]
    assert subtitle(_study(fewer)).startswith("1 to 3 seeds a cell, 200 epochs")
    found = replace(reranking(), notes=("second", "first"))
    noted = notes(replace(study, rerankings=(found,)))
    assert noted == ["first", "cifar10: second", "cifar10: first"]


def test_page_is_made_again_by_a_command_with_every_choice(tmp_path: Path):
    chosen = {"datasets": ["d"], "recipes": ["a", "b c"], "epochs": 12, "top_percent": (100, 12.5)}
    said, command = reproduce(_study(run_table(4), run=tmp_path, draws=20, **chosen))
    assert isinstance(said, Text)
    assert command == Code(
        f"rebench report {tmp_path} --dataset d --recipe a --recipe 'b c' --split ori-test "
        "--epochs 12 --draws 20 --seed 0 --top 100,12.5"
    )
    (tmp_path / "spec.json").write_text('{"b":[1],"a":2}')
    *_, sweep = reproduce(_study(run_table(4), run=tmp_path))
    assert sweep == Details("The sweep", [Code(json.dumps({"b": [1], "a": 2}, indent=1))])


@pytest.mark.parametrize(("p_value", "moved"), [(0.05, True), (0.0501, False)])
def test_card_is_the_verdict_and_marked_where_the_ranking_moved(p_value: float, moved: bool):
    found = replace(reranking(), p_adjusted=p_value)
    assert _callout(found) == Callout(found.name, found.sentence, changed=moved)


def test_curve_without_a_tau_is_named_and_not_shown():
    found = reranking()
    curve = found.by_k.assign(tau=[0.5, *[np.nan] * 11])
    table, said, regret, details = _curve_blocks(replace(found, by_k=curve))
    assert "Regret of the transfer: the best cell of a run of benchmark loses" in regret.lines[0]
    assert isinstance(table, TableBlock)
    assert table.frame["K"].tolist() == ["100"]
    assert "No tau at K = 90, 80, 70, 60, 50, 40, 30, 20, 10, 5, 1:" in said.lines[0]
    [further] = details.blocks
    assert further.frame["95 % CI of tau"].tolist() == [
        f"{curve['tau_low'][0]:.2f} to {curve['tau_high'][0]:.2f}"
    ]
    [said] = _curve_blocks(replace(found, by_k=curve.assign(tau=np.nan)))
    assert "No tau at K = 100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 5, 1:" in said.lines[0]
    table, _, overlaps, *_ = _curve_blocks(replace(found, by_k=curve.assign(tau=0.5)))
    assert len(table.frame) == 12
    assert len(overlaps.frame) == 11


def test_several_comparisons_begin_with_their_table_and_a_summary():
    found = study(run_table(40), Choices(draws=20))
    heading, said, table, explained = _results(found.rerankings)
    assert heading == Heading("Recipes against nb201, cifar10")
    assert said.lines == [summary(found.rerankings)]
    pd.testing.assert_frame_equal(table.frame, rank_table(found.rerankings))
    assert explained.lines == [legend(found.rerankings)]
    assert _results(found.rerankings[:1]) == [_callout(found.rerankings[0])]
    card, second, *_ = _results([reranking(), *found.rerankings])
    assert (card, second) == (_callout(reranking()), heading)
