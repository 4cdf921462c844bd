"""Commands do not overwrite existing files without --force."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated_tables import synthetic_frame
from support import refusal_of

from rebench.cli import main
from rebench.tables import write_table

# Each command, with TABLE for a table and OUT for its output.
COMMANDS = {
    "cells export": ["cells", "export", "--out", "OUT.csv"],
    "export table": ["export", "table", "TABLE", "--out", "OUT.csv"],
    "table ingest": ["table", "ingest", "TABLE", "--out", "OUT.parquet"],
    "sweep new": ["sweep", "new", "--out", "OUT.toml"],
}
ONLY_REFUSED = {
    "search compare": (["search", "compare", "TABLE", "--out", "OUT"], "OUT-anytime.pdf"),
    "search compare, two tables": (
        ["search", "compare", "TABLE", "TABLE", "--out", "OUT"], "OUT-rerank.png",
    ),
    "report": (["report", "TABLE", "--out", "OUT"], "OUT/report.html"),
    "report in Markdown": (["report", "TABLE", "--out", "OUT"], "OUT/report.md"),
    "figures of a report": (["report", "TABLE", "--out", "OUT"], "OUT/figures"),
    "curves of an ingest": (
        ["table", "ingest", "OUT", "--out", "OUT.parquet"], "OUT.curves.parquet",
    ),
    "curves of a release": (
        ["table", "release", "OUT", "--out", "OUT.parquet", "--title", "t"], "OUT.curves.parquet",
    ),
}  # fmt: skip


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "t.parquet"
    write_table(path, synthetic_frame(0, cells=[1, 2]), name="t", origin="generated")
    return path


def _filled(words: list[str], table: Path, folder: Path) -> list[str]:
    names = {"TABLE": str(table)}
    return [str(folder / w) if w.startswith("OUT") else names.get(w, w) for w in words]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_replaces_no_file_without_force(name, table, tmp_path):
    command = _filled(COMMANDS[name], table, tmp_path)
    out = next(Path(word) for word in command if "OUT" in word)
    out.write_text("mine")
    assert "--force" in refusal_of(*command)
    assert out.read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert out.read_bytes() != b"mine"


@pytest.mark.parametrize("name", COMMANDS)
def test_force_does_not_remove_a_folder(name, table, tmp_path):
    command = _filled(COMMANDS[name], table, tmp_path)
    out = next(Path(word) for word in command if "OUT" in word)
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    assert main([*command, "--force"]) != 0
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ONLY_REFUSED)
def test_a_long_command_refuses_an_existing_file_first(name, table, tmp_path):
    words, file = ONLY_REFUSED[name]
    out = tmp_path / file
    out.parent.mkdir(exist_ok=True)
    out.write_text("mine")
    assert f"{out} exists" in refusal_of(*_filled(words, table, tmp_path))
    assert out.read_text() == "mine"


@pytest.mark.parametrize("target", ["nothing", "itself"])
def test_a_broken_link_counts_as_an_existing_file(target, table, tmp_path):
    out = tmp_path / "out.csv"
    out.symlink_to(tmp_path / ("out.csv" if target == "itself" else target))
    assert main(["export", "table", str(table), "--out", str(out)]) == 2
