"""How samples of final accuracies compare: win probabilities, ranks."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rebench.errors import InputError
from rebench.intervals import Estimate

__all__ = [
    "average_ranks",
    "critical_difference",
    "friedman_p_value",
    "win_probability",
]

Floats: TypeAlias = NDArray[np.float64]


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


def average_ranks(scores: Floats) -> Floats:
    """Return each column's average rank over the rows (1: the highest score; ties share)."""
    return stats.rankdata(-scores, axis=1).mean(axis=0)


def friedman_p_value(scores: Floats) -> float:
    """Return Friedman's p-value that all columns of (blocks, algorithms) rank alike.

    With two algorithms it is that of the sign test, of which Friedman's is the extension.
    """
    blocks, algorithms = scores.shape
    if algorithms < 2 or blocks < 2:
        return 1.0
    if algorithms == 2:
        wins, losses = (int((step > 0).sum()) for step in _both_ways(scores[:, 0] - scores[:, 1]))
        return float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    if (scores == scores[:, :1]).all():
        return 1.0
    return float(stats.friedmanchisquare(*scores.T).pvalue)


def _both_ways(steps: Floats) -> tuple[Floats, Floats]:
    return steps, -steps


def critical_difference(algorithms: int, blocks: int, alpha: float = 0.05) -> float:
    """Return Nemenyi's critical difference of average ranks (Demsar, JMLR 2006, section 3.2.2).

    Two algorithms whose average ranks over `blocks` differ by less are not told apart.
    """
    if algorithms < 2 or blocks < 1:
        raise InputError(
            f"a critical difference needs two algorithms and a block, got {algorithms}, {blocks}"
        )
    quantile = float(stats.studentized_range.ppf(1 - alpha, algorithms, np.inf)) / np.sqrt(2)
    return float(quantile * np.sqrt(algorithms * (algorithms + 1) / (6 * blocks)))
