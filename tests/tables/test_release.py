"""A released table contains the values of its run's records, and a description of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest
from made_records import make_record, write_records

from cells import Cell
from rebench.cli import main
from rebench.errors import InputError, MissingDataError
from rebench.runs import FinishedTrials, RecipeSpec, Record
from rebench.tables import open_table, opening
from rebench.tables.opening import read_rows
from rebench.tables.release import records_digest, release, release_of

CELLS = (102, 326, 379)
RATES = (0.1, 0.2)


def a_record(index: int, rate: float, seed: int) -> Record:
    recipe = RecipeSpec(name="fixed", parameters={"lr": rate})
    last = 40.0 + index / 100 + 10 * rate + seed / 1000
    return make_record(index, seed, last, recipe, trial={"dataset": "cifar10-jpeg16"})


def a_run(folder: Path, shards: int = 1) -> Path:
    records = [a_record(cell, rate, seed) for cell in CELLS for rate in RATES for seed in (7, 8)]
    for number in range(shards):
        write_records(folder, f"w{number}", *records[number::shards])
    return folder


@pytest.fixture
def released(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "released"
    folder.mkdir()
    release(a_run(tmp_path / "run"), folder / "mine.parquet", title="three cells")
    monkeypatch.setattr(opening, "_RELEASED", folder)
    return folder / "mine.parquet"


def test_released_rows_and_curves_are_the_runs(released: Path, tmp_path: Path):
    rows = read_rows("mine")
    pd.testing.assert_frame_equal(rows, read_rows(tmp_path / "run"))
    table, of_run = (
        open_table(name, recipe="fixed(lr=0.2)") for name in ("mine", tmp_path / "run")
    )
    assert table.has_curves
    for key, curve in of_run.curves(102).items():
        assert table.curves(102)[key].accuracy.tolist() == curve.accuracy.tolist()


def test_release_says_the_settings_of_its_trials_and_what_it_is_told(tmp_path: Path):
    for name in ("tables", "curves"):
        (tmp_path / name).mkdir()
    words = ["table", "release", str(a_run(tmp_path / "run")), "--title", "three cells"]
    words += ["--out", str(tmp_path / "tables" / "mine.parquet"), "--licence", "CC-BY-4.0"]
    assert main([*words, "--cite", "A. Author, 2026", "--cite", "the benchmark"]) == 0
    for file in (tmp_path / "tables" / "mine.parquet", tmp_path / "curves" / "mine.parquet"):
        about = release_of(file)
        assert about.licence == "CC-BY-4.0"
        assert about.cite == ("A. Author, 2026", "the benchmark")
        # The trials have the default settings, which are those of the benchmark.
        said = [about.training[name] for name in ("optimiser", "batch_size", "augmentation")]
        assert said == ["SGD, momentum 0.9, Nesterov", "256", "random flip and crop"]
    table = open_table(tmp_path / "tables" / "mine.parquet", recipe="fixed(lr=0.2)")
    assert table.curves(102)


def test_an_exported_table_keeps_its_licence_citation_and_training(tmp_path: Path):
    about = {"licence": "CC-BY-4.0", "cite": ["A. Author, 2026"], "notes": ["a note"]}
    source = tmp_path / "mine.parquet"
    release(a_run(tmp_path / "run"), source, title="three cells", **about)
    for name in ("out.parquet", "out.csv"):
        out = tmp_path / name
        assert main(["export", "table", f"{source}@fixed(lr=0.2)", "--out", str(out)]) == 0
    kept = release_of(tmp_path / "out.parquet")
    assert kept == dataclasses.replace(release_of(source), trials=0, records_sha256="")
    beside = json.loads((tmp_path / "out.csv.about.json").read_text())
    assert {name: beside[name] for name in about} == about
    assert beside["training"] == kept.training


def test_digest_is_of_the_records_wherever_they_stand(released: Path, tmp_path: Path):
    about = release_of(released)
    assert about is not None
    assert (about.title, about.trials) == ("three cells", 12)
    scattered = a_run(tmp_path / "again", shards=4)
    records = FinishedTrials(scattered).refresh().records
    assert about.records_sha256 == records_digest(records.values())
    next(iter(records.values()))["outcome"]["learning_rate"] += 1e-9
    assert about.records_sha256 != records_digest(records.values())


def test_digest_is_that_of_sorted_compact_lines():
    """By hand: a line a record, keys in order, no spaces; then the lines in order."""
    lines = b'{"a":1,"b":2}\n{"a":2,"b":[1,2]}'
    records = [{"b": [1, 2], "a": 2}, {"b": 2, "a": 1}]
    assert records_digest(records) == hashlib.sha256(lines).hexdigest()


def test_a_table_of_others_has_no_release(tmp_path: Path):
    pd.DataFrame({"index": [1]}).to_parquet(tmp_path / "other.parquet")
    assert release_of(tmp_path / "other.parquet") is None


def test_release_needs_records_and_a_parquet(tmp_path: Path):
    (tmp_path / "empty" / "results").mkdir(parents=True)
    with pytest.raises(InputError, match="no records to release"):
        release(tmp_path / "empty", tmp_path / "out.parquet", title="none")
    with pytest.raises(InputError, match=r"a \.parquet file"):
        release(a_run(tmp_path / "run"), tmp_path / "out.csv", title="none")


def test_list_says_where_every_table_comes_from(released: Path, capsys):
    assert main(["table", "list", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    told = (row["name"], row["cells"], row["trials"], row["sha256_of_records"])
    assert told == ("mine", len(CELLS), 12, release_of(released).records_sha256)
    assert main(["table", "list"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown[0] == ["table", "cells", "recipes", "seeds", "epochs", "data", "sets"]
    assert shown[1][:3] == ["mine", str(len(CELLS)), "2"]
    assert main(["table", "list", "mine"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown[:2] == [["name", "mine"], ["title", "three", "cells"]]
    assert main(["table", "list", "yours"]) == 2
    assert "unknown table 'yours'; valid: mine" in capsys.readouterr().err


def test_release_command_does_not_overwrite(released: Path, tmp_path: Path, capsys):
    words = ["table", "release", str(tmp_path / "run"), "--out", str(released), "--title", "x"]
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


@pytest.mark.usefixtures("released")
def test_query_shows_a_cell_under_every_recipe_best_first_or_names_cells(capsys):
    assert main(["query", "mine", "102", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["recipe"] for row in rows] == ["fixed(lr=0.2)", "fixed(lr=0.1)"]
    assert rows[0]["mean"] == pytest.approx(43.0275)
    assert (rows[0]["rank"], rows[0]["of"]) == (3, 3)
    assert main(["query", "mine", "11"]) == 1
    assert "3 cells, among them 102, 326, 379" in capsys.readouterr().err


def test_an_equal_cell_is_named(tmp_path: Path):
    cell = Cell.parse("|avg_pool_3x3~0|+|none~0|none~1|+|none~0|avg_pool_3x3~1|none~2|")
    twin = Cell.parse("|avg_pool_3x3~0|+|none~0|skip_connect~1|+|none~0|avg_pool_3x3~1|none~2|")
    rows = [{"index": cell.index, "dataset": "cifar10", "split": "ori-test", "epochs": 200,
             "seed": 7, "accuracy": 50.0}]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(MissingDataError, match=f"cell {cell.index} is the same network"):
        open_table(tmp_path / "one.csv").accuracy(twin.index, "cifar10")
