"""Numbers of the small tables: differences of two recipes, and the quality of predictions.

Every function is named in the page's template and takes names: of tables, recipes and samples of
cells. Runs are of CIFAR-10. The published accuracy of a cell is its mean on CIFAR-10's
test images after 200 epochs, from the table `nb201`.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch

from experiments.findings.estimate import Estimate
from experiments.laws.base_lr import BaseRate, choose
from experiments.laws.estimate import fit_exponent
from experiments.laws.speed import scaled, speed_frame
from experiments.surface.decided import (
    PLANS,
    RELEASED,
    SAMPLES,
    VERDICTS,
    decide,
    of_classes,
    published_accuracy,
    published_taus,
    stratified,
    sweeps_of,
)
from experiments.surface.reranked import DRAWS
from rebench.analysis import Accuracies, Paired, SeedNoise, compare, read_accuracies
from rebench.analysis.accuracy_change import crossed_difference
from rebench.analysis.seed_tau import TauSamples, between_seeds, resampled, seed_jackknife
from rebench.analysis.tau import Floats, Ints
from rebench.search import SearchSpace
from rebench.search.proxies import net_proxy_scores, proxy_scores
from rebench.tables.layout import curves_path
from rebench.tables.opening import read_rows, released_tables

__all__ = [
    "VERDICTS",
    "Change",
    "base_rate",
    "cells_begun_after",
    "change",
    "change_of_drop",
    "decisions",
    "exponent_of_rate",
    "exponent_of_shallow_rate",
    "gain_in_prediction",
    "held",
    "held_by_seeds",
    "jackknife_width",
    "largest_gain",
    "mean_accuracy",
    "median_seconds",
    "memory_of_init",
    "p_of_change",
    "prediction",
    "published",
    "published_of",
    "spread",
    "tau_of_means",
    "tau_of_networks",
    "top_ten",
]

_EXPERIMENTS: Final = Path(__file__).parents[1]
# The plans whose records are complete.
_PLANS: Final = ("E", "F", "G")
_WITHOUT_TRAINING: Final = ("params", "cubed-depths", "synflow")


@functools.cache
def published() -> pd.Series[float]:
    """Return the published accuracy of each cell, by index."""
    return published_accuracy()


@functools.cache
def _rows(tables: str, epoch: int | None = None) -> pd.DataFrame:
    """Return the test rows of tables joined by `+`, or of their curves after `epoch` epochs."""
    frames = []
    for name in tables.split("+"):
        rows = read_rows(name)
        if epoch is not None:
            curves = pq.read_table(curves_path(released_tables()[name])).to_pandas()
            curves = curves[curves["epoch"] == epoch]
            rows = rows.drop(columns=["accuracy", "loss"]).merge(curves, on=["trial_id", "split"])
        frames.append(rows[rows["split"] == "ori-test"])
    return pd.concat(frames)


def _runs(
    tables: str,
    recipe: str,
    *,
    seeds: tuple[int, ...] = (),
    cells: str = "all",
    epoch: int | None = None,
) -> Accuracies:
    rows = _rows(tables, epoch)
    rows = rows[rows["recipe"] == recipe]
    if seeds:
        rows = rows[rows["seed"].isin(seeds)]
    if cells.startswith("of "):
        rows = rows[rows["index"].isin(_rows(cells.removeprefix("of "))["index"])]
    runs = read_accuracies(rows, dataset=rows["dataset"].iloc[0], recipe=recipe)
    if cells == "upper half":
        return runs.take(upper_half(published()[runs.cells].to_numpy()))
    if cells in SAMPLES:
        return runs.take(np.isin(runs.cells, SAMPLES[cells](published())))
    return runs


def upper_half(accuracy: Floats) -> Ints:
    """Return the positions of the better half of some cells, ascending."""
    order = np.argsort(-accuracy, kind="stable")
    return np.sort(order[: len(accuracy) // 2])


@dataclass(frozen=True, eq=False)
class Change:
    """The difference between the rankings of two recipes."""

    paired: Paired
    agreed: TauSamples
    level: float

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.paired)

    @property
    def tau(self) -> float:
        """Tau between runs of the two recipes with different seeds."""
        return float(self.agreed.tau[0, 0])

    @property
    def seed_tau(self) -> float:
        """Tau between runs of one recipe with different seeds."""
        return float(self.agreed.seed_tau[0, 0])

    @property
    def corrected(self) -> float:
        """Tau divided by seed tau."""
        return self.tau / self.seed_tau

    @property
    def drop(self) -> Estimate:
        """Seed tau minus tau, with an interval over cells."""
        return Estimate.of(self.agreed.drop[:, 0], self.level)

    @property
    def by_seeds(self) -> Estimate:
        """The drop with an interval over seeds: a jackknife."""
        [row] = seed_jackknife(self.paired, [100.0]).to_dict("records")
        return Estimate(row["drop"], row["drop_low"], row["drop_high"])

    @property
    def points(self) -> Estimate:
        """The difference in mean accuracy, in points, with an interval over cells and seeds."""
        return Estimate(*crossed_difference(self.paired)[:3])


@functools.cache
def change(
    tables: str,
    first: str,
    second: str,
    *,
    seeds: tuple[int, ...] = (),
    cells: str = "all",
    epoch: int | None = None,
    top: float = 100.0,
    level: float = 0.95,
) -> Change:
    """Compare two recipes of tables joined by `+`.

    Args:
        tables: names of released tables.
        first: a recipe.
        second: another recipe.
        seeds: the seeds to use; if empty, all seeds.
        cells: `all`, `upper half` by published accuracy, `of TABLE`, or a key of
            `decided.SAMPLES`.
        epoch: the epoch of the curves; the end of training if None.
        top: the K of the top K % of the cells, selected by one of the two compared runs.
        level: coverage of the interval over cells.
    """
    runs = (
        _runs(tables, recipe, seeds=seeds, cells=cells, epoch=epoch) for recipe in (first, second)
    )
    paired = Paired.of(*runs).whole
    before, after = paired.baseline, paired.other
    sample = resampled(paired.classes, DRAWS, np.random.default_rng(0))
    named = (before.seeds, after.seeds)
    agreed = between_seeds(before.runs, after.runs, sample, [top], seeds=named)
    return Change(paired, agreed, level)


@functools.cache
def p_of_change(table: str, first: str, second: str) -> float:
    """Return the p-value of ``rebench rank`` over all cells: the recipe changes no ranking."""
    rows = compare(f"{table}@{first}", f"{table}@{second}").frame().set_index("top_percent")
    return float(rows.loc[100.0, "p_family"])


@functools.cache
def tau_of_networks(table: str, first: str, second: str, seed: int) -> Estimate:
    """Return tau over all networks of a table between two recipes with the same seed.

    Args:
        table: name of a released table with one cell of each network.
        first: a recipe, or `published`: the mean published accuracy of the equal cells.
        second: another recipe.
        seed: the seed of both recipes.
    """
    of_second = _runs(table, second, seeds=(seed,))
    if first == "published":
        final = of_classes(published())[of_second.cells].to_numpy()
    else:
        of_first = _runs(table, first, seeds=(seed,))
        final = of_first.take(np.isin(of_first.cells, of_second.cells)).runs[:, 0]
    return _tau_over_cells(of_second.runs, final)


def _tau_over_cells(runs: Floats, final: Floats) -> Estimate:
    cells = np.arange(len(final))
    draws = np.random.default_rng(0).choice(cells, (DRAWS, len(cells)))
    return Estimate.of(published_taus(runs, final, np.vstack([cells, draws])))


@functools.cache
def tau_of_means(one: str, other: str, recipe: str) -> Estimate:
    """Return tau between the mean accuracies of one recipe in two tables of the same cells."""
    first, second = (_runs(table, recipe) for table in (one, other))
    if not np.array_equal(first.cells, second.cells):
        raise ValueError("the two tables must have the same cells")
    return _tau_over_cells(second.means[:, None], first.means)


def change_of_drop(one: Change, other: Change) -> Estimate:
    """Return the drop of `one` minus the drop of `other`, on the same cells."""
    if not np.array_equal(one.paired.baseline.cells, other.paired.baseline.cells):
        raise ValueError("the two drops must be computed on the same cells")
    return Estimate.of((one.agreed.drop - other.agreed.drop)[:, 0])


@functools.cache
def _decided() -> list[dict[str, Any]]:
    predictions: list[dict[str, Any]] = []
    for plan in _PLANS:
        tables = {sweep: RELEASED.get(sweep, "not released") for sweep in sweeps_of(plan)}
        predictions += decide(tables, published(), plan)["predictions"]
    return predictions


def decisions() -> dict[str, dict[str, Any]]:
    """Return the predictions of all plans by number; the second look replaces the first.

    Verdicts are in the words of the pages.
    """
    notes = ("", "the second look, which decides")
    rows = [row for row in _decided() if row["note"] in notes]
    return {row["number"]: {**row, "verdict": VERDICTS[row["verdict"]]} for row in rows}


def held(note: str) -> tuple[int, int]:
    """Return how many decided predictions with this note hold, and how many have the note."""
    verdicts = [row["verdict"] for row in _decided() if row["note"] == note]
    return verdicts.count("holds"), len(verdicts)


def held_by_seeds(tables: str = "mini+mini-init-parts") -> tuple[int, int]:
    """Return how many predictions of plan E1 hold with intervals over seeds, and their number.

    Prediction 6 has two seeds only and is not counted.
    """
    lines = [line for line in PLANS["E"][:7] if line.number != "6"]
    limits = [change(tables, line.first, line.second).by_seeds for line in lines]
    verdicts = [line.verdict(own.low, own.high) for line, own in zip(lines, limits, strict=True)]
    return verdicts.count("holds"), len(lines)


def cells_begun_after(tables: str, moment: str) -> tuple[int, int]:
    """Return how many cells have only trials that began after `moment`, and the number of cells."""
    rows = _rows(tables)
    late = (pd.to_datetime(rows["started"]) > pd.Timestamp(moment)).groupby(rows["index"]).all()
    return int(late.sum()), len(late)


def largest_gain(tables: str, seeds: tuple[int, ...]) -> tuple[str, Estimate, int]:
    """Return the recipe that gains most over `fixed`, its gain, and the number of recipes."""
    recipes = set(_rows(tables)["recipe"]) - {"fixed"}
    gains = {recipe: change(tables, "fixed", recipe, seeds=seeds).points for recipe in recipes}
    best = max(gains, key=lambda recipe: gains[recipe].value)
    return best, gains[best], len(gains)


def mean_accuracy(tables: str, recipe: str, epoch: int | None = None) -> float:
    """Return the mean accuracy over cells and seeds."""
    return float(_runs(tables, recipe, epoch=epoch).means.mean())


def published_of(tables: str) -> pd.Series[float]:
    """Return the published accuracies of the cells that were trained with `fixed`."""
    return published()[_runs(tables, "fixed").cells]


def median_seconds(table: str) -> float:
    """Return the median time of a training."""
    rows = read_rows(table)
    return float(rows.loc[rows["split"] == "train", "seconds"].median())


def spread(tables: str, recipe: str) -> float:
    """Return the standard deviation of the cells' accuracies, without seed noise."""
    runs = _runs(tables, recipe).runs
    noise = runs.var(axis=1, ddof=1).mean() / runs.shape[1]
    return float(np.sqrt(runs.mean(axis=1).var(ddof=1) - noise))


