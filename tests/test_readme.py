"""Every command and every snippet of the README, run as a reader would."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from documents import blocks, commands, ran
from support import PROJECT, project_metadata, python

PAGE = PROJECT / "README.md"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_commands_without_a_shown_output_train_and_report(tmp_path):
    for words in commands(PAGE, "sh"):
        assert words[0] == "rebench"
        done = ran(words, tmp_path)
        assert done.returncode == 0, (words, done.stderr)
        assert "Traceback" not in done.stderr
    [counts] = json.loads(ran(["rebench", "status", "runs/sweep", "--json"], tmp_path).stdout)
    assert (counts["done"], counts["trials"]) == (144, 144)
    # 0.001 was measured; machines round differently.
    [ranked] = json.loads(
        ran(["rebench", "rank", "runs/sweep", "--top", "100", "--json"], tmp_path).stdout
    )
    assert ranked["p_value"] < 0.01


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_outputs_on_the_readme_are_those_printed():
    text = PAGE.read_text()
    for snippet in blocks(PAGE, "python"):
        assert f"{snippet}```\n```text\n" in text, "without an output, no test runs the snippet"
    done = python("docs/tutorials.py", "--shown", "README.md")
    assert done.returncode == 0, done.stderr


def test_files_that_the_readme_names_exist():
    typed = [words[0] for words in commands(PAGE, "bash")]
    assert typed == ["git", "scripts/setup", "source"]
    assert os.access(PROJECT / "scripts" / "setup", os.X_OK)
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
    intervals = re.findall(r"-?\d\.\d+ to -?\d\.\d+", told)
    assert len(numbers) > 3
    assert len(intervals) > 1
    assert [told for told in (*numbers, *intervals) if told not in page] == []


def test_the_readme_is_short():
    lines = PAGE.read_text().splitlines()
    assert len(lines) <= 110
    # A line of code that is wider than GitHub's page needs scrolling.
    code = "\n".join(blocks(PAGE, r"\w+")).splitlines()
    assert max(map(len, code)) <= 105


def test_every_file_has_the_address_of_pyproject(tmp_path):
    """`scripts/address` writes it; the script is run on copies with another address."""
    address = project_metadata()["urls"]["Repository"]
    files = ("README.md", "docs/how-to/install.md", "CITATION.cff", "pyproject.toml")
    for name in (*files, "scripts/address"):
        text = (PROJECT / name).read_text()
        assert address in text or name == "scripts/address"
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text.replace(address, "https://example.org/old"))
    new = "https://example.org/new"
    told = (tmp_path / "pyproject.toml").read_text().replace("https://example.org/old", new)
    (tmp_path / "pyproject.toml").write_text(told)
    subprocess.run(["bash", tmp_path / "scripts" / "address"], check=True)
    for name in files:
        expected = (PROJECT / name).read_text().replace(address, new)
        assert (tmp_path / name).read_text() == expected
