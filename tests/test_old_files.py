"""Files of the first version (0.1.0) still open: records, a run, tables, a checkpoint.

``tests/old`` was written by that version and is never written again. In its run, 16 of 18 trials
have a record. One record was cut off while it was appended; its trial has a checkpoint after the
first of two epochs. The other trial failed.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support import PROJECT

from rebench.cli import main
from rebench.runs import Trial
from rebench.train import train

OLD = PROJECT / "tests" / "old"
IN_FLIGHT = "5d3d593b8a6333e6"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A writable copy of the old run."""
    folder = Path(shutil.copytree(OLD / "run", tmp_path / "run"))
    for report in (folder / "progress").iterdir():
        os.utime(report, (0, 0))  # an old time: git gives files the time of checkout
    return folder


def answer(capsys, *words: object):
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_ids_of_its_trials_are_theirs():
    lines = (OLD / "run" / "trials.jsonl").read_text().splitlines()
    stored = [json.loads(line) for line in lines]
    assert [Trial(**one["trial"]).trial_id for one in stored] == [one["trial_id"] for one in stored]


def test_records_collect_to_the_table_of_that_version(run):
    before = pq.read_table(run / "results.parquet").to_pandas()
    curves = pq.read_table(run / "curves.parquet").to_pandas()
    (run / "results.parquet").unlink()
    assert main(["collect", str(run), "--partial"]) == 0
    after = pq.read_table(run / "results.parquet").to_pandas()
    # That version wrote the time of a trial into each of its rows, so sums counted it twice.
    before["seconds"] = before["seconds"].where(before["split"] == "train")
    assert after[list(before.columns)].astype(str).equals(before.astype(str))
    again = pq.read_table(run / "curves.parquet").to_pandas()
    assert again[list(curves.columns)].astype(str).equals(curves.astype(str))


@pytest.mark.parametrize("table", ["", "results.parquet"])
def test_table_of_a_run_answers_as_it_did(run, table, capsys):
    (row,) = answer(capsys, "query", run / table, 11, "--recipe", "topology")
    assert row["mean"] == 18.055555555555557


def test_ingested_table_answers_as_it_did(capsys):
    (row,) = answer(
        capsys, "query", OLD / "ingested.parquet", 11, "--dataset", "cifar100", "--split", "x-valid"
    )
    assert row["mean"] == pytest.approx(73.66975757869436, abs=1e-9)


def test_checkpoint_is_taken_up(run):
    lines = (run / "trials.jsonl").read_text().splitlines()
    stored = {one["trial_id"]: one["trial"] for one in map(json.loads, lines)}
    trial = Trial(**stored[IN_FLIGHT])
    (record,) = train([trial], checkpoint_dir=run / "checkpoints")
    assert record.cost.resumed == 1
    # This accuracy after the first epoch was measured by that version.
    assert record.outcome.curves["ori-test"].accuracy[0] == 10.277777777777779