@functools.cache
def _without_training(name: str, cells: tuple[int, ...]) -> Floats:
    if name != "synflow":
        return proxy_scores(name, SearchSpace(np.array(cells)), "cifar10")
    # SynFlow uses an image of ones as its input; only the size of the given images matters.
    images, labels = torch.zeros(2, 3, 32, 32), torch.zeros(2, dtype=torch.int64)
    return net_proxy_scores([name], cells, images, labels, channels=8, cells_per_stage=1)[name]


def _scores(tables: str, names: str, seeds: tuple[int, ...], cells: str) -> tuple[Ints, Floats]:
    """Return cells and scores [cells, seeds]: runs, or the sum of ranks of names joined by `+`."""
    parts, index = [], np.empty(0, dtype=np.int64)
    for name in names.split(" + "):
        trained = name not in _WITHOUT_TRAINING
        runs = _runs(tables, name if trained else "fixed", seeds=seeds, cells=cells)
        index = runs.cells
        own = runs.runs if trained else _without_training(name, tuple(index))[:, None]
        parts.append(own)
    if len(parts) == 1:
        return index, parts[0]
    ranks = [pd.DataFrame(own).rank().to_numpy() for own in parts]
    return index, np.sum(np.broadcast_arrays(*ranks), axis=0)


@functools.cache
def _predicted(tables: str, names: str, seeds: tuple[int, ...], cells: str) -> tuple[Ints, Floats]:
    index, scores = _scores(tables, names, seeds, cells)
    final = published()[index].to_numpy()
    return index, published_taus(scores, final, stratified(final, published()))


