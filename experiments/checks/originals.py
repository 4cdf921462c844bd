"""Compare our algorithms with the benchmark authors' own scripts, on one table and budget.

Run: ``experiments/checks/originals.py --scripts FOLDER`` where FOLDER is ``exps/NATS-algos`` of a
checkout of the benchmark authors' AutoDL-Projects. The environment must be able to import those
scripts (xautodl, torchvision; BOHB: hpbandster). They run unmodified, with the settings of their
``run-all.sh``; their benchmark is our `ReBench` on the table. Each run has a separate seed. By
default the scripts draw a run's seed from the previous seed, which leads to a cycle of equal runs.
Without ``--scripts`` the authors' rows are those of the last measurement on the same table.
``--only rea,bohb`` measures some algorithms and keeps the other rows.

The table is CIFAR-10: final accuracies are the published 200-epoch means if REBENCH_SHARED_DATA
is set, else generated; validation after 12 epochs and its curve are generated.

The authors count the run that exceeds the budget: their row `overshoot`. Their other row stops
before it, like ours. Other variants change one part of ours to that of the scripts. REA: the
mutation draws a vertex first, so edge 1<-0 changes three times more often than an edge of vertex 3.
BOHB: `released` has HpBandSter's brackets and bandwidths (1.06 standard deviations of the
operations' numbers, at least .3, above 1 allowed).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from generated_tables import synthetic_frame

from cells.table import compile_space
from rebench.data import data_spec
from rebench.intervals import mean_interval, student_reach
from rebench.nats import ReBench
from rebench.search import Budget, Query, SearchTable, register, replay, search_table
from rebench.search.evolution import RegularisedEvolution
from rebench.search.multifidelity import Bohb
from rebench.spaces.nb201 import cost_model
from rebench.tables import Table, open_table
from rebench.tables.layout import CurveArrays, FrameSource, Key
from scripts.bench.results_file import CHECKS, kept, publish, shared_data

Floats = np.ndarray

BUDGET_S = 20_000.0
EPOCHS = 12
FIDELITIES = (1, 4, 12)
# Correlation of normal scores: validation accuracy after 12 epochs and final accuracy.
CORRELATION = 0.93
SHORT = Key("cifar10-valid", "x-valid", EPOCHS)
# Seconds of cells 0 and 11 that `nats_bench` charges for the benchmark's own records; times of
# other cells are interpolated linearly in FLOPs.
BILLED = {0: 89.20, 11: 153.70}

# Script, and its settings in the authors' run-all.sh; other settings are the scripts' defaults.
SCRIPTS = {
    "random": ("random_wo_share", {}),
    "rea": ("regularized_ea", {"ea_cycles": 200, "ea_population": 10, "ea_sample_size": 3,
                               "use_proxy": 1}),
    "reinforce": ("reinforce", {"learning_rate": 0.01, "EMA_momentum": 0.9}),
    # The default is 300 iterations and no budget; 80 iterations already exceed the budget.
    "bohb": ("bohb", {"num_samples": 4, "random_fraction": 0.0, "bandwidth_factor": 3,
                      "min_bandwidth": 0.3, "n_iters": 80}),
}  # fmt: skip


VARIANTS = {"rea": {"by vertex": "rea-by-vertex"}, "bohb": {"released": "bohb-released"}}


class ShortCurves:
    """Generated curves of all runs: accuracy rises like 1 - exp(-epoch / 3), plus noise."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self._rows = rows
        epochs = np.arange(1, EPOCHS + 1)
        self._rise = (1 - np.exp(-epochs / 3)) / (1 - np.exp(-EPOCHS / 3))

    @functools.cached_property
    def _of_cell(self) -> dict[int, pd.DataFrame]:
        return dict(iter(self._rows.groupby("index")))

    def of(self, index: int) -> dict[tuple[Key, int], CurveArrays]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""
        return {
            (Key(row.dataset, row.split, row.epochs), row.seed): CurveArrays(
                accuracy=self._curve(row.index, row.seed, row.accuracy),
                loss=np.full(EPOCHS, row.loss),
                seconds=np.full(EPOCHS, row.seconds / EPOCHS),
            )
            for row in self._of_cell[index].itertuples(index=False)
        }

    def accuracies_after(self, key: Key, epochs: Sequence[int]) -> tuple[Floats, Floats, Floats]:
        """Return cells, seeds and accuracies [runs, epochs] of all runs of one group."""
        rows = self._rows
        rows = rows[(rows["dataset"] == key.dataset) & (rows["split"] == key.split)]
        found = [
            self._curve(index, seed, end)[np.array(epochs) - 1]
            for index, seed, end in zip(rows["index"], rows["seed"], rows["accuracy"], strict=True)
        ]
        return rows["index"].to_numpy(), rows["seed"].to_numpy(), np.array(found)

    def _curve(self, index: int, seed: int, end: float) -> Floats:
        noise = np.random.default_rng([index, seed]).normal(0, 2, EPOCHS) * (1 - self._rise)
        return np.asarray(np.clip(10 + (end - 10) * self._rise + noise, 5, 100))


