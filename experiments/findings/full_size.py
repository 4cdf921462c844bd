"""Numbers of the full-size tables: agreement of seeds, and of other training procedures.

The published runs are those of the table `nb201` on validation images (split `x-valid`). The other
procedures are the recipes of `analog-nasbench`, with one run a cell. That table is not in the
package: `stored.json` keeps its numbers, and the checksum of the file that they come from.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from cells import SPACE_SIZE
from cells.classes import trainable_networks
from experiments.findings.estimate import Estimate
from rebench.analysis import MIN_CELLS, read_accuracies
from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.concordance import Floats, Ints, tau_curves
from rebench.analysis.equal_cells import EqualCells, equal_cell_tau
from rebench.analysis.ranking import between_seeds, resampled
from rebench.intervals import student_reach
from rebench.tables.opening import open_recipes, open_table

__all__ = [
    "DATASETS",
    "PROCEDURES",
    "STORED",
    "against_published",
    "cells_with_runs",
    "equal_cells",
    "retrained",
    "seed_agreement",
    "seed_agreement_of_samples",
    "shared_seed_bias",
]

DATASETS: Final = {
    "cifar10-valid": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "ImageNet16-120": "ImageNet16-120",
}
PROCEDURES: Final = ("baseline", "ptq", "qat", "analog", "analog_drift_2592000")
STORED: Final = Path(__file__).with_name("stored.json")
_BIAS: Final = Path(__file__).parents[1] / "published" / "results" / "equal_cells.json"
_TOP: Final = (100.0, 50.0, 20.0, 10.0, 5.0)
_DRAWS: Final = 200
_SAMPLES: Final = 400
_GROUPS: Final = 30
_PAIRINGS: Final = 5


@functools.cache
def _published(dataset: str) -> tuple[Ints, Floats, Ints, Ints]:
    """Return cells, runs [cells, most runs], their seeds, and the classes of equal networks."""
    rows = open_table("nb201").frame()
    runs = read_accuracies(rows, dataset=dataset, split="x-valid", epochs=200)
    values, seeds = runs.side_by_side
    networks = np.unique(trainable_networks(runs.cells), return_inverse=True)[1]
    return runs.cells, values, seeds, networks


def cells_with_runs(number: int, dataset: str = "cifar10-valid") -> int:
    """Return how many cells have this number of published runs."""
    return int((np.isfinite(_published(dataset)[1]).sum(axis=1) == number).sum())


def equal_cells() -> tuple[int, int]:
    """Return how many cells have an equal cell, and the number of their classes."""
    equal = EqualCells.among(np.arange(SPACE_SIZE))
    return len(equal.rows), equal.n_classes


@functools.cache
def seed_agreement(dataset: str) -> dict[float, Estimate]:
    """Return tau between two runs of all cells with different seeds, by K of the top K %.

    The first run of a pair chooses the top K %. Intervals are over classes of equal networks.
    """
    _, runs, seeds, networks = _published(dataset)
    sample = resampled(networks, _DRAWS, np.random.default_rng(0))
    tau = between_seeds(runs, runs, sample, TOP_PERCENT, seeds=(seeds, seeds)).seed_tau
    return {percent: Estimate.of(tau[:, at]) for at, percent in enumerate(TOP_PERCENT)}


@functools.cache
def seed_agreement_of_samples(dataset: str, size: int) -> dict[float, Estimate]:
    """Return tau as in `seed_agreement` for random samples of `size` cells, by K.

    The value is the median over samples; the limits contain 95 % of the samples. A K with too few
    cells is omitted.
    """
    cells, runs, seeds, _ = _published(dataset)
    rng = np.random.default_rng(size)
    sample = np.stack([rng.choice(len(cells), size, replace=False) for _ in range(_SAMPLES)])
    top = [percent for percent in _TOP if size * percent >= 100 * MIN_CELLS]
    tau = between_seeds(runs, runs, sample, top, seeds=(seeds, seeds)).seed_tau
    limits = np.nanquantile(tau, [0.5, 0.025, 0.975], axis=0).T
    return {percent: Estimate(*own.tolist()) for percent, own in zip(top, limits, strict=True)}


def retrained(run: Floats, dataset: str = "cifar10-valid") -> pd.DataFrame:
    """Compare another training procedure, one run of every cell by index, with the published runs.

    All numbers except `tau_all` are computed on the cells that have an equal cell. Seed tau is the
    geometric mean of two numbers: tau between the published runs of two seeds, and the estimate
    from equal cells for the other procedure. Intervals are 95 %, from a jackknife over groups of
    classes.

    Returns:
        One row per K: `top_percent`, `n_cells`, and `tau`, `seed_tau_published`, `seed_tau_own`,
        `seed_tau` and `drop`, each with `_low` and `_high`; `tau_all` is tau over all cells.
    """
    cells, runs, _, _ = _published(dataset)
    own = run[cells]
    equal = EqualCells.among(cells)
    rng = np.random.default_rng(0)
    group = rng.permutation(np.arange(equal.n_classes) % _GROUPS)[equal.classes]

    def measured(part: EqualCells) -> Floats:
        """Return the five numbers at each K: [5, K]."""
        first, second, other = runs[part.rows, 0], runs[part.rows, 1], own[part.rows]
        tau = _tau([first, second], [other, other])
        between = _tau([first, second], [second, first])
        found = equal_cell_tau(own, part, _TOP, draws=_PAIRINGS, groups=2, rng=0)
        seeds = np.sqrt(between * found["tau"].to_numpy())
        return np.stack([tau, between, found["tau"].to_numpy(), seeds, seeds - tau])

    whole = measured(equal)
    parts = np.stack([measured(equal.take(group != number)) for number in range(_GROUPS)])
    half = student_reach(_GROUPS - 1) * np.sqrt((_GROUPS - 1) * parts.var(axis=0))
    columns: dict[str, Any] = {"top_percent": _TOP, "n_cells": len(equal.rows)}
    names = ("tau", "seed_tau_published", "seed_tau_own", "seed_tau", "drop")
    for name, value, reach in zip(names, whole, half, strict=True):
        columns |= {name: value, f"{name}_low": value - reach, f"{name}_high": value + reach}
    everywhere = _tau([runs[:, 0], runs[:, 1]], [own, own])
    return pd.DataFrame({**columns, "tau_all": everywhere})


def _tau(first: list[Floats], second: list[Floats]) -> Floats:
    """Return the mean tau of some pairs of runs, at each K; the first run chooses the cells."""
    found: Floats = tau_curves(np.stack(first), np.stack(second), _TOP)[0].mean(axis=0)
    return found


def measure_retrained(analog: Path) -> dict[str, Any]:
    """Return the numbers of an analog-nasbench table that `stored.json` keeps."""
    tables = open_recipes(analog)
    rows = []
    for name in PROCEDURES:
        run = tables[name].means().reindex(range(SPACE_SIZE)).to_numpy()
        found = retrained(run).round(4)
        rows += [{"recipe": name, **row} for row in found.to_dict("records")]
    digest = hashlib.sha256(analog.read_bytes()).hexdigest()
    return {"table": "analog-nasbench", "sha256": digest, "rows": rows}


@functools.cache
def against_published(recipe: str, percent: float = 100.0) -> dict[str, Any]:
    """Return the stored row of a procedure at one K, with estimates in place of three numbers."""
    rows = json.loads(STORED.read_text())["retrained"]["rows"]
    [row] = [one for one in rows if (one["recipe"], one["top_percent"]) == (recipe, percent)]
    limits = ("", "_low", "_high")
    names = ("tau", "seed_tau_published", "seed_tau_own", "seed_tau", "drop")
    return {**row, **{name: Estimate(*(row[name + end] for end in limits)) for name in names}}


def shared_seed_bias(dataset: str = "cifar10-valid", percent: float = 100.0) -> float:
    """Return the bias of the estimate from equal cells if equal cells share a seed (positive)."""
    rows = json.loads(_BIAS.read_text())["published"]
    [row] = [one for one in rows if (one["dataset"], one["top_percent"]) == (dataset, percent)]
    return float(row["same_seed"] - row["seed_tau"])
