"""The commands table ingest, query and export, as a user calls them."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import json
from pathlib import Path

import pandas as pd
import pytest
from foreign_files import bench12, codes, write_nas_hpo_bench
from generated_tables import synthetic_frame
from nats_bench import create as nats_create
from nats_folder import make_folder
from support import json_of

import rebench.cli.tables
from cells import Cell
from experiments.surface.__main__ import main as ask
from rebench.cli import main
from rebench.tables import open_table, write_table


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("published") / "nats.parquet"
    write_table(path, synthetic_frame(0, cells=range(20)), name="nats", origin="published")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("my-run")
    frame = synthetic_frame(1, cells=[11, 12, 13], epochs=[200], datasets=["cifar10", "cifar100"])
    frame.assign(recipe="topology", trial_id="t").to_parquet(folder / "results.parquet")
    return folder


def test_ingest_writes_a_table_and_says_what_is_missing(tmp_path, capsys, monkeypatch):
    folder = make_folder(tmp_path / "simple", [7, 200])
    out = str(tmp_path / "t.parquet")
    told = []

    @contextlib.contextmanager
    def progress(what, total=None):
        yield lambda **moved: told.append((what, moved))

    monkeypatch.setattr(rebench.cli.tables, "progress", progress)
    assert main(["table", "ingest", str(folder), "--out", out, "--jobs", "1"]) == 0
    assert told[0] == ("cells", {"total": 2})
    assert sum(moved["advance"] for _, moved in told[1:]) == 2
    assert (tmp_path / "t.curves.parquet").is_file()
    assert "15623 of the 15,625 cells" in capsys.readouterr().err
    again = ["--jobs", "1", "--no-curves", "--force"]
    (row,) = json_of("table", "ingest", str(folder), "--out", out, *again)
    assert (row["cells"], row["missing"], row["curves"]) == (2, 15623, None)


def test_ingest_reads_fractions_and_means(tmp_path):
    (tmp_path / "means.csv").write_text("index,cifar10_ori_test\n11,0.916\n12,0.5\n")
    words = ["table", "ingest", str(tmp_path / "means.csv"), "--fractions", "--epochs", "12"]
    assert main([*words, "--out", str(tmp_path / "t.parquet")]) == 0
    summary = open_table(tmp_path / "t.parquet").query(11, "cifar10", "ori-test", 12)
    assert summary.mean == pytest.approx(91.6)


def test_ingest_of_a_learning_rate_surface_prints_its_counts_and_answers_its_questions(
    tmp_path, capsys
):
    hashes, out = codes(24), str(tmp_path / "table.parquet")
    write_nas_hpo_bench(tmp_path / "x", hashes, bench12(hashes, 0.2, (128, 256)))
    words = ["table", "ingest", str(tmp_path / "x"), "--surface", "nas-hpo-bench-ii", "--out", out]
    # 2 batch sizes, 8 learning rates, 3 seeds, 3 splits.
    cells, rows = len(hashes), len(hashes) * 2 * 8 * 3 * 3
    assert json_of(*words) == [
        {"table": out, "curves": None, "cells": cells, "missing": 15625 - cells, "rows": rows}
    ]
    assert ask([out, "--where", "batch_size=256", "--draws", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "batch size 256" in " ".join(found["notes"])
    gains = {(row["of"], row["over"], row["top_percent"]): row["gain"] for row in found["gains"]}
    # The accuracy falls by 2 points one octave away from the planted rate of 0.2.
    assert gains["best single rate", "0.1 for all", 100] == pytest.approx(2.0, abs=0.3)


def test_query_of_all_lists_every_group_of_a_cell(published):
    rows = json_of("query", str(published), "11", "--all")
    table = open_table(published)
    assert [(row["dataset"], row["split"], row["epochs"]) for row in rows] == list(table.keys)
    test = next(row for row in rows if row["split"] == "ori-test" and row["epochs"] == 200)
    assert test["n"] == 3
    by_string = json_of("query", str(published), str(Cell.from_index(11)), "--all")
    assert by_string == rows


def test_query_compares_retrained_with_published(published, run):
    rows = json_of("query", str(run), "11", "--dataset", "cifar100", "--published", str(published))
    before, after = (open_table(path).query(11, "cifar100") for path in (published, run))
    assert [row["accuracy"] for row in rows] == ["published", "retrained", "difference"]
    assert rows[2]["mean"] == pytest.approx(after.mean - before.mean)
    assert rows[2]["table"] == f"{rows[1]['table']} minus {rows[0]['table']}"
    assert rows[2]["low"] < rows[2]["mean"] < rows[2]["high"]
    assert (rows[0]["rank"], rows[0]["of"], rows[0]["common_cells"]) == (before.rank, 20, 3)
    assert rows[1]["per_seed"].keys() == {"777", "888", "999"}


def test_query_shows_all_recipes_and_the_published_table(published, tmp_path):
    """One row per recipe, with the run's baseline, and last the row of the published table."""
    rows = [synthetic_frame(seed, cells=(11, 12)).assign(recipe=name)
            for seed, name in enumerate(("nb201", "topology"))]  # fmt: skip
    pd.concat(rows).to_csv(tmp_path / "mine.csv", index=False)
    found = json_of("query", f"{tmp_path / 'mine.csv'}", "11", "--published", str(published))
    assert {row["recipe"] for row in found[:2]} == {"nb201", "topology"}
    assert [row["recipe"] for row in found[2:]] == ["nats"]
    expected = open_table(published).query(11, "cifar10").mean
    assert found[2]["mean"] == pytest.approx(expected)


