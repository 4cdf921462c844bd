"""Tables of a run are current only while its records are unchanged."""

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from made_records import make_record, make_run, write_records
from support import PROJECT

from rebench.cli import main
from rebench.tables import collected, collecting, open_any
from rebench.tables.collected import current, keep, records_state
from rebench.tables.collecting import collect
from rebench.tables.parquet import file_state

SMALL = PROJECT / "tests" / "small_run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL, tmp_path / "run"))


def _shard(run: Path) -> Path:
    return max((run / "results").glob("*.jsonl"), key=lambda path: path.stat().st_size)


def test_unchanged_run_is_opened_without_touching_its_tables(run):
    made = collect(run)
    before = [path.stat().st_ino for path in (made.results, made.curves)]
    open_any(run)
    assert collect(run) == made
    assert [path.stat().st_ino for path in (made.results, made.curves)] == before
    again = current(run)
    assert again is not None
    assert (again.trials, again.problems) == (made.trials, made.problems)
    assert again.problems, "what the user was told of the records is told again"


def test_a_sum_over_the_rows_of_the_file_counts_training_once(run):
    rows = pd.read_parquet(collect(run).results)
    assert rows["seconds"].notna().equals(rows["split"] == "train")
    lines = [json.loads(line) for line in _shard(run).read_text().splitlines() if line[-1] == "}"]
    assert rows["seconds"].sum() == pytest.approx(sum(one["cost"]["seconds"] for one in lines))


def test_devices_and_compiled_records_are_told_of(tmp_path, capsys):
    records = [make_record(seed=1), make_record(seed=2, device="b", switches={"compile": True})]
    run = make_run(tmp_path, records)
    write_records(tmp_path, "w", *records)
    assert main(["collect", str(run.folder)]) == 0
    told = capsys.readouterr().err
    changed = "the code or its environment changed during the run (column `environment`)"
    assert f"{changed}: rebench 0.1.0, torch 2; rebench 0.1.0, torch 2, compiled\n" in told
    assert "on different devices (column `device`), which round differently: b; cpu\n" in told


def _append(run: Path) -> None:
    """Add a shard that is older than the tables, as a copy from another cluster may be."""
    line = next(line for line in _shard(run).read_bytes().splitlines() if b"topology" in line)
    later = run / "results" / "later.0.jsonl"
    later.write_bytes(line + b"\n")
    os.utime(later, (0, 0))


def _edit_in_place(run: Path) -> None:
    """Change a digit of a file and restore its modification time."""
    shard, times = _shard(run), _shard(run).stat()
    content = shard.read_bytes()
    at = content.index(b'"seconds":') + len(b'"seconds":')
    digit = b"1" if content[at : at + 1] != b"1" else b"2"
    with shard.open("r+b") as file:
        file.seek(at)
        file.write(digit)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert shard.stat().st_size == times.st_size


@pytest.mark.parametrize(
    "change",
    [
        _append,
        _edit_in_place,
        lambda run: (_append(run), _shard(run).unlink()),
        lambda run: (run / "curves.parquet").unlink(),
        lambda run: shutil.copy(run / "curves.parquet", run / "results.parquet"),
        lambda run: (run / "collected.json").unlink(),
        lambda run: (run / "collected.json").write_text('{"state": '),
    ],
    ids=["append", "edit", "shard", "table", "other table", "file", "torn"],
)
def test_after_any_change_of_records_or_tables_a_run_is_collected_anew(run, tmp_path, change):
    collect(run)
    assert current(run) is not None
    change(run)
    assert current(run) is None
    open_any(run)
    assert current(run) is not None
    # The tables equal those made from the same records in an empty folder.
    shutil.copytree(run / "results", tmp_path / "other" / "results")
    other = collect(tmp_path / "other")
    for table in (other.results, other.curves):
        assert (run / table.name).read_bytes() == table.read_bytes()


def test_table_of_a_collection_that_ran_at_once_does_not_count_as_current(tmp_path, monkeypatch):
    write_records(tmp_path, "w", make_record(seed=1))
    older = collect(tmp_path).curves.read_bytes()
    write_records(tmp_path, "w", make_record(seed=2))
    write_table = collecting._write_table

    def write_before_the_other(path, tables, schema):
        """Write a table; then a collection of the first record alone replaces the curves."""
        digest = write_table(path, tables, schema)
        if path.name == "curves.parquet":
            path.write_bytes(older)
        return digest

    monkeypatch.setattr(collecting, "_write_table", write_before_the_other)
    collect(tmp_path)
    monkeypatch.undo()
    assert current(tmp_path) is None
    assert pd.read_parquet(collect(tmp_path).curves)["trial_id"].nunique() == 2


def test_a_damaged_table_is_made_anew(run):
    """Damage is detected even if size and times are those of the written table."""
    made = collect(run)
    whole = made.curves.read_bytes()
    content = bytearray(whole)
    content[len(content) // 4] ^= 1
    made.curves.write_bytes(content)
    states = (file_state(made.results.stat()), file_state(made.curves.stat()))
    keep(run, records_state(run), made, states)
    assert current(run) is not None
    assert collect(run).curves.read_bytes() == whole


def test_a_moved_run_has_its_tables_where_it_is(run, tmp_path):
    collect(run)
    moved = run.rename(tmp_path / "moved")
    assert collect(moved).results == moved / "results.parquet"


def test_tables_of_another_layout_are_made_anew(run, monkeypatch):
    collect(run)
    monkeypatch.setattr(collected, "_LAYOUT", collected._LAYOUT + 1)
    assert current(run) is None
