"""``rebench rank`` of one table, and the rank that ``rebench query`` prints, with its interval."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from support import json_of

from rebench.analysis import Accuracies, rank_intervals, read_accuracies, reliability
from rebench.analysis.cell_ranks import mean_half_width
from rebench.cli import main
from rebench.intervals import mean_interval
from rebench.tables import open_table


def test_rank_of_one_recipe_shows_seed_tau(capsys):
    words = ["rank", "mini@fixed", "--draws", "20", "--top", "100,50,1"]
    assert main(words) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    name = "mini@fixed, cifar10-jpeg16 ori-test, 5 epochs"
    table = shown.index(name)
    told = " ".join(shown[:table])
    assert told.startswith(f"{name}. ")
    assert "37 of 60 cells cannot be separated from the best (95 %)" in told
    assert shown[table + 1] == "K cells seed tau 95 % CI"
    assert [line.split()[:3] for line in shown[table + 2 : table + 4]] == [
        ["100", "60", "0.515"],
        ["50", "30", "0.201"],
    ]
    rows = json_of(*words)
    known = reliability("mini@fixed", draws=20, top_percent=(100, 50, 1))
    assert [row["may_be_best"] for row in rows] == [known.may_be_best] * 3 == [37] * 3
    assert rows[0]["seed_tau_low"] == round(known.frame()["seed_tau_low"][0], 4)
    assert rows[2]["seed_tau"] is None
    assert main([*words, "--format", "csv"]) == 0
    read = pd.read_csv(io.StringIO(capsys.readouterr().out))
    pd.testing.assert_frame_equal(read, pd.DataFrame(rows), check_dtype=False)


def test_rank_of_the_benchmark_uses_the_split_with_runs():
    """All data sets with runs are shown; `cifar10` has only means."""
    rows = json_of("rank", "nb201", "--draws", "0", "--top", "100")
    assert [(row["dataset"], row["split"], row["may_be_best"]) for row in rows] == [
        ("ImageNet16-120", "x-valid", 491),
        ("cifar10-valid", "x-valid", 234),
        ("cifar100", "x-valid", 81),
    ]
    assert [row["seed_tau"] for row in rows] == pytest.approx([0.909, 0.910, 0.887], abs=6e-4)


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (
            "nb201 --dataset cifar100 --top 100",
            "nb201: 7456 cells with fewer than 3 seeds (kept): cells 347, 348",
        ),
        (
            "mini@fixed nb201 --dataset cifar10-jpeg16 --against-dataset cifar10 --top 100",
            "nb201 on cifar10: 15565 cells",
        ),
    ],
)
def test_notes_are_printed_once_on_standard_error(words: str, note: str, monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["rank", *words.split(), "--draws", "0"]) == 0
    shown = capsys.readouterr()
    assert [line.startswith(note) for line in shown.err.splitlines()].count(True) == 1
    assert note not in shown.out


def test_a_cell_has_an_interval_of_its_rank(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["query", "nb201", "1696"]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown[1].endswith("rank rank 95 % may be the best cells in the ranking")
    assert shown[2].endswith("14145 13761 to 14367 no 15625")
    rows = {row["recipe"]: row for row in json_of("query", "mini", "12384")}
    table = open_table("mini@fixed").frame()
    accuracies = read_accuracies(table, dataset="cifar10-jpeg16", split="ori-test")
    expected = rank_intervals(accuracies).loc[12384]
    assert rows["fixed"]["rank"] == 1
    assert rows["fixed"]["rank_low"] == expected["rank_low"] == 1
    assert rows["fixed"]["rank_high"] == expected["rank_high"]
    assert rows["fixed"]["may_be_best"] is True


def test_a_cell_has_one_rank_everywhere():
    """`query`, its JSON, `Table.query` and `rank_intervals`; the cells have two or three seeds."""
    table = open_table("nb201")
    key = {"dataset": "cifar10-valid", "split": "x-valid", "epochs": 200}
    expected = rank_intervals(read_accuracies(table.frame(**key), **key))["rank"]
    assert table.summary(**key)["rank"].tolist() == expected.tolist()
    assert expected[13390] == 2
    [row] = json_of("query", "nb201", "13390")
    assert row["rank"] == table.query(13390).rank == 2


def test_rank_is_inside_its_interval_if_cells_lack_seeds_that_differ(tmp_path, capsys):
    """Cells without the worst or the best seed get the rank that they have with equal seeds."""
    rng = np.random.default_rng(4)
    true = np.sort(rng.normal(70, 2, 30))
    runs = true[:, None] + rng.normal(0, 0.5, (30, 3)) + [-4, 0, 4]
    runs[::3, 2] = runs[1::3, 0] = np.nan
    cells = read_accuracies(open_table("mini@fixed").frame(), dataset="cifar10-jpeg16").cells[:30]
    wide = pd.DataFrame(runs, columns=[1, 2, 3]).assign(index=cells)
    rows = wide.melt("index", var_name="seed", value_name="accuracy").dropna()
    rows = rows.assign(dataset="cifar10", split="ori-test", epochs=200)
    rows.to_csv(tmp_path / "gaps.csv", index=False)
    for place, cell in enumerate(cells):
        assert main(["query", str(tmp_path / "gaps.csv"), str(cell), "--json"]) == 0
        [row] = json.loads(capsys.readouterr().out)
        assert row["rank_low"] <= row["rank"] <= row["rank_high"]
        assert abs(row["rank"] - (30 - place)) <= 6


def test_intervals_of_a_mean_and_of_a_rank_have_the_noise_of_similar_cells():
    """Two runs of cell 10676 differ by 1.16: Student's interval is 6 times as wide."""
    [row] = json_of("query", "nb201", "10676", "--dataset", "cifar100")
    rows = open_table("nb201").frame(dataset="cifar100", split="x-valid")
    runs = rows.pivot_table(index="index", columns="seed", values="accuracy")
    near = runs.iloc[runs.mean(axis=1).sub(row["mean"]).abs().argsort()[:200]]
    error = near.std(axis=1).pow(2).mean() ** 0.5 / 2**0.5
    assert row["high"] - row["mean"] == pytest.approx(1.97 * error, rel=0.15)
    assert row["mean"] - row["low"] == pytest.approx(row["high"] - row["mean"])


