"""All code opens tables in the same way: equal names, equal rows, the newest records."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from generated_tables import synthetic_frame
from made_records import make_record, write_records
from report_tables import studied

from rebench.analysis import Choices
from rebench.cli import main
from rebench.errors import InputError, UnknownNameError
from rebench.launch.expansion import expand_spec
from rebench.nats import ReBench
from rebench.runs import FinishedTrials, RecipeSpec, Record, Run
from rebench.runs.spec import parse_spec
from rebench.tables import open_table, write_table
from rebench.tables.collecting import collect
from rebench.tables.opening import read_rows, released_tables, table_label

CELLS = range(0, 200, 20)
NEW = 300


def _record(index: int, accuracy: float, recipe: str = "topology", split: str = "full") -> Record:
    where = {"dataset": "cifar10", "split": split}
    return make_record(index, 777, accuracy, RecipeSpec(name=recipe), trial=where)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A collected run with one later record, which is the best."""
    folder = tmp_path / "run"
    write_records(folder, "a", *(_record(index, 50.0 + index / 10) for index in CELLS))
    collect(folder)
    write_records(folder, "b", _record(NEW, 99.0))
    return folder


@pytest.fixture
def published(tmp_path: Path) -> Path:
    path = tmp_path / "published.parquet"
    rows = synthetic_frame(0, cells=[*CELLS, NEW], datasets=["cifar10", "cifar10-valid"])
    write_table(path, rows, name="nats", origin="published")
    return path


def _json(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict]:
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("asked", ["", "results.parquet"])
def test_query_and_the_drop_in_show_a_record_appended_after_collecting(run, asked, capsys):
    assert _json(capsys, "query", run / asked, NEW)[0]["mean"] == 99.0
    api = ReBench(retrained=run / asked)
    assert api.get_more_info(NEW, "cifar10", hp="2", is_random=False)["test-accuracy"] == 99.0


# Commands, each with a check that its answer contains the record appended after collecting.
FRESH = {
    "query {run} 300 --all": lambda rows: {row["mean"] for row in rows} == {99.0},
    "export nats {run} --out {out}": lambda rows: rows[0]["cells"] == len(CELLS) + 1,
    "rank {run} --published {published} --draws 20 --top 100": (
        lambda rows: rows[0]["n_cells"] == len(CELLS) + 1
    ),
    "search run random {run} --evaluations 50": (
        lambda found: [(one["cell"], one["accuracy"]) for one in found["answers"]] == [(NEW, 99.0)]
    ),
}


@pytest.mark.parametrize("command", FRESH)
def test_commands_count_a_record_appended_after_collecting(
    run, published, tmp_path, capsys, command
):
    words = command.format(run=run, published=published, out=tmp_path / "folder").split()
    assert FRESH[command](_json(capsys, *words))


def test_sql_shows_a_record_appended_after_collecting(run, capsys):
    pytest.importorskip("duckdb")
    (row,) = _json(capsys, "query", run, "--sql", "select max(accuracy) as best from results")
    assert row["best"] == 99.0


def test_a_sweep_of_the_best_cells_takes_a_record_appended_after_collecting(run):
    spec = parse_spec(
        f'datasets = ["digits"]\nrecipes = ["nb201"]\nseeds = [1]\nepochs = 2\n'
        f'[cells]\ntop = {{ table = "{run}", epochs = 2, n = 1 }}\n'
    )
    assert [trial.cell.index for trial in expand_spec(spec).trials] == [NEW]


def test_a_record_appended_while_the_run_is_collected_is_not_missed(run, monkeypatch):
    """A record is appended after the records were read, before the tables are written.

    The tables must then count as stale, although they are newer than the record.
    """
    from rebench.tables import collecting

    class ReadThenAppend(FinishedTrials):
        def refresh(self):
            finished = super().refresh()
            write_records(run, "late", _record(320, 98.0))
            return finished

    with monkeypatch.context() as patch:
        patch.setattr(collecting, "FinishedTrials", ReadThenAppend)
        collect(run)
    assert open_table(run).accuracy(320, "cifar10", epochs=2) == 98.0


def test_a_folder_without_records_is_not_collected_and_not_made(tmp_path):
    with pytest.raises(InputError, match="has no records"):
        collect(tmp_path / "mistyped")
    assert not list(tmp_path.iterdir())


def test_a_run_whose_jobs_have_recorded_nothing_is_a_run(tmp_path):
    Run.create(tmp_path / "run")
    with pytest.raises(InputError, match="has no records yet: `rebench status"):
        open_table(tmp_path / "run")