def prediction(
    tables: str, names: str, *, seeds: tuple[int, ...] = (), cells: str = "all"
) -> Estimate:
    """Return tau between one run and the published accuracies, the mean over seeds.

    `names` is a recipe, a score that needs no training, or several joined by ` + `: the sum of
    their ranks.
    """
    return Estimate.of(_predicted(tables, names, seeds, cells)[1])


def gain_in_prediction(
    one: tuple[str, str],
    other: tuple[str, str],
    *,
    level: float = 0.95,
    seeds: tuple[int, ...] = (),
    cells: str = "all",
) -> Estimate:
    """Return the prediction of `one` minus that of `other`: (tables, recipe or score) pairs."""
    (first, mine), (second, its) = (_predicted(*pair, seeds, cells) for pair in (one, other))
    if not np.array_equal(first, second):
        raise ValueError("the two scores must be computed on the same cells")
    return Estimate.of(mine - its, level)


def top_ten(tables: str, names: str) -> float:
    """Return the mean published accuracy of a run's ten best cells, averaged over seeds."""
    index, scores = _scores(tables, names, (), "all")
    best = np.argsort(-scores, axis=0, kind="stable")[:10]
    return float(published()[index[best].ravel()].mean())


def jackknife_width(cells: int, seeds: int, *, tables: int = 200) -> float:
    """Return the median width of the interval over seeds if the recipe changes nothing.

    Tables are simulated: both recipes have the same true accuracies, and every run gets independent
    noise as large as that of `fixed` after 60 epochs.
    """
    rng = np.random.default_rng(0)
    fit = SeedNoise.fit(_runs("mini-60ep", "fixed").runs)
    widths = []
    for true in fit.true_means(tables, rng):
        rows = rng.choice(len(true), cells, replace=False)
        noise = fit.run_sd[rows, None] * rng.normal(size=(2, cells, seeds))
        [row] = seed_jackknife(Paired.of_values(*(true[rows, None] + noise)), [100.0]).to_dict(
            "records"
        )
        widths.append(row["drop_high"] - row["drop_low"])
    return float(np.median(widths))