@pytest.fixture
def made_by_hand(tmp_path, monkeypatch) -> None:
    """Write mine.csv (one recipe), both.csv (two recipes) and theirs.csv (other accuracies)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    heading = "index,dataset,split,epochs,seed,accuracy"
    accuracies = {11: (90, 92), 12: (80, 82), 13: (95, 95)}
    rows = [
        f"{cell},digits,ori-test,12,{seed},{value}"
        for cell, values in accuracies.items()
        for seed, value in zip((777, 888), values, strict=True)
    ]
    Path("mine.csv").write_text("\n".join([heading, *rows]))
    both = [f"{row},a" for row in rows] + [f"{rows[2]},b", f"{rows[0]}.5,b"]
    Path("both.csv").write_text("\n".join([f"{heading},recipe", *both]))
    theirs = [
        f"{cell},digits,ori-test,12,{seed},{60 + 2 * cell + seed}"
        for cell in (11, 12, 13, 14)
        for seed in (0, 1, 2)
    ]
    Path("theirs.csv").write_text("\n".join([heading, *theirs]))


@pytest.mark.usefixtures("made_by_hand")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # t of one degree of freedom is 12.706, the standard error of 90 and 92 is 1.
        (
            "mine.csv 11",
            """
            cell 11, digits ori-test, 12 epochs
            table 777 888 mean 95 % rank cells in the ranking
            mine 90 92 91 78.29 to 103.71 2 3
            """,
        ),
        (
            "both.csv 11",
            """
            cell 11, digits ori-test, 12 epochs
            recipe 777 888 mean 95 % rank cells in the ranking
            a 90.0 92 91.0 78.29 to 103.71 2 3
            b 90.5 - 90.5 - 1 2
            """,
        ),
        (
            "both.csv@b 11",
            """
            cell 11, digits ori-test, 12 epochs
            table 777 mean rank cells in the ranking
            both@b 90.5 90.5 1 2
            """,
        ),
        (
            "mine.csv 11 --all",
            """
            cell 11 in mine
            dataset split epochs mean std n rank percentile origin params m mflops
            digits ori-test 12 91 1 2 2 33.33 given - -
            """,
        ),
        # Welch: standard error sqrt(1 + 1/3), 1.684 degrees of freedom.
        (
            "mine.csv 11 --published theirs.csv",
            """
            cell 11, digits ori-test, 12 epochs
            table 0 1 2 777 888 mean 95 % rank cells in the ranking rank in common common cells
            theirs 82 83 84 - - 83 80.52 to 85.48 4 4 3 3
            mine - - - 90 92 91 78.29 to 103.71 2 3 2 3
            difference - - - - - 8 -4.95 to 20.95 - - -1 3
            """,
        ),
        # All cells are common. t of two degrees of freedom is 4.303, the standard error sqrt(2).
        (
            "mine.csv 12 --published both.csv@a",
            """
            cell 12, digits ori-test, 12 epochs
            table 777 888 mean 95 % rank cells in the ranking
            both@a 80 82 81 68.29 to 93.71 3 3
            mine 80 82 81 68.29 to 93.71 3 3
            difference - - 0 -17.97 to 17.97 0 -
            """,
        ),
    ],
)
def test_query_shows_seeds_means_and_ranks(words: str, expected: str, capsys):
    assert main(["query", *words.split()]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown == inspect.cleandoc(expected).splitlines()


def test_query_answers_sql(published, run, capsys):
    pytest.importorskip("duckdb")
    text = (
        "SELECT r.index, avg(r.accuracy) - avg(p.accuracy) AS gain FROM results r JOIN published p "
        "USING (index, dataset, split, epochs, seed) WHERE dataset = 'cifar10' AND split = "
        "'ori-test' GROUP BY r.index ORDER BY r.index"
    )
    rows = json_of("query", str(run), "--published", str(published), "--sql", text)
    tables = [open_table(path) for path in (run, published)]
    expected = [
        tables[0].accuracy(i, "cifar10") - tables[1].accuracy(i, "cifar10") for i in (11, 12, 13)
    ]
    assert [row["index"] for row in rows] == [11, 12, 13]
    assert [row["gain"] for row in rows] == pytest.approx(expected)
    assert main(["query", str(run), "--sql", "SELEC 1"]) == 2
    assert "syntax error" in capsys.readouterr().err


def test_sql_without_duckdb_says_what_to_install(run, capsys, monkeypatch):
    real = builtins.__import__

    def absent(name, *arguments, **options):
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    assert main(["query", str(run), "--sql", "SELECT 1"]) == 1
    assert "nas-rebench[sql]" in capsys.readouterr().err


def test_export_writes_a_folder_that_the_package_opens(published, run, tmp_path):
    out = str(tmp_path / "out")
    (row,) = json_of("export", "nats", str(run), "--out", out, "--published", str(published))
    assert row["cells"] == 20
    api = nats_create(out, "tss", fast_mode=True, verbose=False)
    for index, source in ((11, run), (5, published)):
        info = api.get_more_info(index, "cifar100", hp="200", is_random=777)
        expected = open_table(source).accuracy(index, "cifar100", "x-test", seed=777)
        assert info["test-accuracy"] == expected


def test_export_writes_a_csv_that_ingests_to_the_same_table(published, tmp_path, capsys):
    out = tmp_path / "out.csv"
    assert main(["export", "table", str(published), "--out", str(out)]) == 0
    assert main(["table", "ingest", str(out), "--out", str(tmp_path / "again.parquet")]) == 0
    again, first = (open_table(path) for path in (tmp_path / "again.parquet", published))
    assert again.means("cifar100").equals(first.means("cifar100"))
    other = str(tmp_path / "out.parquet")
    capsys.readouterr()
    (row,) = json_of("export", "table", str(published), "--out", other)
    assert row == {"out": other, "rows": len(first.frame())}
    assert open_table(other).means("cifar100").equals(first.means("cifar100"))
    assert main(["export", "table", str(published), "--out", str(tmp_path / "x.txt")]) == 2