def test_a_difference_has_the_noise_of_both_tables(capsys):
    asked = ["query", "mini@topology", "1696", "--published", "mini@fixed"]
    first, second, difference = json_of(*asked)
    halves = [row["high"] - row["mean"] for row in (first, second)]
    assert difference["high"] - difference["mean"] == pytest.approx(math.hypot(*halves))
    assert difference["mean"] - difference["low"] == pytest.approx(math.hypot(*halves))
    assert main(asked) == 0
    assert "no 95 % intervals" not in capsys.readouterr().err, "the row of the difference has none"


def test_a_cell_that_diverged_once_has_an_interval_of_its_own_runs():
    runs = np.random.default_rng(0).normal(90, 0.3, (60, 3))
    runs[7, 2] = 10.0
    table = Accuracies(name="x", cells=np.arange(60), seeds=(0, 1, 2), runs=runs)
    value, _, high = mean_interval(runs[7])
    assert mean_half_width(table, 7) == pytest.approx(high - value)


def test_an_effect_of_seeds_on_all_cells_widens_the_interval_of_a_mean():
    """With hardly any other noise the interval is Student's, of the three effects."""
    rng, effects = np.random.default_rng(0), np.array([-0.5, 0.1, 0.7])
    runs = rng.normal(90, 1, (60, 1)) + effects + rng.normal(0, 0.001, (60, 3))
    table = Accuracies(name="x", cells=np.arange(60), seeds=(0, 1, 2), runs=runs)
    _, low, high = mean_interval(effects)
    assert mean_half_width(table, 7) == pytest.approx((high - low) / 2, rel=0.01)


@pytest.mark.parametrize(
    ("lost", "rank"), [(slice(None), 60), (slice(1), 1)], ids=["every run", "one run"]
)
def test_a_cell_with_a_run_without_accuracy_has_no_mean_and_the_rank_of_its_other_runs(
    lost, rank, tmp_path, capsys
):
    key = open_table("mini@fixed").default_key()
    rows = open_table("mini@fixed").frame(**key._asdict())
    rows.loc[rows.index[rows["index"] == rows["index"].max()][lost], "accuracy"] = np.nan
    cell, path = int(rows["index"].max()), str(tmp_path / "lost.parquet")
    rows.to_parquet(path)
    assert main(["query", path, str(cell), "--json"]) == 0
    shown = capsys.readouterr()
    [row] = json.loads(shown.out)
    assert f"a run of cell {cell} has no finite accuracy" in shown.err
    assert (row["mean"], row["low"], row["rank"], row["rank_low"]) == (None, None, rank, None)
    published = open_table("mini@topology").query(cell).rank
    *_, row = json_of("query", path, str(cell), "--published", "mini@topology")
    assert (row["mean"], row["rank_in_common"]) == (None, rank - published)


def test_a_table_without_seeds_has_no_rank_intervals(capsys):
    [row] = json_of("query", "nb201", "1696", "--dataset", "cifar10")
    assert (row["rank"], row["rank_low"], row["may_be_best"]) == (14195, None, None)
    assert main(["query", "nb201", "1696", "--dataset", "cifar10"]) == 0
    assert "nb201: no 95 % intervals, because the cell has one value" in (capsys.readouterr().err)
