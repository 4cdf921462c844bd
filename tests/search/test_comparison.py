"""Statistics of a few runs whose answers are chosen, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from search_tables import smooth_table

from rebench.errors import InputError, UnknownNameError
from rebench.search import Budget, SearchSpace, SearchTable, Trajectory
from rebench.search.comparison import Compared, Comparison, order_agreement, run_all

FOUR = replace(smooth_table(SearchSpace.of(range(4))), tested=np.arange(4.0)[:, None])
BUDGET = Budget(evaluations=4)


def _compared(**answers: list[int]) -> Comparison:
    """Return runs of algorithms on four cells of accuracy 0 to 3.

    Each number is the cell that a run answers at its end. Run r trains r + 1 cells, and answers
    cell 0 before.
    """
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
    return Comparison(table=FOUR, budget=BUDGET, runs=runs)


A, B = [3, 3, 2, 1], [0, 1, 1, 2]


def test_summary_is_that_of_the_answers():
    summary = _compared(b=B, a=A).summary()
    first, second = summary.loc[0].to_dict(), summary.loc[1]
    # The squared deviations of 3, 3, 2, 1 from 2.25 sum to 2.75; t of 3 degrees is 3.1824.
    assert first == pytest.approx(
        {
            "algorithm": "a", "mean": 2.25, "low": 2.25 - 3.1824 * (2.75 / 12) ** 0.5,
            "high": 2.25 + 3.1824 * (2.75 / 12) ** 0.5, "std": (2.75 / 4) ** 0.5, "regret": 0.75,
            "found_best": 0.5, "evaluations": 2.5, "repeats": 4,
        },
        rel=1e-4,
    )  # fmt: skip
    assert (second["algorithm"], second["mean"], second["found_best"]) == ("b", 1, 0)


def test_regret_begins_when_all_have_an_answer_and_ends_with_the_budget():
    found = _compared(a=A, b=B).anytime(points=3)
    assert found.columns.tolist() == ["algorithm", "spent", "regret", "low", "high"]
    assert found.index.tolist() == list(range(6))
    curve = found.set_index(["algorithm", "spent"])["regret"]
    # After 1 evaluation, run 0 answers its cell and the other runs cell 0. After 2, run 1 also
    # answers its cell.
    assert curve["a"].to_dict() == pytest.approx({1: 9 / 4, 2: 6 / 4, 4: 3 / 4})
    assert curve["b"].to_dict() == pytest.approx({1: 3, 2: 11 / 4, 4: 8 / 4})
    late = _compared(a=A, b=B)
    late.runs["b"][1] = replace(late.runs["b"][1], clock=np.array([2.0, 3.0]))
    assert late.anytime(points=2)["spent"].tolist() == pytest.approx([2, 4, 2, 4])


def test_every_pair_is_compared_once_with_its_interval():
    wins = _compared(a=A, b=B, c=A).wins()
    assert wins[["first", "second"]].to_numpy().tolist() == [["a", "b"], ["a", "c"], ["b", "c"]]
    # Algorithm a wins 12 of 16 pairs of runs with b, and ties 3. The runs of c equal those of a.
    assert wins["wins"].tolist() == [13.5 / 16, 0.5, 2.5 / 16]
    assert ((wins["low"] < wins["wins"]) & (wins["wins"] < wins["high"])).all()


def test_average_ranks_share_the_places_of_ties():
    ranks = _compared(a=A, b=[0, 3, 3, 2], c=[1, 0, 2, 2]).ranks().set_index("algorithm")
    assert ranks["average_rank"].to_dict() == {
        "b": (3 + 1.5 + 1 + 1.5) / 4,
        "a": (1 + 1.5 + 2.5 + 3) / 4,
        "c": (2 + 3 + 2.5 + 1.5) / 4,
    }
    assert ranks.index.tolist() == ["b", "a", "c"]
    assert _compared(a=B, b=A).ranks()["algorithm"].to_dict() == {0: "b", 1: "a"}


def test_one_algorithm_has_neither_pairs_nor_a_critical_difference():
    assert _compared(a=A).wins().empty
    assert _compared(a=A).ranks()["critical_difference"].tolist() == [0.0]


def test_tau_and_its_interval_are_those_of_scipy_on_resampled_repeats():
    """Accuracies have many ties. Draws without tau, because all accuracies tie, are omitted."""
    draw = np.random.default_rng(1)
    tables = [draw.integers(0, 3, (4, 3)) for _ in range(2)]
    results = [_compared(**dict(zip("abc", finals.T, strict=True))) for finals in tables]
    found = order_agreement(*results, rng=np.random.default_rng(5), draws=200)
    rng, taus = np.random.default_rng(5), []
    for _ in range(200):
        means = [finals[rng.integers(4, size=4)].mean(axis=0) for finals in tables]
        taus.append(stats.kendalltau(*means).statistic)
    assert np.isnan(taus).any()
    expected = stats.kendalltau(*(finals.mean(axis=0) for finals in tables)).statistic
    assert found.tau.value == pytest.approx(expected)
    assert list(found.tau)[1:] == pytest.approx(np.nanquantile(taus, [0.025, 0.975]), abs=1e-12)


def test_one_repeat_does_not_bound_tau():
    first, second = _compared(a=[3], b=[2], c=[1]), _compared(a=[3], b=[1], c=[2])
    found = order_agreement(first, second, rng=np.random.default_rng(0)).tau
    assert found == pytest.approx((1 / 3, -1, 1))


def test_tau_is_not_known_if_all_algorithms_end_equally():
    same = _compared(a=[3] * 5, b=[3] * 5)
    found = order_agreement(same, same, rng=np.random.default_rng(0))
    assert np.isnan(found.tau).all()
    told = str(Compared(results=(same, same), agreement=found, seed_agreements=(found,)))
    assert "0 pairs change their order significantly, and tau is not known." in told
    assert "Tau is not known: on one table all algorithms have equal mean accuracies." in told


def test_a_pair_that_each_table_tells_apart_in_opposite_order_is_a_swap():
    """Each algorithm has ten repeats. In both tables c differs significantly from a and b.

    The tables rank these pairs in opposite orders.
    """
    first = _compared(a=[3] * 10, b=[2] * 10, c=[1] * 10)
    second = _compared(a=[0, 1] * 5, b=[1, 0] * 5, c=[2] * 10)
    found, turned, same = (
        order_agreement(*pair, rng=np.random.default_rng(0)).swaps.to_numpy().tolist()
        for pair in ((first, second), (second, first), (first, first))
    )
    assert found == [["a", "c", 1, 0], ["b", "c", 1, 0]]
    assert turned == [["c", "a", 1, 0], ["c", "b", 1, 0]]
    assert same == []


def test_places_that_algorithms_win():
    before, after = _compared(a=A, b=B), _compared(a=B, b=A)
    found = Compared(results=(before, after), agreement=None)
    # In the four repeats b gains 1, 1, 1 and -1 places: standard deviation 1. t of 3 degrees is
    # 3.1824.
    margin = 0.5 * 3.1824
    expected = [
        {"algorithm": "b", "rank_baseline": 1.75, "rank_other": 1.25, "profit": 0.5,
         "low": 0.5 - margin, "high": 0.5 + margin},
        {"algorithm": "a", "rank_baseline": 1.25, "rank_other": 1.75, "profit": -0.5,
         "low": -0.5 - margin, "high": -0.5 + margin},
    ]  # fmt: skip
    for place, row in enumerate(expected):
        assert found.profit().loc[place].to_dict() == pytest.approx(row, rel=1e-4)


@pytest.mark.parametrize(
    ("repeats", "told", "p"),
    [(4, "the algorithms do not differ significantly", 0.125), (6, "the algorithms differ", 0.031)],
)
def test_comparison_says_whether_algorithms_differ(repeats: int, told: str, p: float):
    """The p-value is that of the sign test: 2 / 2^4 and 2 / 2^6."""
    said = str(_compared(a=[3] * repeats, b=[1] * repeats))
    assert said.startswith(f"smooth: {FOUR.protocol}; budget: 4 evaluations; {told}")
    assert said.endswith(f"p = {p:.2g})")


@pytest.mark.parametrize(
    ("answers", "changed", "pairs"),
    [
        ({"a": 3, "b": 0, "c": 1}, "2 of 3 pairs change their order", "a and b, a and c"),
        ({"a": 3, "b": 0}, "1 of 1 pair changes its order", "a and b"),
    ],
)
def test_verdict_names_the_pairs_that_swap(answers: dict[str, int], changed: str, pairs: str):
    """Each algorithm has ten runs. Algorithm a is best in the first table, worst in the second."""
    before = _compared(**{name: [place] * 10 for name, place in answers.items()})
    turned = replace(before, table=replace(FOUR, tested=np.array([0.0, 1, 2, -1])[:, None]))

    def verdict(*seeds: Comparison) -> list[str]:
        rng = np.random.default_rng(0)
        agreed = order_agreement(before, turned, rng=rng)
        others = tuple(order_agreement(before, seed, rng=rng) for seed in seeds)
        both = Compared(results=(before, turned), agreement=agreed, seed_agreements=others)
        return both.verdict()

    said = f"{changed} significantly (95 % in each table, not adjusted for the number of pairs)"
    assert verdict()[0] == f"{said}: {pairs}."
    assert verdict()[1].endswith(
        f"the means of {changed.partition(' pair')[0]} pair"
        f"{'s' if 'pairs' in changed else ''} are in opposite order."
    )
    assert verdict(before, before)[2] == (
        "The other table changes more pairs than another seed does: in the seed baseline "
        "(smooth), 0 pairs change their order significantly, and tau is 1.00."
    )
    number = len(answers) - 1
    assert verdict(before, turned)[2].startswith(
        "The other table changes no more pairs than another seed does: in the seed baseline "
        f"(smooth), 0 to {number} pairs change their order significantly, and tau is -"
    )


def test_negative_tau_without_a_swap_is_explained():
    """Each algorithm ends at cell 0 and at cell 3: b more often at 3, then a."""
    first = _compared(a=[3, 0, 0], b=[3, 3, 0])
    second = _compared(a=[3, 3, 0], b=[3, 0, 0])
    agreed = order_agreement(first, second, rng=np.random.default_rng(0))
    claim, tau = agreed.verdict()
    assert claim == "No pair of algorithms changes its order significantly."
    assert tau.startswith("Kendall's tau between the two orders is -1.00 (95 % CI -1.00 to -1.00)")
    assert tau.endswith(
        ": the means of 1 of 1 pair are in opposite order, but no pair differs significantly on "
        "both tables in this way."
    )


def test_unknown_figure_of_a_comparison_lists_its_figures():
    with pytest.raises(UnknownNameError, match="valid: ranks, anytime"):
        _compared(a=A).plot("rank")


def test_progress_is_told_after_each_run():
    told: list[SearchTable] = []
    run_all(FOUR, ["random", "rea"], budget=BUDGET, repeats=2, on_run=told.append)
    assert len(told) == 4
    assert all(one is FOUR for one in told)


def test_no_repeats_are_refused():
    with pytest.raises(InputError, match="repeats must be at least 1, got 0"):
        run_all(smooth_table(), repeats=0)
