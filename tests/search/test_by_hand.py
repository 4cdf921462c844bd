"""Statistics of a few runs whose answers are chosen, and proxies of cells, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from search_tables import smooth_table
from simulated_tables import synthetic_table

from cells import Cell
from rebench.errors import InputError, UnknownNameError
from rebench.search import Budget, Problem, SearchSpace, Trajectory, make_searcher, search_table
from rebench.search.comparison import (
    Compared,
    Comparison,
    compare,
    friedman_p_value,
    order_agreement,
    win_probability,
)
from rebench.search.multifidelity import _Density
from rebench.search.proxies import image_batch, proxy_scores
from rebench.search.run import affordable, paper_budget
from rebench.search.tabular import search_tables
from rebench.tables import Table

FOUR = replace(smooth_table(SearchSpace.of(range(4))), tested=np.arange(4.0)[:, None])


def _compared(**answers: list[int]) -> Comparison:
    """Runs on four cells of accuracy 0 to 3: run r trains r + 1 cells, the last is its answer."""
    runs = {
        name: [
            Trajectory(
                positions=np.full(at + 1, place),
                clock=np.arange(1.0, at + 2),
                answers=np.array([0] * at + [place]),
            )
            for at, place in enumerate(places)
        ]
        for name, places in answers.items()
    }
    return Comparison(table=FOUR, budget=Budget(evaluations=4), runs=runs)


A, B = [3, 3, 2, 1], [0, 1, 1, 2]


def test_summary_is_that_of_the_answers():
    [first, _] = _compared(b=B, a=A).summary().to_dict("records")
    # Deviations of 3, 3, 2, 1 from 2.25: squares add up to 2.75; t of 3 degrees is 3.1824.
    assert first == pytest.approx(
        {
            "algorithm": "a", "mean": 2.25, "low": 2.25 - 3.1824 * (2.75 / 12) ** 0.5,
            "high": 2.25 + 3.1824 * (2.75 / 12) ** 0.5, "std": (2.75 / 4) ** 0.5, "regret": 0.75,
            "found_best": 0.5, "evaluations": 2.5, "repeats": 4,
        },
        rel=1e-4,
    )  # fmt: skip


def test_regret_begins_when_all_have_an_answer_and_ends_with_the_budget():
    curve = _compared(a=A, b=B).anytime(points=3).set_index(["algorithm", "spent"])["regret"]
    # After 1 evaluation run 0 has its answer, the others cell 0; after 2 run 1, too.
    assert curve["a"].to_dict() == pytest.approx({1: 9 / 4, 2: 6 / 4, 4: 3 / 4})
    assert curve["b"].to_dict() == pytest.approx({1: 3, 2: 11 / 4, 4: 8 / 4})


def test_places_that_algorithms_win_and_what_seeds_would_have_moved():
    before, after = _compared(a=A, b=B), _compared(a=B, b=A)
    reruns = (before, after)
    found = Compared(results=(before, after), agreement=None, reruns=reruns)
    assert before.ranks()["average_rank"].tolist() == [1.25, 1.75]
    # b gains 1, 1, 1 and -1 places: the standard deviation is 1, t of 3 degrees 3.1824.
    margin = 0.5 * 3.1824
    expected = [
        {"algorithm": "b", "rank_before": 1.75, "rank_after": 1.25, "profit": 0.5,
         "low": 0.5 - margin, "high": 0.5 + margin,
         "other_seeds_low": 0.0125, "other_seeds_high": 0.4875},
        {"algorithm": "a", "rank_before": 1.25, "rank_after": 1.75, "profit": -0.5,
         "low": -0.5 - margin, "high": -0.5 + margin,
         "other_seeds_low": -0.4875, "other_seeds_high": -0.0125},
    ]  # fmt: skip
    for told, row in zip(found.profit().to_dict("records"), expected, strict=True):
        assert told == pytest.approx(row, rel=1e-4)
    agreed = order_agreement(before, after, rng=np.random.default_rng(0), reruns=reruns, draws=50)
    assert (agreed.tau.value, agreed.null_tau, agreed.p_value) == (-1, (1, -1), 2 / 3)


@pytest.mark.parametrize(
    ("repeats", "told", "p"),
    [(4, "the algorithms do not differ significantly", 0.125), (6, "the algorithms differ", 0.031)],
)
def test_comparison_says_whether_algorithms_differ(repeats: int, told: str, p: float):
    """By the sign test: 2 / 2^4 and 2 / 2^6."""
    said = str(_compared(a=[3] * repeats, b=[1] * repeats))
    assert told in said
    assert said.endswith(f"p = {p:.2g})")


def test_win_probabilities_of_very_few_runs():
    assert win_probability(np.array([1.0]), np.array([0.5, 2.0])) == (0.5, 0, 1)
    assert win_probability(np.zeros(3), np.ones(2)) == pytest.approx((0, 0, 1 - 0.025**0.5))
    for empty in (0, 1):
        with pytest.raises(InputError, match=f"got {empty} and {1 - empty} runs"):
            win_probability(np.zeros(empty), np.zeros(1 - empty))


@pytest.mark.parametrize("scores", [np.ones((5, 1)), np.arange(3.0)[None], np.ones((5, 3))])
def test_nothing_differs_in_one_block_in_one_algorithm_or_where_all_are_equal(scores: np.ndarray):
    assert friedman_p_value(scores) == 1.0


def test_budget_is_no_more_than_every_cell_at_every_fidelity():
    first, second = (smooth_table(SearchSpace.of(range(n))) for n in (10, 20))
    assert affordable(Budget(evaluations=1e9), [first, second]) == Budget(
        evaluations=20 * (1 + 200 / 12)
    )
    assert affordable(Budget(evaluations=7), [first]) == Budget(evaluations=7)
    seconds = sum(level.seconds.sum() for level in first.fidelities)
    assert affordable(Budget(seconds=1e9), [first]).seconds == pytest.approx(seconds)


def test_budget_of_papers_needs_times_of_short_runs_in_every_table():
    short = smooth_table(SearchSpace.of(range(4)))
    long = replace(short, fidelities=short.fidelities[1:])
    untimed = replace(short, fidelities=(replace(short.fidelities[0], seconds=None),))
    assert paper_budget(short, short).seconds == 20_000
    for other in (long, untimed):
        assert paper_budget(short, other) == Budget(evaluations=150)
    assert paper_budget(replace(short, dataset="digits"), evaluations=9).evaluations == 9


def test_table_that_cannot_be_searched_is_refused():
    with pytest.raises(InputError, match="no fidelity to search on"):
        replace(FOUR, fidelities=())
    with pytest.raises(InputError, match="cells without an accuracy"):
        replace(FOUR, tested=np.full((4, 1), np.nan))
    with pytest.raises(InputError, match="cells without an accuracy"):
        replace(FOUR, tested=np.zeros((3, 1)))


def _table(name: str, **columns: object) -> Table:
    rows = synthetic_table(0, cells=range(9), datasets=["cifar10"], epochs=[200]).frame()
    rows = rows[rows["split"] == "ori-test"].assign(**columns)
    return Table.from_frame(
        rows[["index", "dataset", "split", "epochs", "seed", "accuracy"]], name=name
    )


def test_data_set_of_two_tables_is_the_usual_one_that_both_have():
    """The first table's usual one; where the second lacks it, the first by name."""
    ours, theirs = _table("ours"), _table("theirs", dataset="digits")
    with pytest.raises(InputError, match=r"no data set in common \(cifar10; digits\)"):
        search_tables([ours, theirs])
    several = Table.from_frame(
        synthetic_table(0, cells=range(9), epochs=[200]).frame(), name="several"
    )
    [first, second] = search_tables([several, ours])
    assert (first.dataset, second.dataset) == ("cifar10", "cifar10")
    hundred = _table("hundred", dataset="cifar100", split="x-test")
    assert search_tables([several, hundred])[0].dataset == "cifar100"