def make_table(correlation: float = CORRELATION) -> tuple[Table, str]:
    """Return the table of CIFAR-10, and the source of its final accuracies in words."""
    frame = synthetic_frame(0, datasets=["cifar10", "cifar10-valid"])
    published = shared_data() / "nb201" / "nb201-200epochs-mean.csv"
    origin = "published means" if published.is_file() else "generated"
    source = open_table(published) if published.is_file() else Table.from_frame(frame)
    final = source.means("cifar10", "ori-test").to_numpy()
    rng = np.random.default_rng(0)
    score = stats.norm.ppf((stats.rankdata(final) - 0.5) / len(final))
    noise = 1 - correlation**2
    common = correlation * score + np.sqrt(0.7 * noise) * rng.normal(size=len(final))
    is_final = (frame["dataset"] == "cifar10") & (frame["epochs"] == 200)
    accuracy = frame["accuracy"].to_numpy().copy()
    accuracy[is_final] = final[frame["index"][is_final]]
    for seed in (111, 777):
        shown = 65 + 8 * (common + np.sqrt(0.3 * noise) * rng.normal(size=len(final)))
        is_short = (frame["dataset"] == SHORT.dataset) & (frame["epochs"] == EPOCHS)
        is_short &= (frame["seed"] == seed) & (frame["split"] != "train")
        accuracy[is_short] = np.clip(shown, 10, 99)[frame["index"][is_short]]
    frame["accuracy"] = accuracy
    scale = _billed_seconds() / _seconds(frame)
    of_dataset = frame["dataset"] == SHORT.dataset
    for column in ("seconds", "epoch_seconds"):
        frame.loc[of_dataset, column] *= scale[frame.loc[of_dataset, "index"]]
    short = frame[(frame["dataset"] == SHORT.dataset) & (frame["epochs"] == EPOCHS)]
    rows = FrameSource(frame, name="cifar10", origin="generated")
    return Table(rows, ShortCurves(short)), origin


def _seconds(frame: pd.DataFrame) -> Floats:
    """Return the seconds of a short run, [cells]: training and one validation pass."""
    short = frame[(frame["dataset"] == SHORT.dataset) & (frame["epochs"] == EPOCHS)]
    short = short[short["seed"] == short["seed"].min()].set_index(["split", "index"]).sort_index()
    return np.asarray(
        short["seconds"].loc["train"].to_numpy() + short["epoch_seconds"].loc["x-valid"].to_numpy()
    )


def _billed_seconds() -> Floats:
    flops = cost_model(data_spec("cifar10")).flops(compile_space().ops).astype(np.float64)
    (first, at_first), (other, at_other) = BILLED.items()
    slope = (at_other - at_first) / (flops[other] - flops[first])
    return np.asarray(at_first + slope * (flops - flops[first]))


@register("rea-by-vertex")
class ByVertex(RegularisedEvolution):
    """Regularised evolution; its mutation draws a vertex, then an incoming edge."""

    def ask(self) -> Query:
        """Return a random cell or a mutant."""
        if len(self.population) < self.size:
            return Query(self.space.sample(self.generator), self.problem.signal)
        drawn = (self.generator.random(self.sample) * self.size).astype(int)
        _, parent = max(self.population[place] for place in drawn)
        ops = self.space.ops[parent].copy()
        vertex = int(self.generator.random() * 3) + 1
        edge = vertex * (vertex - 1) // 2 + int(self.generator.random() * vertex)
        ops[edge] = (ops[edge] + 1 + int(self.generator.random() * 4)) % 5
        position = self.space.position_of_rank[int(ops @ 5 ** np.arange(5, -1, -1))]
        return Query(int(position), self.problem.signal)


