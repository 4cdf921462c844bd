"""Plan M: own learning rates, compared with a slow computation with scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from experiments.published import own_rates
from experiments.published.by_network import Settings, by_network
from rebench.errors import UnsafeFileError
from rebench.nats import hpo_tables

RNG = np.random.default_rng(3)
# [networks, learning rates, seeds], rounded so that there are ties.
SETTING = (60 + RNG.normal(0, 4, (8, 4, 1)) + RNG.normal(0, 1, (8, 4, 5))).round(1)


def slow(accuracies: np.ndarray, rows_of=None) -> tuple[float, float]:
    """Return tau and seed tau of a setting by its definition, a pair of seeds at a time."""
    crossed, at_one, at_own = [], [], []
    for first, second in itertools.permutations(range(5), 2):
        others = [seed for seed in range(5) if seed not in (first, second)]
        known = accuracies[:, :, others].mean(axis=2)
        rate = max(range(4), key=lambda rate: (known[:, rate].mean(), -rate))
        own = [max(range(4), key=lambda rate: (line[rate], -rate)) for line in known]
        rows = range(len(known)) if rows_of is None else rows_of(known[:, rate])
        one = [[accuracies[row, rate, seed] for row in rows] for seed in (first, second)]
        free = [[accuracies[row, own[row], seed] for row in rows] for seed in (first, second)]
        crossed.append(stats.kendalltau(one[0], free[1]).statistic)
        at_one.append(stats.kendalltau(*one).statistic)
        at_own.append(stats.kendalltau(*free).statistic)
    product = np.mean(at_one) * np.mean(at_own)
    return float(np.mean(crossed)), math.sqrt(product)


def test_measures_are_those_of_their_definition():
    found = own_rates.measures(list(own_rates.pairs_of(SETTING)))
    assert (found.tau, found.seed_tau) == pytest.approx(slow(SETTING))
    assert found.drop == pytest.approx(found.seed_tau - found.tau)


def test_best_networks_are_chosen_on_the_seeds_that_are_not_compared():
    found = own_rates.measures(list(own_rates.pairs_of(SETTING)), top=True)
    wanted = slow(SETTING, lambda known: np.argsort(-known, kind="stable")[:4])
    assert (found.tau, found.seed_tau) == pytest.approx(wanted)


def test_row_of_a_data_set_is_over_its_settings():
    other = (SETTING + RNG.normal(0, 1, SETTING.shape)).round(1)
    settings = Settings([{"x": 1}, {"x": 2}], np.arange(4.0), np.stack([SETTING, other]))
    row = own_rates.dataset_row(settings, top_percent=50.0, draws=50)
    taus, seed_taus = np.array([slow(SETTING), slow(other)]).T
    drops = seed_taus - taus
    assert row["tau"] == pytest.approx(taus.mean())
    assert row["seed_tau"] == pytest.approx(seed_taus.mean())
    assert row["drop_quartiles"] == pytest.approx(np.percentile(drops, [25, 50, 75]))
    assert row["largest_drop"] == pytest.approx(drops.max())
    assert row["largest_drop_setting"] == settings.names[drops.argmax()]
    assert row["largest_drop_low"] < row["largest_drop"] < row["largest_drop_high"]
    best = [slow(one, lambda known: np.argsort(-known, kind="stable")[:4]) for one in settings[2]]
    with np.errstate(invalid="ignore"):
        assert row["drop_top"] == pytest.approx(np.nanmean([b - a for a, b in best]))
        assert row["largest_drop_top"] == pytest.approx(np.nanmax([b - a for a, b in best]))
    over = own_rates.over_settings({"one": row, "other": row})
    assert over["drops_median"] == pytest.approx(np.median(drops))
    assert over["drops_largest"] == pytest.approx(drops.max())


@pytest.mark.parametrize("name", ["mlp", "fcnet"])
def test_settings_and_networks_are_at_their_places(name: str):
    """By a loop over all values: the network's number is that of its space."""
    values = hpo_tables.hpo_values(name)
    shape = tuple(len(own) for own in values.values())
    table = 1 + RNG.random((*shape, 2)) if name == "fcnet" else RNG.random((*shape, 2))
    found = by_network(name, "any", table)
    rate = hpo_tables._TABLES[name]["rate"]
    networks = hpo_tables._TABLES[name]["network"]
    for _ in range(50):
        place = dict(zip(values, (int(RNG.integers(size)) for size in shape), strict=True))
        told = {key: values[key][place[key]] for key in hpo_tables.hpo_settings(name)}
        index = np.ravel_multi_index(
            [place[key] for key in networks], [len(values[key]) for key in networks]
        )
        wanted = table[tuple(place.values())]
        if name == "fcnet":
            wanted = -100 * np.log(wanted)
        at = found.names.index(told)
        assert found.goodness[at, index, place[rate]] == pytest.approx(wanted)
        assert found.rates[place[rate]] == values[rate][place[rate]]


def test_excess_regret_is_the_accuracy_lost_on_another_seed():
    # One rate ranks network 0 first; at own rates network 1 is better by 2 points on every seed.
    accuracies = np.empty((3, 2, 5))
    accuracies[0] = [[70.0] * 5, [60.0] * 5]
    accuracies[1] = [[65.0] * 5, [72.0] * 5]
    accuracies[2] = [[69.0] * 5, [50.0] * 5]
    assert own_rates.measures(list(own_rates.pairs_of(accuracies))).excess_regret == 2.0


def test_a_sample_counts_a_network_as_often_as_it_was_drawn():
    first, second = RNG.normal(size=(2, 6)).round(1)
    rows = [0, 0, 2, 3, 5, 5]
    weights = np.bincount(rows, minlength=6)[None].astype(float)
    wanted = stats.kendalltau(first[rows], second[rows]).statistic
    assert own_rates._tau(first, second, weights)[0] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("name", "low", "high", "verdict"),
    [
        ("M1", 0.01, 0.09, "yes"),
        ("M1", 0.11, 0.2, "no"),
        ("M1", 0.05, 0.2, "open"),
        ("M2", 0.001, 0.2, "yes"),
        ("M2", -0.1, 0.019, "no"),
        ("M2", -0.1, 0.03, "open"),
        ("M4", 0.1, 0.49, "yes"),
    ],
)
def test_verdicts_are_those_of_the_plan(name: str, low: float, high: float, verdict: str):
    (line,) = [line for line in own_rates.PREDICTIONS if line.name == name]
    assert line.verdict(low, high) == verdict


def test_keys_are_digits_in_the_order_of_the_hyperparameters(monkeypatch):
    values = {"weight_decay": [0, 1], "width": [8, 16, 32]}
    monkeypatch.setitem(hpo_tables._TABLES["mlp"], "values", values)
    held = {f"{a}{b}": {"val_acc": [0.1 * a + 0.01 * b] * 5} for a in range(2) for b in range(3)}
    found = hpo_tables._as_array(held, "mlp", "file")
    assert found.shape == (2, 3, 5)
    assert found[1, 2, 4] == pytest.approx(12.0)
    held["00"]["val_acc"] = [0.5] * 4
    with pytest.raises(UnsafeFileError, match="00 has 4 runs, not 5"):
        hpo_tables._as_array(held, "mlp", "file")
