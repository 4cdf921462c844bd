"""The theory commands as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pandas as pd
import pytest
from support import PROJECT


def rebench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rebench", "theory", *arguments],
        cwd=PROJECT, capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | {"COLUMNS": "80"},
    )  # fmt: skip


def test_depth_quick_prints_json_saves_data_and_resumes(tmp_path):
    first = rebench("depth", "--quick", "--json", "--out", str(tmp_path))
    assert first.returncode == 0, first.stderr
    answer = json.loads(first.stdout)
    assert {"verdicts", "growth", "terms", "exponent"} <= set(answer)
    assert {row["paper"] for row in answer["verdicts"]} == {-1.5, None}
    growth = pd.read_csv(tmp_path / "depth-growth.csv")
    assert len(growth) == len(answer["growth"])
    assert (tmp_path / "depth.png").stat().st_size > 1000
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "pieces").iterdir()}
    again = rebench("depth", "--quick", "--json", "--out", str(tmp_path))
    assert again.stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "pieces").iterdir()} == kept
    assert "depth (Jelassi et al.)" in rebench("verdicts", str(tmp_path)).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "law"),
    [(law, law) for law in ("dag", "released", "cells", "bafu", "speed", "am-mup")],
)
def test_quick_run_prints_verdicts_and_saves_figure_and_data(tmp_path, command, law):
    result = rebench(command, "--quick", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    table = pd.read_csv(tmp_path / f"{law}-verdicts.csv")
    assert len(table)
    assert (table["verdict"].str.len() > 10).all()
    said = " ".join(result.stdout.split())
    assert [one for one in table["quantity"] if one not in said] == []
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []
    for suffix in ("pdf", "svg", "png"):
        assert (tmp_path / f"{law}.{suffix}").stat().st_size > 1000


@pytest.mark.slow
def test_two_workers_give_the_same_tables_and_files(tmp_path):
    alone = rebench("depth", "--quick", "--json", "--out", str(tmp_path / "alone"))
    both = rebench("depth", "--quick", "--json", "--workers", "2", "--out", str(tmp_path / "both"))
    assert both.returncode == 0, both.stderr
    assert both.stdout == alone.stdout
    kept = [
        sorted(p.name for p in (tmp_path / run / "pieces").iterdir()) for run in ("alone", "both")
    ]
    assert kept[0] == kept[1]


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_tables(tmp_path):
    whole = rebench("depth", "--quick", "--json", "--out", str(tmp_path / "whole"))
    pieces = tmp_path / "killed" / "pieces"
    command = [sys.executable, "-m", "rebench", "theory", "depth", "--quick", "--out"]
    with subprocess.Popen([*command, str(pieces.parent)], cwd=PROJECT) as killed:
        deadline = time.monotonic() + 120
        while len(list(pieces.glob("*.parquet"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        killed.kill()
    finished = {path: path.stat().st_mtime_ns for path in pieces.glob("*.parquet")}
    assert len(finished) >= 3
    again = rebench("depth", "--quick", "--json", "--out", str(pieces.parent))
    assert again.stdout == whole.stdout
    assert all(path.stat().st_mtime_ns == at for path, at in finished.items())


def test_workers_without_a_folder_say_what_to_give():
    result = rebench("depth", "--quick", "--workers", "2")
    assert result.returncode == 2
    assert "give --out FOLDER" in result.stderr


@pytest.mark.parametrize("command", ["verdicts", "draw"])
def test_an_empty_folder_says_what_to_run(tmp_path, command):
    result = rebench(command, str(tmp_path))
    assert result.returncode == 1
    assert "rebench theory depth --out" in result.stderr


@pytest.mark.parametrize("law", ["bafu", "am-mup"])
def test_a_law_takes_any_data_set_and_names_those_there_are(law):
    result = rebench(law, "--quick", "--data", "cifar1")
    assert result.returncode == 2
    assert "cifar10" in result.stderr


def test_all_laws_need_a_folder():
    result = rebench("all", "--quick")
    assert result.returncode == 2
    assert "give --out FOLDER" in result.stderr


@pytest.mark.slow
def test_all_laws_go_into_one_folder_and_on_where_they_were_killed(tmp_path):
    made = rebench("all", "--quick", "--long", "--data", "digits", "--json", "--out", str(tmp_path))
    assert made.returncode == 0, made.stderr
    rows = json.loads(made.stdout)
    files = {"depth", "dag", "released", "cells", "bafu", "speed", "am-mup"}
    assert {row["file"] for row in rows} == files
    page = rebench("verdicts", str(tmp_path), "--markdown").stdout
    missing = [line for line in page.splitlines() if "not measured here; rebench theory" in line]
    # GELU is left out of the quick sizes.
    assert [line.split(" | ")[0] for line in missing] == ["| Chen et al., figure 7"]
    figures = {path: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert {path.stem for path in figures} == files
    for path in figures:
        path.unlink()
    drawn = rebench("draw", str(tmp_path))
    assert drawn.returncode == 0, drawn.stderr
    assert {path: path.read_bytes() for path in tmp_path.glob("*.png")} == figures
    pieces = {path: path.stat().st_mtime_ns for path in (tmp_path / "pieces").iterdir()}
    again = rebench(
        "all", "--quick", "--long", "--data", "digits", "--json", "--out", str(tmp_path)
    )
    assert again.stdout == made.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "pieces").iterdir()} == pieces
