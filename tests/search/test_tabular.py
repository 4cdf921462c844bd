from dataclasses import replace
from pathlib import Path

import nats_bench
import numpy as np
import pandas as pd
import pytest
from generated_tables import synthetic_frame
from nats_folder import make_folder
from search_tables import smooth_table
from simulated_tables import synthetic_table

import rebench
from rebench.errors import InputError, MissingDataError
from rebench.nats.ingest import ingest
from rebench.search import Budget, SearchSpace, paper_budget, rate_proxies, search_table
from rebench.search.comparison import compare
from rebench.search.tabular import search_tables, validation_keys
from rebench.tables import Table, open_table

CELLS = list(range(0, 200, 2))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return synthetic_frame(3, cells=CELLS)


@pytest.fixture(scope="module")
def table(frame: pd.DataFrame) -> Table:
    return Table.from_frame(frame, name="made", origin="generated")


# The columns of a table of accuracies without times.
PLAIN = ["index", "dataset", "split", "epochs", "seed", "accuracy"]


def _only(frame: pd.DataFrame, **columns: object) -> pd.DataFrame:
    for name, value in columns.items():
        frame = frame[frame[name] == value]
    return frame


def test_cifar10_is_searched_on_its_25k_split_and_reported_on_the_test_set(
    table: Table, frame: pd.DataFrame
):
    searched = search_table(table, "cifar10")
    assert [level.epochs for level in searched.fidelities] == [12, 200]
    shown = _only(frame, dataset="cifar10-valid", split="x-valid", epochs=12, index=42)
    place = searched.space.position(42)
    assert sorted(searched.fidelities[0].packed[place]) == sorted(shown["accuracy"])
    final = _only(frame, dataset="cifar10", split="ori-test", epochs=200, index=42)
    assert searched.final[place] == pytest.approx(final["accuracy"].mean())
    assert "cifar10-valid x-valid after 12 epochs" in searched.protocol
    assert "(generated)" in searched.protocol


def test_tables_are_searched_by_name_or_opened():
    named = search_table("mini@fixed", signal="mini@topology", times="mini@topology")
    opened = open_table("mini@fixed")
    other = open_table("mini@topology")
    expected = search_table(opened, "cifar10-jpeg16", signal=other, times=other)
    assert named.protocol == expected.protocol
    np.testing.assert_array_equal(named.final, expected.final)
    np.testing.assert_array_equal(named.fidelities[0].accuracy, expected.fidelities[0].accuracy)
    np.testing.assert_array_equal(named.fidelities[0].seconds, expected.fidelities[0].seconds)


def test_tables_of_several_recipes_need_one_of_them():
    several = rebench.open("mini")
    said = r"^mini has several recipes: fixed, .* such as rebench.open\('mini'\)\['fixed'\]$"
    for ask in (search_table, rate_proxies, compare):
        with pytest.raises(InputError, match=said):
            ask(several)
    [searched] = search_tables([several], recipe="topology")
    assert searched.final.tolist() == search_table("mini@topology").final.tolist()


@pytest.mark.parametrize("dataset", ["cifar100", "ImageNet16-120"])
def test_the_others_are_searched_on_x_valid_and_reported_on_x_test(table: Table, dataset: str):
    protocol = search_table(table, dataset).protocol
    assert f"searched on {dataset} x-valid after 12 epochs" in protocol
    assert f"reported: {dataset} x-test after 200 epochs, mean of up to 3 seeds" in protocol


def test_a_table_of_test_accuracy_says_so_and_counts_evaluations(frame: pd.DataFrame):
    means = _only(frame, split="ori-test", epochs=200, seed=777)[PLAIN]
    searched = search_table(Table.from_frame(means), "cifar10")
    assert "test accuracy, so optimistic" in searched.protocol
    assert "budgets: evaluations (no training times)" in searched.protocol
    assert not searched.has_seconds
    assert paper_budget(searched) == Budget(evaluations=150)


