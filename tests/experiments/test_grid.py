"""Reading a learning-rate surface, and basic functions on it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from made_surfaces import RATES, SEEDS, some_cells, surface_table

from cells import Cell, compile_space
from experiments.surface.grid import (
    Surface,
    at_rates,
    gained,
    log_best_rates,
    own_columns,
    read_surface,
    seed_folds,
)
from rebench.errors import InputError

CELLS = some_cells(5)


def small(accuracy) -> Surface:
    """Return a surface of accuracies [cells, rates, seeds] at the rates 0.1, 0.2, 0.4."""
    values = np.asarray(accuracy, dtype=np.float64)
    return Surface(
        dataset="made",
        epochs=1,
        cells=np.arange(len(values)),
        rates=np.array([0.1, 0.2, 0.4][: values.shape[1]]),
        seeds=tuple(range(values.shape[2])),
        accuracy=values,
        notes=(),
    )


def test_table_becomes_cells_by_rates_by_seeds_in_any_order_of_rows():
    table = surface_table(0.1, CELLS)
    found = read_surface(table.sample(frac=1, random_state=0), dataset="made")
    assert found.cells.tolist() == CELLS.tolist()
    assert found.rates == pytest.approx(RATES)
    assert found.seeds == SEEDS
    assert found.epochs == 10
    assert found.accuracy.ravel() == pytest.approx(table["accuracy"].to_numpy())
    assert found.notes == ()


def test_other_recipes_splits_and_epochs_are_left_out():
    table = surface_table(0.1, CELLS)
    others = [table.assign(**one) for one in ({"rate": np.nan}, {"split": "train"})]
    fewer = table.assign(epochs=5)
    found = read_surface(pd.concat([*others, table, fewer]), dataset="made")
    assert found.accuracy.ravel() == pytest.approx(table["accuracy"].to_numpy())
    assert read_surface(pd.concat([table, fewer]), dataset="made", epochs=5).epochs == 5


def test_cells_in_flight_are_left_out_and_named():
    table = surface_table(0.1, CELLS).iloc[:-1]
    found = read_surface(table, dataset="made")
    assert found.cells.tolist() == CELLS[:-1].tolist()
    assert f"1 cells lack some rate or seed and are left out: {CELLS[-1]}" in found.notes


def test_rates_and_seeds_of_few_cells_do_not_cost_the_other_cells():
    table = surface_table(0.1, CELLS)
    extra = surface_table(0.1, CELLS[:1], rates=(6.4,))
    late = surface_table(0.1, CELLS[:2], seeds=(4,))
    found = read_surface(pd.concat([table, extra, late]), dataset="made")
    assert (len(found.cells), len(found.rates), found.seeds) == (5, 9, SEEDS)
    assert len(found.notes) == 2


def test_a_run_without_a_finite_accuracy_is_left_out_as_in_every_table():
    """Such a run counts as missing, so the cell lacks a rate."""
    table = surface_table(0.1, CELLS)
    table.loc[3, "accuracy"] = np.nan
    found = read_surface(table, dataset="made")
    assert found.cells.tolist() == CELLS[1:].tolist()
    assert "1 runs without a finite accuracy are left out" in found.notes
    assert read_surface(table.drop(index=3), dataset="made").cells.tolist() == CELLS[1:].tolist()


def test_members_of_a_functional_class_are_one_observation():
    sizes = np.bincount(classes := compile_space().functional_class)[classes]
    cell = Cell.from_index(int(np.flatnonzero(sizes == 2)[0]))
    one, other = sorted(cell.class_members())
    table = surface_table(0.1, [one, other], noise=0)
    found = read_surface(table, dataset="made")
    means = table["accuracy"].to_numpy().reshape(2, -1).mean(axis=0)
    assert found.cells.tolist() == [one]
    assert found.accuracy.ravel() == pytest.approx(means)


def test_two_accuracies_of_one_run_name_the_column_to_choose_by():
    table = surface_table(0.1, CELLS).assign(batch_size=256)
    twice = pd.concat([table, table.assign(batch_size=128, accuracy=1.0)])
    with pytest.raises(InputError, match="differ in batch_size: choose one"):
        read_surface(twice, dataset="made")


@pytest.mark.parametrize("rates", [(), RATES[:2]])
def test_too_few_rates_are_no_surface(rates):
    table = surface_table(0.1, CELLS, rates=rates) if rates else surface_table(0.1, CELLS)
    table = table if rates else table.assign(rate=np.nan)
    with pytest.raises(InputError, match="three fixed rates or more"):
        read_surface(table, dataset="made")


def test_accuracy_is_linear_in_the_logarithm_of_the_rate():
    means = np.array([[10.0, 20.0, 40.0], [1.0, 2.0, 3.0]])
    rates = np.array([0.1, 0.2, 0.4])
    wanted = np.array([[0.1, 0.2 * 2**0.25, 0.4, 0.05], [0.4, 0.1 * 2**0.5, 0.8, 0.2]])
    found, outside = at_rates(means, rates, wanted)
    assert found == pytest.approx(np.array([[10, 25, 40, 10], [3, 1.5, 3, 2]]))
    assert outside.tolist() == [[False, False, False, True], [False, False, True, False]]


def test_best_rate_is_the_vertex_of_a_parabola():
    rates = np.array([0.01, 0.1, 0.2, 0.4, 3.2])  # unequal steps
    vertices = np.log2([0.13, 0.2, 0.26])
    means = -((np.log2(rates) - vertices[:, None]) ** 2)
    assert log_best_rates(means, rates) == pytest.approx(vertices)


def test_best_rate_at_an_end_is_the_end():
    means = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]])
    found = log_best_rates(means, np.array([0.1, 0.2, 0.4]))
    assert found[:2] == pytest.approx(np.log2([0.1, 0.4]))


def test_folds_choose_and_score_on_different_seeds():
    surface = small(np.arange(18).reshape(2, 3, 3))
    first = seed_folds(surface)[0]
    assert first.score == pytest.approx(surface.accuracy[:, :, 0])
    assert first.choose == pytest.approx(surface.accuracy[:, :, 1:].mean(axis=2))
    with pytest.raises(InputError, match="two seeds, got one"):
        seed_folds(small(np.zeros((2, 3, 1))))


def test_own_rate_follows_the_cell_where_seeds_agree():
    accuracy = np.array([[[9.0] * 2, [1.0] * 2], [[0.0] * 2, [9.0] * 2], [[0.0] * 2, [8.0] * 2]])
    surface = small(accuracy)
    assert own_columns(surface, accuracy.mean(axis=2), 2).tolist() == [0, 1, 1]


def test_own_rate_is_the_single_best_where_seeds_explain_all():
    rng = np.random.default_rng(0)
    accuracy = np.array([0.0, 1.0, 0.0])[:, None] + 5 * rng.standard_normal((400, 3, 3))
    surface = small(accuracy)
    assert (own_columns(surface, accuracy.mean(axis=2), 3) == 1).mean() > 0.95


def test_what_is_gained_has_the_mean_of_the_chosen_and_an_interval_of_cells_and_seeds():
    rng = np.random.default_rng(0)
    folds = 1 + rng.normal(0, 1, (50, 1)) + rng.normal(0, 1, (50, 3)) + [-0.5, 0.0, 0.5]
    chosen = rng.random((50, 3)) < 0.4
    found = gained("gain", folds, chosen)
    means = [folds[chosen[:, fold], fold].mean() for fold in range(3)]
    assert found["gain"] == pytest.approx(np.mean(means))
    whole = gained("gain", folds)
    assert whole["gain"] == pytest.approx(folds.mean())
    over_cells = 2 * 2.0096 * folds.mean(axis=1).std(ddof=1) / np.sqrt(50)
    assert whole["gain_high"] - whole["gain_low"] > 1.2 * over_cells


def test_cells_that_share_one_training_are_one_observation():
    cells = some_cells(6)
    table = surface_table(0.1, cells, noise=0)
    first = dict(zip(cells, [*cells[:4], cells[0], cells[1]], strict=True))
    made = read_surface(table.assign(trained_as=table["index"].map(first)), dataset="made")
    assert made.cells.tolist() == cells[:4].tolist()
    assert len(read_surface(table, dataset="made").cells) == 6
