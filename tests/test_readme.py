"""Every command and every snippet of the README, run as a reader would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from documents import blocks, commands, environment, ran
from support import PROJECT

PAGE = PROJECT / "README.md"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_and_snippet_runs(tmp_path):
    (tmp_path / "NATS-tss-v1_0-3ffb9-simple").mkdir()
    for words in commands(PAGE):
        if words[0].startswith("scripts/"):
            assert os.access(PROJECT / words[0], os.X_OK)
            continue
        assert words[0] == "rebench"
        done = ran(words, tmp_path)
        # `doctor` exits with 1 if something is missing on this machine.
        assert done.returncode in ((0, 1) if words[1] == "doctor" else (0,)), (words, done.stderr)
        assert "Traceback" not in done.stderr
    [counts] = json.loads(ran(["rebench", "status", "runs/sweep", "--json"], tmp_path).stdout)
    assert (counts["done"], counts["trials"]) == (144, 144)
    # 0.001 was measured; machines round differently.
    [ranked] = json.loads(
        ran(["rebench", "rank", "runs/sweep", "--top", "100", "--json"], tmp_path).stdout
    )
    assert ranked["p_value"] < 0.01
    for snippet in blocks(PAGE, "python"):
        subprocess.run(
            [sys.executable, "-c", snippet],
            cwd=tmp_path,
            env=environment(),
            check=True,
            timeout=120,
        )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_outputs_on_the_readme_are_those_printed():
    script = [sys.executable, "docs/tutorials.py", "--shown", "README.md"]
    done = subprocess.run(
        script,
        cwd=PROJECT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_files_that_the_readme_names_exist():
    text = PAGE.read_text()
    named = re.findall(r"`((?:cells|docs|rebench|slurm|scripts)/[\w/.]+)`", text)
    named += re.findall(r"\]\((?!http)([\w/.]+)\)", text)
    assert named
    assert not [name for name in named if not (PROJECT / name).exists()]


def test_numbers_of_the_findings_are_on_the_pages_of_findings():
    told = PAGE.read_text().partition("\n## What was found\n")[2].partition("\n## ")[0]
    # `python -m experiments.findings --check` compares these pages with the tables.
    pages = (PROJECT / "docs" / "explanation").glob("findings*.md")
    page = "\n".join(page.read_text() for page in pages)
    numbers = re.findall(r"(?<![\d.=])-?\d\.\d\d(?!\d)", told)
    intervals = re.findall(r"(-?\d\.\d\d to -?\d\.\d\d)\)", told)
    assert len(numbers) > 8
    assert len(intervals) > 3
    assert [told for told in (*numbers, *intervals) if told not in page] == []


def test_the_readme_is_short():
    assert len(PAGE.read_text().splitlines()) <= 130
