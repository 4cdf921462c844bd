"""Many runs of algorithms on one table or two, and what they amount to: `compare`.

Blocks of the rank statistics are repeats: run r of every algorithm, each from its own stream. Two
tables are searched over the cells they share. Agreement is Kendall's tau between the algorithms'
mean final accuracies. Three things lower it that are no finding: few repeats (its interval is a
bootstrap over repeats), algorithms that are equally good, and the noise of the seeds behind the
tables. The last is held against reruns of the first table: what other seeds of the same recipe
would have shown, drawn by `rebench.analysis.seed_noise`, searched in the same way.
"""

from __future__ import annotations

import functools
import html
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from threadpoolctl import threadpool_limits

from rebench.analysis.seed_noise import SeedNoise
from rebench.arguments import Between, checked
from rebench.drawable import Drawable
from rebench.errors import InputError
from rebench.intervals import Estimate, mean_interval
from rebench.search.base import algorithm_names
from rebench.search.run import Budget, Run, affordable, paper_budget, replay
from rebench.search.tabular import Fidelity, Given, SearchTable, search_tables
from rebench.tables import Table

__all__ = [
    "Agreement",
    "Compared",
    "Comparison",
    "agreement",
    "compare",
    "critical_difference",
    "friedman_p_value",
    "judge",
    "rerun_tables",
    "run_all",
    "win_probability",
]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Drawable):
    """The runs of several algorithms on one table under one budget."""

    table: SearchTable
    budget: Budget
    runs: dict[str, list[Run]]

    @property
    def algorithms(self) -> list[str]:
        """The algorithms, in the order they were given."""
        return list(self.runs)

    @functools.cached_property
    def finals(self) -> Floats:
        """What the answers are worth, (repeats, algorithms), percent."""
        answers = [[run.answers[-1] for run in runs] for runs in self.runs.values()]
        return self.table.final[np.array(answers).T]

    def final(self, algorithm: str) -> Floats:
        """The final accuracies of one algorithm's answers, by repeat."""
        return self.finals[:, self.algorithms.index(algorithm)]

    def summary(self) -> pd.DataFrame:
        """Return mean, interval, spread and regret of final accuracy, best first.

        `std` is the population's, as the benchmark's papers print it; `low` and `high` bound the
        mean (95 %); regret is the distance to the table's optimum.
        """
        rows = []
        for name, finals in zip(self.algorithms, self.finals.T, strict=True):
            mean, low, high = mean_interval(finals)
            rows.append(
                {
                    "algorithm": name,
                    "mean": mean,
                    "low": low,
                    "high": high,
                    "std": float(finals.std()),
                    "regret": self.table.best - mean,
                    "found_best": float((finals == self.table.best).mean()),
                    "evaluations": float(np.mean([len(run.clock) for run in self.runs[name]])),
                    "repeats": len(finals),
                }
            )
        return pd.DataFrame(rows).sort_values("mean", ascending=False, ignore_index=True)

    def anytime(self, points: int = 60) -> pd.DataFrame:
        """Return regret against what was spent, on a grid common to all algorithms.

        The grid begins when every run has its first answer. Columns: algorithm, spent, regret
        (mean), low, high (95 % interval of the mean).
        """
        start = max(run.clock[0] for runs in self.runs.values() for run in runs)
        grid = np.geomspace(start, self.budget.limit, points)
        frames = []
        for name, runs in self.runs.items():
            places = [np.searchsorted(run.clock, grid, side="right") - 1 for run in runs]
            answers = np.array([run.answers[at] for run, at in zip(runs, places, strict=True)])
            regret = self.table.best - self.table.final[answers]
            bounds = [mean_interval(column) for column in regret.T]
            frame = pd.DataFrame(bounds, columns=["regret", "low", "high"])
            frame.insert(0, "spent", grid)
            frame.insert(0, "algorithm", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def wins(self) -> pd.DataFrame:
        """Return, for each pair, the chance that the first's run ends better than the second's."""
        rows = [
            (a, b, *win_probability(self.final(a), self.final(b)))
            for a, b in itertools.combinations(self.algorithms, 2)
        ]
        return pd.DataFrame(rows, columns=["first", "second", "wins", "low", "high"])

    def ranks(self) -> pd.DataFrame:
        """A row per algorithm, the best first: `algorithm` and `average_rank` (1 is best).

        And what holds for all: `critical_difference`, by less than which ranks are not told apart
        (Nemenyi's, 5 %), and `friedman_p`, the p-value that all rank alike.
        """
        blocks, algorithms = self.finals.shape
        average = stats.rankdata(-self.finals, axis=1).mean(axis=0)
        table = pd.DataFrame({"algorithm": self.algorithms, "average_rank": average})
        table["critical_difference"] = critical_difference(algorithms, blocks)
        table["friedman_p"] = friedman_p_value(self.finals)
        return table.sort_values("average_rank", ignore_index=True)

    def __str__(self) -> str:
        """What was searched, and whether the algorithms differ there."""
        p = friedman_p_value(self.finals)
        told = "the algorithms differ" if p < 0.05 else "no algorithm is told from another"
        return (
            f"{self.table.name}: {self.table.protocol}; budget: {self.budget}; {told} "
            f"(Friedman's test: p = {p:.2g})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Agreement:
    """How two tables rank the same algorithms.

    Attributes:
        tau: Kendall's tau-b between the means, with its bootstrap interval over repeats.
        swaps: pairs that each table tells apart (95 % interval of the win probability off one
            half), but in opposite order.
        null_tau: the same tau between the first table and each rerun of it.
        null_swaps: how many pairs swap between the first table and each rerun.
        p_value: chance of a tau as low or lower by seed noise; None without reruns. Its smallest
            possible value is 1 / (1 + reruns).
    """

    tau: Estimate
    swaps: pd.DataFrame
    null_tau: tuple[float, ...]
    null_swaps: tuple[int, ...]
    p_value: float | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Compared(Drawable):
    """The algorithms on one table, or on two with how alike these rank them."""

    results: tuple[Comparison, ...]
    agreement: Agreement | None
    """Of two tables and two algorithms or more."""
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

    def frame(
        self, part: Callable[[Comparison], pd.DataFrame] = Comparison.summary
    ) -> pd.DataFrame:
        """The rows of a part of every comparison, such as `Comparison.ranks`, after `table`."""
        names = [result.table.name for result in self.results]
        stacked = pd.concat(list(map(part, self.results)), keys=names, names=["table"])
        return stacked.reset_index("table").reset_index(drop=True)

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


@checked
def compare(
    tables: Given | Sequence[Given],
    algorithms: Sequence[str] = (),
    *,
    dataset: str | None = None,
    budget: Budget | None = None,
    repeats: Annotated[int, Between(1)] = 100,
    reruns: Annotated[int, Between(0)] = 0,
    seed: Annotated[int, Between(0)] = 0,
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
    spent = budget or affordable(paper_budget(*searched), searched)

    run = functools.partial(
        run_all, algorithms=algorithms, budget=spent, repeats=repeats, seed=seed, on_run=on_run
    )
    results = [run(table) for table in searched]
    if len(results) == 1 or len(results[0].runs) == 1:
        return Compared(results=tuple(results), agreement=None)
    rng = np.random.default_rng(seed)
    null = [run(table) for table in rerun_tables(results[0].table, reruns, rng)] if reruns else []
    found = agreement(results[0], results[1], rng=rng, reruns=null)
    return Compared(results=tuple(results), agreement=found, reruns=tuple(null))


@checked
def run_all(
    table: SearchTable,
    algorithms: Sequence[str] = (),
    *,
    budget: Budget | None = None,
    repeats: Annotated[int, Between(1)] = 500,
    seed: Annotated[int, Between(0)] = 0,
    on_run: Callable[[SearchTable], None] | None = None,
) -> Comparison:
    """Run algorithms (all of them by default) on a table, `repeats` times each.

    The budget is `paper_budget` if None; `seed` decides all runs; `on_run` is called with the table
    after each of them, for progress.
    """
    budget = budget or paper_budget(table)
    runs: dict[str, list[Run]] = {}
    # The matrices are small: several threads of BLAS wait for each other longer than they work.
    with threadpool_limits(1, user_api="blas"):
        for name in algorithms or algorithm_names():
            runs[name] = []
            for number in range(repeats):
                runs[name].append(replay(name, table, budget, seed=seed, run=number))
                if on_run:
                    on_run(table)
    return Comparison(table=table, budget=budget, runs=runs)


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
        first: algorithms on one table.
        second: the same algorithms on another.
        rng: source of the bootstrap.
        reruns: the same on tables from `rerun_tables` of the first.
        draws: bootstrap draws.
    """
    tau = _tau(first.finals, second.finals)
    null = tuple(_tau(first.finals, other.finals) for other in reruns)
    return Agreement(
        tau=Estimate(tau, *_bootstrap(first.finals, second.finals, draws, rng)),
        swaps=_swaps(first, second),
        null_tau=null,
        null_swaps=tuple(len(_swaps(first, other)) for other in reruns),
        p_value=(1 + sum(value <= tau for value in null)) / (1 + len(null)) if null else None,
    )


def _average_ranks(result: Comparison) -> pd.Series[float]:
    return result.ranks().set_index("algorithm")["average_rank"][result.algorithms]


def _tau(first: Floats, second: Floats) -> float:
    return float(_taus(first.mean(axis=0), second.mean(axis=0)))


def _taus(first: Floats, second: Floats) -> Floats:
    """Return tau-b between means [..., algorithms]; NaN where one side is all ties."""
    one, other = np.triu_indices(first.shape[-1], k=1)
    a, b = (np.sign(means[..., one] - means[..., other]) for means in (first, second))
    untied = (a != 0).sum(axis=-1) * (b != 0).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        taus: Floats = (a * b).sum(axis=-1) / np.sqrt(untied)
    return taus


def _bootstrap(
    first: Floats, second: Floats, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    drawn = [
        [table[rng.integers(len(table), size=len(table))].mean(axis=0) for table in (first, second)]
        for _ in range(draws)
    ]
    taus = _taus(*np.array(drawn).swapaxes(0, 1))
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


def win_probability(first: Floats, second: Floats, level: float = 0.95) -> Estimate:
    """Return the chance that a run of the first beats one of the second, ties counting half.

    The estimate is the Mann-Whitney statistic over all pairs. Its interval is that of DeLong et
    al. (Biometrics 1988) on the logit scale; where one sample wins every pair, the bound is the
    exact binomial one for the smaller sample.
    """
    n, m = len(first), len(second)
    if not n or not m:
        raise InputError(f"a win probability needs two samples, got {n} and {m} runs")
    together = stats.rankdata(np.concatenate([first, second]))
    of_first = (together[:n] - stats.rankdata(first)) / m
    of_second = 1 - (together[n:] - stats.rankdata(second)) / n
    chance = float(of_first.mean())
    fewest = min(n, m)
    if chance in (0.0, 1.0):
        exact = float(((1 - level) / 2) ** (1 / fewest))
        return Estimate(chance, exact, 1.0) if chance else Estimate(chance, 0.0, 1 - exact)
    if fewest < 2:
        return Estimate(chance, 0.0, 1.0)
    error = np.sqrt(of_first.var(ddof=1) / n + of_second.var(ddof=1) / m)
    reach = stats.norm.ppf((1 + level) / 2) * error / (chance * (1 - chance))
    logit = np.log(chance / (1 - chance))
    low, high = 1 / (1 + np.exp(-(logit - reach))), 1 / (1 + np.exp(-(logit + reach)))
    return Estimate(chance, float(low), float(high))


def friedman_p_value(scores: Floats) -> float:
    """Return Friedman's p-value that all columns of (blocks, algorithms) rank alike.

    With two algorithms it is that of the sign test, of which Friedman's is the extension.
    """
    blocks, algorithms = scores.shape
    if algorithms < 2 or blocks < 2:
        return 1.0
    if algorithms == 2:
        steps = scores[:, 0] - scores[:, 1]
        wins, losses = int((steps > 0).sum()), int((steps < 0).sum())
        return float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    if (scores == scores[:, :1]).all():
        return 1.0
    return float(stats.friedmanchisquare(*scores.T).pvalue)


def critical_difference(algorithms: int, blocks: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of average ranks (Demsar, JMLR 2006, section 3.2.2).

    Two algorithms whose average ranks over `blocks` differ by less are not told apart; of one
    algorithm it is 0.
    """
    if algorithms < 2:
        return 0.0
    quantile = float(stats.studentized_range.ppf(1 - alpha, algorithms, np.inf)) / np.sqrt(2)
    return float(quantile * np.sqrt(algorithms * (algorithms + 1) / (6 * blocks)))
