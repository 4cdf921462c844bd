"""The page on search algorithms shows the stored measurement, and the code still gives it."""

from __future__ import annotations

import json

import pytest
from scipy import stats
from support import PROJECT

from experiments.findings import __main__ as pages
from experiments.findings import algorithms
from rebench.search import search_table
from rebench.search.comparison import run_all
from rebench.search.run import Budget
from rebench.tables import open_table

MEASURED = json.loads((PROJECT / "scripts/bench/results/search_orders.json").read_text())


def test_page_is_its_template_with_the_stored_numbers():
    assert pages.PAGES["algorithms"].read_text() == pages.filled("algorithms.md.jinja")


def test_stored_accuracies_are_those_of_a_search_of_nb201():
    table = search_table(open_table("nb201"), "cifar10", validation=False)
    names = ["random", "rea"]
    found = run_all(table, names, budget=Budget(evaluations=150), repeats=MEASURED["repeats"])
    for name in names:
        assert algorithms.searched("nb201")[name].value == pytest.approx(found.final(name).mean())


@pytest.mark.parametrize("name", [name for name in algorithms.SEARCHED if name != "nb201"])
def test_stored_tau_is_that_of_the_stored_accuracies(name: str):
    means = [algorithms.searched(table) for table in ("nb201", name)]
    order = sorted(means[0])
    assert order == sorted(means[1])
    tau = stats.kendalltau(*([own[each].value for each in order] for own in means)).statistic
    assert algorithms.agreement_of_orders(name)["tau"].value == pytest.approx(tau)
