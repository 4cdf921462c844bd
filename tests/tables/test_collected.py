"""Tables are not made again while the records are those that they were made of, and only then."""

import json
import os
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest
from support import PROJECT

from rebench.cli import main
from rebench.tables import collected
from rebench.tables.collected import Collected, source_of
from rebench.tables.collecting import collect

OLD = PROJECT / "tests" / "old" / "run"


@pytest.fixture
def run(tmp_path: Path, monkeypatch) -> Path:
    """A run whose records are as old as they must be, and its tables."""
    monkeypatch.setattr(collected, "_TICK_NS", 50_000_000)
    folder = Path(shutil.copytree(OLD, tmp_path / "run"))
    _age(folder)
    return folder


def _age(run: Path) -> None:
    deadline = time.monotonic() + 60
    while not source_of(run).settled:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _shard(run: Path) -> Path:
    return max((run / "results").glob("*.jsonl"), key=lambda path: path.stat().st_size)


def _disk_number(made: Collected) -> list[int]:
    return [made.results.stat().st_ino, made.curves.stat().st_ino]


def test_unchanged_run_is_answered_without_touching_its_tables(run):
    first = collect(run)
    before = _disk_number(first)
    again = collect(run)
    assert (first.unchanged, again.unchanged) == (False, True)
    assert _disk_number(again) == before
    assert again.model_copy(update={"unchanged": False}) == first
    assert first.problems, "what the user was told of the records is told again"


def test_a_sum_over_the_rows_of_the_file_counts_training_once(run):
    rows = pd.read_parquet(collect(run).results)
    assert rows["seconds"].notna().equals(rows["split"] == "train")
    lines = [json.loads(line) for line in _shard(run).read_text().splitlines() if line[-1] == "}"]
    assert rows["seconds"].sum() == pytest.approx(sum(one["cost"]["seconds"] for one in lines))


def _append(run: Path) -> None:
    line = next(line for line in _shard(run).read_bytes().splitlines() if b"topology" in line)
    (run / "results" / "later.0.jsonl").write_bytes(line + b"\n")


def _edit_in_place(run: Path) -> None:
    """Change a digit and put the time back, as an editor of an evil day might."""
    shard, times = _shard(run), _shard(run).stat()
    content = shard.read_bytes()
    at = content.index(b'"seconds":') + len(b'"seconds":')
    digit = b"1" if content[at : at + 1] != b"1" else b"2"
    with shard.open("r+b") as file:
        file.seek(at)
        file.write(digit)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert shard.stat().st_size == times.st_size


def _set_aside(run: Path) -> None:
    (run / "quarantine.jsonl").write_text("{}\n")


def _flip(run: Path) -> None:
    """Change a byte in the middle of a table, where no footer is."""
    table, times = run / "curves.parquet", (run / "curves.parquet").stat()
    content = bytearray(table.read_bytes())
    content[len(content) // 4] ^= 1
    table.write_bytes(content)
    os.utime(table, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        _append,
        _edit_in_place,
        lambda run: _shard(run).unlink(),
        _set_aside,
        _flip,
        lambda run: (run / "curves.parquet").unlink(),
        lambda run: shutil.copy(OLD / "results.parquet", run / "results.parquet"),
        lambda run: (run / "collected.json").unlink(),
        lambda run: (run / "collected.json").write_text('{"source": '),
    ],
    ids=["append", "edit", "shard", "quarantine", "flip", "table", "other table", "file", "torn"],
)
def test_any_change_of_records_or_tables_makes_the_tables_anew(run, tmp_path, change):
    collect(run)
    assert collect(run).unchanged
    change(run)
    _age(run)
    made = collect(run)
    assert not made.unchanged
    # As from the same records in a folder without tables.
    shutil.copytree(run / "results", tmp_path / "other" / "results")
    other = collect(tmp_path / "other")
    assert made.results.read_bytes() == other.results.read_bytes()
    assert made.curves.read_bytes() == other.curves.read_bytes()
    assert collect(run).unchanged


def test_tables_of_another_layout_are_made_anew(run, monkeypatch):
    collect(run)
    monkeypatch.setattr(collected, "_LAYOUT", collected._LAYOUT + 1)
    assert not collect(run).unchanged


def test_records_of_this_moment_are_read_again(run, monkeypatch):
    """They could change once more and bear the same time."""
    monkeypatch.setattr(collected, "_TICK_NS", 3_600_000_000_000)
    assert not collect(run).unchanged
    assert not collect(run).unchanged


def test_command_says_that_nothing_is_new(run, capsys):
    assert main(["collect", str(run), "--partial"]) == 0
    first = capsys.readouterr()
    assert "nothing new" not in first.err
    assert main(["collect", str(run), "--partial"]) == 0
    again = capsys.readouterr()
    assert "nothing new: the records are those that the tables were made of" in again.err
    assert again.out == first.out
    assert main(["collect", str(run), "--partial", "--quarantine"]) == 0
    assert "nothing new" not in capsys.readouterr().err
