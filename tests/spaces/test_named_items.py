"""Items that are only names: import, query, ranking and search of any leaderboard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import json_of, refusal_of

import rebench
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


def test_two_tables_are_compared_in_their_unit_and_by_their_names(tmp_path: Path):
    """The second table adds 0, 2 or 4 to each loss."""
    first = _ingested(_scores(tmp_path / "first.csv", range(21)))
    second = _ingested(_scores(tmp_path / "second.csv", range(21), shift=2.0))
    said = str(rebench.compare(first, second, draws=19))
    assert "Score of second minus that of first: +2 MSE (95 % CI" in said
    assert "better in 0 % of the items" in said


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


def _families(folder: Path, *, own: bool) -> list[str]:
    """Write two files of 24 networks in 8 families; a family changes as a whole if not `own`."""
    rng = np.random.default_rng(3)
    true = rng.normal(80, 5, 24)
    moved = rng.normal(0, 4, 24) if own else np.repeat(rng.normal(0, 4, 8), 3)
    paths = []
    for name, means in (("a", true), ("b", true + moved)):
        rows = []
        for number, mean in enumerate(means):
            for seed in (1, 2, 3):
                score = mean + rng.normal(0, 0.3)
                rows.append((f"net {number}", f"family {number // 3}", seed, score))
        path = folder / f"{name}.csv"
        frame = pd.DataFrame(rows, columns=["model", "kind", "run", "score"])
        frame.to_csv(path, index=False)
        paths.append(str(path))
    return paths


def test_networks_of_a_family_are_one_observation(tmp_path: Path):
    """Where families change as a whole, their interval is wider than that of networks."""
    columns = ("--columns", "item=model,accuracy=score,seed=run,group=kind", "--top", "100")
    paths = _families(tmp_path, own=False)
    widths = []
    for groups in ((), ("--groups", "group")):
        (row,) = json_of("rank", *paths, *columns, *groups)
        widths.append(row["drop_high"] - row["drop_low"])
    assert widths[1] > 1.2 * widths[0]


@pytest.mark.parametrize(
    ("groups", "problem"),
    [("family", "of groups (--groups); valid"), ("seed", "is in two groups")],
)
def test_groups_must_be_a_column_with_one_group_a_network(tmp_path: Path, groups, problem):
    columns = ("--columns", "item=model,accuracy=score,seed=run,group=kind")
    told = refusal_of("rank", *_families(tmp_path, own=True), *columns, "--groups", groups)
    assert problem in told
    alone = refusal_of("rank", "mini@fixed", "--groups", "group")
    assert "name BASELINE and OTHER" in alone