def test_test_split_is_the_papers_or_what_there_is():
    assert "cifar100 ori-test" in search_table(_table("t", dataset="cifar100"), "cifar100").reported
    half = _table("t", dataset="digits", split="x-test")
    assert "digits x-test" in search_table(half, "digits").reported
    with pytest.raises(InputError, match="no test or validation accuracy of cifar10; it has train"):
        search_table(_table("t", split="train"), "cifar10")


def test_validation_accuracy_is_final_where_there_is_no_other_and_the_protocol_says_so():
    own, both = _table("own", split="x-valid"), _table("both")
    [searched] = search_tables([own])
    assert searched.split == "validation"
    assert searched.final.tolist() == own.means("cifar10", "x-valid").tolist()
    assert "validation accuracy because the table has no test accuracy" in searched.protocol
    # The benchmark's name of training on half of CIFAR-10 stands for the data set.
    half = _table("half", dataset="cifar10-valid", split="x-valid")
    assert [each.split for each in search_tables([half, both])] == ["validation", "test"]
    names = ["random", "rea"]
    found = compare([half, both], names, budget=Budget(evaluations=2), repeats=2)
    assert "9 cells, validation and test accuracy, 2 runs" in str(found)


@pytest.mark.parametrize(("told", "fewest"), [(20, 7), (100, 15)])
def test_bohb_proposes_the_draw_at_which_good_cells_are_denser(told: int, fewest: int):
    """Good are the best 15 %, and 7 at least; the others are bad."""
    space = SearchSpace.whole()
    problem = Problem(space=space, epochs=(12, 200), signal=0)
    cells = np.random.default_rng(1).choice(len(space), 2 * told, replace=False).tolist()
    for options in ({}, {"random_fraction": 1.0}):
        searcher = make_searcher("bohb", problem, np.random.default_rng(2), options)
        for level, own in ((0, cells[told:]), (1, cells[:told])):
            searcher.told[level] = [(500.0 - at, cell) for at, cell in enumerate(own)]
        searcher.generator, twin = np.random.default_rng(3), np.random.default_rng(3)
        twin.random()
        if options:
            expected = space.sample(twin)
        else:
            good, bad = (_Density(space.ops[part]) for part in (cells[:fewest], cells[fewest:told]))
            draws = good.draw(4, twin)
            best = max(draws, key=lambda ops: good.log_at(ops[None]) - bad.log_at(ops[None]))
            expected = Cell(tuple(best.tolist())).index
        assert searcher.propose() == expected
    with pytest.raises(InputError, match="samples must be at least 1, got 0"):
        make_searcher("bohb", problem, np.random.default_rng(0), {"samples": 0})


