"""`rebench.search.compare`: the one object of algorithms on one table or two."""

from __future__ import annotations

import numpy as np
import pytest
from search_tables import smooth_table

import rebench.search
from rebench.errors import InputError
from rebench.search.comparison import agreement, run_all


def test_two_tables_by_name_are_searched_alike_and_held_against_each_other():
    names = ["random", "rea"]
    found = rebench.search.compare(["mini@fixed", "mini@topology"], names, repeats=5)
    first, second = found.results
    assert first.table.space.indices.tolist() == second.table.space.indices.tolist()
    assert first.budget == second.budget
    again = agreement(first, second, rng=np.random.default_rng(0))
    assert found.tau == again.tau.value
    assert found.p_value is None
    assert found.frame()["table"].unique().tolist() == [first.table.name, second.table.name]
    assert str(found).startswith(f"algorithms' rankings: Kendall tau {found.tau:.3f} [")
    assert "asked for: reruns=20 searches" in str(found)
    assert repr(found) == f"<Compared: {found}>"
    p_value = first.ranks()["friedman_p"][0]
    assert str(first).startswith(f"mini@fixed: {first.table.protocol}; budget: ")
    assert str(first).endswith(f"(Friedman's test: p = {p_value:.2g})")
    assert "<table" in found._repr_html_()
    assert len(found.plot().axes) == 2


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


def test_reruns_give_a_p_value():
    tables = ["mini@fixed", "mini@topology"]
    budget = rebench.search.Budget(evaluations=10)
    found = rebench.search.compare(tables, ["random", "rea"], budget=budget, repeats=3, reruns=4)
    assert 0.2 <= found.p_value <= 1
    assert "seed noise alone" in str(found)
    profit = found.profit()
    assert sorted(profit["algorithm"]) == ["random", "rea"]
    assert profit["profit"].sum() == pytest.approx(0)  # of average ranks
    assert (profit["noise_low"] <= profit["noise_high"]).all()


def test_three_tables_and_mixed_kinds_are_refused():
    with pytest.raises(InputError, match="one or two tables, got 3"):
        rebench.search.compare(["mini@fixed"] * 3)
    with pytest.raises(InputError, match="of one kind"):
        rebench.search.compare(["mini@fixed", smooth_table()])
