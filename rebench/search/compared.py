"""`rebench.search.compare`: how tables rank algorithms, and whether more than seed noise moved it.

Two tables are searched over the cells they share. Agreement is Kendall's tau between the
algorithms' mean final accuracies. Three things lower it that are no finding: few repeats (its
interval is a bootstrap over repeats), algorithms that are equally good, and the noise of the seeds
behind the tables. The last is held against reruns of the first table: what other seeds of the same
recipe would have shown, drawn by `rebench.analysis.seed_noise`, searched in the same way.
"""

from __future__ import annotations

import functools
import html
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from rebench.analysis.seed_noise import SeedNoise
from rebench.drawable import Drawable
from rebench.errors import InputError
from rebench.intervals import Estimate
from rebench.search.comparison import Comparison, run_all, win_probability
from rebench.search.run import Budget, affordable, usual_budget
from rebench.search.tabular import Fidelity, SearchTable, has_validation, search_table
from rebench.tables import Table, open_table
from rebench.tables.opening import recipes_of, table_label

__all__ = [
    "Agreement",
    "Compared",
    "agreement",
    "common_cells",
    "compare",
    "judge",
    "rerun_tables",
    "search_tables",
]

Floats: TypeAlias = NDArray[np.float64]
Given: TypeAlias = str | Path | Table | SearchTable


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared(Drawable):
    """The algorithms on one table, or on two with how alike these rank them."""

    results: tuple[Comparison, ...]
    agreement: Agreement | None
    """Of two tables."""
    reruns: tuple[Comparison, ...] = ()
    """The same on tables that other seeds of the first one might have given."""

    @property
    def tau(self) -> float:
        """Kendall's tau between the two rankings of the algorithms; NaN of one table."""
        return self.agreement.tau.value if self.agreement else float("nan")

    @property
    def p_value(self) -> float | None:
        """Of so low a tau by seed noise alone; None without reruns."""
        return self.agreement.p_value if self.agreement else None

    def frame(self) -> pd.DataFrame:
        """A row per table and algorithm: `table` and `Comparison.summary`'s columns."""
        parts = [result.summary() for result in self.results]
        for part, result in zip(parts, self.results, strict=True):
            part.insert(0, "table", result.table.name)
        return pd.concat(parts, ignore_index=True)

    def profit(self) -> pd.DataFrame:
        """How many places each algorithm moves up from the first table to the last, most first.

        Columns: `algorithm`, `rank_before`, `rank_after` (average ranks), `profit`, and with reruns
        `noise_low` and `noise_high`: what tables of other seeds would have moved it.
        """
        before, after = (_average_ranks(self.results[at]) for at in (0, -1))
        table = pd.DataFrame({"rank_before": before, "rank_after": after, "profit": before - after})
        if self.reruns:
            again = pd.DataFrame([before - _average_ranks(one) for one in self.reruns])
            table["noise_low"], table["noise_high"] = again.min(), again.max()
        table = table.rename_axis("algorithm").reset_index()
        return table.sort_values("profit", ascending=False, ignore_index=True)

    def __str__(self) -> str:
        """What was found, in a sentence or two."""
        first = self.results[0]
        if self.agreement is not None:
            return " ".join(f"{line}." for line in judge(self.agreement))
        best = first.summary().iloc[0]
        return f"{best['algorithm']} ends best on {first.table.name}: {best['mean']:.2f} %."

    def _repr_html_(self) -> str:
        table = self.frame().to_html(index=False, float_format="{:.3f}".format)
        return f"<p>{html.escape(str(self))}</p>{table}"


