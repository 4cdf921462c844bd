"""Output of commands fits a screen of 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_lines import LINES, SLOW, words

from rebench.cli import main

# The script of a job is printed unchanged, with lines of any length.
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
    # The path of the test's folder does not count; an architecture string is never broken.
    lines = shown.out.replace(str(folder), "").splitlines()
    assert [line for line in lines if len(line.rstrip()) > 80 and " " in line.strip()] == []
