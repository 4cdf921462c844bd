"""Curves of a run for other programs, as a CSV.

The expected values are read from the lines of the records.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from made_records import with_checksum
from support import PROJECT

from cells import Cell
from rebench.cli import main
from rebench.errors import MissingDataError
from rebench.tables.opening import read_curves

METRICS = ("accuracy", "loss")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 16 trials; the loss of one of them was not evaluated after the first epoch."""
    folder = Path(shutil.copytree(PROJECT / "tests" / "small_run", tmp_path / "run"))
    (shard,) = (folder / "results").glob("*.jsonl")
    text = shard.read_text()
    (line,) = (line for line in text.splitlines() if "2.3067508273654513" in line)
    shard.write_text(text.replace(line, with_checksum(line.replace("2.3067508273654513", "null"))))
    return folder


def recorded(run: Path) -> dict[tuple, float]:
    """Every value by (trial, cell, recipe, seed, split, epoch, metric), from the records' lines."""
    (shard,) = (run / "results").glob("*.jsonl")
    values = {}
    for line in shard.read_text().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the last line was cut off
        trial = record["trial"]
        recipe = trial["recipe"]["name"]
        if given := trial["recipe"]["parameters"]:
            recipe += f"({', '.join(f'{name}={value:g}' for name, value in given.items())})"
        whose = (record["trial_id"], Cell.parse(trial["cell"]).index, recipe)
        for split, curve in record["outcome"]["curves"].items():
            for metric in METRICS:
                for epoch, value in enumerate(curve[metric], 1):
                    if value is not None:
                        values[(*whose, trial["seed"], split, epoch, metric)] = value
    return values


def test_csv_holds_every_value_of_the_records(run, tmp_path, capsys):
    out = tmp_path / "curves.csv"
    assert main(["export", "curves", str(run), "--out", str(out), "--json"]) == 0
    exact = {"float_precision": "round_trip"} if pd.__version__ < "3" else {}
    rows = pd.read_csv(out, **exact)
    expected = recorded(run)
    assert len(expected) == 16 * 2 * 2 * 2 - 1
    assert list(json.loads(capsys.readouterr().out)[0].values()) == [str(out), len(expected)]
    assert list(rows.columns) == [
        *("trial_id", "index", "dataset", "recipe", "seed", "split", "epoch", "what", "value")
    ]
    assert set(rows["dataset"]) == {"digits"}
    key = ["trial_id", "index", "recipe", "seed", "split", "epoch", "what"]
    assert rows.set_index(key)["value"].to_dict() == expected


def test_csv_of_one_recipe_replaces_a_file_by_force_alone(run, tmp_path):
    out = tmp_path / "curves.csv"
    out.write_text("mine")
    assert main(["export", "curves", f"{run}@topology", "--out", str(out)]) == 2
    assert out.read_text() == "mine"
    assert main(["export", "curves", f"{run}@topology", "--out", str(out), "--force"]) == 0
    expected = {key: value for key, value in recorded(run).items() if key[2] == "topology"}
    assert len(pd.read_csv(out)) == len(expected) > 0


def test_released_table_has_its_curves(tmp_path):
    pieces = pd.concat(read_curves("mini@fixed(lr=0.05)"))
    assert set(pieces["recipe"]) == {"fixed(lr=0.05)"}
    assert set(pieces["what"]) == set(METRICS)
    assert pieces["epoch"].min() == 1


def test_table_without_trials_is_refused(tmp_path: Path):
    table = tmp_path / "means.csv"
    table.write_text("index,cifar10_ori_test\n11,91.6\n")
    with pytest.raises(MissingDataError, match="no curves of trials"):
        list(read_curves(table))
