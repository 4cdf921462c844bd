"""Many runs of many algorithms on one table, and what they amount to.

Blocks of the rank statistics are repeats: run r of every algorithm, each from its own stream.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from rebench.drawable import Drawable
from rebench.errors import InputError
from rebench.intervals import Estimate, mean_interval
from rebench.search.base import algorithm_names
from rebench.search.run import Budget, Run, paper_budget, replay
from rebench.search.tabular import SearchTable

__all__ = [
    "Comparison",
    "critical_difference",
    "friedman_p_value",
    "run_all",
    "win_probability",
]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
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
        (mean), low, high (95 % interval of the mean), quartile_1, quartile_3 (of the runs).
        """
        start = max(run.clock[0] for runs in self.runs.values() for run in runs)
        grid = np.geomspace(start, self.budget.limit, points)
        frames = []
        for name, runs in self.runs.items():
            places = [np.searchsorted(run.clock, grid, side="right") - 1 for run in runs]
            answers = np.array([run.answers[at] for run, at in zip(runs, places, strict=True)])
            regret = self.table.best - self.table.final[answers]
            bounds = [mean_interval(column) for column in regret.T]
            quartiles = np.quantile(regret, [0.25, 0.75], axis=0)
            frame = pd.DataFrame(bounds, columns=["regret", "low", "high"])
            frame.insert(0, "spent", grid)
            frame.insert(0, "algorithm", name)
            frames.append(frame.assign(quartile_1=quartiles[0], quartile_3=quartiles[1]))
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


def run_all(
    table: SearchTable,
    algorithms: Sequence[str] = (),
    *,
    budget: Budget | None = None,
    repeats: int = 500,
    seed: int = 0,
    on_run: Callable[[SearchTable], None] | None = None,
) -> Comparison:
    """Run algorithms (all of them by default) on a table, `repeats` times each.

    The budget is `paper_budget` if None; `seed` decides all runs; `on_run` is called with the table
    after each of them, for progress.
    """
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, got {repeats}")
    budget = budget or paper_budget(table)
    runs: dict[str, list[Run]] = {}
    for name in algorithms or algorithm_names():
        runs[name] = []
        for number in range(repeats):
            runs[name].append(replay(name, table, budget, seed=seed, run=number))
            if on_run:
                on_run(table)
    return Comparison(table=table, budget=budget, runs=runs)


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