def test_tables_of_another_program_are_read_where_nothing_may_be_written(run, monkeypatch):
    """The tables have no file that says from which records they were made; no record is newer."""
    open_table(run)
    (run / "collected.json").unlink()
    before = (run / "results.parquet").stat().st_ino
    if os.geteuid():
        run.chmod(0o555)
    else:  # the superuser may write anywhere
        monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert open_table(run).accuracy(NEW, "cifar10", epochs=2) == 99.0
    assert (run / "results.parquet").stat().st_ino == before


def test_one_of_several_shards_is_newer_than_tables_of_another_program(run, monkeypatch):
    open_table(run)
    (run / "collected.json").unlink()
    write_records(run, "c", _record(320, 98.0))
    built_ns = (run / "results.parquet").stat().st_mtime_ns
    for shard in (run / "results").iterdir():
        later = 1 if shard.name.startswith("c") else -1
        os.utime(shard, ns=(0, built_ns + later * 10**9))
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert open_table(run).accuracy(320, "cifar10", epochs=2) == 98.0


def test_another_file_in_the_folder_of_a_run_is_its_own_table(run, published):
    moved = published.rename(run / "other.parquet")
    assert open_table(moved).name == "nats"
    assert open_table(run).accuracy(NEW, "cifar10", epochs=2) == 99.0


def test_half_the_images_have_one_name_for_every_command(run, published, capsys):
    write_records(run, "c", _record(40, 20.0, split="valid"))
    assert open_table(run).accuracy(40, "cifar10-valid", epochs=2) == 20.0
    assert set(read_rows(run)["dataset"]) == {"cifar10", "cifar10-valid"}
    words = ["rank", run, "--published", published, "--dataset", "cifar10", "--draws", "0"]
    (row, *_) = _json(capsys, *words)
    assert row["n_cells"] == len(CELLS) + 1


def test_csv_is_a_table_for_every_command(run, published, tmp_path, capsys):
    """After a record was appended, each command prints the same for the run and for its CSV."""
    path = tmp_path / "mine.csv"
    assert main(["export", "table", str(run), "--out", str(path)]) == 0
    capsys.readouterr()
    for words in ((), ("--all",)):
        assert _json(capsys, "query", path, NEW, *words)[0]["mean"] == 99.0
    words = ("--published", published, "--draws", "20")
    of_file, of_run = (_json(capsys, "rank", name, *words) for name in (path, run))
    assert of_file == of_run
    assert ReBench(retrained=path).evaluated_indexes == {*CELLS, NEW}
    (row,) = _json(capsys, "export", "nats", path, "--out", tmp_path / "folder")
    assert row["cells"] == len(CELLS) + 1


def test_a_csv_of_means_is_a_published_table(run, tmp_path, capsys):
    path = tmp_path / "means.csv"
    means = {"index": [0, 20, NEW], "cifar10_ori_test": [85.9, 91.6, 50.0]}
    pd.DataFrame(means).to_csv(path, index=False)
    assert open_table(path).means("cifar10").tolist() == [85.9, 91.6, 50.0]
    assert read_rows(path)["accuracy"].tolist() == [85.9, 91.6, 50.0]
    rows = studied(run, Choices(published=path, draws=0)).rerankings
    assert rows[0].baseline.name == "benchmark"


def test_one_recipe_of_a_run_has_a_name(run):
    write_records(run, "c", _record(40, 20.0, recipe="nb201"))
    assert open_table(f"{run}@nb201").accuracy(40, "cifar10", epochs=2) == 20.0
    assert set(read_rows(f"{run}@nb201")["recipe"]) == {"nb201"}
    with pytest.raises(InputError, match="several recipes"):
        open_table(run)
    with pytest.raises(UnknownNameError, match="valid: nb201, topology"):
        open_table(f"{run}@nb202")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("runs/sweep@topology(base_lr=0.3)", "sweep@topology(base_lr=0.3)"),
        ("tables/x.parquet", "x"),
        ("x.parquet@fixed", "x@fixed"),
        ("a.csv@fixed", "a@fixed"),
        ("a.tsv", "a"),
        ("a.parquet.old", "a.parquet.old"),
    ],
)
def test_label_of_a_table_is_its_name_without_folder_and_suffix(name, label):
    assert table_label(name) == label
    assert table_label(name, [label, f"{label} (2)"]) == f"{label} (3)"


