"""What commands print on a screen of 80 columns: whole, in lines that fit, coloured where asked."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import LINES, SLOW, prepare, words
from support import PROJECT

from rebench.cli import main

# The script of a job has the lines that it has.
_TABLES = [name for name in LINES if name != "submit --dry-run"]


@pytest.mark.parametrize(
    "name", [*_TABLES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_every_table_fits_80_columns(name: str, folder: Path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    typed = words(name)
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "80")
    code = main(typed)
    shown = capsys.readouterr()
    assert code in ((0, 1) if name == "doctor" else (0,)), shown.err
    assert shown.out.strip()
    assert "…" not in shown.out
    # Where this test lies is no part of what is printed; an architecture's string is never broken.
    lines = shown.out.replace(str(folder), "").splitlines()
    assert [line for line in lines if len(line.rstrip()) > 80 and " " in line.strip()] == []


def _on_a_terminal(folder: Path, *typed: str, **environment: str) -> str:
    """Run a command on a real terminal and return what it wrote."""
    ours, its = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "rebench", *typed],
        cwd=folder,
        env=kept | {"TERM": "xterm-256color", "COLUMNS": "80", "PYTHONPATH": path} | environment,
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=subprocess.PIPE,
    )
    os.close(its)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    return written.decode()


@pytest.fixture
def lost(tmp_path: Path, monkeypatch) -> Path:
    """A run of which one trial's records were removed after its job had ended."""
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    for shard in (tmp_path / "run" / "results").glob("*.jsonl"):
        lines = shard.read_text().splitlines(keepends=True)
        shard.write_text("".join(lines[:-1]))
    return tmp_path


def test_what_is_lost_is_red_on_a_terminal_alone(lost: Path, capsys):
    red = "\x1b[31mlost"
    assert red in _on_a_terminal(lost, "status", "run", "--trials")
    assert "\x1b[3" not in _on_a_terminal(lost, "status", "run", "--trials", NO_COLOR="1")
    capsys.readouterr()
    assert main(["status", "run", "--trials"]) == 0
    piped = capsys.readouterr().out
    assert "lost" in piped
    assert "\x1b" not in piped


def test_significant_numbers_are_green_on_a_terminal(folder: Path):
    shown = _on_a_terminal(
        folder, "rank", "table.parquet", "--recipe", "topology", "--draws", "99", "--top", "100"
    )
    assert "\x1b[32m" in shown
