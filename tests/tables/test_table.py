"""The table's answers against plain pandas over the same long frame."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from generated_tables import synthetic_frame

from cells import Cell, CellError, CostModel
from rebench.errors import InputError, MissingDataError, RebenchError, UnknownNameError
from rebench.tables import Table, open_table, write_table
from rebench.tables.cell_comparison import compare_cell
from rebench.tables.seed_effects import centred
from rebench.tables.table import _explained


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return synthetic_frame(3, cells=range(0, 15625, 50), missing_seeds=0.2)


@pytest.fixture(scope="module", params=["memory", "disk"])
def table(request, frame, tmp_path_factory) -> Table:
    if request.param == "memory":
        return Table.from_frame(frame)
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    write_table(path, frame.sample(frac=1, random_state=1), name="shuffled", origin="generated")
    return open_table(path)


def _rows(frame: pd.DataFrame, dataset="cifar100", split="x-test", epochs=200) -> pd.DataFrame:
    wanted = (frame["dataset"] == dataset) & (frame["split"] == split) & (frame["epochs"] == epochs)
    return frame[wanted]


def test_seeds_and_accuracy_equal_the_rows(table, frame):
    for index in (0, 50, 15600):
        rows = _rows(frame)[_rows(frame)["index"] == index]
        expected = dict(zip(rows["seed"], rows["accuracy"], strict=True))
        assert table.seeds(index, "cifar100", "x-test") == expected
        for seed, accuracy in expected.items():
            assert table.accuracy(index, "cifar100", "x-test", seed=seed) == accuracy
        losses = table.group("cifar100", "x-test").by_seed("loss", index)
        assert losses == dict(zip(rows["seed"], rows["loss"], strict=True))


def test_means_std_and_n_equal_a_groupby(table, frame):
    summary = table.summary("cifar100", "x-test")
    by_cell = _rows(frame).groupby("index")["accuracy"]
    np.testing.assert_allclose(summary["mean"], by_cell.mean(), rtol=1e-14)
    np.testing.assert_array_equal(summary["n"], by_cell.size())
    np.testing.assert_allclose(summary["std"], by_cell.std(ddof=0), atol=1e-9)
    assert set(summary["n"]) == {2, 3}
    pd.testing.assert_series_equal(
        table.means("cifar100", "x-test"), summary["mean"], check_names=False
    )


def test_rank_and_percentile_equal_scipy(table):
    from scipy.stats import rankdata

    summary = table.summary("cifar10")
    runs = table.group("cifar10").column("accuracy")[summary.index]
    means = np.round(np.nanmean(centred(runs), axis=1), 6)  # rounding errors are ties
    np.testing.assert_array_equal(summary["rank"], rankdata(-means, method="min"))
    below = [(means < mean).mean() * 100 for mean in means]
    np.testing.assert_allclose(summary["percentile"], below)
    best = summary.index[np.argmax(means)]
    asked = table.query(int(best), "cifar10")
    assert (asked.rank, asked.mean, asked.n) == (1, *summary.loc[best, ["mean", "n"]])
    assert table.best("cifar10").index.tolist() == [best]


def test_cells_without_a_bad_seed_are_not_ranked_better_by_it():
    """Seed 888 is worse by 5 points. The two worst cells have no run with it."""
    rows = [
        {"index": cell, "seed": seed, "accuracy": 80.0 + cell - 5 * (seed == 888)}
        for cell in range(12)
        for seed in (777, 888)
        if cell > 1 or seed == 777
    ]
    frame = pd.DataFrame(rows).assign(dataset="cifar10", split="ori-test", epochs=200)
    table = Table.from_frame(frame)
    assert table.summary("cifar10")["rank"].tolist() == list(range(12, 0, -1))
    assert table.accuracy(1) > table.accuracy(3)
    assert table.best(top=2).index.tolist() == [11, 10]
    other = Table.from_frame(frame[frame["index"] < 6])
    compared = compare_cell(table, other, 1, table.default_key("cifar10"))
    assert (compared.ranks, compared.common) == ((5, 5), 6)


def test_every_name_of_a_cell_asks_the_same(table):
    cell = Cell.from_index(100)
    answers = {table.accuracy(name, "cifar10") for name in (100, "100", str(cell), cell.code, cell)}
    assert len(answers) == 1


def test_best_under_a_budget_equals_a_filter(table, frame):
    best = table.best("cifar10", params_m=0.4, mflops=60.0, top=3)
    means = _rows(frame, "cifar10", "ori-test").groupby("index")["accuracy"].mean()
    model = CostModel(image_side=32, classes=10)
    costs = {i: model.of(Cell.from_index(i)) for i in means.index}
    within = means[[costs[i].params_m <= 0.4 and costs[i].mflops <= 60 for i in means.index]]
    expected = within.sort_values(ascending=False, kind="stable").index[:3]
    assert best.index.tolist() == expected.tolist()
    assert (best["params_m"] <= 0.4).all()
    with pytest.raises(UnknownNameError, match="params_m"):
        table.best("cifar10", params=1.0)


def test_best_of_a_split_has_the_costs_of_its_training():
    """Validation was measured after 12 epochs, test accuracy after 200: their times differ."""
    rows = {"index": 7, "dataset": "cifar10", "seed": 777, "accuracy": 50.0}
    short, long = {"epochs": 12, "seconds": 12.0}, {"epochs": 200, "seconds": 1000.0}
    of_split = {"x-valid": short, "ori-test": long}
    trained = [rows | own | {"split": "train"} for own in (short, long)]
    both = Table.from_frame(
        pd.DataFrame([*trained, *(rows | own | {"split": name} for name, own in of_split.items())])
    )
    assert both.best("cifar10", "x-valid")["train_seconds"].tolist() == [12.0]
    assert both.best("cifar10")["train_seconds"].tolist() == [1000.0]


def test_cost_falls_back_to_the_closed_form(frame):
    bare = Table.from_frame(
        _rows(frame)[["index", "dataset", "split", "epochs", "seed", "accuracy"]]
    )
    cost = bare.cost(0, "cifar100")
    # The benchmark's own record of cell 0.
    assert (cost.params_m, cost.mflops) == (0.135156, 15.65322)
    assert (cost.latency_s, cost.train_seconds) == (None, None)


def test_frame_returns_the_rows_that_were_given(table, frame):
    got = table.frame(dataset="cifar100", split="x-test", epochs=200)
    ours, theirs = (
        rows[["index", "seed", "accuracy", "loss"]]
        .sort_values(["index", "seed"])
        .reset_index(drop=True)
        for rows in (got, _rows(frame))
    )
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False)
    assert len(table.frame()) == len(frame)
    assert set(got["dataset"]) == {"cifar100"}


@pytest.mark.parametrize(
    ("cell", "asked", "error", "message"),
    [
        (1, {}, MissingDataError, "cell 1 "),
        (0, {"seed": 5}, MissingDataError, r"no seed 5 .*777"),
        (0, {"dataset": "cifar-10"}, UnknownNameError, "valid: cifar10,"),
        (0, {"split": "x-test"}, UnknownNameError, "ori-test"),
        (0, {"epochs": 90}, InputError, "12 or 200 epochs, got 90"),
        (15625, {}, CellError, "15624"),
    ],
)
def test_absent_things_are_named(table, cell, asked, error, message):
    with pytest.raises(error, match=message):
        table.accuracy(cell, **{"dataset": "cifar10"} | asked)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"dataset": "cifar-10"}, UnknownNameError, r"unknown data set 'cifar-10' .*: cifar10,"),
        ({"split": "test"}, UnknownNameError, r"unknown split 'test' .*: x-test, ori-test, "),
        ({"dataset": "cifar10", "split": "x-test"}, UnknownNameError, "valid: ori-test, train$"),
        ({"epochs": 90}, InputError, "has results after 12 or 200 epochs, got 90"),
        ({"split": "train", "epochs": 90}, InputError, "has train after 12 or 200 epochs, got 90"),
    ],
)
def test_rows_of_a_value_that_the_table_lacks_are_refused(table, asked, error, message):
    with pytest.raises(error, match=message):
        table.frame(**asked)


def test_best_of_a_split_that_the_table_lacks_names_the_split(table):
    with pytest.raises(UnknownNameError, match=r"unknown split 'test' .*; valid: x-test, ori-test"):
        table.best("cifar100", "test")


def test_a_cell_without_a_finite_accuracy_ranks_last():
    frame = pd.DataFrame({"index": [4, 5, 6], "accuracy": [90.0, math.nan, 80.0]}).assign(
        dataset="cifar10", split="ori-test", epochs=200, seed=777, recipe="topology"
    )
    table = Table.from_frame(frame)
    assert [table.query(cell, "cifar10").rank for cell in (4, 6, 5)] == [1, 2, 3]
    assert math.isnan(table.accuracy(5, "cifar10"))
    with pytest.raises(InputError, match="row 2, column accuracy"):
        Table.from_frame(frame.drop(columns="recipe"))  # a missing value, not a diverged run


def test_fractions_in_a_frame_are_refused_or_converted_on_request():
    frame = synthetic_frame(0, cells=[0, 1], datasets=["cifar10"])
    shares = frame.assign(accuracy=frame["accuracy"] / 100)
    with pytest.raises(InputError, match=r"no accuracy is above 1, .* fractions=True\)$"):
        Table.from_frame(shares)
    table = Table.from_frame(shares, fractions=True)
    assert table.accuracy(1) == pytest.approx(Table.from_frame(frame).accuracy(1))
    renamed = shares.rename(columns={"accuracy": "acc"})
    assert Table.from_frame(renamed, accuracy="acc", fractions=True).accuracy(1) > 1
    with pytest.raises(InputError, match=r"are not fractions: .*fractions=True"):
        Table.from_frame(frame, fractions=True)


class _Foreign:
    """A frame of another library, such as polars, which gives a frame of pandas."""

    def __init__(self, frame: pd.DataFrame):
        self.to_pandas = frame.copy


@pytest.mark.parametrize("other", [_Foreign, pa.Table.from_pandas])
def test_frames_of_other_libraries_are_converted(other):
    frame = synthetic_frame(0, cells=[0, 1], datasets=["cifar10"])
    assert Table.from_frame(other(frame)).seeds(1) == Table.from_frame(frame).seeds(1)


def test_a_table_of_several_recipes_asks_which():
    frame = synthetic_frame(0, cells=[0], datasets=["cifar10"]).assign(recipe="nb201")
    both = pd.concat([frame, frame.assign(recipe="topology", accuracy=frame["accuracy"] + 1)])
    with pytest.raises(InputError, match="nb201, topology"):
        Table.from_frame(both)
    with pytest.raises(UnknownNameError):
        Table.from_frame(both, recipe="topolgy")
    plain, raised = (Table.from_frame(both, recipe=r) for r in ("nb201", "topology"))
    assert raised.accuracy(0, "cifar10") == pytest.approx(plain.accuracy(0, "cifar10") + 1)
    assert plain.origin == "retrained"


def test_writing_a_data_set_that_the_benchmark_has_not_is_refused(tmp_path):
    frame = synthetic_frame(0, cells=[0, 1], datasets=["cifar10"]).assign(dataset="cifar11")
    assert Table.from_frame(frame).seeds(0, "cifar11")
    with pytest.raises(UnknownNameError, match="valid: cifar10"):
        write_table(tmp_path / "t.parquet", frame, name="t", origin="published")


def test_rows_that_are_there_twice_and_missing_columns_are_refused():
    frame = synthetic_frame(0, cells=[0], datasets=["cifar10"])
    with pytest.raises(InputError, match="8 rows are duplicates"):
        Table.from_frame(pd.concat([frame, frame]))
    with pytest.raises(InputError, match="missing: accuracy"):
        Table.from_frame(frame.drop(columns="accuracy"))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ((102, "cifar11"), "unknown data set 'cifar11' of mini"),
        ((102, None, None, 7), "after 5 epochs, got 7"),
        ((0,), "mini has no value of cell 0 .*; the table contains 60 cells"),
    ],
)
def test_curve_of_values_that_the_table_lacks_names_what_it_lacks(asked, told):
    table = open_table("mini@fixed")
    assert list(table.curve(102).index) == [1, 2, 3, 4, 5]
    with pytest.raises(RebenchError, match=told):
        table.curve(*asked)


def test_curves_of_a_cell_that_the_table_lacks_are_refused():
    with pytest.raises(MissingDataError, match="mini has no value of cell 0 "):
        open_table("mini@fixed").curves(0)


def test_data_set_of_the_benchmark_in_another_spelling_is_refused_with_its_name():
    frame = synthetic_frame(0, cells=[0], datasets=["cifar100"]).assign(dataset="CIFAR100")
    with pytest.raises(InputError, match=r"column dataset: 'CIFAR100' must be spelt cifar100$"):
        Table.from_frame(frame)


def test_negative_seeds_alone_are_explained():
    assert _explained([0, 777, -1, -3]) == " (-1 is mean, -3 is run 2: the seed is not known)"
    assert _explained([0, 777]) == ""