@pytest.mark.parametrize(("least", "known"), [(1.0, True), (0.0, False), (np.nan, False)])
def test_times_are_known_where_every_cell_has_some(frame: pd.DataFrame, least: float, known: bool):
    rows = _only(frame, split="ori-test", epochs=200, seed=777)[PLAIN]
    seconds = np.where(rows["index"] == rows["index"].iloc[0], least, 2.0)
    searched = search_table(Table.from_frame(rows.assign(seconds=seconds)), "cifar10")
    assert searched.has_seconds is known


def test_table_of_times_gives_the_time_of_its_own_training_in_proportion_to_the_epochs(
    frame: pd.DataFrame,
):
    """`nb201` has times of cifar10-valid after 200 epochs, and none of cifar10."""
    times = open_table("nb201")
    seconds = times.group("cifar10-valid", "train", 200).mean("seconds")
    rows = _only(frame, dataset="cifar10", split="ori-test", seed=777)[PLAIN]
    searched = search_table(Table.from_frame(rows), "cifar10", times=times)
    for level in searched.fidelities:
        expected = seconds[searched.space.indices] * level.epochs / 200
        np.testing.assert_allclose(level.seconds, expected)


def test_table_of_times_that_lacks_the_data_set_or_cells_is_named(frame: pd.DataFrame):
    rows = _only(frame, dataset="cifar10", split="ori-test", epochs=200, seed=777)[PLAIN]
    own = Table.from_frame(rows.assign(dataset="digits"))
    said = r"'nb201' lacks digits .* it has times of ImageNet16-120, cifar10-valid, cifar100"
    with pytest.raises(InputError, match=said):
        search_table(own, "digits", times=open_table("nb201"))
    few = Table.from_frame(rows.iloc[:3].assign(seconds=5.0), name="few")
    with pytest.raises(InputError, match=r"'few' lacks cifar10 or some of its .* times of cifar10"):
        search_table(Table.from_frame(rows), "cifar10", times=few)
    with pytest.raises(InputError, match="it has times of no data set"):
        search_table(own, "digits", times=own)


def test_a_retrained_sample_can_be_searched_on_the_published_signal(
    table: Table, frame: pd.DataFrame
):
    rows = _only(frame, dataset="cifar10", split="ori-test", epochs=200)
    sample = rows[rows["index"] < 50].assign(accuracy=rows["accuracy"] - 1, recipe="topology")
    retrained = Table.from_frame(sample, name="mine")
    searched = search_table(retrained, "cifar10", signal=table)
    assert searched.space.indices.tolist() == list(range(0, 50, 2))
    assert searched.has_seconds
    assert "x-valid after 12 epochs of made" in searched.searched_on
    assert "(retrained)" in searched.reported
    published = search_table(table, "cifar10").restrict(range(50))
    np.testing.assert_allclose(searched.final, published.final - 1)
    np.testing.assert_allclose(searched.fidelities[0].accuracy, published.fidelities[0].accuracy)


def test_signal_may_be_of_another_data_set_if_it_is_the_only_one(table: Table):
    small = open_table("mini-proxy@fixed")
    searched = search_table(open_table("nb201"), "cifar10", signal=small)
    assert searched.space.indices.tolist() == small.means().index.tolist()
    assert searched.searched_on.startswith("cifar10-jpeg16 ori-test after 5 epochs of mini-proxy")
    seen = searched.fidelities[0].accuracy.mean(axis=1)
    np.testing.assert_allclose(seen, small.means().to_numpy())
    several = table
    with pytest.raises(InputError, match="has no data set 'cifar10-jpeg16'"):
        search_table(small, "cifar10-jpeg16", signal=several)


def test_fidelities_can_be_limited_to_the_benchmarks_short_runs(table: Table):
    assert [level.epochs for level in search_table(table, "cifar10", epochs=[12]).fidelities] == [
        12
    ]
    with pytest.raises(InputError, match="after 12, 200 epochs, got epochs=\\[50\\]"):
        search_table(table, "cifar10", epochs=[50])


def test_cells_without_a_finite_accuracy_are_left_out_and_counted(frame: pd.DataFrame):
    lacking = frame.assign(recipe="nb201")  # only tables of recipes may have runs without accuracy
    diverged = (lacking["index"] == 42) & (lacking["epochs"] == 200)
    lacking.loc[diverged, "accuracy"] = np.nan
    searched = search_table(Table.from_frame(lacking), "cifar10")
    assert 42 not in searched.space.indices
    assert "1 cells without signal or final accuracy left out" in searched.protocol


