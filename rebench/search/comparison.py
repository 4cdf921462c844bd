"""Comparison of algorithms on one table or two, from many runs of each: `compare`.

The blocks of the rank statistics are repeats: run r of every algorithm, each with its own random
stream. Two tables are searched over their common cells. Agreement is Kendall's tau between the
algorithms' mean final accuracies. Three causes lower tau without a difference between the tables:
few repeats (the interval of tau is a bootstrap over repeats), algorithms that are equally good, and
seed noise. So the verdict counts the pairs that change their order significantly, not tau. Reruns
measure the effect of seed noise: the first table is resampled as if trained with other seeds
(`rebench.search.reruns`), and searched in the same way.
"""

from __future__ import annotations

import functools
import html
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from threadpoolctl import threadpool_limits

from cells import SPACE_SIZE
from rebench.analysis.rank_table import as_latex, as_markdown
from rebench.arguments import Between, checked
from rebench.drawable import Drawable
from rebench.errors import InputError, UnknownNameError
from rebench.intervals import Estimate, mean_interval
from rebench.printable import number, printable, span, without_formulas
from rebench.search.base import algorithm_names
from rebench.search.reruns import rerun_tables
from rebench.search.run import Budget, Trajectory, affordable, paper_budget, replay
from rebench.search.tabular import Given, SearchTable, search_tables
from rebench.tables import Table

__all__ = [
    "Compared",
    "Comparison",
    "OrderAgreement",
    "compare",
    "critical_difference",
    "friedman_p_value",
    "order_agreement",
    "run_all",
    "win_probability",
]

Floats: TypeAlias = NDArray[np.float64]

