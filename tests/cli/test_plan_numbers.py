"""The numbers of `rebench sweep plan`, in the units of their headings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cells import all_cells
from rebench.cli import main
from rebench.cli.sweep import _noise_table, _sections
from rebench.launch.expansion import expand_spec
from rebench.launch.forecast import Forecast
from rebench.runs import example, parse_spec

PLANNED = Forecast(
    trials=7, done=1, jobs=4, trials_per_job=1.25, longest_job_s=90.3, device_s=7202.0, too_long=0,
    wall_s=1801.0, wall_s_on={1: 86_400.5, 8: 10_800.0}, bytes_on_disk=1_234_567, files=9,
)  # fmt: skip


def test_sections_have_the_counts_and_the_cost_in_the_units_of_their_headings():
    # 24 cells under 2 recipes with 3 seeds.
    sweep = parse_spec(example("laptop"))
    found = _sections(sweep, expand_spec(sweep), PLANNED, "a guess")
    assert list(found) == ["", "\ncost", "\nif no device is ever idle"]
    content, cost, end = found.values()
    assert content == {
        "trials": 7, "already done": 1, "cells": 24, "data sets": 1, "recipes": 2, "seeds": 3,
        "duplicates": 0, "skipped": 0, "spec hash": sweep.digest,
    }  # fmt: skip
    assert cost == {
        "jobs": 4, "trials per job": 1.2, "longest job (min)": 1.5, "device hours": 2.001,
        "wall hours": 0.5, "times from": "a guess",
    }  # fmt: skip
    days = {"days on 1 devices": 1.000006, "days on 8 devices": 0.125}
    assert end == {**days, "disk (GB)": 0.001235, "files": 9}


@pytest.mark.parametrize(
    ("epochs", "table"),
    [
        (1, "mini@fixed"),
        (32, "mini@fixed"),
        (33, "mini-60ep@fixed"),
        (99, "mini-60ep@fixed"),
        (100, "nb201"),
    ],
)
def test_seed_tau_is_from_the_table_with_similar_epochs(epochs, table):
    assert _noise_table(epochs) == table


def test_plan_names_at_most_20_reasons_of_skipped_trials(tmp_path: Path, capsys):
    without_path = [cell.index for cell in all_cells() if not cell.path_depths()][:21]
    spec = tmp_path / "sweep.toml"
    spec.write_text(
        'datasets = ["digits"]\nrecipes = ["topology"]\nseeds = [1]\n'
        f"[cells]\nindices = {[11, *without_path]}\n"
    )
    assert main(["sweep", "plan", str(spec), "--json"]) == 0
    shown = capsys.readouterr()
    [row] = json.loads(shown.out)
    assert (row["trials"], row["skipped"]) == (1, 21)
    lines = [line for line in shown.err.splitlines() if line.startswith("skipped 1: recipe ")]
    assert len(lines) == 20