def test_one_missing_seed_leaves_the_others(frame: pd.DataFrame):
    gone = frame[~((frame["index"] == 42) & (frame["seed"] == 888))]
    searched = search_table(Table.from_frame(gone), "cifar10")
    assert len(searched.fidelities[1].packed[searched.space.position(42)]) == 2


def test_a_data_set_that_is_not_there_is_refused(table: Table):
    with pytest.raises(InputError, match="no data set 'svhn'; it has ImageNet16-120, cifar10"):
        search_table(table, "svhn")


def test_validation_is_found_where_the_benchmark_keeps_it(table: Table):
    assert validation_keys(table, "cifar10")
    assert not validation_keys(table, "svhn")


def test_restricting_to_cells_that_are_not_there_is_refused(table: Table):
    with pytest.raises(InputError, match="none of the 2 cells"):
        search_table(table, "cifar10").restrict([1, 3])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Ten cells in the benchmark's files, with their curves."""
    folder = tmp_path_factory.mktemp("made")
    ingest(make_folder(folder / "NATS-made-simple", range(10)), folder / "made.parquet")
    return open_table(folder / "made.parquet")


def test_fidelities_along_a_curve_are_that_of_the_shortest_run(made: Table):
    searched = search_table(made, "cifar10", curve=True)
    assert [level.epochs for level in searched.fidelities] == [1, 4, 12]
    assert "cifar10-valid x-valid after 1, 4, 12 of 12 epochs" in searched.searched_on
    for cell in (0, 1, 9):
        curve = made.curve(cell, "cifar10-valid", "x-valid", 12)["accuracy"]
        place = searched.space.position(cell)
        for level in searched.fidelities:
            assert sorted(level.packed[place]) == sorted(curve.loc[level.epochs])
    named = search_table(made, "cifar10", curve=True, epochs=[20, 2])
    assert [level.epochs for level in named.fidelities] == [2, 20]
    assert "2, 20 of 200 epochs" in named.searched_on


def test_part_of_a_run_costs_its_share_of_the_training(made: Table):
    (whole,) = search_table(made, "cifar10", epochs=[12]).fidelities
    passes = made.group("cifar10-valid", "x-valid", 12).mean("epoch_seconds")[:10]
    part, last = search_table(made, "cifar10", curve=True, epochs=[3, 12]).fidelities
    assert last.seconds == pytest.approx(whole.seconds)
    assert part.seconds - passes == pytest.approx((whole.seconds - passes) / 4)


@pytest.mark.parametrize(("epochs", "said"), [([201], "12, 200 epochs"), ([0, 4], "got epochs=0")])
def test_epochs_that_no_curve_has_are_refused(made: Table, epochs: list[int], said: str):
    with pytest.raises(InputError, match=said):
        search_table(made, "cifar10", curve=True, epochs=epochs)


def test_table_without_curves_has_no_fidelities_along_them(table: Table):
    with pytest.raises(MissingDataError, match="no file of curves"):
        search_table(table, "cifar10", curve=True)


def test_fidelities_along_a_runs_curves_are_those_of_each_trial():
    surface = open_table("mini@fixed(lr=0.2)")
    usual = search_table(surface, "cifar10-jpeg16", curve=True)
    assert [level.epochs for level in usual.fidelities] == [1, 5]
    searched = search_table(surface, "cifar10-jpeg16", curve=True, epochs=[1, 2, 5])
    for cell in searched.space.indices[:3].tolist():
        curve = surface.curve(cell, "cifar10-jpeg16", epochs=5)["accuracy"]
        for level in searched.fidelities:
            shown = level.packed[searched.space.position(cell)]
            assert sorted(shown) == sorted(curve.loc[level.epochs])


