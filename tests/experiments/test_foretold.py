"""What the findings and README say of E3: which short recipe foretells the published table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support import PROJECT

from rebench.analysis import Paired, read_accuracies
from rebench.recipes import make_recipe
from rebench.runs import RecipeSpec
from rebench.search import SearchSpace
from rebench.search.proxies import image_batch, net_proxy_scores, proxy_scores
from rebench.tables.opening import read_rows

FOLDER = PROJECT / "experiments" / "surface"
BEST = "topology(base_lr=2.3)"


@pytest.fixture
def decided(monkeypatch):
    from experiments.surface import decided

    return decided


@pytest.fixture
def published(real_data):
    file = real_data / "nb201" / "nb201-200epochs-mean.csv"
    return pd.read_csv(file).set_index("index")["cifar10_ori_test"]


@pytest.fixture
def page():
    return (PROJECT / "docs" / "explanation" / "findings.md").read_text()


@pytest.fixture(scope="module")
def runs():
    """The accuracies of every recipe."""
    rows = read_rows("mini-proxy")
    return {
        recipe: read_accuracies(rows, dataset="cifar10-jpeg16", recipe=recipe)
        for recipe in rows["recipe"].unique()
    }


def interval(values: dict[str, float]) -> str:
    return f"{values['gain']:.2f} ({values['gain_low']:.2f} to {values['gain_high']:.2f})"


def test_table_of_recipes_is_what_the_plan_computes(decided, published, page, runs):
    planned = {row.second: row for row in decided.PREDICTIONS if row.sweeps == decided.E3}
    rows = []
    for recipe, table in runs.items():
        plan = planned.get(recipe)
        pair = Paired.of(runs["fixed"], table).whole
        values = decided.foretold(pair, published, plan.level if plan else 0.95)
        foretold = ""
        if plan:
            verdict = plan.verdict(values["gain_low"], values["gain_high"])
            foretold = f"{'worse' if plan.below else 'better'}: {verdict}"
        gain = "" if recipe == "fixed" else interval(values)
        rows.append((values["second_tau"], [f"`{recipe}`", gain, foretold]))
    told = [
        f"| {name} | {tau:.2f} | {gain} | {foretold} |".replace("|  |", "| |").replace(
            "|  |", "| |"
        )
        for tau, (name, gain, foretold) in sorted(rows, reverse=True)
    ]
    assert "\n".join(told) in page
    means = [runs[recipe].means.mean() for recipe in (BEST, "fixed")]
    said = "Its mean accuracy is {:.1f} %, that of `fixed` {:.1f} %"
    assert said.format(*means) in " ".join(page.split())


def test_scores_that_cost_no_training_are_told_as_they_are(
    decided, published, page, runs, real_data
):
    best = runs[BEST]
    space = SearchSpace(best.cells)
    images, labels = image_batch("cifar10", 32, root=real_data / "cifar10-mini")
    cells = best.cells.tolist()
    scores = {name: proxy_scores(name, space, "cifar10") for name in ("params", "cubed-depths")}
    scores |= net_proxy_scores(["synflow"], cells, images, labels, channels=8, cells_per_stage=1)
    taus, gains = [], []
    for values in scores.values():
        ranks = pd.Series(values, index=best.cells).rank()
        pair = Paired.of_values(
            ranks, pd.DataFrame(best.runs, index=best.cells, columns=best.seeds)
        )
        found = decided.foretold(pair, published, 0.95)
        assert found["gain_low"] > 0
        taus.append(f"{found['first_tau']:.2f}")
        gains.append(interval(found))
    words = " ".join(page.split())
    fixed = decided.foretold(Paired.of(runs["fixed"], best).whole, published, 0.975)
    assert fixed["first_tau"] < min(map(float, taus))
    assert "parameters {}, the paper's sum of cubed depths {}, SynFlow {}.".format(*taus) in words
    assert "above the three by {}, {} and {}.".format(*gains) in words
    readme = " ".join((PROJECT / "README.md").read_text().split())
    told = f"tau {fixed['second_tau']:.2f} and {fixed['first_tau']:.2f}"
    assert f"{told} on {len(cells)} fresh cells; SynFlow, for nothing, {taus[-1]}" in readme


def test_inside_the_best_nothing_tells_cells_apart(decided, published, page, runs):
    within = published.index[published >= published.quantile(decided.BEST)]
    inside = runs["fixed"].take(np.flatnonzero(np.isin(runs["fixed"].cells, within)))
    assert f"{len(inside.cells)} of them from the best 5 %" in " ".join(page.split())
    found = [
        decided.foretold(Paired.of(inside, table).whole, published, 0.95) for table in runs.values()
    ]
    assert f"tau is {max(row['second_tau'] for row in found):.2f} at most" in " ".join(page.split())
    assert all(row["gain_low"] <= 0 <= row["gain_high"] for row in found)


def test_its_weights_learn_as_fast_as_those_of_the_rate_alone(page):
    """Behind batch normalisation, by lr / std^2."""
    rates = [make_recipe(RecipeSpec.parse(recipe)).base_lr for recipe in (BEST, "topology")]
    assert rates[0] / rates[1] == pytest.approx(2.2**2, rel=0.05)
    assert "at five times its base rate, so that its weights, 2.2 times as large" in " ".join(
        page.split()
    )
