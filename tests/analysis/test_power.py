"""The model of seed noise: against the truth behind simulated runs, and what it foretells."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_tables import runs, world

from rebench.analysis import Accuracies, Paired, SeedNoise
from rebench.analysis.concordance import top_mask
from rebench.analysis.exchange import exchange_p_values
from rebench.analysis.power import power
from rebench.analysis.seed_noise import centred
from rebench.errors import InputError

EFFECTS = np.array([-0.65, 0.28, 0.37])
LEVELS = (100, 50, 20, 10)


def table(values):
    return Accuracies(
        name="table", cells=np.arange(len(values)), seeds=tuple(range(values.shape[1])), runs=values
    )


def test_model_recovers_the_noise_and_shrinks_the_lucky():
    rng = np.random.default_rng(10)
    true, sd = world(4000, rng)
    model = SeedNoise.fit(runs(true, sd, 3, rng))
    assert np.median(model.run_sd / sd) == pytest.approx(1, abs=0.05)
    best = top_mask(model.means, model.means, 2)
    drawn = model.true_means(50, rng)[:, best]
    lucky = (model.means - true)[best].mean()
    assert lucky > 0.05  # chosen for being lucky
    assert (model.means[best] - drawn.mean(axis=0)).mean() == pytest.approx(lucky, rel=0.25)
    assert drawn.std(axis=0).mean() < (sd / np.sqrt(3))[best].mean() * 1.1


def test_cells_that_lack_a_seed_are_kept_and_never_imputed():
    rng = np.random.default_rng(12)
    true, sd = world(60, rng)
    a = runs(true, sd, 3, rng)
    a[::3, 2] = np.nan
    model = SeedNoise.fit(a)
    assert model.counts.tolist() == [2 if row % 3 == 0 else 3 for row in range(60)]
    paired = Paired.of_values(a, runs(true, sd, 1, rng))
    assert 0 < exchange_p_values(paired, (100,), draws=99, rng=rng)[0] <= 1


def test_power_is_the_share_of_tables_that_show_a_change():
    """Nothing at a vanishing change but the level; more cells, more seeds, more power."""
    rng = np.random.default_rng(2)
    learnt = table(runs(*world(300, rng), 3, rng))
    found = power(learnt, 0.1, cells=(20, 200), seeds=(2, 4), draws=60, rng=0)
    assert found[["cells", "seeds"]].to_numpy().tolist() == [[20, 2], [20, 4], [200, 2], [200, 4]]
    assert found["runs"].tolist() == [80, 160, 800, 1600]
    by = found["power"].to_numpy()
    assert by[0] < by[2] > 0.9
    assert by[3] >= by[2]
    nothing = power(learnt, 0.001, cells=(60,), seeds=(3,), draws=200, rng=0)
    assert nothing["power"].item() < 0.15
    with pytest.raises(InputError, match="of a ranking that is all new, got 2"):
        power(learnt, 2.0, rng=0)


def test_seed_noise_of_single_seeds_is_refused():
    with pytest.raises(InputError, match="two seeds"):
        SeedNoise.fit([[1.0], [2.0]])


def _tables(n=200, seed=0):
    rng = np.random.default_rng(seed)
    true, sd = world(n, rng)
    return [runs(true, sd, 3, rng) for _ in range(2)]


def test_the_noise_of_a_run_is_measured_without_it():
    a, _ = _tables(2000)
    plain, moved = SeedNoise.fit(a), SeedNoise.fit(a + EFFECTS)
    np.testing.assert_allclose(moved.run_sd, plain.run_sd, rtol=0.03)


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