@pytest.mark.parametrize("source", ["made", pytest.param("real", marks=pytest.mark.shared_data)])
def test_the_simulated_cost_of_part_of_a_run_is_that_of_the_benchmarks_package(
    source: str, request: pytest.FixtureRequest, tmp_path: Path
):
    if source == "real":
        data = request.getfixturevalue("real_data")
        folder, cells = data / "nats-bench" / "NATS-tss-v1_0-3ffb9-simple", (0, 11)
    else:  # one seed, because the package draws the seed
        cells = (1, 13)
        folder = make_folder(tmp_path / "NATS-made-simple", cells)
    ingest(folder, tmp_path / "two.parquet")
    searched = search_table(
        open_table(tmp_path / "two.parquet"), "cifar10", curve=True, epochs=[1, 4, 12]
    )
    api = nats_bench.create(str(folder), "tss", fast_mode=True, verbose=False)
    for level in searched.fidelities:
        for place, cell in enumerate(cells):
            accuracy, _, seconds, _ = api.simulate_train_eval(
                cell, "cifar10", iepoch=level.epochs - 1, hp="12"
            )
            assert level.seconds[place] == pytest.approx(seconds)
            assert accuracy in level.packed[place]


def test_a_table_that_is_not_there_says_what_could_be_given(tmp_path):
    with pytest.raises(InputError, match="a released table"):
        open_table(str(tmp_path / "nothing.parquet"))


def test_a_csv_of_means_opens(tmp_path):
    path = tmp_path / "means.csv"
    pd.DataFrame({"index": [0, 11], "cifar10_ori_test": [85.9, 91.6]}).to_csv(path, index=False)
    searched = search_table(open_table(str(path)), "cifar10")
    assert searched.final.tolist() == [85.9, 91.6]
    assert "means over seeds (given)" in searched.reported


def test_table_that_cannot_be_searched_is_refused():
    four = smooth_table(SearchSpace.of(range(4)))
    with pytest.raises(InputError, match="no fidelity to search on"):
        replace(four, fidelities=())
    with pytest.raises(InputError, match="cells without an accuracy"):
        replace(four, tested=np.full((4, 1), np.nan))
    with pytest.raises(InputError, match="cells without an accuracy"):
        replace(four, tested=np.zeros((3, 1)))


def _table(name: str, **columns: object) -> Table:
    rows = synthetic_table(0, cells=range(9), datasets=["cifar10"], epochs=[200]).frame()
    rows = rows[rows["split"] == "ori-test"].assign(**columns)
    return Table.from_frame(rows[PLAIN], name=name)


def test_data_set_of_two_tables_is_the_usual_one_that_both_have():
    """It is the usual data set of the first table, if the second has it.

    Otherwise it is the first by name of those that both have.
    """
    ours, theirs = _table("ours"), _table("theirs", dataset="digits")
    with pytest.raises(InputError, match=r"no data set in common \(cifar10; digits\)"):
        search_tables([ours, theirs])
    several = Table.from_frame(
        synthetic_table(0, cells=range(9), epochs=[200]).frame(), name="several"
    )
    [first, second] = search_tables([several, ours])
    assert (first.dataset, second.dataset) == ("cifar10", "cifar10")
    hundred = _table("hundred", dataset="cifar100", split="x-test")
    assert search_tables([several, hundred])[0].dataset == "cifar100"


def test_test_split_is_the_papers_or_what_there_is():
    assert "cifar100 ori-test" in search_table(_table("t", dataset="cifar100"), "cifar100").reported
    half = _table("t", dataset="digits", split="x-test")
    assert "digits x-test" in search_table(half, "digits").reported
    with pytest.raises(InputError, match="no test or validation accuracy of cifar10; it has train"):
        search_table(_table("t", split="train"), "cifar10")


def test_validation_accuracy_is_final_where_there_is_no_other_and_the_protocol_says_so():
    own, both = _table("own", split="x-valid"), _table("both")
    [searched] = search_tables([own])
    assert searched.split == "validation"
    assert searched.final.tolist() == own.means("cifar10", "x-valid").tolist()
    assert "validation accuracy because the table has no test accuracy" in searched.protocol
    # `cifar10-valid`, training on half of CIFAR-10, counts as the data set `cifar10`.
    half = _table("half", dataset="cifar10-valid", split="x-valid")
    assert [each.split for each in search_tables([half, both])] == ["validation", "test"]
    names = ["random", "rea"]
    found = compare([half, both], names, budget=Budget(evaluations=2), repeats=2)
    assert "judged by validation and test accuracy, 2 runs" in str(found)
