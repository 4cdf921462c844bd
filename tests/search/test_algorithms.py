"""Rules that every registered algorithm keeps, and tests of single algorithms."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest
from search_tables import smooth_table

from cells import Cell
from rebench.errors import InputError, UnknownNameError
from rebench.search import (
    Budget,
    Problem,
    Query,
    Searcher,
    SearchSpace,
    algorithm_names,
    base,
    describe,
    make_searcher,
    register,
    replay,
)
from rebench.search.comparison import run_all
from rebench.search.multifidelity import _Density
from rebench.search.predictor import PredictorGuided
from rebench.search.reinforce import Reinforce

SPACES = {
    "whole": SearchSpace.whole(),
    "sample": SearchSpace.of(range(0, 15625, 130)),
    "one cell": SearchSpace.of([6111]),
}


def _problem(space: SearchSpace) -> Problem:
    return Problem(space=space, epochs=(12, 200), signal=0)


def _drive(searcher: Searcher, values: list[float]) -> list[Query]:
    queries = []
    for value in values:
        queries.append(searcher.ask())
        searcher.tell(queries[-1], value)
    return queries


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("name", algorithm_names())
def test_queries_are_valid_and_decided_by_the_generator(name: str, space: str):
    problem = _problem(SPACES[space])
    values = np.random.default_rng(0).uniform(10, 70, 60).tolist()
    first, second, other = (
        _drive(make_searcher(name, problem, np.random.default_rng(seed)), values)
        for seed in (5, 5, 6)
    )
    assert first == second
    # In a small space, an algorithm may ask the same cells with two seeds.
    assert first != other or space != "whole"
    assert all(0 <= query.position < len(problem.space) for query in first)
    assert all(query.level in (0, 1) for query in first)


@pytest.mark.parametrize("name", ["bohb", "local", "predictor", "rea", "reinforce"])
def test_learning_beats_random_search_on_a_smooth_table(name: str):
    # BOHB is compared with Hyperband, because both spend epochs on runs of 200 epochs.
    blind = "hyperband" if name == "bohb" else "random"
    table = smooth_table(noise=0.5)
    found = run_all(table, [name, blind], budget=Budget(evaluations=150), repeats=20)
    assert found.final(name).mean() > found.final(blind).mean()


def test_an_algorithm_is_added_by_one_class(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))

    @register("first-come")
    class FirstCome(Searcher):
        """Train the cells in index order.

        All of them, again and again.
        """

        def __init__(self, problem: Problem, generator: np.random.Generator) -> None:
            super().__init__(problem, generator)
            self.order = itertools.cycle(range(len(self.space)))

        def ask(self) -> Query:
            return Query(next(self.order), self.problem.signal)

        def tell(self, query: Query, value: float) -> None:
            pass

    assert "first-come" in algorithm_names()
    assert describe("first-come") == "Train the cells in index order."
    run = replay("first-come", smooth_table(), Budget(evaluations=4))
    assert run.positions.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [7, None, "|nor_conv_3x3~0|", (1,), (4, 0), (-1, 0), (0, 2), (0, -1), (1.5, 0), ("1", 0)],
)
def test_a_wrong_query_is_refused_with_the_name_of_the_algorithm(
    wrong: object, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))

    @register("wrong")
    class Wrong(Searcher):
        """Return something else than a query."""

        def ask(self) -> Query:
            return wrong

        def tell(self, query: Query, value: float) -> None:
            pass

    table = smooth_table(SearchSpace.of(range(4)))
    said = f"ask() of 'wrong' returned {wrong!r}; return Query(position, level) with a position of "
    for budget in (Budget(evaluations=3), Budget(seconds=50)):
        with pytest.raises(InputError, match=re.escape(f"{said}0 to 3 and a level of 0 to 1")):
            replay("wrong", table, budget)


def test_a_name_is_given_to_one_algorithm_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    with pytest.raises(InputError, match="two algorithms"):

        @register("random")
        class Other(Searcher):
            """Another one."""


def test_an_unknown_name_lists_the_valid_ones_nearest_first():
    with pytest.raises(UnknownNameError, match=r"unknown algorithm 'rae'; valid: rea"):
        make_searcher("rae", _problem(SearchSpace.whole()), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rea", {"populaton": 5}, "rea does not .*populaton.*; valid: population, sample"),
        ("rea", {"population": 2, "sample": 3}, r"sample must be in 1\.\.population, got 3 of 2"),
        ("rea", {"sample": 0}, r"sample must be in 1\.\.population, got 0 of 10"),
        ("bohb", {"samples": 0}, "samples must be at least 1, got 0"),
        ("reinforce", {"momentum": -0.1}, r"momentum must be in \[0, 1\), got -0.1"),
        ("reinforce", {"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1"),
        ("predictor", {"initial": 1}, "at least 2, got 1, 10, 200"),
        ("predictor", {"batch": 1}, "at least 2, got 10, 1, 200"),
        ("predictor", {"candidates": 1}, "at least 2, got 10, 10, 1"),
    ],
)
def test_an_unknown_or_impossible_option_is_refused(
    name: str, options: dict[str, float], message: str
):
    with pytest.raises(InputError, match=message):
        make_searcher(name, _problem(SPACES["sample"]), np.random.default_rng(0), options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rea", {"population": 3, "sample": 3}),
        ("rea", {"population": 1, "sample": 1}),
        ("bohb", {"samples": 1}),
        ("reinforce", {"momentum": 0.0}),
        ("predictor", {"initial": 2, "batch": 2, "candidates": 2}),
    ],
)
def test_the_smallest_options_are_taken(name: str, options: dict[str, float]):
    make_searcher(name, _problem(SPACES["sample"]), np.random.default_rng(0), options)


def test_evolution_keeps_the_ten_youngest_and_breeds_neighbours():
    space = SearchSpace.whole()
    searcher = make_searcher("rea", _problem(space), np.random.default_rng(1))
    values = list(np.random.default_rng(2).permutation(60).astype(float))
    queries = _drive(searcher, values)
    for turn in range(10, 60):
        alive = [query.position for query in queries[turn - 10 : turn]]
        child = queries[turn].position
        assert any(child in space.neighbours(parent) for parent in alive)
    assert [value for value, _ in searcher.population] == values[-10:]


def test_local_search_never_trains_a_cell_twice_and_ends_in_a_local_optimum():
    table = smooth_table()
    run = replay("local", table, Budget(evaluations=400))
    assert len(set(run.positions.tolist())) == 400
    assert table.final[run.answers[-1]] == table.best == 92.0  # 50 + 6 x 7: the only optimum


def test_local_search_takes_the_first_better_neighbour_trained_or_known():
    """Compare the search with a slow loop that uses the same random numbers.

    Many cells have equal values, and neighbours that were trained before are not trained again.
    """
    space = SPACES["sample"]
    values = (np.arange(len(space)) * 7919 % 11).tolist()
    searcher, twin = (
        make_searcher("local", _problem(space), np.random.default_rng(4)),
        np.random.default_rng(4),
    )
    known: dict[int, int] = {}  # in the order of training
    while len(known) < 100:
        while (here := space.sample(twin)) in known:
            pass
        known[here] = values[here]
        better = True
        while better:
            better = False
            for near in reversed(twin.permutation(space.neighbours(here)).tolist()):
                known.setdefault(near, values[near])
                if values[near] > values[here]:
                    here, better = near, True
                    break
    for position in list(known)[:100]:
        query = searcher.ask()
        assert query.position == position
        searcher.tell(query, values[position])


def test_local_search_on_a_small_space_goes_on_when_all_is_known():
    table = smooth_table(SearchSpace.of([1, 2, 3]))
    assert len(replay("local", table, Budget(evaluations=30)).positions) == 30


@pytest.mark.parametrize("space", ["whole", "sample"])
def test_reinforce_ascends_the_gradient_of_the_log_policy(space: str):
    """Compare the gradient with a finite difference of log p(cell).

    The probability p is conditioned on the cells of the space.
    """
    problem = _problem(SPACES[space])
    searcher = Reinforce(problem, np.random.default_rng(0))
    searcher.logits = np.random.default_rng(1).normal(size=30)
    position = searcher.ask().position

    def log_chance(logits: np.ndarray) -> float:
        scores = problem.space.one_hot @ logits
        return float(scores[position] - np.log(np.exp(scores).sum()))

    drawn = problem.space.one_hot[position]
    for place in range(30):
        nudge = np.zeros(30)
        nudge[place] = 1e-5
        slope = log_chance(searcher.logits + nudge) - log_chance(searcher.logits - nudge)
        assert (drawn - searcher.expected)[place] == pytest.approx(slope / 2e-5, abs=1e-6)


@pytest.mark.parametrize("space", ["whole", "sample"])
def test_reinforce_draws_each_cell_with_its_chance(space: str):
    """Compare each drawn cell with a slow loop that uses the same uniform random numbers."""
    problem = _problem(SPACES[space])
    searcher = Reinforce(problem, np.random.default_rng(0))
    uniform = np.random.default_rng(0).random(600).tolist()
    logits = searcher.logits = np.random.default_rng(1).normal(size=30)

    def drawn(weights: np.ndarray) -> int:
        at = uniform.pop(0) * weights.sum()
        return next(place for place in range(len(weights)) if weights[: place + 1].sum() > at)

    for _ in range(100):
        if space == "whole":
            ops = tuple(drawn(np.exp(edge)) for edge in logits.reshape(6, 5))
            expected = Cell(ops).index
        else:
            expected = drawn(np.exp(problem.space.one_hot @ logits))
        assert searcher.ask() == Query(expected, 0)


@pytest.mark.parametrize("scale", [1.0, 1e-9])  # gradients near Adam's epsilon
def test_reinforce_takes_the_steps_of_adam(scale: float):
    """Compare with algorithm 1 of Kingma and Ba, with moments and baseline as weighted means."""
    searcher = Reinforce(_problem(SPACES["sample"]), np.random.default_rng(0))
    values = scale * np.array([60.0, 80.0, 50.0, 70.0])
    gradients: list[np.ndarray] = []
    logits = np.zeros(30)

    def mean(told: np.ndarray, momentum: float) -> np.ndarray:
        return np.average(told, axis=0, weights=momentum ** np.arange(len(told) - 1, -1, -1))

    for turn, value in enumerate(values):
        query = searcher.ask()
        drawn = searcher.space.one_hot[query.position]
        advantage = value - mean(values[: turn + 1], 0.9)
        gradients.append(advantage * (drawn - searcher.expected))
        told = np.array(gradients)
        logits += 0.01 * mean(told, 0.9) / (np.sqrt(mean(told**2, 0.999)) + 1e-8)
        searcher.tell(query, value)
        np.testing.assert_allclose(searcher.logits, logits, atol=1e-7)


def test_usual_settings_are_the_papers():
    rea, bohb, predictor = (
        make_searcher(name, _problem(SPACES["sample"]), np.random.default_rng(0))
        for name in ("rea", "bohb", "predictor")
    )
    assert (rea.sample, bohb.top_share) == (3, 0.15)
    assert (len(predictor.queue), predictor.batch, predictor.candidates) == (10, 10, 200)


@pytest.mark.parametrize(("told", "parents"), [(5, 2), (20, 4)])
def test_predictor_mutates_the_best_fifth_and_two_at_least(told: int, parents: int):
    """The parents of mutants are the best fifth of the known cells, and at least two.

    Half of the 600 candidates are mutants, so nearly all neighbours of parents are drawn.
    """
    space = SearchSpace.whole()
    searcher = PredictorGuided(_problem(space), np.random.default_rng(0), candidates=600)
    best_first = np.random.default_rng(1).choice(len(space), told, replace=False)
    pool = searcher._pool(best_first)
    drawn = [np.isin(space.neighbours(int(cell)), pool).mean() for cell in best_first]
    assert min(drawn[:parents]) > 0.9 > 0.2 > max(drawn[parents:])
    near = np.isin(pool, [space.neighbours(int(cell)) for cell in best_first[:parents]])
    assert 285 < (~near).sum() <= 300  # the other half: random cells, some of them twice
    assert not np.isin(best_first, pool).any()


def test_predictor_proposes_batches_of_new_cells_that_it_expects_to_be_good():
    """The table is additive, so a linear model of 40 random cells predicts most of it."""
    table = smooth_table()
    searcher = make_searcher(
        "predictor", table.problem, np.random.default_rng(0), {"initial": 40, "batch": 5}
    )
    trained: list[int] = []
    fits = []
    while len(trained) < 60:
        fits.append(not searcher.queue)
        query = searcher.ask()
        searcher.tell(query, table.final[query.position])
        trained.append(query.position)
    assert np.flatnonzero(fits).tolist() == [40, 45, 50, 55]
    assert len(set(trained[40:])) == 20
    assert not set(trained[:40]) & set(trained[40:])
    # Of 20 random cells, two are expected in the best tenth.
    assert (table.final[trained[40:]] > np.quantile(table.final, 0.9)).sum() >= 18


def test_hyperband_brackets_are_those_worked_out_by_hand():
    """Rungs 12 and 200: 2/2 * 200/12 -> 17 cells, 1 survivor; then 2/1 * 200/200 -> 2 cells."""
    searcher = make_searcher("hyperband", _problem(SearchSpace.whole()), np.random.default_rng(0))
    values = np.random.default_rng(1).permutation(40).astype(float).tolist()
    queries = _drive(searcher, values)
    assert [query.level for query in queries] == ([0] * 17 + [1] * 3) * 2
    best = max(range(17), key=lambda turn: values[turn])
    assert queries[17].position == queries[best].position


def test_hyperband_with_three_rungs_halves_by_the_ratio_of_epochs():
    """Rungs 1, 4, 16: 16 -> 4 -> 1; then ceil(3/2 * 4) = 6 -> 1; then 3."""
    problem = Problem(space=SearchSpace.whole(), epochs=(1, 4, 16), signal=0)
    searcher = make_searcher("hyperband", problem, np.random.default_rng(0))
    levels = [query.level for query in _drive(searcher, [1.0] * 31)]
    assert [(level, len(list(run))) for level, run in itertools.groupby(levels)] == [
        (0, 16), (1, 4), (2, 1), (1, 6), (2, 4)
    ]  # fmt: skip


def test_kernel_density_sums_to_one_over_the_space_and_draws_from_itself():
    generator = np.random.default_rng(0)
    space = SearchSpace.whole()
    density = _Density(space.ops[generator.integers(0, 15625, 8)], np.full(6, 5))
    mass = np.exp(density.log_at(space.ops))
    assert mass.sum() == pytest.approx(1.0)
    drawn = density.draw(20_000, generator)
    for edge in range(6):
        expected = [mass[space.ops[:, edge] == op].sum() for op in range(5)]
        shares = Counter(drawn[:, edge].tolist())
        np.testing.assert_allclose([shares[op] / 20_000 for op in range(5)], expected, atol=0.02)


def test_a_density_has_scott_s_width_and_aitchison_and_aitken_s_kernels():
    """Compute by a loop the width at each edge, within its limits, and the mean of the kernels."""
    ops = np.array([[0, 1, 2, 3, 4, at] for at in range(5)])
    ops[1:, 1:5] = [[1, 2, 3, 0], [1, 2, 0, 1], [1, 0, 1, 2], [1, 0, 1, 3]]
    density = _Density(ops, np.full(6, 5))
    widths = []
    for edge in ops.T:
        spread = np.sqrt(1 - sum((edge == kind).mean() ** 2 for kind in range(5)))
        widths.append(min(max(1.06 * spread * 5 ** (-1 / 10), 0.001), 0.8))
    np.testing.assert_allclose(density.width, widths)
    assert (widths[0], widths[5]) == (0.001, 0.8)
    for asked in ([0, 1, 2, 3, 4, 0], [4, 4, 4, 4, 4, 4]):
        kernels = [
            np.prod(
                [1 - w if a == b else w / 4 for a, b, w in zip(asked, cell, widths, strict=True)]
            )
            for cell in ops
        ]
        found = density.log_at(np.array([asked]))
        assert found.tolist() == pytest.approx([np.log(np.mean(kernels))])


@pytest.mark.parametrize(("told", "fewest"), [(20, 7), (100, 15)])
def test_bohb_proposes_the_draw_at_which_good_cells_are_denser(told: int, fewest: int):
    """The best 15 % of the cells (at least 7) are good, the others are bad."""
    space = SearchSpace.whole()
    problem = _problem(space)
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
            good, bad = (
                _Density(space.ops[part], np.full(6, 5))
                for part in (cells[:fewest], cells[fewest:told])
            )
            draws = good.draw(4, twin)
            best = max(draws, key=lambda ops: good.log_at(ops[None]) - bad.log_at(ops[None]))
            expected = Cell(tuple(best.tolist())).index
        assert searcher.propose() == expected


def test_bohb_starts_with_random_cells_until_nine_are_told():
    problem = Problem(space=SearchSpace.whole(), epochs=(12,), signal=0)
    for told, random in ((8, True), (9, False)):
        searcher = make_searcher("bohb", problem, np.random.default_rng(2))
        searcher.told[0] = [(1.0, at) for at in range(told)]
        searcher.generator = np.random.default_rng(3)
        drawn = problem.space.sample(np.random.default_rng(3))
        assert (searcher.propose() == drawn) == random
