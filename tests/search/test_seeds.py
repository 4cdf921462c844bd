"""Tables that differ from a table by seeds only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from search_tables import smooth_table

from cells.classes import trainable_networks
from rebench.search import Fidelity, SearchSpace, SearchTable
from rebench.search.seeds import seed_tables

NAN = np.nan


def _table(runs: np.ndarray, seeds: tuple[int, ...]) -> SearchTable:
    """Return a table of the first cells that is searched on the accuracies that it reports."""
    signal = Fidelity(epochs=1, accuracy=runs + 1)
    table = smooth_table(SearchSpace.of(range(len(runs))))
    return replace(table, name="own", tested=runs, fidelities=(signal,), seeds=seeds)


def test_single_seeds_are_seen_and_reported_on_the_cells_that_have_all():
    """Seed 999 has a quarter of the cells, and run 1 (seed -2) is no known seed."""
    runs = np.array([[1, 11, NAN, 5.0], [2, 12, 22, 6], [3, 13, NAN, 7], [4, NAN, NAN, 8]])
    first, second = seed_tables(_table(runs, (777, 888, 999, -2)))
    assert (first.name, second.name) == ("own seed 777", "own seed 888")
    assert first.space.indices.tolist() == second.space.indices.tolist() == [0, 1, 2]
    assert (first.tested.tolist(), second.tested.tolist()) == ([[1], [2], [3]], [[11], [12], [13]])
    assert first.fidelities[0].accuracy.tolist() == [[2], [3], [4]]


def test_at_most_three_seeds_are_searched():
    table = _table(np.arange(20.0).reshape(4, 5), (1, 2, 3, 4, 5))
    assert [each.name for each in seed_tables(table)] == ["own seed 1", "own seed 2", "own seed 3"]


def test_equal_cells_exchange_the_runs_of_one_seed():
    space = SearchSpace.whole()
    runs = np.arange(len(space), dtype=float)[:, None]
    table = replace(smooth_table(), tested=runs, fidelities=(Fidelity(epochs=1, accuracy=runs),))
    (exchanged,) = seed_tables(table)
    rows = exchanged.final.astype(int)
    networks = trainable_networks(space.indices)
    np.testing.assert_array_equal(networks[rows], networks)
    np.testing.assert_array_equal(np.sort(rows), space.indices)
    np.testing.assert_array_equal(exchanged.fidelities[0].accuracy, exchanged.tested)
    assert (rows != space.indices).sum() == 11_212  # cells with a path and an equal cell
    np.testing.assert_array_equal(seed_tables(table)[0].final, exchanged.final)


def test_a_table_of_few_cells_and_one_seed_has_no_other_seed():
    assert seed_tables(_table(np.arange(20.0)[:, None], (777,))) == []
