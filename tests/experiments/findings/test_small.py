"""Numbers of the small tables, compared with a second computation by numpy and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from cells.classes import functional_classes
from experiments.findings import small
from experiments.surface.draw import draw_plan_f
from rebench.tables.opening import read_rows

DRAWS = 2000
THREE = (777, 888, 999)
HE = "fixed(init=he)"
HE_PARTS = "mini+mini-init-parts+mini-he-parts"
CLAIMS = [
    ("mini", "fixed", "topology", {}),
    ("mini+mini-init-parts", "fixed", "topology-lr(init_at=normalised)", {}),
    ("mini+mini-init-parts", HE, "fixed(lr=0.0125)", {"seeds": THREE}),
    ("mini+mini-init-parts", HE, "topology", {"seeds": THREE}),
    (HE_PARTS, "fixed(init=he,init_at=normalised)", "two-rates(normalised_lr=0.0167)", {}),
    (HE_PARTS, "fixed(init=he,init_at=others)", "fixed", {}),
    ("mini-60ep", "fixed", "topology", {}),
    ("mini-32px", "fixed", "topology", {}),
    ("mini-32px", "fixed", "topology", {"cells": "best 30 published"}),
    ("mini+mini-init-parts", "fixed", "topology", {"cells": "upper half"}),
    ("mini+mini-proxy", "fixed", "topology", {"cells": "upper half", "seeds": (777, 888)}),
    ("mini-all", "fixed", "topology", {"cells": "random 500"}),
    ("mini-all", "fixed", "topology", {"cells": "upper half of them"}),
]

UPPER, FASTER = "mini-proxy-upper", "topology(base_lr=2.3)"
# Decided predictions: tau with the published ranking of two pairs of table and recipe.
GAINS = {
    "12": (("mini-proxy", "topology-init"), ("mini-proxy", "fixed")),
    "F2.1": ((UPPER, HE), (UPPER, "fixed")),
    "F2.2": ((UPPER, HE), (UPPER, FASTER)),
    "F2.3": ((UPPER, FASTER), ("mini-proxy-60ep", "fixed")),
    "G3": (("mini-32px", "fixed"), ("mini-32px", "topology")),
}


def runs_of(tables, recipe, cells="all", seeds=()):
    """Return accuracies [cells, seeds], read without the package's readers of runs."""
    rows = pd.concat([read_rows(name) for name in tables.split("+")])
    rows = rows[(rows["split"] == "ori-test") & (rows["recipe"] == recipe)]
    rows = rows[rows["seed"].isin(seeds)] if seeds else rows
    wide = rows.pivot_table("accuracy", "index", "seed", aggfunc="first", observed=True)
    if cells in ("upper half", "best 30 published"):
        best = small.published()[wide.index].sort_values(ascending=False).index[: len(wide) // 2]
        wide = wide.loc[np.sort(best)]
    if cells in ("random 500", "upper half of them"):
        drawn, of_class = draw_plan_f(small.published()), published_by_class()
        wide = wide.loc[drawn["random 500"]]
        if cells != "random 500":
            middle = np.median([of_class[cell] for cell in drawn["mini-all"]])
            wide = wide[[of_class[cell] >= middle for cell in wide.index]]
    return wide


def published_by_class():
    """Return the mean published accuracy of each class of equal networks, by smallest index."""
    members = {}
    for cell, smallest in enumerate(functional_classes("strict")):
        members.setdefault(int(smallest), []).append(small.published()[cell])
    return {smallest: np.mean(accuracies) for smallest, accuracies in members.items()}


def signs(values):
    """Return the order of every pair of cells: -1, 0 or 1."""
    values = np.rint(np.asarray(values) * 1e6)
    return np.sign(values[:, None] - values)


def taus(first, second, weights):
    """Return tau-b of resampled cells; each row of weights is one draw."""
    x, y = signs(first), signs(second)

    def total(pairs):
        return np.einsum("di,ij,dj->d", weights, pairs, weights, optimize=True)

    return total(x * y) / np.sqrt(total(np.abs(x)) * total(np.abs(y)))


def drops(first, second, weights):
    """Return seed tau minus tau of two tables [cells, seeds] in each draw."""
    crossed = [
        taus(first[i], second[j], weights) for i, j in itertools.product(first, second) if i != j
    ]
    own = [
        [np.clip(taus(runs[i], runs[j], weights), 0, 1) for i, j in itertools.combinations(runs, 2)]
        for runs in (first, second)
    ]
    same = list(first) == list(second)
    pairs = zip(*own, strict=True) if same else itertools.product(*own)
    seed_tau = np.mean([np.sqrt(x * y) for x, y in pairs], axis=0)
    return seed_tau - np.mean(crossed, axis=0), seed_tau


def drawn_weights(n):
    """Return how often each cell is drawn: once in the first row, then in bootstrap samples."""
    sample = np.random.default_rng(0).integers(0, n, (DRAWS, n))
    counts = [np.bincount(row, minlength=n) for row in sample]
    return np.concatenate([np.ones((1, n)), counts]).astype(float)


@pytest.mark.parametrize(("tables", "first", "second", "chosen"), CLAIMS)
def test_drop_and_its_interval_are_those_of_plain_numpy(tables, first, second, chosen):
    one, other = (runs_of(tables, recipe, **chosen) for recipe in (first, second))
    shared = one.index.intersection(other.index)
    one, other = one.loc[shared].dropna(axis=1), other.loc[shared].dropna(axis=1)
    found, seed_tau = drops(one, other, drawn_weights(len(shared)))
    claim = small.change(tables, first, second, **chosen)
    assert claim.n_cells == len(shared)
    assert claim.seed_tau == pytest.approx(seed_tau[0], abs=1e-9)
    limits = np.quantile(found[1:], [0.025, 0.975])
    assert claim.drop == pytest.approx((found[0], *limits), abs=1e-9)


@pytest.mark.parametrize("cells", ["all", "upper half"])
def test_interval_over_seeds_is_a_jackknife(cells):
    """Leave out each of five seeds; Student's t with four degrees of freedom."""
    tables = "mini+mini-init-parts"
    one, other = (runs_of(tables, recipe, cells) for recipe in ("fixed", "topology"))
    weights = np.ones((1, len(one)))
    whole = drops(one, other, weights)[0][0]
    without = [drops(one.drop(columns=x), other.drop(columns=x), weights)[0][0] for x in one]
    half = stats.t.ppf(0.975, 4) * np.sqrt(4 * np.var(without))
    claim = small.change(tables, "fixed", "topology", cells=cells)
    assert claim.by_seeds == pytest.approx((whole, whole - half, whole + half), abs=1e-9)


def test_prediction_is_kendalls_tau_with_the_published_accuracies():
    runs = runs_of("mini-proxy", "topology(base_lr=2.3)")
    final = small.published()[runs.index]
    expected = np.mean([stats.kendalltau(final, runs[seed]).statistic for seed in runs])
    assert small.prediction("mini-proxy", "topology(base_lr=2.3)").value == pytest.approx(expected)


@pytest.mark.parametrize("number", GAINS)
def test_gain_in_prediction_keeps_the_number_of_best_cells_in_each_draw(number):
    """Compute the interval with numpy: bootstrap the best 5 % and the other cells separately."""
    one, other = GAINS[number]
    runs = [runs_of(*pair) for pair in (one, other)]
    shared = runs[0].index.intersection(runs[1].index)
    final = small.published()[shared].to_numpy()
    best = final >= small.published().quantile(0.95)
    rng, n = np.random.default_rng(0), len(final)
    weights = np.ones((1 + DRAWS, n))
    weights[1:] = 0
    for stratum in filter(len, (np.flatnonzero(best), np.flatnonzero(~best))):
        for row, drawn in enumerate(rng.choice(stratum, (DRAWS, len(stratum))), start=1):
            weights[row] += np.bincount(drawn, minlength=n)
    mine, its = (
        np.mean([taus(final, own.loc[shared, seed], weights) for seed in own], axis=0)
        for own in runs
    )
    gains = mine - its
    cells = f"of {other[0]}" if one[0] != other[0] else "all"
    row = small.decisions()[number]
    found = small.gain_in_prediction(one, other, level=row["level"], cells=cells)
    tail = (1 - row["level"]) / 2
    limits = np.quantile(gains[1:], [tail, 1 - tail])
    assert found == pytest.approx((gains[0], *limits), abs=1e-9)
    assert (row["gain"], row["gain_low"], row["gain_high"]) == pytest.approx(found)
    assert row["n_cells"] == n


def test_rank_sum_adds_the_ranks_of_its_parts():
    runs = runs_of("mini-proxy", "fixed")
    depths = small._without_training("cubed-depths", tuple(runs.index))
    final = small.published()[runs.index]
    expected = np.mean(
        [
            stats.kendalltau(final, runs[seed].rank() + stats.rankdata(depths)).statistic
            for seed in runs
        ]
    )
    assert small.prediction("mini-proxy", "fixed + cubed-depths").value == pytest.approx(expected)


def test_tau_of_networks_is_kendalls_tau_of_the_shared_cells():
    first, second = (runs_of("mini", recipe)[777] for recipe in ("fixed", "topology"))
    found = small.tau_of_networks("mini", "fixed", "topology", 777)
    assert found.value == pytest.approx(stats.kendalltau(first, second).statistic)
    assert found.low < found.value < found.high
    classes = pd.Series(functional_classes("strict"))
    final = small.published().groupby(classes).mean()[second.index]
    found = small.tau_of_networks("mini", "published", "topology", 777)
    assert found.value == pytest.approx(stats.kendalltau(final, second).statistic)


def test_tau_of_means_is_kendalls_tau_of_the_means_over_seeds():
    small_size, larger = (runs_of(table, "fixed").mean(axis=1) for table in ("mini", "mini-32px"))
    found = small.tau_of_means("mini", "mini-32px", "fixed")
    assert found.value == pytest.approx(stats.kendalltau(small_size, larger).statistic)
    assert found.low < found.value < found.high
    with pytest.raises(ValueError, match="same cells"):
        small.tau_of_means("mini", "mini-proxy", "fixed")


def test_top_ten_is_of_single_runs():
    runs = runs_of("mini-proxy", "fixed")
    best = [small.published()[runs[seed].nlargest(10).index].mean() for seed in runs]
    assert small.top_ten("mini-proxy", "fixed") == pytest.approx(np.mean(best))


def test_synflow_asks_only_for_the_size_of_the_images(real_data):
    from rebench.search.proxies import image_batch, net_proxy_scores

    images, labels = image_batch("cifar10", 32, root=real_data / "cifar10-mini")
    real = net_proxy_scores(["synflow"], [11], images, labels, channels=8, cells_per_stage=1)
    assert small._without_training("synflow", (11,)) == pytest.approx(real["synflow"])


def test_spread_is_without_seed_noise():
    runs = runs_of("mini", "fixed").to_numpy()
    noise = runs.var(axis=1, ddof=1).mean() / 3
    assert small.spread("mini", "fixed") ** 2 == pytest.approx(
        runs.mean(axis=1).var(ddof=1) - noise
    )


def test_drops_of_other_cells_are_not_subtracted():
    whole, half = (
        small.change("mini", "fixed", "topology", cells=x) for x in ("all", "upper half")
    )
    with pytest.raises(ValueError, match="same cells"):
        small.change_of_drop(whole, half)
    assert small.change_of_drop(whole, whole) == (0, 0, 0)


def test_predictions_of_f1_are_decided_by_their_intervals():
    """The verdicts by hand, from the thresholds in plan-f.md."""
    decided = small.decisions()
    for number, fails in (("F1.1", 0.10), ("F1.2", 0.05)):
        row = decided[number]
        lines = [claim for claim in CLAIMS if claim[1:3] == (row["first"], row["second"])]
        claim = small.change(*lines[0][:3])
        assert (row["drop_low"], row["drop_high"]) == pytest.approx(claim.drop[1:])
        expected = "yes" if claim.drop.high < 0.10 else "open"
        assert row["verdict"] == ("no" if claim.drop.low > fails else expected)


def test_predictions_of_f2_are_decided_by_their_intervals():
    """The verdicts by hand, from the thresholds in plan-f.md."""
    low, high = (
        {number: small.decisions()[number][f"gain_{end}"] for number in GAINS}
        for end in ("low", "high")
    )
    holds = {
        "F2.1": low["F2.1"] > 0,
        "F2.2": low["F2.2"] > -0.10 and high["F2.2"] < 0.10,
        "F2.3": low["F2.3"] > -0.08,
    }
    fails = {
        "F2.1": high["F2.1"] < 0.05,
        "F2.2": low["F2.2"] > 0.10 or high["F2.2"] < -0.10,
        "F2.3": high["F2.3"] < -0.08,
    }
    for number, held in holds.items():
        expected = "yes" if held else "no" if fails[number] else "open"
        assert small.decisions()[number]["verdict"] == expected


def test_second_look_replaces_the_first(monkeypatch):
    rows = [
        {"number": "8", "note": "", "verdict": "inconclusive"},
        {"number": "8", "note": "without seeds 111 and 222", "verdict": "fails"},
        {"number": "8", "note": "the second look, which decides", "verdict": "holds"},
    ]
    monkeypatch.setattr(small, "_decided", lambda: rows)
    assert small.decisions()["8"]["verdict"] == "yes"
    assert small.held("without seeds 111 and 222") == (0, 1)


def test_more_seeds_make_the_jackknife_narrower():
    three, five = (small.jackknife_width(40, seeds, tables=10) for seeds in (3, 5))
    assert 0 < five < three