@register("bohb-released")
class ReleasedBohb(Bohb):
    """BOHB with the brackets and bandwidths of HpBandSter, from the authors' script."""

    smallest = 0.3

    def _brackets(self) -> Generator[Query, float, None]:
        eta, rungs = 3, len(self.problem.epochs)
        while True:
            for left in range(rungs - 1, -1, -1):
                first = rungs // (left + 1) * eta**left
                alive = [-1] * first
                for rung in range(left + 1):
                    level = rungs - 1 - left + rung
                    told = []
                    for place in range(max(1, first // eta**rung)):
                        cell = alive[place] if rung else self.propose()
                        told.append(((yield Query(cell, level)), cell))
                    alive = [cell for _, cell in sorted(told, reverse=True)]

    def propose(self) -> int:
        """Return the best of a few samples by the ratio of the two densities."""
        fewest = self.space.ops.shape[1] + 1
        rich = [told for told in self.told if len(told) >= 2 * fewest]
        if not rich:
            return self.space.sample(self.generator)
        ops = self.space.ops[[position for _, position in sorted(rich[-1], reverse=True)]]
        n_good, n_bad = (max(fewest, int(share * len(ops)) // 100) for share in (15, 85))
        good, bad = ops[:n_good], ops[n_good : n_good + n_bad]
        widths = [self._widths(part) for part in (good, bad)]
        best, chosen = np.inf, None
        for _ in range(self.samples):
            kept = good[int(self.generator.random() * len(good))]
            moved = self.generator.random(6) >= 1 - widths[0]
            cell = np.where(moved, (self.generator.random(6) * 5).astype(int), kept)
            like, unlike = (_density(*at, cell) for at in zip((good, bad), widths, strict=True))
            ratio = max(1e-32, unlike) / max(like, 1e-32)
            if not np.isfinite(ratio) and np.isfinite(like):
                chosen = cell
                break
            if ratio < best:
                best, chosen = ratio, cell
        if chosen is None:
            return self.space.sample(self.generator)
        return int(self.space.position_of_rank[int(chosen @ 5 ** np.arange(5, -1, -1))])

    def _widths(self, ops: Floats) -> Floats:
        width = 1.06 * ops.std(axis=0) * len(ops) ** (-1 / (4 + ops.shape[1]))
        return np.asarray(np.maximum(width, self.smallest))


def _density(ops: Floats, width: Floats, at: Floats) -> float:
    """Return the product kernel's mean; the kernels sum to 1 over the operations seen only."""
    kinds = np.array([len(np.unique(column)) for column in ops.T])
    with np.errstate(divide="ignore", invalid="ignore"):
        other = width / (kinds - 1)
        return float(np.where(ops == at, 1 - width, other).prod(axis=1).mean())


def ours(name: str, table: SearchTable, runs: int) -> tuple[Floats, float]:
    """Return the final accuracies of our runs, and evaluations per run."""
    budget = Budget(seconds=BUDGET_S)
    found = [replay(name, table, budget, run=run) for run in range(runs)]
    worth = table.final[[run.answers[-1] for run in found]]
    return worth, float(np.mean([len(run.clock) for run in found]))


def theirs(
    name: str, folder: Path, api: ReBench, runs: int
) -> Iterator[tuple[list[int], list[float]]]:
    """Run the authors' script with given seeds; return best cell and time by evaluation."""
    script, settings = SCRIPTS[name]
    spec = importlib.util.spec_from_file_location(f"authors_{script}", folder / f"{script}.py")
    if spec is None or spec.loader is None:
        sys.exit(f"{folder} has no {script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(1, runs + 1):
            module.args = Namespace(dataset="cifar10", search_space="tss", save_dir=scratch,
                                    time_budget=BUDGET_S, rand_seed=seed, **settings)  # fmt: skip
            with open(os.devnull, "w") as silent, contextlib.redirect_stdout(silent):  # noqa: PTH123 - no file
                _, best, spent = module.main(module.args, api)
            yield best, spent


def row(name: str, who: str, variant: str, worth: Floats, evaluations: float) -> dict[str, Any]:
    """Return a row with the statistics of several runs of one search algorithm.

    Args:
        name: algorithm.
        who: `ours`, or `authors`.
        variant: changed part of the algorithm; empty if unchanged.
        worth: final accuracy of the cell that each run returned.
        evaluations: mean number of trained cells of a run.
    """
    mean, low, high = mean_interval(worth)
    return {
        "algorithm": name,
        "whose": who,
        "variant": variant,
        "runs": len(worth),
        "mean": mean,
        "low": low,
        "high": high,
        "sd": float(worth.std(ddof=1)),
        "evaluations": evaluations,
    }


def rows_of_theirs(
    name: str, folder: Path, api: ReBench, final: Floats, runs: int
) -> list[dict[str, Any]]:
    """Return the authors' runs twice: within the budget, and with the run that exceeds it."""
    within, beyond, count, total = [], [], [], []
    for best, spent in theirs(name, folder, api, runs):
        done = int(np.searchsorted(spent, BUDGET_S * (1 + 1e-12), side="right"))
        if done == len(spent):
            sys.exit(f"{name}: {spent[-1]:,.0f} s do not reach the budget of {BUDGET_S:,.0f} s")
        within.append(final[best[done - 1]])
        beyond.append(final[best[done]])
        count.append(done)
        total.append(done + 1)
    return [
        row(name, "authors", "", np.array(within), float(np.mean(count))),
        row(name, "authors", "overshoot", np.array(beyond), float(np.mean(total))),
    ]


def with_differences(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add to our rows the mean minus that of the authors' script, with Welch's interval."""
    known = {
        one["algorithm"]: one for one in rows if (one["whose"], one["variant"]) == ("authors", "")
    }
    found = []
    for one in rows:
        other = known.get(one["algorithm"])
        extra: dict[str, Any] = {}
        if one["whose"] == "ours" and other:
            difference = one["mean"] - other["mean"]
            parts = np.array([each["sd"] ** 2 / each["runs"] for each in (one, other)])
            weights = parts**2 / [each["runs"] - 1 for each in (one, other)]
            half = student_reach(parts.sum() ** 2 / weights.sum()) * parts.sum() ** 0.5
            extra = {
                "difference": difference,
                "difference_low": difference - half,
                "difference_high": difference + half,
            }
        found.append({**one, **extra})
    return found


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scripts", type=Path, help="the authors' exps/NATS-algos")
    parser.add_argument("--runs", type=int, default=3000, help="of ours")
    parser.add_argument("--their-runs", type=int, default=500, help="of the authors' scripts")
    parser.add_argument("--slow-runs", type=int, default=100, help="of BOHB as the authors have it")
    parser.add_argument("--only", default=",".join(SCRIPTS), help="algorithms, by comma")
    asked = parser.parse_args()
    table, origin = make_table()
    facts = {"budget_s": BUDGET_S, "final_accuracies": origin, "correlation": CORRELATION}
    api = ReBench(table, verbose=False)
    for name in asked.only.split(","):
        if name == "bohb":
            searched = search_table(table, "cifar10", epochs=FIDELITIES, curve=True)
        else:
            searched = search_table(table, "cifar10", epochs=[EPOCHS])
        slow = min(asked.runs, asked.slow_runs)
        rows = []
        for variant, algorithm in {"": name, **VARIANTS.get(name, {})}.items():
            runs = slow if variant == "released" else asked.runs
            rows.append(row(name, "ours", variant, *ours(algorithm, searched, runs)))
        if asked.scripts:
            runs = slow if name == "bohb" else asked.their_runs
            rows += rows_of_theirs(name, asked.scripts, api, searched.final, runs)
        rows += [
            one
            for one in kept("originals", facts, CHECKS)
            if one["algorithm"] != name or (one["whose"] == "authors" and not asked.scripts)
        ]
        rows.sort(key=lambda one: list(SCRIPTS).index(one["algorithm"]))
        publish("originals", with_differences(rows), folder=CHECKS, **facts)


if __name__ == "__main__":
    main()
