"""Every command that takes a run or a table works on the run of the demonstration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import PROJECT

from rebench.cli import main
from rebench.cli.demo import CELLS

_SEARCH = ["--repeats", "3", "--evaluations", "4"]
LINES = [
    ["status", "demo/run"],
    ["status", "demo/run", "--trials"],
    ["watch", "demo/run", "--every-s", "0.2"],
    ["cancel", "demo/run"],
    ["collect", "demo/run"],
    ["submit", "demo/run"],
    ["submit", "demo/sweep.toml", "--run", "demo/run", "--cluster", "local"],
    ["sweep", "plan", "demo/sweep.toml"],
    ["sweep", "plan", "demo/sweep.toml", "--from", "demo/run"],
    ["query", "demo/run", str(CELLS[0])],
    ["query", "demo/run@topology", str(CELLS[0])],
    ["rank", "demo/run", "--draws", "20"],
    ["rank", "demo/run", "--draws", "20", "--across", "recipes", "--out", "tau"],
    ["report", "demo/run", "--draws", "20", "--force"],
    ["table", "release", "demo/run", "--out", "demo.parquet", "--title", "demonstration"],
    ["export", "table", "demo/run", "--out", "demo.csv", "--recipe", "topology"],
    ["export", "nats", "demo/run@topology", "--out", "nats"],
    ["search", "run", "rea", "demo/run@topology", *_SEARCH],
    ["search", "compare", "demo/run@topology", *_SEARCH],
    ["search", "compare", "demo/run@topology", "demo/run@nb201", *_SEARCH],
    ["search", "compare", "demo/run@topology", "--repeats", "3", "--out", "search"],
    ["search", "proxies", "demo/run@topology"],
]
# Commands that a run of 8 cells on another data set cannot answer.
REFUSED = {
    "no two datasets": ["rank", "demo/run", "--across", "datasets"],
    "the table contains 8 cells": ["query", "demo/run", "15624"],
}


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_every_command_runs_on_the_run_of_the_demonstration(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REBENCH_BENCHMARK", raising=False)
    size = ("--cells", "8", "--epochs", "1", "--draws", "20")
    demo = [sys.executable, "-m", "rebench", "demo", *size]
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        demo, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path}, check=True
    )
    for words in LINES:
        code = main(words)
        said = capsys.readouterr().err
        assert code == 0, (words, said)
        assert "Traceback" not in said, words
    for message, words in REFUSED.items():
        assert main(words) in (1, 2), words
        said = capsys.readouterr().err
        assert message in said, words
        assert said.splitlines()[-1].startswith("rebench: "), words
