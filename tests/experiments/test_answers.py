"""Rates of recipes on the cells of a surface, and the whole analysis of a surface."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from made_surfaces import made_surface, some_cells, surface_table, trained

from cells import Cell, compile_space
from experiments.surface.answers import _beyond, ask_surface
from experiments.surface.gains import rate_reranking, single_rates
from experiments.surface.grid import read_surface
from experiments.surface.page import _findings
from experiments.surface.recipe_rates import (
    effective_rate,
    fixed_rate,
    measured_rates,
    rule_rates,
    with_rates,
)
from experiments.surface.rules import rule_regrets
from rebench.errors import InputError, UnknownNameError

CELLS = some_cells(60)
MULTIPLIERS = compile_space().lr_multiplier[CELLS]
EMPTY = Cell.parse("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|").index  # without a path
NO_RULES = pd.DataFrame({"base": [], "outside": []})


def surface(best_rates=0.1, **options):
    return made_surface(best_rates, CELLS, **options)


@pytest.mark.parametrize(
    ("label", "rate"),
    [
        ("fixed(lr=0.4)", 0.4),
        ("fixed", 0.1),
        ("nb201", 0.1),
        ("fixed(lr=0.4,init=he)", None),
        ("topology", None),
        ("somebody-elses(lr=0.4)", None),
    ],
)
def test_fixed_rate_is_that_of_default_inits_alone(label: str, rate: float | None):
    assert fixed_rate(label) == rate


def test_table_without_recipes_has_no_surface():
    table = surface_table(0.1, CELLS).drop(columns=["recipe", "rate"], errors="ignore")
    assert with_rates(table)["rate"].isna().all()


def test_rule_rates_are_the_recipes_own():
    made = surface()
    assert rule_rates(made)["topology-lr"] == pytest.approx(0.46 * MULTIPLIERS)
    paths = compile_space().n_paths[CELLS]
    assert rule_rates(made, ["paths(base_lr=2.0)"])["paths(base_lr=2.0)"] == pytest.approx(
        2 / np.sqrt(paths)
    )


def test_rule_has_no_rate_without_a_path():
    made = made_surface(0.1, [*CELLS[:4], EMPTY])
    rates = rule_rates(made)["topology-lr"]
    assert np.isnan(rates).tolist() == (made.cells == EMPTY).tolist()
    with pytest.raises(InputError, match="without a path"):
        rule_regrets(made, {"topology-lr": rates})


def test_measured_rates_are_geometric_means_over_seeds():
    made = surface()
    rows = trained(made.cells, 0.4, recipe="one-step")
    rows["learning_rate"] = np.where(rows["seed"] == 1, 0.8, 0.1)
    assert measured_rates(made, rows)["one-step"] == pytest.approx(0.2)
    lacking = rows[rows["index"] != CELLS[0]]
    assert measured_rates(made, lacking) == {}
    assert measured_rates(made, rows.drop(columns="learning_rate")) == {}


def test_analytic_and_fixed_recipes_are_not_measured():
    made = surface()
    rows = pd.concat([trained(made.cells, 0.4), trained(made.cells, 0.4, recipe="fixed(lr=0.4)")])
    assert measured_rates(made, rows) == {}


def sized(rows):
    return rows.assign(channels=4, cells_per_stage=1)


@pytest.mark.parametrize(
    ("label", "factor"),
    [
        ("topology-lr", 1),
        ("one-step", 1),
        ("fixed(lr=0.3,init=he)", 1 / 6),  # variance 2 / fan_in, PyTorch's is 1 / (3 fan_in)
        ("mup", np.nan),  # a rate for each layer
        ("somebody-elses", np.nan),
    ],
)
def test_effective_rate_is_the_rate_over_the_variance_of_the_init(label: str, factor: float):
    made = surface()
    rows = sized(trained(made.cells, 0.4, recipe=label))
    rows["learning_rate"] = np.where(rows["seed"] == 1, 0.8, 0.1)
    found = effective_rate(made, rows, label)
    assert found == pytest.approx(0.2 * factor, nan_ok=True)


def test_effective_rate_needs_the_size_and_the_init_of_each_cell():
    made = made_surface(0.1, [*CELLS[:4], EMPTY])
    rows = trained(CELLS[:4], 0.4)
    assert effective_rate(made, sized(rows), "topology-lr") == pytest.approx(0.4)
    assert np.isnan(effective_rate(made, rows, "topology-lr"))
    larger = sized(rows).assign(channels=np.where(rows["seed"] == 1, 4, 8))
    assert np.isnan(effective_rate(made, larger, "topology-lr"))
    rows = sized(trained(made.cells, 0.4, recipe="topology-init"))
    assert np.isnan(effective_rate(made, rows, "topology-init"))
    assert 0 < effective_rate(made, rows[rows["index"] != EMPTY], "topology-init") < 0.4


def test_rates_come_from_the_labels_of_recipes():
    table = surface_table(0.1, CELLS[:2])
    labelled = with_rates(table.drop(columns="rate"))
    assert labelled["rate"].to_numpy() == pytest.approx(table["rate"].to_numpy())


def test_cells_without_a_path_are_left_out_of_the_rules_alone():
    answers = ask_surface(surface_table(0.1, [*CELLS[:12], EMPTY]), draws=5)
    assert answers.gains["n_cells"].max() == 13
    assert "1 cells without a path" in " ".join(answers.notes)
    assert set(answers.regrets["rule"]) >= {"constant", "topology-lr"}


def test_data_set_must_be_named_and_be_in_the_table():
    table = surface_table(0.1, CELLS[:12])
    with pytest.raises(InputError, match="made, other; name one"):
        ask_surface(pd.concat([table, table.assign(dataset="other")]))
    with pytest.raises(UnknownNameError, match=r"data set 'elsewhere'.*made"):
        ask_surface(table, dataset="elsewhere")


def test_rates_that_end_too_early_are_named():
    best = np.where(np.arange(12) < 3, 100.0, 0.2)
    said = " ".join(ask_surface(surface_table(best, CELLS[:12], noise=0.01), draws=5).notes)
    assert "3 cells (25%) are best at the highest rate, 3.2. Their best rate may be outside" in said
    assert "best at the lowest" not in said
    [said] = _beyond(made_surface(100.0, CELLS[:12]), NO_RULES)
    assert "are best at the highest rate, 3.2, which is also the best single rate" in said
    alike = made_surface(0.1, CELLS[:10], noise=0, bend=0)
    assert _beyond(alike, NO_RULES) == []  # a rate that does not matter is no optimum at an end
    low = surface_table(0.025, CELLS[:12], rates=(0.0125, 0.025, 0.05, 0.1), noise=0.01)
    answers = ask_surface(low, rules=("topology-lr", "fixed(lr=0.05)"), draws=5)
    assert "topology-lr gives" in " ".join(answers.notes)
    assert "fixed" not in " ".join(answers.notes)


def test_rankings_take_a_fifth_of_the_draws_and_streams_of_their_own():
    table = surface_table(0.1, CELLS[:12])
    answers = ask_surface(table, draws=100, seed=3)
    made = read_surface(table, dataset="made")
    for question, found, ask in (
        (1, answers.reranking, rate_reranking),
        (7, answers.single_rates, single_rates),
    ):
        rng = np.random.default_rng([3, question])
        pd.testing.assert_frame_equal(found, ask(made, reference=0.1, draws=20, rng=rng))


def test_findings_name_the_largest_change_and_the_largest_gain():
    """One recipe turns the ranking round, the other only adds a point."""
    best = np.where(np.arange(24) % 2, 0.4, 0.1)  # half of the cells want another rate
    table = surface_table(best, CELLS[:24], noise=0.1)
    direct = table[table["rate"] == 0.1].assign(learning_rate=0.1, rate=np.nan)
    shifted = direct.assign(recipe="topology-lr", accuracy=direct["accuracy"] + 1)
    turned = direct.assign(recipe="one-step", accuracy=100 - direct["accuracy"])
    answers = ask_surface(pd.concat([table, shifted, turned]), draws=50)
    said = [(found.label, found.text) for found in _findings(answers)]
    assert said[0][0].startswith("Gain of the cells' own best rates"), "the question of the page"
    [text] = [text for label, text in said if label.endswith("with default settings: one-step")]
    changed = answers.direct.set_index("recipe").loc["one-step", "gain"]
    assert f"Accuracies change by {changed:+.2f} points" in text
    far = answers.single_rates.set_index("rate")["drop"].idxmax()
    assert any(label.endswith(f"rates for all cells: {far:g}") for label, _ in said)
    rules = answers.regrets.query("base == 'best' and rule != 'constant'").set_index("rule")
    best = f"of {len(rules)} rules: {rules['over_constant'].idxmax()}"
    assert any(label.endswith(best) for label, _ in said)
    fits = answers.fits.set_index("predictors")["gain"]
    assert any(f"of {len(fits)} predictors: {fits.idxmax()}" in label for label, _ in said)
