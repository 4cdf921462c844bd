"""Seed tau from equal cells, against slow computations and against simulated seeds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.stats import kendalltau

from cells.classes import functional_classes
from cells.table import space_ops
from rebench.analysis.equal_cells import EqualCells, equal_cell_tau, partners
from rebench.errors import InputError


@pytest.fixture(scope="module")
def whole() -> EqualCells:
    return EqualCells.among(np.arange(15625))


def in_classes(sizes: list[int]) -> EqualCells:
    classes = np.repeat(np.arange(len(sizes)), sizes)
    return EqualCells(rows=np.arange(len(classes)), classes=classes)


def test_classes_with_a_path_and_two_cells_are_as_many_as_counted(whole):
    assert len(whole.rows) == 11_212
    assert whole.n_classes == 1_404
    strict = functional_classes("strict")[whole.rows]
    pairs = set(zip(strict.tolist(), whole.classes.tolist(), strict=True))
    assert len(pairs) == 1_404
    # Without a path: every edge into vertex 3 is none, or comes from a vertex that nothing reaches.
    op10, op20, op21, op30, op31, op32 = space_ops()[whole.rows].T > 0
    reaches = op30 | (op31 & op10) | (op32 & (op20 | (op21 & op10)))
    assert reaches.all()


def test_equal_cells_among_few_are_found_among_these(whole):
    some = np.arange(0, 15625, 7)
    found = EqualCells.among(some)
    strict = functional_classes("strict")[some]
    of_whole = np.isin(some, whole.rows)
    expected = [row for row in np.flatnonzero(of_whole) if (strict == strict[row]).sum() > 1]
    assert found.rows.tolist() == expected
    assert EqualCells.among([0, 1]).n_classes == 0


def test_partners_are_other_cells_of_the_class_each_once(whole):
    own = partners(whole.classes, 0)
    assert (whole.classes[own] == whole.classes).all()
    assert (own != np.arange(len(own))).all()
    assert np.bincount(own).tolist() == [1] * len(own)


def test_tau_is_the_mean_over_all_pairings_by_scipy():
    equal = in_classes([4, 4, 2])
    values = np.random.default_rng(1).normal(size=10) + 0.7 * equal.classes
    # Every order of the members of every class, each followed by its partner, one by one.
    members = [np.flatnonzero(equal.classes == c) for c in range(3)]
    taus = []
    for orders in itertools.product(*(itertools.permutations(own.tolist()) for own in members)):
        second = np.empty(10)
        for order in orders:
            for at, cell in enumerate(order):
                second[cell] = values[order[(at + 1) % len(order)]]
        taus.append(kendalltau(values, second).statistic)
    told = equal_cell_tau(values, equal, [100], draws=4000, groups=2, rng=0)
    error = np.std(taus) / np.sqrt(4000)
    assert 0 < 4 * error < 0.01
    assert told["tau"][0] == pytest.approx(np.mean(taus), abs=4 * error)


def test_estimate_is_seed_tau_where_equal_cells_differ_by_seed_only():
    rng = np.random.default_rng(3)
    equal = in_classes([int(size) for size in rng.integers(2, 12, size=400)])
    truth = rng.normal(size=400)[equal.classes]
    runs = truth + 0.4 * rng.normal(size=(2, len(truth)))
    told = equal_cell_tau(runs[0], equal, [100, 50, 20], rng=0)
    # The estimate uses the runs of one seed only; the test also knows those of another seed.
    other = [kendalltau(*runs).statistic]
    assert told["tau"][0] == pytest.approx(other[0], abs=0.01)
    assert told["tau_low"][0] < other[0] < told["tau_high"][0]
    assert told["n_cells"].tolist() == [len(truth), *told["n_cells"][1:]]
    assert (told["n_classes"] == 400).all()


def test_a_cell_without_accuracy_is_left_out_with_a_partner_that_is_then_alone():
    equal = in_classes([2, 3, *[2] * 10])
    values = np.arange(25.0)
    values[[0, 2]] = np.nan
    told = equal_cell_tau(values, equal, [100], rng=0)
    assert told["n_cells"][0] == 22
    assert told["n_classes"][0] == 11


def test_too_few_equal_cells_have_no_tau():
    few = equal_cell_tau(np.arange(4.0), in_classes([2, 2]), [100], rng=0)
    assert np.isnan(few[["tau", "tau_low", "tau_high"]].to_numpy()).all()
    none = equal_cell_tau(np.arange(4.0), in_classes([]), [100, 50], rng=0)
    assert none["n_cells"].tolist() == [0, 0]
    with pytest.raises(InputError, match=r"must be \[cells\]"):
        equal_cell_tau(np.ones((3, 2)), in_classes([3]))


def test_interval_is_the_jackknife_over_classes_by_hand():
    """Each class has two cells, so there is one pairing of equal cells.

    There are as many groups as classes, so the jackknife leaves out one class at a time.
    """
    rng = np.random.default_rng(5)
    true = np.repeat(rng.normal(90, 1, 15), 2)
    values, classes = true + rng.normal(0, 0.5, 30), np.repeat(np.arange(15), 2)
    equal = EqualCells(rows=np.arange(30), classes=classes)
    row = equal_cell_tau(values, equal, (100,), draws=1, groups=40, rng=0).iloc[0]
    partner = values.reshape(15, 2)[:, ::-1].ravel()
    tau = kendalltau(values, partner).statistic
    without = [
        kendalltau(values[classes != one], partner[classes != one]).statistic for one in range(15)
    ]
    error = np.sqrt(14 * np.var(without))
    assert row["tau"] == pytest.approx(tau)
    assert row["tau_high"] - row["tau"] == pytest.approx(stats.t(14).ppf(0.975) * error)
    assert row["tau"] - row["tau_low"] == pytest.approx(stats.t(14).ppf(0.975) * error)
    assert (row["n_cells"], row["n_classes"]) == (30, 15)


@pytest.mark.parametrize(("draws", "groups"), [(0, 2), (1, 1)])
def test_no_pairing_and_a_single_group_are_refused(draws, groups):
    equal = EqualCells(rows=np.arange(4), classes=np.array([0, 0, 1, 1]))
    message = f"draws must be at least 1 and groups 2, got {draws} and {groups}"
    with pytest.raises(InputError, match=message):
        equal_cell_tau(np.arange(4.0), equal, draws=draws, groups=groups)
