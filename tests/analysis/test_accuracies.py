"""From long tables to pairs of arrays: nothing is dropped without being counted and named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rebench.analysis import pair, read_accuracies
from rebench.errors import InputError


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
    assert found.notes == ("benchmark: 1 cells with fewer than 2 seeds (kept): cells 2",)


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
        (_table(ROWS, dataset="cifar100"), {}, "unknown dataset in this table 'cifar10'"),
        (_table(ROWS), {"split": "x-test"}, "unknown split in this table 'x-test'"),
        (_table(ROWS), {"epochs": 12}, "unknown epochs in this table '12'; valid: 200"),
        (_table(ROWS, epochs=[12, 12, 200, 200]), {}, "several values of epochs: 12, 200"),
        (_table(ROWS), {"recipe": "topology"}, "no column 'recipe'"),
        (_table(ROWS, recipe=list("aabb")), {}, "several values of recipe: a, b"),
        (_table(ROWS, recipe="a"), {"recipe": "b"}, "unknown recipe in this table 'b'"),
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
    before, after, notes = pair(before, after)
    assert before.cells.tolist() == after.cells.tolist() == [2, 4]
    assert before.runs[:, 0].tolist() == [80.0, 90.0]
    assert after.runs[:, 0].tolist() == [81.0, 92.0]
    assert notes == (
        "benchmark: 1 cells that topology lacks: cells 1",
        "topology: 7 cells that benchmark lacks: cells 10, 11, 12, 13, 14 and 2 more",
        "benchmark trained for 200 epochs, topology for 12",
    )


def test_no_cell_in_common_is_refused():
    before, after = _read(_table([(1, 777, 70.0)])), _read(_table([(2, 777, 70.0)]), name="mine")
    with pytest.raises(
        InputError, match=r"benchmark \(1 cells\) and mine \(1 cells\) have no cell"
    ):
        pair(before, after)
