"""Run an algorithm on a table under a budget and keep its trajectory."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from rebench.arguments import Between, checked
from rebench.errors import InputError
from rebench.printable import shown
from rebench.search.base import make_searcher
from rebench.search.tabular import SearchTable

__all__ = [
    "PAPER_SECONDS",
    "Budget",
    "Trajectory",
    "affordable",
    "paper_budget",
    "replay",
]

# NATS-Bench (Dong et al., TPAMI 2021): simulated seconds per data set, 500 runs each.
PAPER_SECONDS = {"cifar10": 20_000.0, "cifar100": 40_000.0, "ImageNet16-120": 120_000.0}
_PAPER_EPOCHS = 12


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Budget of a run, either in simulated seconds or in evaluations.

    An evaluation is one run with the epochs of the signal; the cost of other runs is proportional
    to their epochs. A training that does not finish within the budget does not count.
    """

    seconds: float | None = None
    evaluations: float | None = None

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.evaluations is None):
            raise InputError("a budget is either seconds or evaluations; give exactly one")
        if not self.limit > 0:
            raise InputError(f"a budget must be positive, got {self.limit:g} {self.unit}")

    @property
    def limit(self) -> float:
        """Size of the budget, in `unit`."""
        if self.seconds is not None:
            return float(self.seconds)
        return float(self.evaluations or 0.0)

    @property
    def unit(self) -> str:
        """Unit of `limit`."""
        return "seconds" if self.seconds is not None else "evaluations"

    def __str__(self) -> str:
        if self.unit == "seconds":
            return f"{self.limit:,g} simulated seconds"
        return f"{self.limit:,g} evaluations"


def affordable(budget: Budget, tables: Sequence[SearchTable]) -> Budget:
    """Return the budget, at most the cost of evaluating every cell once at every fidelity."""
    total = 0.0
    for table in tables:
        cost = sum(sum(level) for level in _costs(table, budget))
        total = max(total, cost)
    return replace(budget, **{budget.unit: min(budget.limit, total)})


@checked
def paper_budget(*tables: SearchTable, evaluations: float = 150) -> Budget:
    """Return NATS-Bench's budget if every table has times of 12 epochs, else `evaluations`.

    NATS-Bench's budgets pay for about 150 evaluations.
    """
    dataset = tables[0].dataset
    for table in tables:
        if not table.has_seconds or table.fidelities[0].epochs > _PAPER_EPOCHS:
            return Budget(evaluations=evaluations)
    if dataset not in PAPER_SECONDS:
        return Budget(evaluations=evaluations)
    return Budget(seconds=PAPER_SECONDS[dataset])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trajectory:
    """One run's trajectory; all arrays have one entry per evaluation that finished in time.

    Attributes:
        positions: the cell that was trained.
        clock: the cost so far when it finished.
        answers: the answer at that time: the best cell so far at the highest fidelity so far.
    """

    positions: NDArray[np.int64]
    clock: NDArray[np.float64]
    answers: NDArray[np.int64]


@checked
def replay(
    algorithm: str,
    table: SearchTable,
    budget: Budget,
    *,
    seed: Annotated[int, Between(0)] = 0,
    run: Annotated[int, Between(0)] = 0,
    options: Mapping[str, float] | None = None,
) -> Trajectory:
    """Run `algorithm` on `table` until the budget is spent.

    Every draw comes from a generator seeded by (seed, run, algorithm): the same arguments give the
    same run, and different algorithms independent ones.

    Raises:
        InputError: the algorithm or its options are unknown, `ask` returns an invalid query, the
            budget is in seconds and the table has no times, or it ends before the first evaluation.
    """
    streams = np.random.SeedSequence((seed, run, zlib.crc32(algorithm.encode()))).spawn(2)
    own, luck = (np.random.default_rng(stream) for stream in streams)
    searcher = make_searcher(algorithm, table.problem, own, options)
    accuracies = [level.packed for level in table.fidelities]
    costs = _costs(table, budget)
    positions: list[int] = []
    clock: list[float] = []
    answers: list[int] = []
    spent = 0.0
    answer = -1
    best = (-1, -np.inf)
    while True:
        query = searcher.ask()
        try:
            position, level = query
            cost = costs[level][position]
            if position < 0 or level < 0:
                raise IndexError("negative")
        except (TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"ask() of {algorithm!r} returned {shown(query)}; return Query(position, level) "
                f"with a position of 0 to {len(table.space) - 1} and a level of 0 to "
                f"{len(costs) - 1}; space.position(index) returns the position of a cell"
            ) from error
        spent += cost
        if spent > budget.limit * (1 + 1e-12):
            break
        seeds = accuracies[level][position]
        place = int(luck.random() * len(seeds))
        value = seeds[place]
        searcher.tell(query, value)
        if (level, value) > best:
            best = (level, value)
            answer = position
        positions.append(position)
        clock.append(spent)
        answers.append(answer)
    if not answers:
        raise InputError(
            f"{algorithm} finishes no training within a budget of {budget}; raise the budget"
        )
    return Trajectory(
        positions=np.array(positions), clock=np.array(clock), answers=np.array(answers)
    )


def _costs(table: SearchTable, budget: Budget) -> list[list[float]]:
    if budget.unit == "evaluations":
        return table.evaluations
    costs = [level.cost for level in table.fidelities if level.cost is not None]
    if len(costs) < len(table.fidelities):
        raise InputError(
            f"table {table.name!r} has no times; give the budget in evaluations, or a table of "
            "times"
        )
    return costs