def compare(
    tables: Given | Sequence[Given],
    algorithms: Sequence[str] = (),
    *,
    dataset: str | None = None,
    budget: Budget | None = None,
    repeats: int = 100,
    reruns: int = 0,
    seed: int = 0,
    on_run: Callable[[SearchTable], None] | None = None,
) -> Compared:
    """Run algorithms on one table, or on two over the cells of both, and compare them.

    Args:
        tables: one or two, by name (NAME@RECIPE takes one recipe) or opened. Two are searched
            alike: on validation accuracy only where both have it.
        algorithms: registered names; all of them if empty.
        dataset: which data set; the one that is usually meant if None.
        budget: what papers allow if None; no more than it takes to know the tables.
        repeats: independent runs of each.
        reruns: tables of other seeds to search, for the p-value.
        seed: decides everything.
        on_run: called with the table after each run, for progress.
    """
    given = [tables] if isinstance(tables, str | Path | Table | SearchTable) else list(tables)
    searched = search_tables(given, dataset)
    spent = budget or affordable(usual_budget(searched), searched)

    run = functools.partial(
        run_all, algorithms=algorithms, budget=spent, repeats=repeats, seed=seed, on_run=on_run
    )
    results = [run(table) for table in searched]
    if len(results) == 1:
        return Compared(results=tuple(results), agreement=None)
    rng = np.random.default_rng(seed)
    null = [run(table) for table in rerun_tables(results[0].table, reruns, rng)] if reruns else []
    found = agreement(results[0], results[1], rng=rng, reruns=null)
    return Compared(results=tuple(results), agreement=found, reruns=tuple(null))


def judge(found: Agreement, asked_by: str = "reruns=20") -> list[str]:
    """How alike two tables rank the algorithms, and whether seeds explain it; a line each.

    `asked_by` is how reruns are asked for, where none were.
    """
    tau = found.tau
    interval = f"{tau.value:.3f} [{tau.low:.3f}, {tau.high:.3f}]"
    swaps = f"{len(found.swaps)} pairs swap that both tables tell apart"
    lines = [f"algorithms' rankings: Kendall tau {interval}; {swaps}"]
    if found.p_value is None:
        lines.append(f"no noise baseline was asked for: {asked_by} searches tables of other seeds")
    else:
        lines.append(
            f"seed noise alone: median tau {np.median(found.null_tau):.3f}, "
            f"{np.mean(found.null_swaps):.1f} swaps on average in {len(found.null_tau)} reruns; "
            f"p = {found.p_value:.3f}"
        )
    return lines


def search_tables(
    given: Sequence[Given],
    dataset: str | None = None,
    *,
    recipe: str | None = None,
    on_test: bool = False,
    signal: Table | None = None,
    times: Table | None = None,
    epochs: Collection[int] | None = None,
    curve: bool = False,
) -> list[SearchTable]:
    """One table as algorithms see it, or two in the same way over the cells of both.

    Args:
        given: by name, opened, or already what algorithms see.
        dataset: the one that is usually meant if None.
        recipe: of tables by name that hold several.
        on_test: search on test accuracy although every table has validation.
        signal: another table to search on, as in `search_table`.
        times: another table whose times are the clock.
        epochs: the fidelities to offer.
        curve: fidelities are epochs of one run's curve.
    """
    if len(given) not in (1, 2):
        raise InputError(f"compare takes one or two tables, got {len(given)}: give their names")
    ready = [table for table in given if isinstance(table, SearchTable)]
    if 0 < len(ready) < len(given):
        raise InputError("give two tables of one kind: what is searched, or what is opened")
    if not ready:
        opened = [
            table
            if isinstance(table, Table)
            else open_table(table, recipe=recipe if recipe and recipes_of(table) else None)
            for table in given
            if not isinstance(table, SearchTable)
        ]
        name = dataset or _common_dataset(opened)
        validation = not on_test and all(has_validation(signal or table, name) for table in opened)
        labels: list[str] = []
        for table in given:
            called = table.name if isinstance(table, Table) else str(table)
            labels.append(table_label(called, labels))
        ready = [
            search_table(
                table, name, name=label, signal=signal, times=times, validation=validation,
                epochs=epochs, curve=curve,
            )
            for table, label in zip(opened, labels, strict=True)
        ]  # fmt: skip
    return list(common_cells(*ready)) if len(ready) == 2 else ready


def _common_dataset(tables: Sequence[Table]) -> str:
    """The data set that is usually meant, of those that every table holds."""
    held = [{key.dataset for key in table.keys} for table in tables]
    common = set.intersection(*held)
    if not common:
        said = "; ".join(
            f"{table.name}: {', '.join(sorted(names))}"
            for table, names in zip(tables, held, strict=True)
        )
        raise InputError(f"the tables have no data set in common ({said})")
    usual = tables[0].usual_key().dataset
    return usual if usual in common else min(common)


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


def _average_ranks(result: Comparison) -> pd.Series[float]:
    return result.ranks().set_index("algorithm")["average_rank"][result.algorithms]


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
