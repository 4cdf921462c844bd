"""How far rankings can be trusted, compared with slow computations."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.published import trust
from rebench.analysis.paired import Accuracies

RNG = np.random.default_rng(7)


def made_up(networks: int = 40, seeds: int = 3) -> Accuracies:
    runs = RNG.normal(0, 2, (networks, 1)) + RNG.normal(0, 1, (networks, seeds))
    return Accuracies(
        name="", cells=np.arange(networks), seeds=tuple(range(seeds)), runs=runs.round(3)
    )


def slow_overlap(first: np.ndarray, second: np.ndarray, size: int) -> float:
    one = set(np.argsort(-first)[:size].tolist())
    other = set(np.argsort(-second)[:size].tolist())
    return len(one & other) / size


def test_overlap_is_the_share_of_common_networks():
    first, second = RNG.normal(size=(2, 40))
    assert trust.overlap(first, second, 25.0) == slow_overlap(first, second, 10)
    assert trust.overlap(first, first, 25.0) == 1
    assert trust.overlap(first, -first, 50.0) == 0


def test_overlap_with_ties_is_the_mean_of_both_directions():
    # Three networks are tied with the second one, so the first run has four best networks.
    first = np.array([5.0, 4.0, 4.0, 4.0, 1.0, 0.0, 0.0, 0.0])
    second = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.4, 0.3])
    assert trust.overlap(first, second, 25.0) == pytest.approx((2 / 4 + 2 / 2) / 2)


def test_row_has_the_agreement_of_all_pairs_of_seeds():
    own = made_up()
    row = trust.row_of_seeds(own, own.cells)
    pairs = list(itertools.combinations(own.runs.T, 2))
    taus = [stats.kendalltau(one, other).statistic for one, other in pairs]
    assert (row["networks"], row["seeds"]) == (40, "3")
    # 10 % of 40 networks are too few.
    assert [at["top_percent"] for at in row["top"]] == [100, 50]
    assert row["top"][0]["seed_tau"] == pytest.approx(np.mean(taus))
    overlaps = [slow_overlap(one, other, 20) for one, other in pairs]
    half = row["top"][1]
    assert half["overlap"] == pytest.approx(np.mean(overlaps))
    assert half["overlap_low"] < half["overlap"] < half["overlap_high"] + 0.1
    assert 1 <= row["not_separable"] <= 40


def test_the_best_network_without_noise_is_alone():
    own = made_up()
    clear = Accuracies(
        name="", cells=own.cells, seeds=own.seeds,
        runs=np.arange(40.0)[:, None] * 10 + RNG.normal(0, 0.1, (40, 3)),
    )  # fmt: skip
    row = trust.row_of_seeds(clear, clear.cells)
    assert row["not_separable"] == 1
    assert row["top"][0]["seed_tau"] == 1


def test_one_rate_is_the_best_of_all_networks():
    rows = pd.DataFrame(
        [
            {"index": index, "learning_rate": rate, "seed": seed, "goodness": rate * index + seed}
            for index in (0, 1)
            for rate in (0.1, 0.5)
            for seed in (0, 1)
        ]
    )
    runs, rate = trust.best_rate(rows)
    assert rate == 0.5
    assert runs.to_numpy().tolist() == [[0, 1], [0.5, 1.5]]
