from dataclasses import replace

import numpy as np
import pytest
from search_tables import smooth_table

from rebench.errors import InputError
from rebench.search import Budget, SearchSpace, paper_budget, replay
from rebench.search.comparison import run_all
from rebench.search.run import affordable


def test_repeats_differ_and_each_is_the_run_of_its_number():
    table = smooth_table()
    runs = run_all(table, ["random"], budget=Budget(evaluations=20), repeats=3, seed=9).runs[
        "random"
    ]
    assert len({tuple(run.positions.tolist()) for run in runs}) == 3
    again = replay("random", table, Budget(evaluations=20), seed=9, run=2)
    np.testing.assert_array_equal(runs[2].positions, again.positions)
    np.testing.assert_array_equal(runs[2].answers, again.answers)


def test_the_clock_adds_the_cost_of_each_cell_and_stops_within_the_budget():
    table = smooth_table()
    run = replay("random", table, Budget(seconds=500))
    seconds = table.fidelities[0].seconds[run.positions]
    np.testing.assert_allclose(run.clock, seconds.cumsum())
    assert 500 - 16 < run.clock[-1] <= 500  # a run costs 10 to 16 seconds


def test_an_evaluation_of_more_epochs_costs_in_proportion():
    """Hyperband on 12 and 200 epochs: 17 runs of 12 and one of 200 are 17 + 200/12 evaluations."""
    table = smooth_table()
    assert len(replay("hyperband", table, Budget(evaluations=17 + 200 / 12)).positions) == 18
    assert len(replay("hyperband", table, Budget(evaluations=17 + 199 / 12)).positions) == 17


def test_the_answer_is_the_best_told_so_far_at_the_highest_fidelity():
    table = smooth_table()
    worse = Budget(evaluations=17 + 3 * 200 / 12)  # 17 cells of 12 epochs, then 3 of 200
    run = replay("hyperband", table, worse)
    value = table.final[run.positions]
    for turn in range(17):
        assert table.final[run.answers[turn]] == value[: turn + 1].max()
    for turn in range(17, 20):
        assert table.final[run.answers[turn]] == value[17 : turn + 1].max()


def test_the_first_of_equal_cells_is_the_answer():
    table = smooth_table()
    level = replace(table.fidelities[0], accuracy=np.full((len(table.space), 1), 50.0))
    run = replay("random", replace(table, fidelities=(level,)), Budget(evaluations=9))
    assert run.answers.tolist() == [run.positions[0]] * 9


def test_the_usual_run_is_the_first_of_seed_0():
    usual, first = (
        replay("random", smooth_table(), Budget(evaluations=5), **numbers)
        for numbers in ({}, {"seed": 0, "run": 0})
    )
    assert usual.positions.tolist() == first.positions.tolist()


def test_seeds_are_drawn_by_the_table_so_that_repeated_queries_differ():
    table = smooth_table(SearchSpace.of([5]), noise=1.0)
    run = replay("random", table, Budget(evaluations=20))
    assert set(run.positions) == {0}
    assert np.ptp(table.fidelities[0].accuracy) > 0


@pytest.mark.parametrize("amount", [{}, {"seconds": 1.0, "evaluations": 1}, {"seconds": 0.0}])
def test_a_budget_is_exactly_one_positive_amount(amount: dict[str, float]):
    with pytest.raises(InputError, match="budget"):
        Budget(**amount)


def test_a_budget_that_ends_before_the_first_evaluation_is_refused():
    with pytest.raises(InputError, match="raise the budget"):
        replay("random", smooth_table(), Budget(seconds=1))


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
    partly = replace(
        short, fidelities=(short.fidelities[0], replace(short.fidelities[1], seconds=None))
    )
    for other in (long, untimed, partly):
        assert paper_budget(short, other) == Budget(evaluations=150)
    assert paper_budget(replace(short, dataset="digits"), evaluations=9).evaluations == 9
