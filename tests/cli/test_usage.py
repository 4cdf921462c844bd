"""What is typed wrong is answered in one line that helps; what is half typed, by the shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from report_tables import run_table
from support import PROJECT

from rebench.cli import main


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["quary"], "unknown command 'quary'; valid: query, "),
        (["cells", "shw", "11"], "Did you mean 'show'"),
        (["query", "surface", "11", "--recip", "x"], "--recipe"),
        (["rank", "surface", "--draws", "many"], "'--draws'"),
        (["status"], "issing argument"),
        (["search", "run", "rea"], "name a TABLE"),
        (["search", "run", "rea", "generated", "--table", "generated"], "one TABLE"),
        (["search", "missing", "generated"], "--published TABLE"),
        (["rank", "surface", "--figure", "x"], "--across"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(typed, message, monkeypatch, capsys):
    monkeypatch.delenv("REBENCH_BENCHMARK", raising=False)
    assert main(typed) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.startswith("rebench: ")
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_help_is_wrapped_for_the_screen_and_not_where_its_source_is(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["search", "compare", "--help"]) == 0
    assert "if  \n only one has a validation split, or times" in capsys.readouterr().out


def test_tables_of_a_half_test_set_are_asked_on_it(tmp_path: Path, capsys):
    rows = run_table(20, "cifar100").assign(split="x-test")
    rows.to_parquet(tmp_path / "half.parquet", index=False)
    cell = rows["index"].iloc[0]
    assert main(["query", str(tmp_path / "half.parquet"), str(cell)]) == 0
    assert f"cell {cell}, cifar100 x-test, 200 epochs" in capsys.readouterr().out
    assert main(["rank", str(tmp_path / "half.parquet"), "--draws", "20", "--top", "100"]) == 0


def test_recipe_is_found_however_it_is_spelt(tmp_path: Path, capsys):
    rows = run_table(20)
    rows.to_parquet(tmp_path / "table.parquet", index=False)
    name, cell = f"{tmp_path}/table.parquet@fixed( lr = 0.30 )", str(rows["index"].iloc[0])
    assert main(["query", name, cell, "--json"]) == 0
    mean = rows[(rows["recipe"] == "fixed(lr=0.3)") & (rows["index"] == int(cell))]["accuracy"]
    [row] = json.loads(capsys.readouterr().out)
    assert row["mean"] == pytest.approx(mean.mean())


def test_old_spellings_go_on(tmp_path: Path, capsys):
    run_table(20).to_parquet(tmp_path / "t.parquet", index=False)
    table = f"{tmp_path}/t.parquet@topology"
    budget = ["--evaluations", "5", "--json"]
    shown = []
    for words in ([table], ["--table", table]):
        assert main(["search", "run", "random", *words, *budget]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rebench que", {"query"}),
        ("rebench search run re", {"rea", "reinforce"}),
        ("rebench query surface 1696 --recipe topology-i", {"topology-init"}),
        ("rebench query surface 1696 --recipe one", {"one-step"}),
    ],
)
def test_shell_is_offered_names(line: str, expected: set[str]):
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    asked = {
        "_REBENCH_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
        "PYTHONPATH": path,
    }
    program = "import sys; sys.argv = ['rebench']; from rebench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == expected
