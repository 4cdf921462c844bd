"""Does a re-trained table rank the algorithms differently, and more than seed noise would?

Two tables are searched over the cells they share. Agreement is Kendall's tau between the
algorithms' mean final accuracies. Three things lower it that are no finding: few repeats (its
interval is a bootstrap over repeats), algorithms that are equally good, and the noise of the seeds
behind the tables. The last is held against reruns of the first table: what other seeds of the same
recipe would have shown, drawn by `rebench.analysis.seed_noise`, searched in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from rebench.analysis.seed_noise import SeedNoise
from rebench.errors import InputError
from rebench.intervals import Estimate
from rebench.search.comparison import Comparison
from rebench.search.statistics import win_probability
from rebench.search.tabular import Fidelity, SearchTable

__all__ = ["Agreement", "agreement", "common_cells", "rerun_tables"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Agreement:
    """How two tables rank the same algorithms.

    Attributes:
        table: algorithm, mean and rank on either table, best of the first table first.
        tau: Kendall's tau-b between the means, with its bootstrap interval over repeats.
        swaps: pairs that each table tells apart (95 % interval of the win probability off one
            half), but in opposite order.
        null_tau: the same tau between the first table and each rerun of it.
        null_swaps: how many pairs swap between the first table and each rerun.
        p_value: chance of a tau as low or lower by seed noise; None without reruns. Its smallest
            possible value is 1 / (1 + reruns).
    """

    table: pd.DataFrame
    tau: Estimate
    swaps: pd.DataFrame
    null_tau: tuple[float, ...]
    null_swaps: tuple[int, ...]
    p_value: float | None


def common_cells(first: SearchTable, second: SearchTable) -> tuple[SearchTable, SearchTable]:
    """Return both tables restricted to the cells that both cover."""
    shared = np.intersect1d(first.space.indices, second.space.indices).tolist()
    if not shared:
        raise InputError(f"tables {first.name!r} and {second.name!r} have no cell in common")
    return first.restrict(shared), second.restrict(shared)


def rerun_tables(table: SearchTable, count: int, rng: np.random.Generator) -> list[SearchTable]:
    """Draw tables that other seeds of the same recipe might have given.

    Every accuracy is redrawn from the noise that the seeds of its own column show: true values
    from the cells' posteriors, then as many noisy seeds as the cell has. A column with one seed
    per cell shows no noise: as a signal it is kept as it is, as the final accuracy it is refused.
    """
    if (np.isfinite(table.tested).sum(axis=1) < 2).all():
        raise InputError(
            f"table {table.name!r} has one value per cell: how noisy it is cannot be told; give a "
            "table with seeds, or compare without the noise baseline"
        )
    shared = [_same(level.accuracy, table.tested) for level in table.fidelities]
    tested = _rerun(table.tested, count, rng)
    levels = [
        tested if same else _rerun(level.accuracy, count, rng)
        for same, level in zip(shared, table.fidelities, strict=True)
    ]
    return [
        replace(
            table,
            name=f"{table.name} rerun {number + 1}",
            tested=tested[number],
            fidelities=tuple(
                Fidelity(epochs=level.epochs, accuracy=drawn[number], seconds=level.seconds)
                for level, drawn in zip(table.fidelities, levels, strict=True)
            ),
        )
        for number in range(count)
    ]


def _same(first: Floats, second: Floats) -> bool:
    return first.shape == second.shape and np.array_equal(first, second, equal_nan=True)


def _rerun(accuracy: Floats, count: int, rng: np.random.Generator) -> list[Floats]:
    if (np.isfinite(accuracy).sum(axis=1) < 2).all():
        return [accuracy] * count
    model = SeedNoise.fit(accuracy)
    missing = np.where(np.isfinite(accuracy), 0.0, np.nan)
    return [
        true[:, None] + rng.standard_normal(accuracy.shape) * model.run_sd[:, None] + missing
        for true in model.true_means(count, rng)
    ]


def agreement(
    first: Comparison,
    second: Comparison,
    *,
    rng: np.random.Generator,
    reruns: Sequence[Comparison] = (),
    draws: int = 1000,
) -> Agreement:
    """Hold the second table's ranking of the algorithms against the first's.

    Args:
        first: the algorithms on the published table.
        second: the same on the re-trained one.
        rng: source of the bootstrap.
        reruns: the same on tables from `rerun_tables` of the first.
        draws: bootstrap draws.
    """
    if first.algorithms != second.algorithms:
        raise InputError(
            f"the two comparisons hold different algorithms: {', '.join(first.algorithms)} and "
            f"{', '.join(second.algorithms)}"
        )
    table = pd.DataFrame({"algorithm": first.algorithms})
    for label, comparison in (("first", first), ("second", second)):
        table[f"mean_{label}"] = comparison.finals.mean(axis=0)
        table[f"rank_{label}"] = comparison.finals.mean(axis=0).argsort()[::-1].argsort() + 1
    tau = _tau(first.finals, second.finals)
    null = tuple(_tau(first.finals, other.finals) for other in reruns)
    return Agreement(
        table=table.sort_values("rank_first", ignore_index=True),
        tau=Estimate(tau, *_bootstrap(first.finals, second.finals, draws, rng)),
        swaps=_swaps(first, second),
        null_tau=null,
        null_swaps=tuple(len(_swaps(first, other)) for other in reruns),
        p_value=(1 + sum(value <= tau for value in null)) / (1 + len(null)) if null else None,
    )


def _tau(first: Floats, second: Floats) -> float:
    return float(stats.kendalltau(first.mean(axis=0), second.mean(axis=0)).statistic)


def _bootstrap(
    first: Floats, second: Floats, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    taus = [
        _tau(*(finals[rng.integers(len(finals), size=len(finals))] for finals in (first, second)))
        for _ in range(draws)
    ]
    low, high = np.nanquantile(taus, [0.025, 0.975])
    return float(low), float(high)


def _swaps(first: Comparison, second: Comparison) -> pd.DataFrame:
    columns = ["better_first", "better_second", "wins_first", "wins_second"]
    rows = []
    for a, b in itertools.combinations(first.algorithms, 2):
        here = win_probability(first.final(a), first.final(b))
        there = win_probability(second.final(a), second.final(b))
        if here.low > 0.5 and there.high < 0.5:
            rows.append((a, b, here.value, there.value))
        elif here.high < 0.5 and there.low > 0.5:
            rows.append((b, a, 1 - here.value, 1 - there.value))
    return pd.DataFrame(rows, columns=columns)
