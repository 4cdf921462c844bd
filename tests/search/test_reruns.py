"""Cells of two tables, and resampled tables: as if the first was trained with other seeds."""

import dataclasses

import numpy as np
import pytest
from search_tables import smooth_table
from simulated_tables import synthetic_table

from cells.classes import trainable_networks
from rebench.errors import InputError
from rebench.search import Fidelity, SearchSpace, search_table
from rebench.search.reruns import rerun_tables
from rebench.search.tabular import common_cells
from rebench.tables import open_table


def test_only_cells_of_both_tables_are_searched():
    first, second = common_cells(
        smooth_table(SearchSpace.of(range(100))), smooth_table(SearchSpace.of(range(50, 200)))
    )
    assert first.space.indices.tolist() == second.space.indices.tolist() == list(range(50, 100))


def test_tables_without_a_common_cell_are_refused():
    with pytest.raises(InputError, match="no cell in common"):
        common_cells(smooth_table(SearchSpace.of([1])), smooth_table(SearchSpace.of([2])))


def test_reruns_differ_from_the_table_as_two_runs_of_seeds_do():
    """A rerun differs from its table as much as two means over other seeds differ."""
    table = search_table(
        synthetic_table(0, cells=range(3000), datasets=["cifar10", "cifar10-valid"]), "cifar10"
    )
    run_sd = float(np.sqrt(np.mean(np.var(table.tested, axis=1, ddof=1))))
    reruns = rerun_tables(table, 3, np.random.default_rng(0))
    # The difference of two independent means of 3 runs; shrinking makes it a little smaller.
    expected = run_sd * np.sqrt(2 / 3)
    for rerun in reruns:
        assert np.std(rerun.final - table.final) == pytest.approx(expected, rel=0.2)
        assert rerun.fidelities[0].accuracy.shape == table.fidelities[0].accuracy.shape
        assert not np.allclose(rerun.fidelities[0].accuracy, table.fidelities[0].accuracy)
    assert not np.allclose(reruns[0].final, reruns[1].final)


def test_reruns_of_a_published_run_are_as_rugged_as_another_run():
    """The two first validation runs of each cell are two real trainings with other seeds."""
    runs = open_table("nb201").group("cifar10-valid", "x-valid", 200).column("accuracy")
    first, second = (np.array(list(column)) for column in zip(*map(_two_runs, runs), strict=True))
    level = Fidelity(epochs=200, accuracy=first[:, None])
    table = dataclasses.replace(smooth_table(), tested=first[:, None], fidelities=(level,))
    reruns = [rerun.final for rerun in rerun_tables(table, 10, np.random.default_rng(0))]
    fewest, *_, most = sorted(map(_local_optima, reruns))
    assert fewest <= _local_optima(second) <= most
    assert fewest <= _local_optima(first) <= most


def _two_runs(runs: np.ndarray) -> np.ndarray:
    """Return the first two of the runs of a cell that are not missing."""
    return runs[np.isfinite(runs)][:2]


def _local_optima(accuracy: np.ndarray) -> int:
    """Count cells within 1 point of the best that are better than all one-edge changes."""
    space = SearchSpace.whole()
    near = np.flatnonzero(accuracy > accuracy.max() - 1)
    return sum(accuracy[cell] > accuracy[space.neighbours(cell)].max() for cell in near)


def test_a_rerun_searched_on_its_final_accuracy_shows_what_it_reports():
    source = synthetic_table(0, cells=range(300), datasets=["cifar10"], epochs=[200])
    table = search_table(source, "cifar10", validation=False)
    (rerun,) = rerun_tables(table, 1, np.random.default_rng(0))
    np.testing.assert_array_equal(rerun.fidelities[0].accuracy, rerun.tested)


def test_noise_of_one_value_per_cell_is_that_between_equal_cells():
    """Cells with the same network have the same true accuracy, and noise of deviation 0.5."""
    table = smooth_table()
    networks = trainable_networks(table.space.indices)
    true = np.random.default_rng(1).normal(90, 3, networks.max() + 1)[networks]
    noisy = true + np.random.default_rng(2).normal(0, 0.5, len(true))
    level = dataclasses.replace(table.fidelities[0], accuracy=noisy[:, None])
    table = dataclasses.replace(table, tested=noisy[:, None], fidelities=(level,))
    (rerun,) = rerun_tables(table, 1, np.random.default_rng(0))
    assert rerun.reported.endswith("noise from cells that are the same network")
    np.testing.assert_array_equal(rerun.fidelities[0].accuracy, rerun.tested)
    # The difference of two noisy runs of one true value.
    assert np.std(rerun.final - noisy) == pytest.approx(0.5 * np.sqrt(2), rel=0.05)
    # Equal cells have the same true accuracy in the copy, too.
    for values in (noisy, rerun.final):
        means = np.bincount(networks, values) / np.bincount(networks)
        squares = np.sum((values - means[networks]) ** 2) / (len(values) - len(means))
        assert np.sqrt(squares) == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(("bad_sd", "refused"), [(20.0, True), (1.0, False)])
def test_a_table_in_which_noisy_bad_cells_would_become_the_best_is_refused(
    bad_sd: float, refused: bool
):
    """Good cells have noise of a standard deviation of 0.1, around 89 %; bad cells are at 50 %."""
    rng = np.random.default_rng(0)
    table = smooth_table(SearchSpace.of(range(3000)))
    good = np.arange(3000) < 2800
    true, sd = np.where(good, rng.normal(89, 0.5, 3000), 50), np.where(good, 0.1, bad_sd)
    tested = true[:, None] + sd[:, None] * rng.normal(0, 1, (3000, 2))
    table = dataclasses.replace(table, tested=tested)
    if not refused:
        (rerun,) = rerun_tables(table, 1, np.random.default_rng(1))
        assert rerun.best < table.best + 1
        return
    with pytest.raises(InputError, match=r"smooth cannot be resampled .* would reach 1\d\d\.\d %"):
        rerun_tables(table, 1, np.random.default_rng(1))


def test_one_value_per_cell_without_equal_cells_has_unknown_noise():
    few = smooth_table(SearchSpace.of(range(20)))
    with pytest.raises(InputError, match="one value per cell and fewer than 10 networks"):
        rerun_tables(few, 2, np.random.default_rng(0))


def test_a_signal_of_unknown_noise_is_left_unchanged():
    table = smooth_table(SearchSpace.of(range(20)), noise=1.0)
    tested = table.fidelities[1].accuracy
    shown = dataclasses.replace(table.fidelities[0], accuracy=tested[:, :1])
    (rerun,) = rerun_tables(
        dataclasses.replace(table, tested=tested, fidelities=(shown,)), 1, np.random.default_rng(0)
    )
    np.testing.assert_array_equal(rerun.fidelities[0].accuracy, shown.accuracy)
    assert not np.isclose(rerun.tested, tested).any()