_BAND: Final = (0.025, 0.975)
_LEVEL: Final = 0.05
# This number of reruns allows p = 0.01.
_RERUNS: Final = 99


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Drawable):
    """The runs of several algorithms on one table under one budget."""

    table: SearchTable
    budget: Budget
    runs: dict[str, list[Trajectory]]

    @property
    def algorithms(self) -> list[str]:
        """The algorithms, in the given order."""
        return list(self.runs)

    @functools.cached_property
    def finals(self) -> Floats:
        """Accuracies of the answers, (repeats, algorithms), percent."""
        answers = [[run.answers[-1] for run in runs] for runs in self.runs.values()]
        return self.table.final[np.array(answers).T]

    @functools.cached_property
    def repeat_ranks(self) -> Floats:
        """Ranks of the algorithms in each repeat, (repeats, algorithms); 1 is best."""
        ranks: Floats = stats.rankdata(-self.finals, axis=1)
        return ranks

    def final(self, algorithm: str) -> Floats:
        """The final accuracies of one algorithm's answers, (repeats,), percent."""
        return self.finals[:, self.algorithms.index(algorithm)]

    def summary(self) -> pd.DataFrame:
        """Return mean, interval, spread and regret of final accuracy, best first.

        `std` is the population standard deviation, as in the benchmark's papers; `low` and `high`
        bound the mean (95 %); regret is the distance to the table's optimum.
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
        """Return regret as a function of the spent budget, on a common grid for all algorithms.

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
        """Return, for each pair, the probability that the first algorithm ends better."""
        rows = [
            (a, b, *win_probability(self.final(a), self.final(b)))
            for a, b in itertools.combinations(self.algorithms, 2)
        ]
        return pd.DataFrame(rows, columns=["first", "second", "wins", "low", "high"])

    def ranks(self) -> pd.DataFrame:
        """Return a row for each algorithm, the best first.

        The algorithms are ranked within each repeat. Columns: `algorithm`, `average_rank` (1 is
        best), and two values for all algorithms: `critical_difference` (Nemenyi, 5 %; a smaller
        difference of ranks is not significant) and `friedman_p` (p-value of the hypothesis that
        all have equal ranks). Repeats are independent, so `wins` detects smaller differences: it
        compares each run of one algorithm with all runs of the other.
        """
        blocks, algorithms = self.finals.shape
        average = self.repeat_ranks.mean(axis=0)
        table = pd.DataFrame({"algorithm": self.algorithms, "average_rank": average})
        table["critical_difference"] = critical_difference(algorithms, blocks)
        table["friedman_p"] = friedman_p_value(self.finals)
        return table.sort_values("average_rank", ignore_index=True)

    def __str__(self) -> str:
        """Return the protocol, the budget, and whether the algorithms differ significantly."""
        p = friedman_p_value(self.finals)
        told = "" if p < 0.05 else "do not "
        return (
            f"{self.table.name}: {self.table.protocol}; budget: {self.budget}; the algorithms "
            f"{told}differ significantly (Friedman's test: p = {p:.2g})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderAgreement:
    """Agreement of two tables about the order of the same algorithms.

    Attributes:
        tau: Kendall's tau-b between the mean final accuracies, with its bootstrap interval over
            repeats.
        swaps: pairs of algorithms in significantly different order: in each table the 95 %
            interval of the win probability excludes one half, on opposite sides. The intervals are
            not adjusted for the number of pairs; the p-value needs no adjustment.
        null_tau: tau between the first table and each of its reruns.
        null_swaps: number of pairs with significantly different order, for each rerun.
        p_value: probability that seed noise changes the order of as many pairs or more; None
            without reruns. Its smallest possible value is 1 / (1 + reruns).
    """

    tau: Estimate
    swaps: pd.DataFrame
    null_tau: tuple[float, ...]
    null_swaps: tuple[int, ...]
    p_value: float | None

    def row(self) -> dict[str, float | int | None]:
        """Return the estimate, its interval and the seed baseline, by name."""
        low, high = _band(self.null_tau)
        return {
            "tau": self.tau.value, "low": self.tau.low, "high": self.tau.high,
            "other_seeds_low": low, "other_seeds_high": high,
            "swaps": len(self.swaps), "p_value": self.p_value,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Compared(Drawable):
    """The algorithms on one table, or on two tables with the agreement of the two rankings."""

    results: tuple[Comparison, ...]
    agreement: OrderAgreement | None
    """Agreement of the rankings; None unless there are two tables and two algorithms or more."""
    reruns: tuple[Comparison, ...] = ()
    """The same algorithms on resampled tables: the first table as if trained with other seeds."""

    @property
    def split(self) -> str:
        """The split of the final accuracies: ``test``, ``validation``, or one for each table."""
        return " and ".join(dict.fromkeys(result.table.split for result in self.results))

    @property
    def tau(self) -> float:
        """Kendall's tau between the two rankings of the algorithms; NaN if there is one table."""
        return self.agreement.tau.value if self.agreement else float("nan")

    @property
    def p_value(self) -> float | None:
        """Probability that seed noise changes as many pairs or more; None without reruns."""
        return self.agreement.p_value if self.agreement else None

    def frame(
        self, part: Callable[[Comparison], pd.DataFrame] = Comparison.summary
    ) -> pd.DataFrame:
        """Return the rows of `part`, such as `Comparison.ranks`, with the name of the table."""
        names = [result.table.name for result in self.results]
        stacked = pd.concat(list(map(part, self.results)), keys=names, names=["table"])
        return stacked.reset_index("table").reset_index(drop=True)

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Write `frame` as CSV into a file, or return it as text."""
        return without_formulas(self.frame()).to_csv(path, index=False)

    def to_markdown(self) -> str:
        """Return the final accuracies as a table in Markdown."""
        return as_markdown(self._texts)

    def to_latex(self, label: str = "tab:search") -> str:
        """Return the final accuracies as a table in LaTeX (package booktabs)."""
        first = self.results[0]
        caption = (
            rf"Final {self.split} accuracy of search algorithms (\%), mean over "
            rf"{len(first.finals)} runs with {first.budget} each. Regret: distance to the best "
            "cell of the table."
        )
        return as_latex(self._texts, caption, label)

    @property
    def _texts(self) -> pd.DataFrame:
        rows = [
            {
                "table": printable(row["table"], keep=""), "algorithm": row["algorithm"],
                "mean": number(row["mean"]), "95 % CI": span(row["low"], row["high"]),
                "regret": number(row["regret"]),
            }
            for row in self.frame().to_dict("records")
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def profit(self) -> pd.DataFrame:
        """Return the places that each algorithm gains from the first table to the last, most first.

        Columns: `algorithm`, `rank_before`, `rank_after` (average ranks), `profit` with its 95 %
        interval over repeats (`low`, `high`). With reruns, also `other_seeds_low` and
        `other_seeds_high`: the range of the middle 95 % of the reruns of the first table.
        """
        before, after = self.results[0], self.results[-1]
        gained = before.repeat_ranks - after.repeat_ranks
        bounds = [mean_interval(column) for column in gained.T]
        table = pd.DataFrame(bounds, columns=["profit", "low", "high"])
        for place, (name, result) in enumerate((("rank_before", before), ("rank_after", after))):
            table.insert(place, name, result.repeat_ranks.mean(axis=0))
        if self.reruns:
            again = [before.repeat_ranks - each.repeat_ranks for each in self.reruns]
            band = np.quantile(np.mean(again, axis=1), _BAND, axis=0)
            table["other_seeds_low"], table["other_seeds_high"] = band
        table.insert(0, "algorithm", before.algorithms)
        return table.sort_values("profit", ascending=False, ignore_index=True)

    def verdict(self, asked_by: str = f"reruns={_RERUNS}") -> list[str]:
        """Return the finding, its numbers and the compared tables, as sentences.

        Args:
            asked_by: the option for more reruns, which a sentence names if there were few.
        """
        first = self.results[0]
        names = " and ".join(result.table.name for result in self.results)
        signals = " and ".join(dict.fromkeys(each.table.searched_on for each in self.results))
        measured = (
            f"Measured on {names}: {first.table.dataset}, {len(first.table.space):,} cells, "
            f"searched on {signals}, judged by {self.split} accuracy, {len(first.finals)} runs of "
            f"each algorithm with {first.budget} each."
        )
        if (cells := len(first.table.space)) < SPACE_SIZE / 2:
            measured += (
                f" The {cells:,} cells are a sample of the {SPACE_SIZE:,}. Algorithms that move to "
                "similar cells move to the most similar cells of the sample. On all cells, the "
                "order of the algorithms can be different."
            )
        found = self.agreement
        if found is None:
            best = first.summary().iloc[0]
            ends = f"{best['mean']:.2f} % (95 % CI {best['low']:.2f} to {best['high']:.2f})"
            claim = f"{best['algorithm']} ends best on {first.table.name}: mean accuracy {ends}."
            return [claim, measured]
        pairs = len(first.runs) * (len(first.runs) - 1) // 2
        tau, tables = found.tau, len(found.null_tau)
        agreed = (
            f"The rankings of {len(first.runs)} algorithms agree by Kendall's tau = "
            f"{tau.value:.2f} (95 % CI {tau.low:.2f} to {tau.high:.2f})"
        )
        if np.isnan(tau.value):
            agreed = "Tau is not known: on one table all algorithms have equal mean accuracies."
        elif found.p_value is None and len(found.swaps):
            agreed += "."
        elif found.p_value is None:
            agreed += f". No seed baseline: pass {asked_by} to search {_RERUNS} resampled tables."
        else:
            row = found.row()
            noise = self.reruns[0].table.reported.rpartition("; ")[2] if self.reruns else ""
            agreed += (
                f"; with other seeds of {first.table.name} tau is "
                f"{np.nanmedian(found.null_tau):.2f} (median of {tables} resampled tables, {noise};"
                f" 95 % {row['other_seeds_low']:.2f} to {row['other_seeds_high']:.2f})."
            )
        if not len(found.swaps):
            return ["No pair of algorithms changes its order significantly.", agreed, measured]
        changed = ", ".join(f"{a} and {b}" for a, b in found.swaps.iloc[:, :2].to_numpy())
        change = "changes its" if len(found.swaps) == 1 else "change their"
        claim = (
            f"{len(found.swaps)} of {pairs} pair{'s' * (pairs > 1)} {change} order significantly "
            f"(95 % in each table, not adjusted for the number of pairs): {changed}."
        )
        if found.p_value is None:
            claim += (
                " The test allows for chance in the searches, but not for the seeds of the "
                f"trainings: pass {asked_by} to search {_RERUNS} resampled tables."
            )
        else:
            many = sum(count >= len(found.swaps) for count in found.null_swaps)
            finest = f", the smallest possible with {tables} tables: {asked_by} allows a smaller p"
            claim += (
                f" Other seeds {'do not' if found.p_value <= _LEVEL else 'can'} explain this: "
                f"{many} of {tables} resampled tables change as many pairs or more "
                f"(p = {found.p_value:.3f}{'' if many or tables >= _RERUNS else finest})."
            )
        return [claim, agreed, measured]

    def __str__(self) -> str:
        """Return the verdict as one text."""
        return " ".join(self.verdict())

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
    repeats: Annotated[int, Between(1)] = 500,
    reruns: Annotated[int, Between(0)] = 0,
    seed: Annotated[int, Between(0)] = 0,
    options: Mapping[str, Mapping[str, float]] | None = None,
    on_run: Callable[[SearchTable], None] | None = None,
) -> Compared:
    """Run algorithms on one table, or on the common cells of two tables, and compare them.

    Args:
        tables: one or two, by name (NAME@RECIPE takes one recipe) or opened. Two tables are
            searched in the same way: on validation accuracy only if both have it.
        algorithms: registered names; all of them if empty.
        dataset: data set of the accuracies; the usual data set of the tables if None.
        budget: budget of each run; if None, the papers' budget, at most the cost of all cells.
        repeats: independent runs of each algorithm.
        reruns: number of resampled tables to search, for the p-value; 99 allow p = 0.01.
        seed: seed of all random numbers.
        options: for an algorithm, the arguments of its constructor: ``{"rea": {"sample": 5}}``.
        on_run: called with the table after each run, for progress.

    Returns:
        The runs on each table (`results`) and, for two tables, the agreement of the two rankings.
        Printed, it is the verdict in sentences; `frame()` has the final accuracies in percent.
    """
    given = [tables] if isinstance(tables, str | Path | Table | SearchTable) else list(tables)
    searched = search_tables(given, dataset)
    spent = budget or affordable(paper_budget(*searched), searched)

    names = list(dict.fromkeys(algorithms)) or algorithm_names()
    run = functools.partial(
        run_all, algorithms=names, budget=spent, repeats=repeats, seed=seed, options=options,
        on_run=on_run,
    )  # fmt: skip
    alone = len(searched) == 1 or len(names) == 1
    if reruns and alone:
        raise InputError(
            "reruns compare the rankings of at least two algorithms on two tables; number of "
            f"tables: {len(searched)}, of algorithms: {len(names)}. Give more, or reruns=0"
        )
    rng = np.random.default_rng(seed)
    # Drawn before any search: a table that cannot be resampled is an error.
    resampled = rerun_tables(searched[0], reruns, rng) if reruns else []
    results = [run(table) for table in searched]
    if alone:
        return Compared(results=tuple(results), agreement=None)
    null = [run(table) for table in resampled]
    found = order_agreement(results[0], results[1], rng=rng, reruns=null)
    return Compared(results=tuple(results), agreement=found, reruns=tuple(null))


@checked
def run_all(
    table: SearchTable,
    algorithms: Sequence[str] = (),
    *,
    budget: Budget | None = None,
    repeats: Annotated[int, Between(1)] = 500,
    seed: Annotated[int, Between(0)] = 0,
    options: Mapping[str, Mapping[str, float]] | None = None,
    on_run: Callable[[SearchTable], None] | None = None,
) -> Comparison:
    """Run algorithms (all of them by default) on a table, `repeats` times each.

    If `budget` is None, it is `paper_budget`. `seed` decides all random draws. `options` and
    `on_run` are those of `compare`.
    """
    budget = budget or paper_budget(table)
    names = algorithms or algorithm_names()
    for name in options or ():
        if name not in names:
            raise UnknownNameError("algorithm in options", name, names)
    runs: dict[str, list[Trajectory]] = {}
    # The matrices are so small that several threads of BLAS would be slower than one thread.
    with threadpool_limits(1, user_api="blas"):
        for name in names:
            runs[name] = []
            chosen = (options or {}).get(name)
            for count in range(repeats):
                runs[name].append(replay(name, table, budget, seed=seed, run=count, options=chosen))
                if on_run:
                    on_run(table)
    return Comparison(table=table, budget=budget, runs=runs)


def order_agreement(
    first: Comparison,
    second: Comparison,
    *,
    rng: np.random.Generator,
    reruns: Sequence[Comparison] = (),
    draws: int = 1000,
) -> OrderAgreement:
    """Compare the rankings of the algorithms on two tables.

    Args:
        first: the algorithms on one table.
        second: the same algorithms on another table.
        rng: random generator of the bootstrap.
        reruns: the same algorithms on tables that `rerun_tables` makes of the first table.
        draws: bootstrap draws.
    """
    means = [result.finals.mean(axis=0) for result in (first, second, *reruns)]
    tau, *null = (float(_taus(means[0], other)) for other in means[1:])
    swaps, again = _swaps(first, second), tuple(len(_swaps(first, other)) for other in reruns)
    return OrderAgreement(
        tau=Estimate(tau, *_bootstrap(first.finals, second.finals, draws, rng)),
        swaps=swaps,
        null_tau=tuple(null),
        null_swaps=again,
        p_value=(1 + sum(count >= len(swaps) for count in again)) / (1 + len(again))
        if again
        else None,
    )


def _taus(first: Floats, second: Floats) -> Floats:
    """Return tau-b between means [..., algorithms]; NaN where all means of a side are equal."""
    one, other = np.triu_indices(first.shape[-1], k=1)
    a, b = (np.sign(means[..., one] - means[..., other]) for means in (first, second))
    untied = (a != 0).sum(axis=-1) * (b != 0).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        taus: Floats = (a * b).sum(axis=-1) / np.sqrt(untied)
    return taus


def _bootstrap(
    first: Floats, second: Floats, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the percentile interval of tau over repeats; one repeat gives the range of tau."""
    if min(len(first), len(second)) < 2:
        return -1.0, 1.0
    drawn = [
        [table[rng.integers(len(table), size=len(table))].mean(axis=0) for table in (first, second)]
        for _ in range(draws)
    ]
    taus = _taus(*np.array(drawn).swapaxes(0, 1))
    return _band(taus)


def _band(taus: Floats | Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 % of the known values of tau; NaN if none is known."""
    known = np.asarray(taus)[np.isfinite(taus)]
    low, high = np.quantile(known, _BAND) if len(known) else (np.nan, np.nan)
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


def win_probability(first: Floats, second: Floats) -> Estimate:
    """Return the probability that a value of `first` exceeds a value of `second`; ties count half.

    The estimate is the Mann-Whitney statistic over all pairs. Its 95 % interval follows DeLong et
    al. (Biometrics 1988) on the logit scale. If one sample wins every pair, the bound is the exact
    binomial bound for the smaller sample.
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
        exact = float((_LEVEL / 2) ** (1 / fewest))
        return Estimate(chance, exact, 1.0) if chance else Estimate(chance, 0.0, 1 - exact)
    if fewest < 2:
        return Estimate(chance, 0.0, 1.0)
    error = np.sqrt(of_first.var(ddof=1) / n + of_second.var(ddof=1) / m)
    reach = stats.norm.ppf(1 - _LEVEL / 2) * error / (chance * (1 - chance))
    logit = np.log(chance / (1 - chance))
    low, high = 1 / (1 + np.exp(-(logit - reach))), 1 / (1 + np.exp(-(logit + reach)))
    return Estimate(chance, float(low), float(high))


def friedman_p_value(scores: Floats) -> float:
    """Return Friedman's p-value of equal average ranks of all columns of (blocks, algorithms).

    With two algorithms it is the p-value of the sign test, which Friedman's test extends.
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


def critical_difference(algorithms: int, blocks: int) -> float:
    """Return Nemenyi's critical difference of average ranks (Demsar, JMLR 2006, section 3.2.2).

    A smaller difference of average ranks over `blocks` is not significant at 5 %. The result is 0
    for one algorithm.
    """
    if algorithms < 2:
        return 0.0
    quantile = float(stats.studentized_range.ppf(1 - _LEVEL, algorithms, np.inf)) / np.sqrt(2)
    return float(quantile * np.sqrt(algorithms * (algorithms + 1) / (6 * blocks)))
