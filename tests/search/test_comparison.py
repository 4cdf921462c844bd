import numpy as np
import pytest
from search_tables import smooth_table

from rebench.errors import InputError
from rebench.search import Budget, SearchSpace, SearchTable, replay
from rebench.search.comparison import Comparison, run_all

BUDGET = Budget(evaluations=40)


@pytest.fixture(scope="module")
def result() -> Comparison:
    return run_all(smooth_table(noise=0.5), ["random", "rea", "local"], budget=BUDGET, repeats=30)


def test_finals_are_what_the_last_answers_are_worth(result: Comparison):
    run = replay("rea", result.table, BUDGET, run=7)
    assert result.final("rea")[7] == result.table.final[run.answers[-1]]


def test_summary_is_sorted_and_regret_is_the_distance_to_the_optimum(result: Comparison):
    summary = result.summary()
    assert summary["mean"].is_monotonic_decreasing
    np.testing.assert_allclose(summary["mean"] + summary["regret"], result.table.best)
    random = summary.set_index("algorithm").loc["random"]
    assert random["mean"] == pytest.approx(result.final("random").mean())
    assert random["std"] == pytest.approx(np.std(result.final("random")))
    assert (summary["low"] < summary["mean"]).all()


def test_anytime_curves_end_at_the_final_regret_and_never_see_the_future(result: Comparison):
    curves = result.anytime(points=20)
    last = curves.groupby("algorithm").last()
    summary = result.summary().set_index("algorithm")
    np.testing.assert_allclose(last["regret"], summary.loc[last.index, "regret"])
    part = curves[curves["algorithm"] == "random"]
    spent = part["spent"].iloc[10]
    slow = np.mean(
        [
            result.table.best - result.table.final[run.answers[run.clock <= spent][-1]]
            for run in result.runs["random"]
        ]
    )
    assert part["regret"].iloc[10] == pytest.approx(slow)


def test_every_pair_is_compared_once(result: Comparison):
    wins = result.wins()
    assert list(zip(wins["first"], wins["second"], strict=True)) == [
        ("random", "rea"),
        ("random", "local"),
        ("rea", "local"),
    ]
    assert ((wins["low"] <= wins["wins"]) & (wins["wins"] <= wins["high"])).all()


def test_ranks_add_up(result: Comparison):
    ranks = result.ranks()
    assert ranks["average_rank"].is_monotonic_increasing
    assert ranks["average_rank"].sum() == pytest.approx(1 + 2 + 3)
    slow = [
        [(row > own).sum() + ((row == own).sum() + 1) / 2 for own in row] for row in result.finals
    ]
    average = ranks.set_index("algorithm")["average_rank"][result.algorithms]
    assert average.tolist() == pytest.approx(np.mean(slow, axis=0))
    assert (ranks["friedman_p"] < 0.05).all()  # learning beats random search on this table


def test_one_algorithm_alone_is_summed_up_without_pairs():
    alone = run_all(smooth_table(SearchSpace.of(range(50))), ["random"], budget=BUDGET, repeats=2)
    assert alone.wins().empty
    assert alone.ranks()["critical_difference"].tolist() == [0.0]


def test_progress_is_told_after_each_run():
    told: list[SearchTable] = []
    table = smooth_table(SearchSpace.of(range(50)))
    run_all(table, ["random", "rea"], budget=BUDGET, repeats=2, on_run=told.append)
    assert len(told) == 4
    assert all(one is table for one in told)


def test_no_repeats_are_refused():
    with pytest.raises(InputError, match="repeats must be a whole number of at least 1, got 0"):
        run_all(smooth_table(), repeats=0)
