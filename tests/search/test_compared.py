"""`rebench.search.compare` and its result: algorithms on one table or two."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
from scipy import stats
from search_tables import smooth_table

import rebench
import rebench.search
from rebench.cli.search import compare_tables
from rebench.errors import InputError, UnknownNameError
from rebench.search import SearchSpace
from rebench.search.comparison import order_agreement, run_all
from rebench.search.seeds import seed_tables


def test_two_tables_by_name_are_searched_alike_and_held_against_each_other():
    names = ["random", "rea"]
    found = rebench.search.compare(["mini@fixed", "mini@topology"], names, repeats=5)
    first, second = found.results
    assert first.table.space.indices.tolist() == second.table.space.indices.tolist()
    assert first.budget == second.budget
    again = order_agreement(first, second, rng=np.random.default_rng(0))
    assert found.agreement.tau == again.tau
    assert found.frame()["table"].tolist() == ["mini@fixed"] * 2 + ["mini@topology"] * 2
    assert found.frame().columns.tolist() == ["table", *first.summary().columns]
    low, high = found.agreement.tau[1:]
    claim, agreed, baseline, measured = found.verdict()
    assert claim == "No pair of algorithms changes its order significantly."
    assert agreed.startswith(
        f"Kendall's tau between the two orders is {found.tau:.2f} (95 % CI {low:.2f} to {high:.2f})"
    )
    assert baseline.startswith(
        "The other table changes no more pairs than another seed does: in the seed baseline "
        "(mini@fixed seed 777, mini@fixed seed 888, mini@fixed seed 999), 0 pairs change their "
    )
    assert measured == (
        f"Measured on mini@fixed and mini@topology: "
        f"{first.table.dataset}, {len(first.table.space)} cells, searched on "
        f"{first.table.searched_on}, judged by test accuracy, 5 runs of each algorithm with "
        f"{first.budget} each. The 60 cells are a sample of the 15,625. Algorithms that move to "
        "similar cells move to the most similar cells of the sample. On all cells, the order of "
        "the algorithms can be different."
    )
    assert str(found) == " ".join(found.verdict())
    assert repr(found) == f"<Compared: {found}>"
    assert "<table" in found._repr_html_()
    assert len(found.plot().axes) == 2


def test_two_recipes_of_one_name_are_told_apart():
    recipes = rebench.open("mini")
    tables = [recipes["fixed"], recipes["topology"]]
    found = rebench.search.compare(tables, ["random"], repeats=2)
    assert [each.table.name for each in found.results] == ["mini@fixed", "mini@topology"]


def test_one_algorithm_has_no_ranking_that_tables_could_share():
    tables = ["mini@fixed", "mini@topology"]
    found = rebench.search.compare(tables, ["random"], repeats=3)
    assert found.agreement is None
    assert found.profit()["profit"].tolist() == [0]


def test_one_table_is_its_comparison():
    table = smooth_table()
    found = rebench.search.compare(
        table, ["random"], budget=rebench.search.Budget(evaluations=5), repeats=3
    )
    [own] = found.results
    alone = run_all(table, ["random"], budget=own.budget, repeats=3)
    assert found.frame()["mean"].tolist() == alone.summary()["mean"].tolist()
    assert np.isnan(found.tau)
    assert "random ends best" in str(found)


def test_seed_baseline_compares_every_two_seeds_of_the_first_table():
    tables = ["mini@fixed", "mini@topology"]
    budget = rebench.search.Budget(evaluations=10)
    told: list[str] = []
    found = rebench.search.compare(
        tables,
        ["random", "rea"],
        budget=budget,
        repeats=3,
        on_run=lambda one: told.append(one.name),
    )
    seeds = [f"mini@fixed seed {seed}" for seed in (777, 888, 999)]
    assert list(dict.fromkeys(told)) == [*tables, *seeds]
    assert len(told) == 5 * 2 * 3
    pairs = [(each.first, each.second) for each in found.seed_agreements]
    assert pairs == [(seeds[0], seeds[1]), (seeds[0], seeds[2]), (seeds[1], seeds[2])]
    again = [
        run_all(table, ["random", "rea"], budget=budget, repeats=3)
        for table in seed_tables(found.results[0].table)
    ]
    taus = [each.tau.value for each in found.seed_agreements]
    means = [result.finals.mean(axis=0) for result in again]
    expected = [stats.kendalltau(*pair).statistic for pair in itertools.combinations(means, 2)]
    assert taus == pytest.approx(expected)
    rows = found.agreements()
    assert rows["tau"].tolist() == pytest.approx([found.tau, *taus])
    profit = found.profit()
    assert sorted(profit["algorithm"]) == ["random", "rea"]
    assert profit["profit"].sum() == pytest.approx(0)  # gains of average ranks sum to 0


def test_table_of_one_seed_is_compared_with_equal_cells_in_exchange():
    table = rebench.search.search_table("nb201", "cifar10", validation=False)
    budget = rebench.search.Budget(evaluations=5)
    found = rebench.search.compare([table, table], ["random", "rea"], budget=budget, repeats=3)
    [seeds] = found.seed_agreements
    assert (seeds.first, seeds.second) == ("nb201", "nb201 with the runs of equal cells")


def test_verdict_says_that_there_is_no_seed_baseline():
    table = smooth_table(SearchSpace.of(range(20)))
    budget = rebench.search.Budget(evaluations=5)
    found = rebench.search.compare([table, table], ["random", "rea"], budget=budget, repeats=3)
    assert found.seed_agreements == ()
    assert found.verdict()[2] == (
        "No seed baseline: smooth has neither two known seeds nor equal cells for half of its "
        "cells. So other seeds may change the order as much."
    )


def test_options_reach_their_algorithm():
    table, budget = smooth_table(), rebench.search.Budget(evaluations=60)
    plain, chosen = (
        rebench.search.compare(table, ["random", "rea"], budget=budget, repeats=2, options=options)
        for options in (None, {"rea": {"population": 5, "sample": 2}})
    )
    same = [
        [run.positions.tolist() for run in plain.results[0].runs[name]]
        == [run.positions.tolist() for run in chosen.results[0].runs[name]]
        for name in ("random", "rea")
    ]
    assert same == [True, False]
    with pytest.raises(UnknownNameError, match="unknown algorithm 'bohb' in options; valid: rea"):
        rebench.search.compare(table, ["rea"], budget=budget, options={"bohb": {}})


def test_final_accuracies_are_written_for_a_paper():
    budget = rebench.search.Budget(evaluations=5)
    found = rebench.search.compare("mini@fixed", ["random"], budget=budget, repeats=3)
    row = found.frame().iloc[0]
    texts = ["mini@fixed", "random", f"{row['mean']:.2f}"]
    texts += [f"{row['low']:.2f} to {row['high']:.2f}", f"{row['regret']:.2f}"]
    assert found.to_markdown().splitlines()[-1] == f"| {' | '.join(texts)} |"
    assert " & ".join(texts) in found.to_latex("tab:mine")
    assert r"accuracy (\%) of search algorithms, mean over 3 runs with 5 eval" in found.to_latex()
    assert found.to_csv() == found.frame().to_csv(index=False)


def test_python_and_the_command_have_the_same_number_of_repeats():
    defaults = [
        inspect.signature(function).parameters["repeats"].default
        for function in (rebench.search.compare, run_all, compare_tables)
    ]
    assert len(set(defaults)) == 1


def test_three_tables_and_mixed_kinds_are_refused():
    with pytest.raises(InputError, match="one or two tables, got 3"):
        rebench.search.compare(["mini@fixed"] * 3)
    with pytest.raises(InputError, match="of one kind"):
        rebench.search.compare(["mini@fixed", smooth_table()])
