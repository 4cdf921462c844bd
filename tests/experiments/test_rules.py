"""Rules for the learning rate, fits and direct trainings, on surfaces with a known truth."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from made_surfaces import made_surface, some_cells, trained

from cells import Cell, compile_space
from experiments.surface.gains import direct_check, direct_reranking, single_rates
from experiments.surface.recipe_rates import rule_rates
from experiments.surface.rules import (
    fit_rates,
    graph_statistics,
    regret_curve,
    rule_regrets,
)
from rebench.errors import InputError

CELLS = some_cells(60)
MULTIPLIERS = compile_space().lr_multiplier[CELLS]
# Best rates in the ratios of `topology-lr`, with the geometric mean 0.1: with the right base rate,
# the rule gives every cell its best rate.
PLANTED = 0.1 * MULTIPLIERS / np.exp(np.log(MULTIPLIERS).mean())


def surface(best_rates, **options):
    return made_surface(best_rates, CELLS, **options)


def rng():
    return np.random.default_rng(0)


def test_planted_rule_is_found_at_its_best_base_rate():
    made = surface(PLANTED, noise=0.1, bend=2)
    table = rule_regrets(made, rule_rates(made)).set_index(["rule", "base"])
    right = table.loc[("topology-lr", "best")]
    assert right["mean_rate"] == pytest.approx(0.1, rel=0.1)
    assert right["regret_high"] < 0.25  # linear interpolation is too low at the top
    assert right["over_constant_low"] > 0.05
    assert right["over_same_mean_low"] > 0.05
    assert table.loc[("constant", "best"), "regret_low"] > 0.2
    others = table.drop(index=("topology-lr", "best"))
    assert others["regret"].min() > right["regret_high"]


def test_rule_that_is_merely_larger_is_no_better_than_a_constant_of_its_mean():
    # Every cell is best at one rate, which is the mean of the rule's.
    mean = float(np.exp(np.log(0.46 * MULTIPLIERS).mean()))
    made = surface(mean, noise=0.1)
    rates = {"topology-lr": rule_rates(made)["topology-lr"]}
    table = rule_regrets(made, rates).set_index(["rule", "base"])
    assert table.loc[("topology-lr", "own"), "mean_rate"] == pytest.approx(mean)
    assert table.loc[("topology-lr", "own"), "over_same_mean_high"] < 0


def test_curve_of_a_constant_is_the_planted_parabola():
    made = surface(0.1, noise=0.0)
    curve = regret_curve(made, {})
    at_rates = curve[::8]
    assert at_rates["mean_rate"].to_numpy() == pytest.approx(made.rates)
    # At the surface's own rates nothing is interpolated: half a point for an octave squared.
    assert at_rates["regret"].to_numpy() == pytest.approx(0.5 * np.arange(-3, 6) ** 2, abs=1e-9)


def test_rules_say_which_cells_lie_outside_of_the_surface():
    rates = np.where(np.arange(len(CELLS)) < 15, 1.0, 4.0)
    own = rule_regrets(surface(0.1), {"spread": rates}).query("rule == 'spread' and base == 'own'")
    assert own["outside"].item() == pytest.approx(45 / 60)


def test_fit_finds_a_planted_dependence_on_the_graph():
    made = surface(PLANTED, noise=0.1, bend=2)
    [row] = fit_rates(made, {"graph": graph_statistics(made.cells)}, rng=rng()).to_dict("records")
    assert row["gain_low"] > 0.05
    assert row["octaves"] < 0.5 * row["octaves_constant"]


@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_fit_gains_nothing_where_nothing_is_to_be_found(bend: float):
    made = surface(0.1, bend=bend, noise=0.5)
    [row] = fit_rates(made, {"graph": graph_statistics(made.cells)}, rng=rng()).to_dict("records")
    assert row["gain_low"] <= 0.02
    assert abs(row["gain"]) < 0.15


def test_fit_of_few_cells_is_refused():
    made = made_surface(0.1, CELLS[:19])
    with pytest.raises(InputError, match="needs 20 cells, got 19"):
        fit_rates(made, {"graph": graph_statistics(made.cells)}, rng=rng())


def test_direct_training_is_held_against_the_surface_at_its_own_rate():
    made = surface(0.1, noise=0.0)
    rows = direct_check(made, trained(made.cells, 0.4, 0.7), reference=0.1)
    [row] = rows.to_dict("records")
    assert (row["recipe"], row["n_cells"]) == ("topology-lr", 60)
    assert [row["difference"], row["difference_low"], row["difference_high"]] == pytest.approx(
        [0.7] * 3
    )
    assert row["trained"] - row["interpolated"] == pytest.approx(0.7)
    # A rate two octaves from the best costs 0.5 x 2 x 2 points.
    assert [row["gain"], row["gain_low"], row["gain_high"]] == pytest.approx([0.7 - 2] * 3)


def retrained(made, accuracy):
    """Return direct trainings with these accuracies [cells, seeds]."""
    rows = trained(made.cells, 0.1, recipe="topology").sort_values(["index", "seed"])
    return rows.assign(accuracy=accuracy.ravel())


def test_recipe_that_ranks_cells_anew_is_told_from_one_that_shifts_them():
    made = surface(0.1, noise=1.0)
    true = surface(0.1, noise=0.0)
    base = true.accuracy[:, true.column(0.1), 0]
    noise = rng().standard_normal((2, *made.accuracy[:, 0].shape))
    shifted = retrained(made, base[:, None] + 3 + noise[0])
    anew = retrained(made, rng().permutation(base)[:, None] + noise[1])
    rows = {
        name: direct_reranking(made, table, reference=0.1, rng=rng()).set_index("top_percent")
        for name, table in (("shifted", shifted), ("anew", anew))
    }
    whole = {name: found.loc[100] for name, found in rows.items()}
    assert [row["n_cells"] for row in whole.values()] == [60, 60]
    assert whole["shifted"]["tau"] == pytest.approx(whole["shifted"]["seed_tau"], abs=0.1)
    assert whole["shifted"]["drop_low"] < 0 < whole["shifted"]["drop_high"]
    assert whole["anew"]["seed_tau"] == pytest.approx(whole["shifted"]["seed_tau"], abs=0.1)
    assert abs(whole["anew"]["tau"]) < 0.25
    assert whole["anew"]["drop_low"] > 0.2


def test_a_rate_for_all_that_ranks_cells_anew_is_told_from_one_that_shifts_them():
    made = surface(0.1, noise=1.0)
    shifted, anew = made.column(0.2), made.column(0.4)
    accuracy = made.accuracy.copy()
    accuracy[:, shifted] += 5
    accuracy[:, anew] = accuracy[rng().permutation(len(accuracy)), anew]
    other = dataclasses.replace(made, accuracy=accuracy)
    rows = single_rates(other, reference=0.1, rng=rng()).set_index("rate")
    assert 0.1 not in rows.index
    assert len(rows) == len(made.rates) - 1
    assert rows.loc[0.2, "drop_low"] < 0 < rows.loc[0.2, "drop_high"]
    assert rows.loc[0.2, "tau"] > 0.5
    assert rows.loc[0.4, "drop_low"] > 0.2
    assert rows.loc[0.4, "seed_tau"] == pytest.approx(rows.loc[0.2, "seed_tau"], abs=0.1)
    assert rows.loc[0.4, "accuracy"] == pytest.approx(accuracy[:, anew].mean())


def test_cells_that_lack_a_seed_are_left_out_of_the_ranking():
    made = surface(0.1, noise=1.0)
    rows = trained(made.cells, 0.1).iloc[1:]
    found = direct_reranking(made, rows, reference=0.1, rng=rng())
    assert found.set_index("top_percent")["n_cells"][100] == 59


def test_statistics_of_cells_known_by_hand():
    # All six edges 3x3 convolutions: paths of 1, 2, 2 and 3 convolutions; 2^3+3^3+3^3+4^3 = 126.
    dense = Cell.parse("3_33_333").index
    empty = Cell.parse("0_00_000").index
    table = graph_statistics(np.array([dense, empty]))
    assert table.loc[0, ["n_paths", "mean_depth"]].tolist() == [4.0, 2.0]
    assert table.loc[0, "log2_multiplier"] == pytest.approx(-0.5 * np.log2(126))
    assert table.loc[1, "n_paths"] == 0
    assert table.loc[1, ["mean_depth", "log2_multiplier"]].isna().all()
