"""What a seed adds to all cells alike ranks none of them differently: it is no noise."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_tables import runs, world

from rebench.analysis import Reranking, SeedNoise, noise_curve, rerank, seed_test, verdict
from rebench.analysis.accuracies import Accuracies
from rebench.analysis.seed_noise import centred

LEVELS = (100, 50, 20)
# Means by seed as the demonstration showed them: 96.49, 97.42, 97.51, less their mean.
EFFECTS = np.array([-0.65, 0.28, 0.37])


def _tables(n=200, seed=0):
    rng = np.random.default_rng(seed)
    true, sd = world(n, rng)
    return [runs(true, sd, 3, rng) for _ in range(2)]


@pytest.mark.parametrize("other", [EFFECTS, EFFECTS[::-1], np.zeros(3)], ids=("same", "new", "no"))
def test_the_test_of_movement_and_its_baseline_do_not_see_it(other):
    a, b = _tables()
    plain = seed_test(a, b, LEVELS, draws=200, rng=1)
    moved = seed_test(a + EFFECTS, b + other, LEVELS, draws=200, rng=1)
    np.testing.assert_allclose(moved["tau"], plain["tau"], atol=0.01)
    np.testing.assert_allclose(moved["null_tau"], plain["null_tau"], atol=0.01)
    np.testing.assert_allclose(moved["p_value"], plain["p_value"], atol=0.08)


def test_the_noise_of_a_run_is_measured_without_it():
    a, _ = _tables(2000)
    plain, moved = SeedNoise.fit(a), SeedNoise.fit(a + EFFECTS)
    np.testing.assert_allclose(moved.run_sd, plain.run_sd, rtol=0.03)
    simulated = [
        noise_curve(x, (1, 1), (100,), draws=40, rng=0)["tau"][0] for x in (a, a + EFFECTS)
    ]
    assert simulated[0] == pytest.approx(simulated[1], abs=0.005)


def test_effects_are_found_though_some_runs_failed_and_some_are_missing():
    a, _ = _tables(60)
    moved = a + EFFECTS
    moved[3, 0] = 10.0
    moved[5, 1] = moved[9, 2] = np.nan
    found = moved - centred(moved)
    assert np.nanmedian(found, axis=0) == pytest.approx(EFFECTS, abs=0.15)
    assert np.isnan(centred(moved)).tolist() == np.isnan(moved).tolist()


def test_means_of_whole_cells_keep_their_order():
    a, _ = _tables()
    np.testing.assert_allclose(centred(a + EFFECTS).mean(axis=1), a.mean(axis=1), atol=0.011)


def test_cells_that_know_no_seed_are_left_as_they_are():
    a, _ = _tables(60)
    moved = np.vstack([a + EFFECTS, np.full((4, 3), 10.0)])
    assert (centred(moved)[-4:] == 10.0).all()
    assert not np.allclose(centred(moved)[:-4], moved[:-4])


@pytest.mark.parametrize("images", [360, 10_000])
def test_accuracies_stay_multiples_of_their_unit_so_that_ties_stay_ties(images):
    rng = np.random.default_rng(3)
    true, sd = world(100, rng)
    a = runs(true + 0.0, sd, 3, rng, images=images)
    a[:, 0] += 300 / images  # three images more, for every cell
    in_units = centred(a) * images / 100
    np.testing.assert_allclose(in_units, np.rint(in_units), atol=1e-6)


def test_one_seed_has_nothing_to_be_centred_by():
    a, _ = _tables(30)
    assert centred(a[:, :1]) is not None
    np.testing.assert_array_equal(centred(a[:, :1]), a[:, :1])


def _reranking(before, after) -> Reranking:
    tables = [
        Accuracies(name=name, cells=np.arange(len(values)), seeds=(777, 888, 999), runs=values,
                   epochs=200, notes=())
        for name, values in (("nb201", before), ("topology", after))
    ]  # fmt: skip
    return rerank(*tables, dataset="digits", draws=49, rng=0)


def test_tau_above_the_noise_is_said_with_what_it_can_mean():
    """The second table holds the very runs of the first but for a trace of noise."""
    a, b = _tables(80)
    again = a + np.random.default_rng(0).normal(0, 0.01, a.shape)
    said = verdict(_reranking(a, again))
    assert "did not move by more than seed noise explains" in said
    assert "the tables agree more than independent runs do" in said
    assert "share runs" in said
    assert "agree more" not in verdict(_reranking(a, b))
