"""Rules for the learning rate, compared with a slow computation with numpy."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.published import rate_rules
from experiments.published.by_network import Settings
from experiments.published.rate_rules import Networks

RNG = np.random.default_rng(5)
NETWORKS = Networks(width=np.array([16.0, 16.0, 64.0, 256.0]), depth=np.array([1.0, 2.0, 1.0, 3.0]))
RATES = np.array([1e-3, 5e-3, 1e-2, 1e-1])


def made_up(networks: int = 4, settings: int = 2) -> Settings:
    names = [{"batch_size": number} for number in range(settings)]
    return Settings(names, RATES, 80 + RNG.normal(0, 5, (settings, networks, 4, 3)))


def slow(goodness: np.ndarray, relative: np.ndarray, seed: int) -> float:
    """Return the mean goodness of one setting on a seed, at the rates of a rule."""
    others = [other for other in range(3) if other != seed]
    relative = relative / np.exp(np.log(relative).mean())
    constants = np.concatenate([10 ** np.arange(-3, -1, 1 / 16), RATES])

    def mean(constant: float, seeds: list[int]) -> float:
        at = []
        for network, factor in enumerate(relative):
            known = goodness[network][:, seeds].mean(axis=1)
            at.append(np.interp(np.log(constant * factor), np.log(RATES), known))
        return float(np.mean(at))

    best = max(sorted(constants), key=lambda constant: mean(constant, others))
    return mean(best, [seed])


@pytest.mark.parametrize("name", ["one rate", "width^-1/2", "width^-1 depth^-3/2"])
def test_scores_are_those_of_the_definition(name: str):
    settings = made_up()
    found = rate_rules.scores(settings, NETWORKS)
    for setting in range(2):
        for seed in range(3):
            wanted = slow(settings.goodness[setting], rate_rules.RULES[name](NETWORKS), seed)
            assert found.by_rule[name][setting, seed] == pytest.approx(wanted)


def test_own_rates_are_chosen_on_the_other_seeds():
    settings = made_up()
    found = rate_rules.scores(settings, NETWORKS)
    for setting, goodness in enumerate(settings.goodness):
        wanted = []
        for network in goodness:
            best = network[:, :2].mean(axis=1).argmax()
            wanted.append(network[best, 2])
        assert found.own[setting, 2] == pytest.approx(np.mean(wanted))


def test_planted_exponents_are_found():
    """The best rate falls as 1 / width and 1 / depth; other seeds are equal."""
    best = np.log(0.3 / NETWORKS.width / NETWORKS.depth)
    rates = np.exp(np.linspace(-9, -1, 40))
    goodness = -((np.log(rates) - best[:, None]) ** 2)[None, :, :, None] * np.ones(3)
    settings = Settings([{}], rates, goodness)
    rows = {row["rule"]: row for row in rate_rules.dataset_rows("made up", settings, NETWORKS)}
    assert rows["width^-1 depth^-1"]["regret"] == pytest.approx(0, abs=0.02)
    assert rows["fitted exponents"]["width_exponent"] == -1
    assert rows["fitted exponents"]["depth_exponent"] == -1
    assert min(rows, key=lambda name: rows[name]["regret"]) in (
        "fitted exponents",
        "width^-1 depth^-1",
    )
    assert rows["one rate"]["regret"] > 1


def test_rules_that_give_equal_rates_have_one_row():
    alike = Networks(width=NETWORKS.width, depth=np.full(4, 2.0))
    found = rate_rules.scores(made_up(), alike)
    assert list(found.by_rule) == ["one rate", "width^-1/2", "width^-1", "fitted exponents"]


def test_a_new_rule_gets_its_row(monkeypatch):
    monkeypatch.setattr(rate_rules, "RULES", dict(rate_rules.RULES))

    @rate_rules.rule("log of width")
    def log_of_width(networks: Networks) -> np.ndarray:
        return 1 / np.log(networks.width)

    rows = rate_rules.dataset_rows("made up", made_up(), NETWORKS)
    other = rate_rules.dataset_rows("another", made_up(), NETWORKS)
    told = rate_rules.summary(rows + other)
    [row] = [row for row in told if row["rule"] == "log of width"]
    mean = np.mean([one["regret"] for one in rows + other if one["rule"] == "log of width"])
    assert row["regret"] == pytest.approx(mean)
    assert row["regret_low"] < row["regret"] < row["regret_high"]
    shown = rate_rules.draw({"mlp": {"rules": told}, "fcnet": {"rules": told}}).data
    assert "log of width" in set(shown["rule"])


def test_networks_have_the_width_and_depth_of_their_space():
    mlp = rate_rules.networks_of("mlp")
    assert (mlp.width[:2].tolist(), mlp.depth[[0, 10, 29]].tolist()) == ([16, 25], [1, 2, 3])
    fcnet = rate_rules.networks_of("fcnet")
    assert fcnet.width[:3] == pytest.approx([16, np.sqrt(16 * 32), np.sqrt(16 * 64)])
