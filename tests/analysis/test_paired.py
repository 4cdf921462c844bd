"""Conversion of long tables to pairs of arrays: all omitted runs are counted and named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from simulated_tables import table_of

from rebench.analysis import Paired, compare, read_accuracies
from rebench.analysis.paired import _chosen_by, complete, usual_split_of
from rebench.errors import InputError
from rebench.search.proxies import rank_correlation


def _table(rows, **columns):
    frame = pd.DataFrame(rows, columns=["index", "seed", "accuracy"])
    defaults = {"dataset": "cifar10", "split": "ori-test", "epochs": 200}
    return frame.assign(**(defaults | columns))


ROWS = [(4, 777, 90.0), (4, 888, 91.0), (2, 777, 80.0), (2, 888, 82.0)]


def _read(table, **choices):
    return read_accuracies(table, dataset="cifar10", **choices)


def test_cells_by_seeds_in_order_of_the_index():
    found = _read(_table(ROWS))
    assert found.cells.tolist() == [2, 4]
    assert found.seeds == (777, 888)
    assert found.runs.tolist() == [[80.0, 82.0], [90.0, 91.0]]
    assert found.notes == ()
    assert found.epochs == 200


def test_missing_seeds_stay_missing_and_are_named():
    found = _read(_table(ROWS[:3]))
    assert np.isnan(found.runs[0, 1])
    assert found.notes == ("benchmark: 1 cells with fewer than 2 seeds (kept): cell 2",)


def test_accuracies_that_are_not_finite_are_left_out_and_named():
    found = _read(_table([*ROWS, (7, 777, np.nan), (8, 777, np.inf)]))
    assert found.cells.tolist() == [2, 4]
    assert found.notes == ("benchmark: 2 accuracies that are not finite: cells 7, 8",)


def test_equal_duplicates_count_once_and_are_counted():
    found = _read(_table([*ROWS, ROWS[0]]))
    assert found.runs.tolist() == _read(_table(ROWS)).runs.tolist()
    assert found.notes == ("benchmark: 1 records appear more than once and count once",)


def test_duplicates_that_differ_are_refused_naming_the_cell():
    with pytest.raises(InputError, match=r"two different accuracies .* \(first: cell 4\)"):
        _read(_table([*ROWS, (4, 777, 90.5)]))


@pytest.mark.parametrize(
    ("table", "choices", "message"),
    [
        (_table(ROWS).drop(columns="seed"), {}, "lacks the columns seed"),
        (_table(ROWS, dataset="cifar100"), {}, "unknown dataset 'cifar10' in this table"),
        (_table(ROWS), {"split": "x-test"}, "unknown split 'x-test' in this table"),
        (_table(ROWS), {"epochs": 12}, "unknown epochs '12' in this table; valid: 200"),
        (_table(ROWS, epochs=[12, 12, 200, 200]), {}, "several values of epochs: 12, 200"),
        (_table(ROWS), {"recipe": "topology"}, "no column 'recipe'"),
        (_table(ROWS, recipe=list("aabb")), {}, "several values of recipe: a, b"),
        (_table(ROWS, recipe="a"), {"recipe": "b"}, "unknown recipe 'b' in this table"),
        (_table([(1, 777, np.nan)]), {}, "no finite accuracy on cifar10 ori-test"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(table, choices, message):
    with pytest.raises(InputError, match=message) as caught:
        _read(table, **choices)
    assert "\n" not in str(caught.value)


def test_pairs_are_the_common_cells_and_the_rest_is_named():
    before = _read(_table([(1, 777, 70.0), (2, 777, 80.0), (4, 777, 90.0)]))
    rows = [(2, 777, 81.0), (4, 777, 92.0), *((cell, 777, 50.0) for cell in range(10, 17))]
    after = _read(_table(rows, recipe="topology", epochs=12))
    paired = Paired.of(before, after)
    before, after, notes = paired.baseline, paired.other, paired.notes
    assert before.cells.tolist() == after.cells.tolist() == [2, 4]
    assert before.runs[:, 0].tolist() == [80.0, 90.0]
    assert after.runs[:, 0].tolist() == [81.0, 92.0]
    assert notes == (
        "benchmark: 1 cells that topology lacks: cell 1",
        "topology: 7 cells that benchmark lacks: cells 10, 11, 12, 13, 14 and 2 more",
        "benchmark trained for 200 epochs, topology for 12",
    )


@pytest.mark.parametrize(
    ("alone", "shown"), [(5, "cells 0, 1, 2, 3, 4"), (6, "cells 0, 1, 2, 3, 4 and 1 more")]
)
def test_five_cells_of_a_note_are_named_and_the_rest_is_counted(alone, shown):
    every = table_of(np.ones((20, 1)))
    some = table_of(np.ones((20 - alone, 1)), "some", cells=np.arange(alone, 20))
    [note] = Paired.of(every, some).notes
    assert note == f"table: {alone} cells that some lacks: {shown}"


def test_no_cell_in_common_is_refused():
    before, after = _read(_table([(1, 777, 70.0)])), _read(_table([(2, 777, 70.0)]), name="mine")
    with pytest.raises(
        InputError, match=r"benchmark \(1 cells\) and mine \(1 cells\) have no cell"
    ):
        Paired.of(before, after)


def test_runs_that_diverged_are_marked_where_they_stand():
    status = ["trained", "diverged", "trained", "trained"]
    found = _read(_table(ROWS, status=status))
    assert found.diverged.tolist() == [[False, False], [False, True]]
    assert found.runs[1, 1] == 91.0
    assert Paired.of(found, found).baseline.diverged.tolist() == found.diverged.tolist()
    assert _read(_table(ROWS)).diverged is None


def test_the_whole_of_a_pair_has_no_gap():
    """First, seeds that few cells have are omitted; then, cells that lack one of the others."""
    few = [(cell, 999, 70.0) for cell in (2,)]
    rows = [*ROWS, (6, 777, 60.0), (6, 888, 61.0), (8, 777, 50.0), *few]
    paired = Paired.of(_read(_table(rows)), _read(_table(ROWS + rows[4:7], recipe="topology")))
    whole = paired.whole
    assert whole.baseline.cells.tolist() == [2, 4, 6]
    assert whole.baseline.seeds == whole.other.seeds == (777, 888)
    assert np.isfinite([whole.baseline.runs, whole.other.runs]).all()
    apart = _read(_table([(1, 1, 10.0), (2, 2, 20.0), (3, 3, 30.0)]))
    means = Paired.of(apart, apart).whole
    assert means.baseline.runs.tolist() == [[10.0], [20.0], [30.0]]


CELLS = np.arange(0, 1200, 20)


def _tables():
    """Return two labelled tables of the same cells in different order, and the same as arrays."""
    rng = np.random.default_rng(0)
    true = rng.normal(90, 2, len(CELLS))
    before, after = (
        pd.DataFrame(true[:, None] + rng.normal(0, 0.5, (len(CELLS), 3)), index=CELLS)
        for _ in range(2)
    )
    return before, after, after.sample(frac=1, random_state=1)


TAKE_TWO = {
    "compare": lambda a, b: compare(a, b, top_percent=(100, 50), draws=20, seed=3).frame(),
    "rank_correlation": lambda a, b: pd.DataFrame([rank_correlation(a[0], b[0])]),
}


@pytest.mark.parametrize("name", TAKE_TWO)
def test_rows_are_brought_together_by_their_labels(name):
    before, after, shuffled = _tables()
    assert not np.array_equal(after.index, shuffled.index)
    expected, found = (TAKE_TWO[name](before, table) for table in (after, shuffled))
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("name", TAKE_TWO)
def test_tables_of_other_cells_are_refused_naming_what_is_missing(name):
    before, after, _ = _tables()
    with pytest.raises(InputError, match="the second table lacks cells 0, 20, which the first"):
        TAKE_TWO[name](before, after.iloc[2:])
    with pytest.raises(InputError, match="the first table lacks cells 1160, 1180, which the sec"):
        TAKE_TWO[name](before.iloc[:-2], after)
    with pytest.raises(InputError, match="lacks cells 0, 20, 40, 60, 80 and 2 more, which"):
        TAKE_TWO[name](before, after.iloc[7:])


def test_a_cell_that_stands_twice_is_refused():
    before, after, _ = _tables()
    with pytest.raises(InputError, match="the second table contains more than one row of cell 0;"):
        Paired.of_values(before, pd.concat([after, after.iloc[:1]]))


def test_labels_on_one_side_alone_are_refused():
    before, after, _ = _tables()
    with pytest.raises(InputError, match="some tables are labelled by cell"):
        Paired.of_values(before, after.to_numpy())


def test_plain_arrays_go_by_position_and_must_be_equally_long():
    paired = Paired.of_values([1.0, 2.0], [[3.0, 4.0], [5.0, np.inf]])
    assert paired.baseline.runs.tolist() == [[1.0], [2.0]]
    assert paired.other.means.tolist() == [3.5, 5.0]
    assert (paired.baseline.seeds, paired.other.seeds) == ((0,), (0, 1))
    with pytest.raises(InputError, match="2 and 3 cells: arrays are matched by position"):
        Paired.of_values([1.0, 2.0], [1.0, 2.0, 3.0])


def test_cells_that_the_third_table_lacks_are_left_out_and_named():
    cells = np.arange(20)
    before, after, third = (
        table_of(90.0 + own[:, None] % 7, name, cells=own)
        for name, own in (("one", cells), ("other", cells), ("third", np.delete(cells, [3, 11])))
    )
    found = Paired.of(before, after).chosen_by(third)
    assert found.baseline.cells.tolist() == found.other.cells.tolist() == third.cells.tolist()
    assert found.third.tolist() == third.means.tolist()
    assert found.notes[-2:] == (
        "the top K % are chosen by third",
        "one: 2 cells that third lacks: cells 3, 11",
    )


@pytest.mark.parametrize(("with_three", "columns"), [(2, 2), (3, 3)])
def test_further_column_of_runs_needs_more_than_a_tenth_of_the_cells(with_three, columns):
    """Missing runs of a cell are moved to its last columns; with 20 cells, a third column needs 3.

    A column can then contain runs of different seeds, so the effects of the seeds are subtracted.
    """
    runs = np.arange(20.0)[:, None] + [0.0, 3.0, 3.0]
    runs[::2, 0] = runs[1::2, 1] = np.nan  # two runs of every cell
    runs[:with_three] = np.arange(with_three)[:, None] + [0.0, 3.0, 3.0]
    table = table_of(runs, seeds=(7, 8, 9))
    values, seeds = table.side_by_side
    assert values.shape == seeds.shape == (20, columns)
    assert seeds[with_three:, :2].tolist() == [
        [8, 9] if cell % 2 == 0 else [7, 9] for cell in range(with_three, 20)
    ]
    np.testing.assert_array_equal(values[10, :2], table.centred[10, 1:])
    whole, _ = table_of(runs[:2]).side_by_side
    assert whole.tolist() == [[0.0, 3.0, 3.0], [1.0, 4.0, 4.0]]


def test_where_no_cell_has_two_runs_in_both_tables_their_means_are_compared():
    lacking = np.array([[1.0, 3.0], [2.0, 4.0], [5.0, np.nan], [6.0, np.nan]])
    found = Paired.of_values(lacking, lacking[[2, 3, 0, 1]]).repeated
    assert found.baseline.runs.tolist() == [[2.0], [3.0], [5.0], [6.0]]
    assert found.other.runs.tolist() == [[5.0], [6.0], [2.0], [3.0]]


@pytest.mark.parametrize(("with_two", "kept"), [(5, 5), (4, 10)])
def test_second_runs_are_required_where_half_of_the_cells_have_them(with_two, kept):
    runs = np.arange(20.0).reshape(10, 2)
    some = runs.copy()
    some[with_two:, 1] = np.nan
    assert len(Paired.of_values(runs, some).repeated) == kept
    rows, columns = complete(some)
    assert columns.tolist() == [True, with_two == 5]
    assert rows.sum() == kept


@pytest.mark.parametrize(
    ("n_best", "n_others", "chosen"),
    [(49, 0, True), (50, 0, False), (28, 2, True), (27, 3, False), (10, 0, True), (9, 0, False)],
)
def test_cells_are_chosen_by_a_table_that_has_twice_as_many_and_nine_of_ten_of_its_best(
    n_best, n_others, chosen
):
    """A table of 100 cells chose the cells if these are 10 to 49, and over 90 % of them the best.

    The best are as many cells of the table as there are cells to test.
    """
    means = np.random.default_rng(0).permutation(100) + 0.5
    table = table_of(means[:, None])
    ranked = np.argsort(-means)
    cells = np.sort([*ranked[:n_best], *ranked[60 : 60 + n_others]])
    assert bool(_chosen_by(table, cells)) is chosen


def test_usual_split_is_in_all_tables_and_has_runs():
    def rows(*splits_and_seeds):
        return pd.DataFrame(splits_and_seeds, columns=["split", "seed"])

    runs = rows(("train", 777), ("x-valid", 777), ("x-test", -1))
    means = rows(("x-valid", -1), ("x-test", -1))
    assert usual_split_of(runs) == "x-valid"
    assert usual_split_of(means) == usual_split_of(runs, means) == "x-test"
    assert usual_split_of(runs, rows(("x-valid", 888))) == "x-valid"
