"""The model of seed noise on simulated runs, and the power that it predicts."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_tables import runs, world

from rebench.analysis import Accuracies, Paired, SeedNoise
from rebench.analysis.concordance import top_mask
from rebench.analysis.exchange import exchange_p_values
from rebench.analysis.power import power
from rebench.errors import InputError


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