@pytest.mark.parametrize("name", ["{run}@topology@nb201", "mini@topology@fixed"])
def test_a_name_with_two_recipes_is_refused(run, name):
    with pytest.raises(InputError, match="NAME@RECIPE"):
        open_table(name.format(run=run))


def test_an_at_in_a_path_is_no_recipe(published, tmp_path, capsys):
    (tmp_path / "me@lab").mkdir()
    moved = published.rename(tmp_path / "me@lab" / "table.parquet")
    assert main(["query", str(moved), "20", "--json"]) == 0
    assert [row["table"] for row in json.loads(capsys.readouterr().out)] == ["nats"]


def test_a_recipe_of_a_table_without_recipes_is_refused(published):
    for name, recipe in ((f"{published}@mup", None), (published, "mup")):
        with pytest.raises(InputError, match="not a table of recipes"):
            open_table(name, recipe=recipe)


def test_a_released_table_is_opened_by_its_name(published, tmp_path, monkeypatch):
    from rebench.tables import opening

    (tmp_path / "released").mkdir()
    published.rename(tmp_path / "released" / "first.parquet")
    monkeypatch.setattr(opening, "_RELEASED", tmp_path / "released")
    assert list(released_tables()) == ["first"]
    assert open_table("first").name == "nats"
    with pytest.raises(UnknownNameError, match=r"unknown table .*; valid: first; .*table fetch"):
        open_table("fisrt")


def test_a_name_of_nothing_says_what_could_be_given(tmp_path):
    with pytest.raises(InputError, match=r"no table at .*; give a run's folder"):
        open_table(tmp_path / "none.parquet")
    with pytest.raises(InputError, match=r"neither records nor results\.parquet"):
        open_table(tmp_path)
    (tmp_path / "bad.parquet").write_bytes(b"hello")
    with pytest.raises(InputError, match=r"not a Parquet file.*`rebench table ingest`"):
        open_table(tmp_path / "bad.parquet")
    (tmp_path / "bad.xlsx").write_bytes(b"hello")
    with pytest.raises(InputError, match=r"a table is a \.parquet, \.csv or \.tsv file$"):
        open_table(tmp_path / "bad.xlsx")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A benchmark that lacks the run's data set and some of its cells."""
    path = tmp_path / "other.parquet"
    rows = synthetic_frame(0, cells=[0, 20], datasets=["cifar100"])
    write_table(path, rows, name="other", origin="published")
    return path


def test_a_benchmark_of_the_environment_without_the_data_set_is_left_out(
    run, other, capsys, monkeypatch
):
    monkeypatch.setenv("REBENCH_BENCHMARK", str(other))
    assert main(["query", str(run), str(NEW), "--json"]) == 0
    shown = capsys.readouterr()
    assert [row["mean"] for row in json.loads(shown.out)] == [99.0]
    assert shown.err.count("\n") == 1
    assert "other (REBENCH_BENCHMARK) has no cell 300 for cifar10" in shown.err


def test_a_benchmark_that_is_asked_for_must_hold_the_data_set(run, other, capsys):
    assert main(["query", str(run), str(NEW), "--published", str(other)]) == 2
    assert "data set 'cifar10' of other" in capsys.readouterr().err


def test_a_benchmark_of_the_environment_with_the_data_set_is_compared(
    published, capsys, monkeypatch
):
    monkeypatch.setenv("REBENCH_BENCHMARK", str(published))
    found = _json(capsys, "query", published, NEW, "--dataset", "cifar10")
    assert [row["accuracy"] for row in found] == ["published", "published", "difference"]


def test_a_misspelt_path_names_the_nearest_and_a_sweep_names_its_run(run: Path, capsys):
    sweep = run.with_name("sweep.toml")
    sweep.write_text("")
    assert main(["rank", str(run.with_name("rnu"))]) == 2
    assert f"did you mean {run}? give a run's folder" in capsys.readouterr().err
    assert main(["rank", str(sweep)]) == 2
    said = (
        f"{sweep} is a sweep file, not a table; its run folder is {run.parent / 'runs' / 'sweep'}"
    )
    assert said in capsys.readouterr().err


def test_results_whose_records_are_deleted_are_noted(run: Path, caplog):
    (run / "run.json").write_text("{}")
    shutil.rmtree(run / "results")
    assert read_rows(run)["index"].nunique() == len(CELLS)
    assert f"no records are left in {run / 'results'}" in caplog.text