def base_rate() -> BaseRate:
    """Return the base rate that the paper's search chooses for these images and this network."""
    return choose(pd.read_csv(_EXPERIMENTS / "surface" / "base-lr" / "base-lr-curve.csv"))


def exponent_of_rate(scaling: str) -> Estimate:
    """Return the measured exponent in depth of the hidden layers' rate, in MLPs.

    `scaling` is that of the readout and of the rate, such as ``mean-field`` or ``FSC``.
    """
    file = _EXPERIMENTS.parent / "notebooks" / "04_theory" / "fsc-verdicts.csv"
    rows = pd.read_csv(file).set_index("quantity")
    row = rows.loc[f"exponent in depth of the rate, {scaling} scaling, MLP"]
    return Estimate(float(row["ours"]), float(row["low"]), float(row["high"]))


@functools.cache
def exponent_of_shallow_rate(scaling: str) -> Estimate:
    """Return the exponent in depth of the rate, for MLPs of 4, 8 and 16 layers.

    The MLPs are drawn by this function; `exponent_of_rate` reads stored results of deeper ones.
    """
    depths, width = (4, 8, 16), 200
    shape: dict[str, Any] = {"width": width, "constant": 1.0, "power": 0.0, "draws": 96, "seed": 0}
    drawn = pd.concat([speed_frame(depth=depth, **shape) for depth in depths])
    last = drawn[drawn["layer"] == drawn["depth"]].assign(network="MLP")
    table = scaled(last, width)
    rates = table[table["scaling"] == scaling].groupby("depth")["rate"]
    samples = [rates.get_group(depth).to_numpy() for depth in depths]
    rng = np.random.default_rng(0)
    return Estimate(*fit_exponent(depths, samples, 1.0, rng, geometric=True))


def memory_of_init(epochs: int) -> dict[str, float]:
    """Return the remaining share of the init's factor after `epochs`: measured, and computed."""
    kept = json.loads((_EXPERIMENTS / "checks" / "results" / "init_memory.json").read_text())
    [row] = [row for row in kept["rows"] if row["epochs"] == epochs]
    return row
