"""``rebench cells`` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys

import pandas as pd
import pytest
from support import PROJECT

from cells import SPACE_SIZE, Cell


def rebench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rebench", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_show_draws_the_cell_and_its_numbers():
    shown = rebench("cells", "show", "11")
    assert shown.returncode == 0, shown.stderr
    assert "1  0 ──nor_conv_3x3──>" in shown.stdout
    assert "path depths               1;1;2" in shown.stdout
    assert "113.951" in shown.stdout


def test_show_marks_dead_edges_and_takes_strings():
    shown = rebench("cells", "show", str(Cell.parse("3_33_130")))
    assert shown.stdout.count("(dead)") == 2


def test_show_as_json_is_one_object():
    facts = json.loads(rebench("cells", "show", "1_01_001", "--json").stdout)
    assert (facts["index"], facts["lr_multiplier"], facts["network_paths"]) == (25, 1.0, "4")
    assert facts["in_degree_source"] == "1;1;1;1;1"
    assert (
        json.loads(rebench("cells", "show", "0_00_000", "--json").stdout)["lr_multiplier"] is None
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_export_writes_every_cell(tmp_path, suffix):
    file = tmp_path / "new" / f"cells{suffix}"
    assert rebench("cells", "export", "--out", str(file)).returncode == 0
    exact = {"network_paths": str, "network_sum_cubed_depths": str}
    table = pd.read_csv(file, dtype=exact) if suffix == ".csv" else pd.read_parquet(file)
    assert len(table) == SPACE_SIZE
    row = table.loc[11]
    assert row["arch"] == str(Cell.from_index(11))
    assert (row["path_depths"], row["sum_cubed_depths"]) == ("1;1;2", 43)
    assert (row["in_degree_source"], row["in_degree_target_live"]) == ("1;1;2;2;1", "1;2;2")
    assert (row["mflops"], row["params_m_imagenet16_120"]) == (113.95137, 0.809576)
    assert table["network_sum_cubed_depths"].map(int).max() == 172_314_087_915_520
    assert table["lr_multiplier"].isna().sum() == 341


@pytest.mark.parametrize(
    "arguments",
    [
        ["cells", "show", "15625"],
        ["cells", "show", ""],
        ["cells", "show", "|nor_conv~0|"],
        ["cells", "show"],
        ["cells", "export", "--out", "cells.txt"],
        ["cells", "shwo"],
        ["no-such-command"],
    ],
)
def test_bad_input_is_one_complaint_and_exit_code_2(arguments):
    shown = rebench(*arguments)
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr
    assert shown.stderr
    assert not shown.stdout


def test_help_of_every_command_says_what_it_is_for():
    from rebench.cli.app import COMMANDS

    listed = rebench("--help").stdout
    for name in COMMANDS:
        assert name in listed


def test_help_of_a_group_leaves_out_the_shells_completion():
    shown = rebench("cells", "--help").stdout
    assert "export" in shown
    assert "completion" not in shown
