"""Measure the false positive rate and the power of the test in `rank_curve`.

Run: ``python scripts/bench/calibration.py`` (``--tables 30`` to try it). An interrupted run
resumes: each finished scenario is written to ``results/calibration-SERIES-part.jsonl``. Scenarios
with the same number of tables and draws are not measured again. Each scenario is a family of
simulated tables. Under the null, two tables differ only by seed noise, and the share of tables
with `p_family` <= 0.05 should be at most 5 %. The scenarios were written before the test was run
on them. Every scenario has separate random numbers, set by ``--series``. A test that was changed
after one series is judged on another series.

The simulated tables follow NAS-Bench-201: accuracies of CIFAR-10 after 200 epochs, and the noise
of one run at each accuracy. The noise was measured on cells that are the same trainable network
(the `strict` partition of `cells.classes`). It is close to normal above 88 % and has long tails
below, so normal noise is only one of the families.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from results_file import RESULTS, kept, publish
from scipy import stats

from rebench.analysis import TOP_PERCENT, Accuracies, Paired, rank_intervals
from rebench.analysis.drop import rank_curve

Floats = NDArray[np.float64]

MEASURES = ("rebench/analysis",)
LEVEL = 0.05
# Quantiles of the benchmark's accuracies; 2.2 % of the cells have no path and stay at exactly 10 %.
NO_PATH = 0.022
SHARES = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1)
ACCURACIES = (
    *(46.2, 62.6, 70.0, 75.7, 80.7, 86.9, 88.8, 89.7, 90.9),
    *(91.6, 92.1, 92.4, 93.0, 93.3, 93.6, 93.8, 94.4),
)
# The standard deviation of one run at an accuracy.
AT = (61.2, 73.6, 77.0, 84.0, 87.4, 88.8, 90.8, 92.1, 93.2)
RUN_SD = (1.33, 0.56, 0.93, 0.47, 0.36, 0.30, 0.29, 0.25, 0.21)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Family of simulated pairs of tables."""

    n: int
    """Cells."""
    seeds: tuple[int, int]
    """Seeds of the benchmark and of the re-trained table."""
    world: str = "benchmark"
    """"benchmark": cells sampled from all; "tight": true accuracies as close as the noise."""
    noise: str = "normal"
    images: int = 10_000
    """Accuracies are multiples of 100 / images."""
    noisier: float = 1.0
    """Noise of the re-trained table, divided by the noise of the benchmark."""
    stretch: float = 1.0
    """Factor that stretches the true accuracies and the noise of the re-trained table."""
    change: float = 0.0
    """Change of the true accuracies, in standard deviations of one run; 0 is the null."""
    seed_effect: float = 0.0
    """Standard deviation, in points, of a seed's common effect on all cells with a path."""
    same_seeds: bool = False
    """Whether a seed has the same effect in the benchmark and in the re-trained table."""
    saturating: bool = False
    """Whether true accuracies of the re-trained table approach 95 %: same order, smaller gaps."""
    diverged: float = 0.0
    """Share of the re-trained table's runs that diverged."""
    collapsed: float = 0.0
    """Share of the re-trained table's runs that fall by 8 points without a flag."""
    chosen_by: str = ""
    """Table that selects the best tenth of a larger sample: "benchmark" or "third"."""
    by_feature: float = 0.0
    """Share of the noise variance from a seed's effect times a feature of the cells."""
    missing: float = 0.0
    """Share of the re-trained table's cells that lack a random seed."""
    missing_worst: float = 0.0
    """Share of the re-trained table's cells that lack their worst seed."""
    alike: int = 1
    """Number of cells per function. They share the true accuracy and half of the noise variance."""

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw a benchmark table and a re-trained table; return both as accuracies [n, seeds]."""
        if self.chosen_by:
            both = replace(
                self, n=10 * self.n, chosen_by="", seeds=(2 * self.seeds[0], self.seeds[1])
            )
            many, other = both.draw(rng)
            baseline, third = np.split(many, 2, axis=1)
            order = np.argsort((baseline if self.chosen_by == "benchmark" else third).mean(axis=1))
            return baseline[order[-self.n :]], other[order[-self.n :]]
        groups = -(-self.n // self.alike)
        true, sd = (np.repeat(x, self.alike)[: self.n] for x in _world(self.world, groups, rng))
        if self.noise == "uneven":  # cells of equal accuracy have different noise
            sd = sd * np.exp(0.5 * rng.standard_normal(self.n) - 0.125)
        feature = rng.standard_normal(self.n)
        moved = true + self.change * sd * rng.standard_normal(self.n)
        tables = []
        effects: Floats | None = None
        for center, spread, k in (
            (true, sd, self.seeds[0]),
            (self._mapped(moved), sd * self.noisier * self.stretch, self.seeds[1]),
        ):
            noise = _noise(self.noise, (self.n, k), rng)
            if self.by_feature:
                common = feature[:, None] * rng.standard_normal(k)
                noise = np.sqrt(1 - self.by_feature) * noise + np.sqrt(self.by_feature) * common
            if self.alike > 1:
                common = np.repeat(_noise(self.noise, (groups, k), rng), self.alike, axis=0)
                noise = np.sqrt(0.5) * (noise + common[: self.n])
            runs = center[:, None] + spread[:, None] * noise
            if self.seed_effect:
                if effects is None or not self.same_seeds:
                    effects = self.seed_effect * rng.standard_normal(max(self.seeds))
                runs = runs + np.where(spread > 0, 1.0, 0.0)[:, None] * effects[:k]
            tables.append(np.clip(np.rint(runs * self.images / 100) * 100 / self.images, 0, 100))
        self._spoil(tables[1], rng)
        return tables[0], tables[1]

    def _mapped(self, true: Floats) -> Floats:
        if self.saturating:
            return 95 - 6 * np.exp(np.minimum((90 - true) / 3, 2))
        return 90 + self.stretch * (true - 90)

    def _spoil(self, runs: Floats, rng: np.random.Generator) -> None:
        if self.diverged:
            runs[rng.random(runs.shape) < self.diverged] = 10.0
        if self.collapsed:
            runs -= 8.0 * (rng.random(runs.shape) < self.collapsed)
        rows = np.flatnonzero(rng.random(self.n) < max(self.missing, self.missing_worst))
        worst = runs[rows].argmin(axis=1)
        lost = worst if self.missing_worst else rng.integers(0, runs.shape[1], len(rows))
        runs[rows, lost] = np.nan

    @property
    def classes(self) -> NDArray[np.int64]:
        """Return the number of each cell's function."""
        return np.arange(self.n) // self.alike


