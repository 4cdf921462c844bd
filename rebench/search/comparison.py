"""Comparison of algorithms on one table or two, from many runs of each: `compare`.

The blocks of the rank statistics are repeats: run r of every algorithm, each with its own random
stream. Two tables are searched over their common cells. Agreement is Kendall's tau between the
algorithms' mean final accuracies. Three causes lower tau without a difference between the tables:
few repeats (the interval of tau is a bootstrap over repeats), algorithms that are equally good, and
seed noise. So the verdict counts the pairs that change their order significantly, not tau. The seed
baseline is the same agreement between tables that differ by seeds only (`rebench.search.seeds`).
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

from rebench.analysis.result_table import as_latex, as_markdown, latex_text
from rebench.arguments import Between, checked
from rebench.drawable import Drawable
from rebench.errors import InputError, UnknownNameError
from rebench.intervals import Estimate, mean_interval
from rebench.printable import printable, without_formulas
from rebench.search.base import algorithm_names
from rebench.search.run import Budget, Trajectory, affordable, paper_budget, replay
from rebench.search.seeds import seed_tables
from rebench.search.tabular import Given, SearchTable, search_tables
from rebench.tables import Recipes, Table

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
        columns = []
        for runs in self.runs.values():
            answers = [run.answers[-1] for run in runs]
            columns.append(self.table.final[answers])
        return np.column_stack(columns)

    @functools.cached_property
    def repeat_ranks(self) -> Floats:
        """Ranks of the algorithms in each repeat, (repeats, algorithms); 1 is best."""
        ranks: Floats = stats.rankdata(-self.finals, axis=1)
        return ranks

    def final(self, algorithm: str) -> Floats:
        """The final accuracies of one algorithm's answers, (repeats,), percent."""
        return self.finals[:, self.algorithms.index(algorithm)]

    def summary(self) -> pd.DataFrame:
        """Return mean, interval, spread and regret of final accuracy (or measure), best first.

        `std` is the population standard deviation, as in the benchmark's papers; `low` and `high`
        bound the mean (95 %); regret is the distance to the table's optimum.
        """
        rows = []
        for name, finals in zip(self.algorithms, self.finals.T, strict=True):
            ends = mean_interval(finals)
            mean, *bounds = map(self.table.measure.goodness, ends)
            rows.append(
                {
                    "algorithm": name,
                    "mean": mean,
                    "low": min(bounds),
                    "high": max(bounds),
                    "std": float(finals.std()),
                    "regret": self.table.best - ends.value,
                    "found_best": float((finals == self.table.best).mean()),
                    "evaluations": float(np.mean([len(run.clock) for run in self.runs[name]])),
                    "repeats": len(finals),
                }
            )
        return pd.DataFrame(rows).sort_values("regret", ignore_index=True)

    def anytime(self, points: int = 60) -> pd.DataFrame:
        """Return regret as a function of the spent budget, on a common grid for all algorithms.

        The grid begins when every run has its first answer. Columns: algorithm, spent, regret
        (mean), low, high (95 % interval of the mean).
        """
        start = 0.0
        for runs in self.runs.values():
            start = max(start, *(run.clock[0] for run in runs))
        grid = np.geomspace(start, self.budget.limit, points)
        frames = []
        for name, runs in self.runs.items():
            curves = []
            for run in runs:
                finished = np.searchsorted(run.clock, grid, side="right") - 1
                curves.append(self.table.best - self.table.final[run.answers[finished]])
            bounds = [mean_interval(column) for column in np.transpose(curves)]
            frame = pd.DataFrame(bounds, columns=["regret", "low", "high"])
            frame.insert(0, "spent", grid)
            frame.insert(0, "algorithm", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def wins(self) -> pd.DataFrame:
        """Return, for each pair, the probability that the first algorithm ends better."""
        rows = []
        for a, b in itertools.combinations(self.algorithms, 2):
            rows.append((a, b, *win_probability(self.final(a), self.final(b))))
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
        told = "do not differ"
        if p < _LEVEL:
            told = "differ"
        return (
            f"{self.table.name}: {self.table.protocol}; budget: {self.budget}; the algorithms "
            f"{told} significantly (Friedman's test: p = {p:.2g})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderAgreement:
    """Agreement of two tables about the order of the same algorithms.

    Attributes:
        first: name of the first table.
        second: name of the second table.
        tau: Kendall's tau-b between the mean final accuracies, with its bootstrap interval over
            repeats.
        pairs: number of pairs of algorithms.
        opposite: number of pairs whose mean final accuracies have opposite orders.
        swaps: pairs of algorithms in significantly different order: in each table the 95 %
            interval of the win probability excludes one half, on opposite sides. The intervals are
            not adjusted for the number of pairs.
    """

    first: str
    second: str
    tau: Estimate
    pairs: int
    opposite: int
    swaps: pd.DataFrame

    def row(self) -> dict[str, str | float | int]:
        """Return the tables, tau with its interval, and the numbers of pairs, by name."""
        return {
            "first": self.first,
            "second": self.second,
            "tau": self.tau.value,
            "low": self.tau.low,
            "high": self.tau.high,
            "opposite": self.opposite,
            "swaps": len(self.swaps),
        }

    def verdict(self) -> list[str]:
        """Return two sentences: the pairs that change their order significantly, and tau."""
        pairs = f"{self.pairs} pair{'s'[: self.pairs - 1]}"
        if len(self.swaps):
            change = "change their"
            if len(self.swaps) == 1:
                change = "changes its"
            names = [f"{a} and {b}" for a, b in self.swaps.iloc[:, :2].to_numpy()]
            claim = (
                f"{len(self.swaps)} of {pairs} {change} order significantly (95 % in each table, "
                f"not adjusted for the number of pairs): {', '.join(names)}."
            )
        else:
            claim = "No pair of algorithms changes its order significantly."
        if np.isnan(self.tau.value):
            agreed = "Tau is not known: on one table all algorithms have equal mean accuracies."
            return [claim, agreed]
        agreed = (
            f"Kendall's tau between the two orders is {self.tau.value:.2f} "
            f"(95 % CI {self.tau.low:.2f} to {self.tau.high:.2f})"
        )
        if self.opposite:
            agreed += f": the means of {self.opposite} of {pairs} are in opposite order"
            if not len(self.swaps):
                agreed += ", but no pair differs significantly on both tables in this way"
        return [claim, f"{agreed}."]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Compared(Drawable):
    """The algorithms on one table, or on two tables with the agreement of the two rankings."""

    results: tuple[Comparison, ...]
    agreement: OrderAgreement | None
    """Agreement of the rankings; None unless there are two tables and two algorithms or more."""
    seed_agreements: tuple[OrderAgreement, ...] = ()
    """The seed baseline: agreement between tables that differ from the first by seeds only."""

    @property
    def split(self) -> str:
        """The split of the final accuracies: ``test``, ``validation``, or one for each table."""
        return " and ".join(dict.fromkeys(result.table.split for result in self.results))

    @property
    def tau(self) -> float:
        """Kendall's tau between the two rankings of the algorithms; NaN if there is one table."""
        return self.agreement.tau.value if self.agreement else float("nan")

    def agreements(self) -> pd.DataFrame:
        """Return a row for the two tables, then a row for each pair of the seed baseline.

        Columns: `first` and `second` (the tables), `tau` with its 95 % interval (`low`, `high`),
        `opposite` and `swaps`, the numbers of pairs of algorithms that have the opposite order, and
        significantly so. Without an agreement, there are no rows.
        """
        if self.agreement is None:
            return pd.DataFrame()
        every = (self.agreement, *self.seed_agreements)
        return pd.DataFrame([each.row() for each in every])

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
        measure = first.table.measure
        unit = f" ({measure.unit})" if measure.unit else ""
        caption = (
            f"Final {self.split} {latex_text(measure.name + unit)} of search algorithms, mean over "
            f"{len(first.finals)} runs with {first.budget} each. Regret: distance to the best "
            f"{first.table.space.of_space.item} of the table."
        )
        return as_latex(self._texts, caption, label)

    @property
    def _texts(self) -> pd.DataFrame:
        measure = self.results[0].table.measure
        rows = []
        for row in self.frame().to_dict("records"):
            table = printable(row["table"], keep="")
            rows.append(
                {
                    "table": table,
                    "algorithm": row["algorithm"],
                    "mean": measure.text(row["mean"]),
                    "95 % CI": f"{measure.text(row['low'])} to {measure.text(row['high'])}",
                    "regret": measure.text(row["regret"]),
                }
            )
        return pd.DataFrame(rows)

    def profit(self) -> pd.DataFrame:
        """Return the places that each algorithm gains on the other table, most first.

        Columns: `algorithm`, `rank_baseline`, `rank_other` (average ranks), `profit` with its 95 %
        interval over repeats (`low`, `high`).
        """
        baseline = self.results[0]
        ranks = baseline.repeat_ranks
        other_ranks = self.results[-1].repeat_ranks
        rows = []
        for place, algorithm in enumerate(baseline.algorithms):
            profit, low, high = mean_interval(ranks[:, place] - other_ranks[:, place])
            rows.append(
                {
                    "algorithm": algorithm,
                    "rank_baseline": ranks[:, place].mean(),
                    "rank_other": other_ranks[:, place].mean(),
                    "profit": profit,
                    "low": low,
                    "high": high,
                }
            )
        return pd.DataFrame(rows).sort_values("profit", ascending=False, ignore_index=True)

    def verdict(self) -> list[str]:
        """Return the finding, its numbers and the compared tables, as sentences."""
        if self.agreement is not None:
            return [*self.agreement.verdict(), self._seed_baseline(), self._measured()]
        first = self.results[0]
        best = first.summary().iloc[0]
        measure = first.table.measure
        mean = f"{measure.text(best['mean'])} {measure.unit}".rstrip()
        claim = (
            f"{best['algorithm']} ends best on {first.table.name}: mean {measure.name} {mean} "
            f"(95 % CI {measure.text(best['low'])} to {measure.text(best['high'])})."
        )
        return [claim, self._measured()]

    def _seed_baseline(self) -> str:
        """Say how much the order changes with other seeds of the baseline."""
        assert self.agreement is not None
        if not self.seed_agreements:
            return (
                f"No seed baseline: {self.results[0].table.name} has neither two known seeds nor "
                "equal cells for half of its cells. So other seeds may change the order as much."
            )
        tables: dict[str, None] = {}
        taus = []
        swaps = []
        for each in self.seed_agreements:
            tables |= {each.first: None, each.second: None}
            taus.append(each.tau.value)
            swaps.append(len(each.swaps))
        known = [tau for tau in taus if np.isfinite(tau)]
        more = "no more pairs than"
        if len(self.agreement.swaps) > max(swaps):
            more = "more pairs than"
        return (
            f"The other table changes {more} another seed does: in the seed baseline "
            f"({', '.join(tables)}), {_range(swaps, 'd')} pairs change their order significantly, "
            f"and tau is {_range(known, '.2f')}."
        )

    def _measured(self) -> str:
        """Say which tables were searched, and how."""
        first = self.results[0]
        names = []
        signals: dict[str, None] = {}
        for result in self.results:
            names.append(result.table.name)
            signals[result.table.searched_on] = None
        every = first.table.space.of_space
        cells = len(first.table.space)
        measured = (
            f"Measured on {' and '.join(names)}: {first.table.dataset}, {cells:,} {every.items}, "
            f"searched on {' and '.join(signals)}, judged by {self.split} "
            f"{first.table.measure.name}, {len(first.finals)} runs of each algorithm with "
            f"{first.budget} each."
        )
        if cells < every.size / 2:
            measured += (
                f" The {cells:,} {every.items} are a sample of the {every.size:,}. Algorithms that "
                "move to similar cells move to the most similar cells of the sample. On all cells, "
                "the order of the algorithms can be different."
            )
        return measured

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
    seed: Annotated[int, Between(0)] = 0,
    options: Mapping[str, Mapping[str, float]] | None = None,
    on_run: Callable[[SearchTable], None] | None = None,
) -> Compared:
    """Run algorithms on one table, or on the common cells of two tables, and compare them.

    For two tables, tables of the first three seeds of the first are searched, too: the seed
    baseline. Without known seeds, a copy is searched in which equal cells exchange their runs.

    Args:
        tables: one or two, by name (NAME@RECIPE takes one recipe) or opened. Two tables are
            searched in the same way: on validation accuracy only if both have it.
        algorithms: registered names; all of them if empty.
        dataset: data set of the accuracies; the usual data set of the tables if None.
        budget: budget of each run; if None, the papers' budget, at most the cost of all cells.
        repeats: independent runs of each algorithm.
        seed: seed of all random numbers.
        options: for an algorithm, the arguments of its constructor: ``{"rea": {"sample": 5}}``.
        on_run: called with the table after each run, for progress.

    Returns:
        The runs on each table (`results`) and, for two tables, the agreement of the two rankings
        (`agreement`) and the agreement between seeds (`seed_agreements`).
        Printed, it is the verdict in sentences; `frame()` has the final accuracies in percent.
    """
    if isinstance(tables, str | Path | Table | Recipes | SearchTable):
        tables = [tables]
    searched = search_tables(list(tables), dataset)
    spent = budget or affordable(paper_budget(*searched), searched)

    names = list(dict.fromkeys(algorithms)) or algorithm_names()
    run = functools.partial(
        run_all,
        algorithms=names,
        budget=spent,
        repeats=repeats,
        seed=seed,
        options=options,
        on_run=on_run,
    )
    results = [run(table) for table in searched]
    if len(searched) == 1 or len(names) == 1:
        return Compared(results=tuple(results), agreement=None)
    rng = np.random.default_rng(seed)
    agreement = order_agreement(results[0], results[1], rng=rng)
    same_recipe = [run(table) for table in seed_tables(searched[0])]
    if len(same_recipe) == 1:
        same_recipe.insert(0, results[0])
    baseline = []
    for one, other in itertools.combinations(same_recipe, 2):
        baseline.append(order_agreement(one, other, rng=rng))
    return Compared(results=tuple(results), agreement=agreement, seed_agreements=tuple(baseline))


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
    options = options or {}
    for name in options:
        if name not in names:
            raise UnknownNameError("algorithm in options", name, names)
    runs: dict[str, list[Trajectory]] = {}
    # The matrices are so small that several threads of BLAS would be slower than one thread.
    with threadpool_limits(1, user_api="blas"):
        for name in names:
            runs[name] = []
            chosen = options.get(name)
            for count in range(repeats):
                found = replay(name, table, budget, seed=seed, run=count, options=chosen)
                runs[name].append(found)
                if on_run:
                    on_run(table)
    return Comparison(table=table, budget=budget, runs=runs)


def order_agreement(
    first: Comparison, second: Comparison, *, rng: np.random.Generator, draws: int = 1000
) -> OrderAgreement:
    """Compare the rankings of the algorithms on two tables.

    Args:
        first: the algorithms on one table.
        second: the same algorithms on another table.
        rng: random generator of the bootstrap.
        draws: bootstrap draws.
    """
    means = first.finals.mean(axis=0)
    other_means = second.finals.mean(axis=0)
    low, high = _bootstrap(first.finals, second.finals, draws, rng)
    signs = _order(means) * _order(other_means)
    return OrderAgreement(
        first=first.table.name,
        second=second.table.name,
        tau=Estimate(float(_taus(means, other_means)), low, high),
        pairs=len(signs),
        opposite=int((signs < 0).sum()),
        swaps=_swaps(first, second),
    )


def _order(means: Floats) -> Floats:
    """Return the order of each pair of means [..., algorithms]: 1, -1, or 0 for a tie."""
    one, other = np.triu_indices(means.shape[-1], k=1)
    order: Floats = np.sign(means[..., one] - means[..., other])
    return order


def _taus(first: Floats, second: Floats) -> Floats:
    """Return tau-b between means [..., algorithms]; NaN where all means of a side are equal."""
    a = _order(first)
    b = _order(second)
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
    means = []
    other_means = []
    for _ in range(draws):
        means.append(first[rng.integers(len(first), size=len(first))].mean(axis=0))
        other_means.append(second[rng.integers(len(second), size=len(second))].mean(axis=0))
    taus = _taus(np.array(means), np.array(other_means))
    known = taus[np.isfinite(taus)]
    if not known.size:
        return np.nan, np.nan
    low, high = np.quantile(known, _BAND)
    return float(low), float(high)


def _range(values: Sequence[float], digits: str) -> str:
    """Return the least and the greatest value as text, or the value if all are equal."""
    if not values:
        return "not known"
    ends = {format(min(values), digits): None, format(max(values), digits): None}
    return " to ".join(ends)


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
        if chance == 1.0:
            return Estimate(chance, exact, 1.0)
        return Estimate(chance, 0.0, 1 - exact)
    if fewest < 2:
        return Estimate(chance, 0.0, 1.0)
    error = np.sqrt(of_first.var(ddof=1) / n + of_second.var(ddof=1) / m)
    reach = stats.norm.ppf(1 - _LEVEL / 2) * error / (chance * (1 - chance))
    logit = np.log(chance / (1 - chance))
    low = 1 / (1 + np.exp(reach - logit))
    high = 1 / (1 + np.exp(-reach - logit))
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
        wins = int((steps > 0).sum())
        changes = int((steps != 0).sum())
        if not changes:
            return 1.0
        return float(stats.binomtest(wins, changes).pvalue)
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
