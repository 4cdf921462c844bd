"""The variants in `originals.py` behave like the authors' scripts; numbers are counted by hand."""

from __future__ import annotations

import itertools
import sys
from types import ModuleType

import numpy as np
import pytest
from scipy import stats
from support import PROJECT

from rebench.search import Problem, SearchSpace, base, make_searcher


@pytest.fixture
def originals(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `originals`; its variants are registered as algorithms only during a test."""
    base.algorithm_names()  # registers all other algorithms first
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    monkeypatch.delitem(sys.modules, "originals", raising=False)
    monkeypatch.syspath_prepend(str(PROJECT / "experiments/checks"))
    import originals

    return originals


@pytest.mark.usefixtures("originals")
def test_mutation_by_vertex_takes_each_vertex_alike_and_then_each_of_its_edges():
    space = SearchSpace.whole()
    problem = Problem(space=space, epochs=(12,), signal=0)
    searcher = make_searcher("rea-by-vertex", problem, np.random.default_rng(0))
    for turn in range(searcher.size):
        searcher.tell(searcher.ask(), float(turn == 0))
    searcher.population = type(searcher.population)([(1.0, 7)] * searcher.size, searcher.size)
    changed = np.zeros(6)
    for _ in range(6000):
        apart = space.ops[searcher.ask().position] != space.ops[7]
        assert apart.sum() == 1
        changed += apart
    expected = np.array([1 / 3, 1 / 6, 1 / 6, 1 / 9, 1 / 9, 1 / 9])
    assert changed / 6000 == pytest.approx(expected, abs=0.02)  # three standard errors or more


@pytest.mark.usefixtures("originals")
def test_released_brackets_are_hpbandsters():
    """eta 3, budgets 12/9, 4 and 12: floor(3 / (s + 1)) 3^s cells start, a third of them go on."""
    problem = Problem(space=SearchSpace.whole(), epochs=(1, 4, 12), signal=2)
    searcher = make_searcher("bohb-released", problem, np.random.default_rng(0))
    levels = []
    for turn in range(20):
        query = searcher.ask()
        levels.append(query.level)
        searcher.tell(query, float(turn))
    runs = [(level, len(list(group))) for level, group in itertools.groupby(levels)]
    # Cells in each rung: 9, 3, 1 in the first bracket; 3, 1 in the second; 3 in the third. The last
    # 1 and 3 have the same level.
    assert runs == [(0, 9), (1, 3), (2, 1), (1, 3), (2, 4)]


def test_table_bills_the_two_cells_as_the_benchmark_does(originals: ModuleType):
    table, _ = originals.make_table()
    searched = originals.search_table(table, "cifar10", epochs=[12])
    seconds = searched.fidelities[0].seconds
    assert {index: seconds[index] for index in (0, 11)} == pytest.approx(originals.BILLED)
    curve = originals.search_table(table, "cifar10", epochs=originals.FIDELITIES, curve=True)
    last = curve.fidelities[-1]
    assert last.epochs == 12
    np.testing.assert_allclose(last.accuracy, searched.fidelities[0].accuracy)
    np.testing.assert_allclose(last.seconds, seconds)


def test_variants_are_not_known_to_others():
    assert not {"rea-by-vertex", "bohb-released"} & set(base.algorithm_names())


def test_difference_from_the_authors_has_welchs_interval(originals: ModuleType):
    samples = np.array([1.0, 2.0, 4.0]), np.array([0.0, 3.0, 9.0, 9.0])
    rows = [
        {"algorithm": "rea", "whose": whose, "variant": "", "mean": one.mean(),
         "sd": one.std(ddof=1), "runs": len(one)}
        for whose, one in zip(("ours", "authors"), samples, strict=True)
    ]  # fmt: skip
    ours, _ = originals.with_differences(rows)
    expected = stats.ttest_ind(*samples, equal_var=False).confidence_interval(0.95)
    assert (ours["difference_low"], ours["difference_high"]) == pytest.approx(tuple(expected))
