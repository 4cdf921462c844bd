"""The command line ``python -m experiments.surface`` on generated tables."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from made_surfaces import some_cells, surface_table

from experiments.surface.__main__ import main

CELLS = some_cells(24)
TITLES = (
    "Accuracy at each rate", "Gain by the choice", "Ranking at another rate",
    "Ranking at the best rates", "Regret of rules", "Gain of rules", "Prediction of the best rate",
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "surface.parquet"
    surface_table(0.2, CELLS).drop(columns="rate").assign(batch_size=256).to_parquet(path)
    return path


def test_command_gives_the_planted_answer_as_json(table: Path, capsys):
    assert main([str(table), "--draws", "50", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"single_rates", "direct", "direct_reranking"} <= found.keys(), "no answer is left out"
    assert all(row.keys() >= {"rate", "tau", "drop_low"} for row in found["single_rates"])
    [gain] = [
        row
        for row in found["gains"]
        if (row["of"], row["top_percent"]) == ("best single rate", 100)
    ]
    # All cells are best one octave above the reference: half a point.
    assert gain["gain"] == pytest.approx(0.5, abs=0.15)
    assert [row["best_for"] for row in found["rates"]][4] > 12
    assert {row["rule"] for row in found["regrets"]} >= {"constant", "topology-lr", "paths"}


def test_command_of_equal_seeds_is_equal(table: Path, capsys):
    shown = []
    for _ in range(2):
        assert main([str(table), "--draws", "20", "--json", "--seed", "3"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_where_chooses_rows_by_a_column(table: Path, tmp_path: Path, capsys):
    one = pd.read_parquet(table)
    both = tmp_path / "both.parquet"
    pd.concat([one, one.assign(batch_size=16, accuracy=1.0)]).to_parquet(both)
    assert main([str(both), "--json"]) == 2
    assert "batch_size: choose one" in capsys.readouterr().err
    assert main([str(both), "--where", "batch_size=256", "--json", "--draws", "5"]) == 0


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("batch_size", "COLUMN=VALUE"),
        ("batchsize=1", "batch_size"),
        ("batch_size=many", "256"),
        ("batch_size=3", "256"),
    ],
)
def test_where_that_means_nothing_is_refused_in_one_line(
    table: Path, where: str, message: str, capsys
):
    assert main([str(table), "--where", where]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_small_surface_says_what_it_cannot_answer(tmp_path: Path, capsys):
    path = tmp_path / "small.parquet"
    surface_table(0.2, CELLS[:6]).to_parquet(path)
    assert main([str(path), "--draws", "5"]) == 0
    shown = capsys.readouterr()
    assert "needs 10 cells and 3 seeds" in shown.err
    assert "needs 20 cells" in shown.err
    assert "Gain by the choice" in shown.out


def test_command_prints_every_table_in_80_columns_and_writes_the_page(
    table: Path, tmp_path: Path, capsys
):
    words = [str(table), "--draws", "50", "--out", str(tmp_path / "page")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    page = (tmp_path / "page" / "surface.md").read_text()
    assert [title for title in TITLES if title not in page or title not in shown] == []
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    gains = [line for line in shown.splitlines() if line.startswith("own best rate")]
    assert all(part in page for part in gains[0].split())
    assert "![" in page
    assert (tmp_path / "page" / "figures" / "surface.png").stat().st_size > 10_000
    drawn = pd.read_csv(tmp_path / "page" / "figures" / "surface.csv")
    assert len(drawn) == 24 * 9
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
