"""Ranks and their intervals: Dunnett's table, hand counts, coverage, and the real benchmark."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from simulated_tables import table_of

from rebench.analysis import Accuracies, rank_intervals, read_accuracies
from rebench.analysis.cell_ranks import critical_values
from rebench.errors import InputError
from rebench.tables import open_table


def _table(runs: np.ndarray) -> Accuracies:
    return table_of(runs, cells=2 * np.arange(len(runs)))


def _counted(table: Accuracies) -> list[list[int]]:
    """Count the significant differences of every cell one by one."""
    means, sd = table.centred_means, table.run_sd / np.sqrt(table.counts)
    freedom = min(21, len(means)) * (table.counts - 1).mean()
    counts = []
    for cell, critical in enumerate(critical_values(sd, freedom)):
        better = worse = 0
        for other in range(len(means)):
            apart = (means[other] - means[cell]) / np.hypot(sd[other], sd[cell])
            better += apart > critical
            worse += apart < -critical
        counts.append([1 + better, len(means) - worse])
    return counts


def test_critical_values_are_dunnetts():
    """Two-sided, 95 %, infinite degrees of freedom: Dunnett, Biometrics 20 (1964), table II."""
    table = {2: 1.96, 3: 2.21, 4: 2.35, 5: 2.44, 6: 2.51, 7: 2.57, 8: 2.61, 9: 2.65, 10: 2.69}
    for cells, value in table.items():
        assert critical_values(np.full(cells, 0.3)) == pytest.approx(value, abs=0.005)
    assert critical_values(np.ones(1)).tolist() == [np.inf]
    # With one comparison it is Student's.
    assert critical_values(np.ones(2), 10.0) == pytest.approx(stats.t.ppf(0.975, 10), abs=1e-4)


def test_critical_values_of_unequal_errors_hold_what_they_promise():
    sd = np.array([0.1, 0.1, 0.5, 1.0, 1.0, 3.0])
    errors = np.random.default_rng(0).normal(size=(40_000, 6)) * sd
    for cell, critical in enumerate(critical_values(sd)):
        apart = np.abs(errors - errors[:, [cell]]) / np.hypot(sd, sd[cell])
        covered = (apart.max(axis=1) <= critical).mean()
        assert covered == pytest.approx(0.95, abs=0.005)  # 4 standard errors


def test_critical_values_of_some_cells_are_those_of_all():
    sd = np.random.default_rng(2).gamma(2, 0.1, 60)
    for rows in ([30], [int(sd.argmin()), 5, int(sd.argmax())]):
        some = critical_values(sd, 40.0, rows=np.array(rows))
        np.testing.assert_array_equal(some, critical_values(sd, 40.0)[rows])


def test_intervals_count_significant_differences():
    rng = np.random.default_rng(1)
    runs = np.linspace(80, 94, 60)[:, None] + 0.5 * rng.normal(size=(60, 3))
    runs[::7, 2] = np.nan
    table = _table(runs)
    found = rank_intervals(table)
    assert found.index.tolist() == table.cells.tolist()
    low_high = found[["rank_low", "rank_high"]].to_numpy().tolist()
    assert low_high == _counted(table)
    ranks = stats.rankdata(-table.centred_means, method="min")
    assert found["rank"].tolist() == ranks.tolist()
    assert found["may_be_best"].tolist() == (found["rank_low"] == 1).tolist()
    assert 1 < found["may_be_best"].sum() < 30
    assert rank_intervals(table, [40, 6]).equals(found.loc[[40, 6]])


def test_cells_without_noise_have_the_ranks_that_they_show():
    runs = np.repeat(np.array([10.0, 90, 80, 90, 70])[:, None], 3, axis=1)
    found = rank_intervals(_table(runs))
    assert found["rank"].tolist() == [5, 1, 3, 1, 4]
    assert found["rank_low"].tolist() == [5, 1, 3, 1, 4]
    assert found["rank_high"].tolist() == [5, 2, 3, 2, 4]
    assert found["may_be_best"].tolist() == [False, True, False, True, False]


def test_tables_without_seeds_and_cells_that_are_not_there_are_refused():
    with pytest.raises(InputError, match="ranks of table have no interval: it has one run of each"):
        rank_intervals(_table(np.arange(12.0)[:, None]))
    runs = np.random.default_rng(2).normal(size=(12, 2))
    with pytest.raises(InputError, match="table has no cell 5"):
        rank_intervals(_table(runs), [4, 5])
    with pytest.raises(InputError, match="table has no cell 99"):
        rank_intervals(_table(runs), [99])


def test_intervals_of_the_whole_benchmark():
    rows = open_table("nb201").frame(dataset="cifar100", split="x-valid", epochs=200)
    table = read_accuracies(rows, dataset="cifar100", split="x-valid")
    found = rank_intervals(table)
    assert (found["rank_low"] <= found["rank"]).all()
    assert (found["rank"] <= found["rank_high"]).all()
    # 81 of 15,625 cells may be the best. Compare each of the first 1,000 with every other cell.
    means, sd = table.centred_means, table.run_sd / np.sqrt(table.counts)
    critical = critical_values(sd, 201 * (table.counts - 1).mean())
    alone = [
        not ((means - means[cell]) > critical[cell] * np.hypot(sd, sd[cell])).any()
        for cell in np.argsort(-means)[:1000]
    ]
    assert sum(alone) == pytest.approx(found["may_be_best"].sum(), abs=2)
    assert found["may_be_best"].sum() == 81