def _world(name: str, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    if name == "tight":
        return 93 + 0.25 * rng.standard_normal(n), np.full(n, 0.25)
    true = np.interp(rng.random(n), SHARES, ACCURACIES)
    sd = np.interp(true, AT, RUN_SD)
    pathless = rng.random(n) < NO_PATH
    return np.where(pathless, 10.0, true), np.where(pathless, 0.0, sd)


def _noise(name: str, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Draw noise of mean 0 and standard deviation 1."""
    if name == "laplace":
        return rng.laplace(size=shape) / np.sqrt(2)
    if name == "t5":
        return rng.standard_t(5, size=shape) / np.sqrt(5 / 3)
    if name == "skewed":  # a few runs are much worse: skewness -1.4, kurtosis 3
        return (2 - rng.gamma(2, size=shape)) / np.sqrt(2)
    return rng.standard_normal(shape)


SIZES = (10, 20, 50, 100, 500)
SEEDS = tuple(pair for pair in itertools.product((1, 2, 3), repeat=2) if pair != (1, 1))


def scenarios() -> dict[str, list[Scenario]]:
    """Return all scenarios, grouped by their question."""
    three = ((3, 3), (3, 1))
    return {
        "cells and seeds": [Scenario(n=n, seeds=k) for n in SIZES for k in SEEDS],
        "true accuracies as close as the noise": [
            Scenario(n=n, seeds=k, world="tight") for n in SIZES for k in (*three, (1, 3), (2, 2))
        ],
        "shape of the noise": [
            Scenario(n=n, seeds=k, noise=noise)
            for noise in ("laplace", "t5", "skewed", "uneven")
            for n in SIZES
            for k in three
        ],
        "ties": [
            Scenario(n=n, seeds=(3, 3), images=images) for images in (360, 100) for n in SIZES
        ],
        "unequal noise": [
            Scenario(n=n, seeds=k, noisier=ratio)
            for ratio in (2.0, 0.5)
            for n in SIZES[1:]
            for k in ((3, 3), (3, 2))
        ],
        "stretched": [Scenario(n=n, seeds=(3, 3), stretch=0.5) for n in SIZES],
        "what a seed adds to all cells": [
            Scenario(n=n, seeds=k, seed_effect=effect, same_seeds=same)
            for effect in (0.25, 0.75)
            for same in (False, True)
            for n in SIZES
            for k in ((3, 3), (3, 2))
        ],
        "what a seed adds, coarse or skewed": [
            *[Scenario(n=n, seeds=(3, 3), seed_effect=0.75, images=360) for n in SIZES],
            *[Scenario(n=n, seeds=(3, 1), seed_effect=0.75, noise="skewed") for n in SIZES],
            *[Scenario(n=n, seeds=(3, 3), seed_effect=0.75, world="tight") for n in SIZES],
        ],
        "functional classes": [
            Scenario(n=n, seeds=k, alike=alike)
            for alike in (2, 5)
            for n in SIZES[1:]
            for k in three
        ],
        "what data can show": [
            Scenario(n=n, seeds=(3, 3), **faults)
            for n in (12, 60, 200)
            for faults in (
                {},
                {"noisier": 2.0},
                {"saturating": True},
                {"missing_worst": 0.3},
                {"missing": 0.4, "noisier": 2.0},
                {"diverged": 0.05},
                {"by_feature": 0.2},
                {"by_feature": 0.5},
            )
        ],
        "two seeds and a seed's effect times a feature of cells": [
            Scenario(n=n, seeds=k, by_feature=share)
            for n in (20, 60, 200)
            for k, share in (((2, 2), 0.0), ((2, 2), 0.2), ((2, 2), 0.5), ((3, 2), 0.5))
        ],
        "runs that collapse": [Scenario(n=n, seeds=(3, 3), collapsed=0.05) for n in (20, 60, 200)],
        "noise of 1 to 3": [
            Scenario(n=n, seeds=k, noisier=3.0) for n in (12, 60, 200) for k in ((3, 3), (5, 3))
        ],
        "cells chosen by their accuracy": [
            Scenario(n=n, seeds=(3, 3), chosen_by=by)
            for n in (60, 200)
            for by in ("benchmark", "third")
        ],
        "large changes": [Scenario(n=n, seeds=k, change=20.0) for n in (60, 500) for k in three],
        "power": [
            Scenario(n=n, seeds=k, change=change)
            for change in (1.0, 2.0)
            for n in SIZES
            for k in three
        ],
        "power where a seed adds to all cells": [
            Scenario(n=n, seeds=(3, 3), change=1.0, seed_effect=effect)
            for effect in (0.0, 0.75)
            for n in SIZES
        ],
        "one seed of a recipe that saturates": [
            Scenario(n=n, seeds=(3, 1), saturating=True) for n in (50, 200)
        ],
    }


class Shares(NamedTuple):
    """Counts of a scenario's tables with each outcome."""

    rejected: int
    """Number of tables in which a change is found."""
    refused: int
    """Number of tables without a p-value."""
    missed: int
    """Number of tables in which the interval of `drop` over all cells excludes 0."""
    contradicted: int
    """Number of tables in which the interval of `drop` contradicts the p-value at some K.

    It is above 0 at a p-value over a half, or below 0 at a significant change.
    """


def shares(scenario: Scenario, repeats: int, key: Sequence[int], draws: int) -> Shares:
    """Return the counts over the tables; table i is drawn from (*key, i)."""
    counts = np.zeros(len(Shares._fields), dtype=np.int64)
    for table in range(repeats):
        rng = np.random.default_rng([*key, table])
        curve = rank_curve(_pair(scenario, rng), TOP_PERCENT, draws=draws, rng=rng)[0]
        found = curve["p_family"].min()
        above, below = curve["drop_low"] > 0, curve["drop_high"] < 0
        missed = above.iloc[0] or below.iloc[0]
        against = (above & (curve["p_value"] > 0.5)) | (below & (curve["p_value"] <= LEVEL))
        counts += [found <= LEVEL, np.isnan(found), missed, against.any()]
    return Shares(*counts.tolist())


def _pair(scenario: Scenario, rng: np.random.Generator) -> Paired:
    baseline, other = (
        Accuracies(
            name=side,
            cells=np.arange(len(runs)),
            seeds=tuple(range(runs.shape[1])),
            runs=runs,
            diverged=runs == 10.0 if scenario.diverged else None,
        )
        for side, runs in zip(("baseline", "other"), scenario.draw(rng), strict=True)
    )
    return Paired(baseline=baseline, other=other, classes=scenario.classes)


def drop_covered(n: int, seeds: int, by_feature: float, tables: int) -> dict[str, object]:
    """Count how often the interval of the drop contains the true drop, for new cells and seeds.

    True accuracies and noise are normal with variance 1, in units of a run, and the change has
    variance 2. So tau of two runs is known, given how their seeds favour cells (Kendall, 1938).
    """
    rng = np.random.default_rng([n, seeds, round(100 * by_feature)])
    change = np.sqrt(2)
    # Two seeds of each table: how each of them favours cells, in many worlds.
    favours = np.sqrt(by_feature) * rng.standard_normal((4, 100_000))
    spread = np.array([1, 1, 1 + change**2, 1 + change**2])
    total = spread[:, None] + 1 - by_feature + favours**2

    def tau(i: int, j: int) -> Floats:
        shared = min(spread[i], spread[j]) + favours[i] * favours[j]
        return np.asarray(2 / np.pi * np.arcsin(shared / np.sqrt(total[i] * total[j])))

    own = np.clip(tau(0, 1), 0, 1) * np.clip(tau(2, 3), 0, 1)
    drop = float((np.sqrt(own) - tau(0, 2)).mean())
    scenario = Scenario(
        n=n, seeds=(seeds, seeds), world="tight", change=float(change), by_feature=by_feature
    )
    found = pd.concat(
        [rank_curve(_pair(scenario, rng), (100.0,), draws=400, rng=rng)[0] for _ in range(tables)]
    )
    covered = (found["drop_low"] <= drop) & (found["drop_high"] >= drop)
    width = (found["drop_high"] - found["drop_low"]).median()
    told: dict[str, object] = {"n": n, "seeds": seeds, "by_feature": by_feature, "tables": tables}
    shares = {"drop": drop, "covered": covered.mean(), "width": width}
    return told | {name: round(float(share), 4) for name, share in shares.items()}


def ranks_covered(n: int, seeds: int, world: str, noise: str, tables: int) -> dict[str, object]:
    """Count how often intervals of ranks contain the true rank, and the set the best cell."""
    covered, best, sizes = [], [], []
    for table in range(tables):
        rng = np.random.default_rng([n, seeds, table])
        true, sd = _world(world, n, rng)
        runs = true[:, None] + sd[:, None] * _noise(noise, (n, seeds), rng)
        names = tuple(range(seeds))
        found = rank_intervals(Accuracies(name="", cells=np.arange(n), seeds=names, runs=runs))
        first, last = stats.rankdata(-true, method="min"), stats.rankdata(-true, method="max")
        covered.append(((found["rank_low"] <= last) & (found["rank_high"] >= first)).mean())
        best.append(found["may_be_best"].iloc[true.argmax()])
        sizes.append(found["may_be_best"].sum())
    shares = {"covered": np.mean(covered), "best_in_set": np.mean(best), "set": np.mean(sizes)}
    told = {"n": n, "seeds": seeds, "world": world, "noise": noise, "tables": tables}
    return told | {name: round(float(share), 4) for name, share in shares.items()}


DROPS = tuple(itertools.product((60, 200), (3, 5), (0.0, 0.1, 0.2, 0.5)))
RANKED = tuple(itertools.product((20, 60, 500), (2, 3), ("benchmark", "tight"), ("normal", "t5")))

Task: TypeAlias = tuple[str, Scenario, int, tuple[int, int], int]


def _measure(task: Task) -> dict[str, Any]:
    question, scenario, tables, key, draws = task
    counts = shares(scenario, tables, key, draws)
    low, high = stats.binomtest(counts.rejected, tables).proportion_ci(method="wilson")
    return {
        "question": question,
        **asdict(scenario),
        "tables": tables,
        **{name: count / tables for name, count in counts._asdict().items()},
        "low": float(low),
        "high": float(high),
    }


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300, help="simulated per scenario")
    parser.add_argument("--large", type=int, default=100, help="the same, for 500 cells")
    parser.add_argument("--draws", type=int, default=99, help="of the test's own simulation")
    parser.add_argument("--series", type=int, default=1, help="which random numbers")
    parser.add_argument("--only", help="one question; the others' rows are kept")
    parser.add_argument("--ranks", action="store_true", help="intervals of ranks instead")
    parser.add_argument("--drops", action="store_true", help="intervals of a known drop instead")
    chosen = parser.parse_args()
    if chosen.drops:
        publish("calibration-drops", [drop_covered(*each, tables=chosen.large) for each in DROPS])
        return
    if chosen.ranks:
        rows = [ranks_covered(*each, tables=chosen.large) for each in RANKED]
        publish("calibration-ranks", rows)
        return
    facts = {"level": LEVEL, "series": chosen.series, "draws": chosen.draws}
    tasks: list[Task] = []
    for place, (question, one) in enumerate(
        (question, one) for question, listed in scenarios().items() for one in listed
    ):
        if chosen.only in (None, question):
            tables = chosen.tables if one.n < 500 else chosen.large
            tasks.append((question, one, tables, (chosen.series, place), chosen.draws))
    part = RESULTS / f"calibration-{chosen.series}-part.jsonl"
    known = _done(part)
    pending = [task for task in tasks if _key(task) not in known]
    print(f"{len(tasks)} scenarios, {len(tasks) - len(pending)} of them in {part}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    with ProcessPoolExecutor(joblib.cpu_count()) as pool, part.open("a") as lines:
        lines.write("\n")  # ends an incomplete line
        began = time.monotonic()
        jobs = {pool.submit(_measure, task): task for task in pending}
        for count, job in enumerate(as_completed(jobs), start=1):
            key, row = _key(jobs[job]), job.result()
            known[key] = row
            lines.write(json.dumps([key, row]) + "\n")
            lines.flush()
            spent = (time.monotonic() - began) / 60
            print(f"{count} of {len(pending)} done, {spent:.0f} min", flush=True)
    rows = [known[_key(task)] for task in tasks]
    if chosen.only is not None:
        rows += [row for row in kept("calibration", facts) if row["question"] != chosen.only]
    order = list(scenarios())
    publish("calibration", sorted(rows, key=lambda row: order.index(str(row["question"]))), **facts)
    part.unlink()


def _key(task: Task) -> str:
    """Return all values that determine a scenario's row, including the random numbers."""
    question, scenario, tables, key, draws = task
    return json.dumps([question, asdict(scenario), tables, key, draws])


def _done(part: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of an interrupted run; an incomplete last line is ignored."""
    found = {}
    for line in part.read_text().splitlines() if part.is_file() else ():
        with contextlib.suppress(json.JSONDecodeError):
            key, row = json.loads(line)
            found[key] = row
    return found


if __name__ == "__main__":
    main()
