"""Items that are only names: import, query, ranking and search of any leaderboard."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from support import json_of, refusal_of

from rebench.search import compare
from rebench.tables import open_table


def _scores(path: Path, names: range, shift: float = 0.0) -> Path:
    rows = []
    for number in names:
        for seed in (1, 2, 3):
            loss = number + shift * (number % 3) + 0.1 * ((number * seed) % 4)
            rows.append({"model": f"net {number:02}", "run": seed, "score": loss})
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def _ingested(path: Path) -> Path:
    """Import a file of losses with the command of the page on imports."""
    out = path.with_suffix(".parquet")
    columns = "item=model,accuracy=score,seed=run"
    json_of(
        "table", "ingest", str(path), "--columns", columns, "--lower-is-better", "--unit", "MSE",
        "--out", str(out),
    )  # fmt: skip
    return out


def test_an_imported_leaderboard_keeps_names_unit_and_direction(tmp_path: Path):
    table = open_table(str(_ingested(_scores(tmp_path / "first.csv", range(20)))))
    assert (table.measure.unit, table.measure.lower_is_better) == ("MSE", True)
    assert table.best(top=1).index[0] == "net 00"


def test_an_item_is_queried_by_its_name(tmp_path: Path):
    path = _ingested(_scores(tmp_path / "first.csv", range(20)))
    (row,) = json_of("query", str(path), "net 05")
    assert row["rank"] == 6
    assert row["rank_low"] <= 6 <= row["rank_high"]
    assert "net 05" in refusal_of("query", str(path), "net 5")


def test_two_tables_are_searched_on_the_names_in_both(tmp_path: Path):
    """The tables number their items differently; labels decide."""
    first = _ingested(_scores(tmp_path / "first.csv", range(20)))
    second = _ingested(_scores(tmp_path / "second.csv", range(5, 30)))
    found = compare([str(first), str(second)], ["random", "hyperband"], repeats=4)
    for result in found.results:
        space = result.table.space
        labels = [space.of_space.label(index) for index in space.indices]
        assert labels == [f"net {number:02}" for number in range(5, 20)]
        assert result.table.final.argmax() == 0, "net 05 has the lowest loss of both"


def test_a_name_that_is_no_cell_is_told_from_a_wrong_cell(tmp_path: Path):
    path = _scores(tmp_path / "first.csv", range(3))
    told = refusal_of(
        "table", "ingest", str(path), "--columns", "index=model,accuracy=score", "--dataset",
        "cifar10", "--epochs", "200", "--out", str(tmp_path / "out.parquet"),
    )  # fmt: skip
    assert "write item=model" in told


@pytest.mark.parametrize("option", ["--lower-is-better", "--unit=MSE"])
def test_direction_and_unit_need_names(tmp_path: Path, option: str):
    path = tmp_path / "cells.csv"
    path.write_text("index,dataset,split,epochs,seed,accuracy\n1,cifar10,ori-test,200,1,90\n")
    out = str(tmp_path / "out.parquet")
    assert "item=model" in refusal_of("table", "ingest", str(path), option, "--out", out)