def test_bohb_starts_with_random_cells_until_nine_are_told():
    problem = Problem(space=SearchSpace.whole(), epochs=(12,), signal=0)
    for told, random in ((8, True), (9, False)):
        searcher = make_searcher("bohb", problem, np.random.default_rng(2))
        searcher.told[0] = [(1.0, at) for at in range(told)]
        searcher.generator = np.random.default_rng(3)
        drawn = problem.space.sample(np.random.default_rng(3))
        assert (searcher.propose() == drawn) == random


def test_proxies_of_paths_are_counted_route_by_route():
    indices = [0, 11, 284, 1462, 6111, 9930, 15_624]
    expected: dict[str, list[float]] = {}
    for index in indices:
        cell = Cell.from_index(index)
        live, convolutions = set(), []
        for route in (((3, 0),), ((1, 0), (3, 1)), ((2, 0), (3, 2)), ((1, 0), (2, 1), (3, 2))):
            ops = [cell.op(*edge) for edge in route]
            if all(ops):
                live |= set(route)
                convolutions.append(sum(op in (2, 3) for op in ops))
        for name, score in {
            "paths": len(convolutions),
            "deepest": max(convolutions, default=0),
            "mean-depth": np.mean(convolutions) if convolutions else 0,
            "cubed-depths": sum((1 + depth) ** 3 for depth in convolutions),
            "live-edges": len(live),
        }.items():
            expected.setdefault(name, []).append(score)
    for name, scores in expected.items():
        found = proxy_scores(name, SearchSpace.of(indices), "cifar10")
        assert found.tolist() == pytest.approx(scores), name


def test_batch_of_images_is_normalised_and_of_a_seed():
    images, labels = image_batch("digits", 50, seed=1)
    again, _ = image_batch("digits", 50, seed=1)
    assert images.shape == (50, 3, *images.shape[2:])
    assert labels.shape == (50,)
    assert images.equal(again)
    whole, _ = image_batch("digits", 1437)
    assert whole.mean().item() == pytest.approx(0, abs=0.05)
    assert whole.std().item() == pytest.approx(1, abs=0.05)
    for wrong in (0, 1438):
        with pytest.raises(InputError, match=f"1 to 1437 images, got {wrong}"):
            image_batch("digits", wrong)


def test_unknown_figure_of_a_comparison_lists_its_figures():
    with pytest.raises(UnknownNameError, match="valid: ranks, anytime"):
        _compared(a=A).plot("rank")
