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
from scipy import stats

from cells import SPACE_SIZE
from cells.classes import trainable_networks
from experiments.findings.estimate import Estimate
from rebench.analysis import MIN_CELLS, compare, read_accuracies
from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.equal_cells import EqualCells, equal_cell_tau
from rebench.analysis.seed_tau import between_seeds, resampled
from rebench.analysis.tau import Floats, Ints
from rebench.tables import open_any
from rebench.tables.opening import open_table

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
_KEPT: Final = (
    *("top_percent", "n_cells", "seed_tau_own", "tau_all", "p_family"),
    *(name + end for name in ("tau", "seed_tau", "drop") for end in ("", "_low", "_high")),
)
_DRAWS: Final = 200
_SAMPLES: Final = 400
_PAIRINGS: Final = 20


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


def retrained(before: str, after: str, by: str | pd.Series[float] = "benchmark") -> pd.DataFrame:
    """Compare another training of all cells with `before`, as ``rebench rank`` does.

    Args:
        before: `nb201`, or a table with one run a cell.
        after: a table with one run a cell.
        by: the choice of the top K %, as in `compare`.

    Returns:
        The rows of `compare` for each K; `seed_tau_own`, seed tau of `after` alone from equal
        cells; and `tau_all`, tau over all cells with one run of each.
    """
    from_published = before == "nb201"
    dataset, other = ("cifar10-valid", "cifar10") if from_published else ("cifar10", None)
    if by == "retrained":  # the first table selects the best cells
        pair = compare(
            after, before, dataset=other or dataset, against_dataset=dataset, top_percent=_TOP
        )
    else:
        pair = compare(before, after, dataset=dataset, against_dataset=other, top_percent=_TOP)
    found = pair.frame()
    run = _only_run(after)
    equal = EqualCells.among(np.arange(SPACE_SIZE))
    own = equal_cell_tau(run, equal, _TOP, groups=2, rng=0)["tau"]
    first = _published(dataset)[1][:, :2].T if from_published else _only_run(before)[None]
    taus = [stats.kendalltau(one, run).statistic for one in first]
    return found.assign(seed_tau_own=own, tau_all=float(np.mean(taus)))


def _only_run(table: str) -> Floats:
    means: Floats = open_any(table).means().reindex(range(SPACE_SIZE)).to_numpy()
    return means


def measure_retrained(analog: Path) -> dict[str, Any]:
    """Return the numbers of an analog-nasbench table that `stored.json` keeps."""
    pairs = [("nb201", recipe, "benchmark") for recipe in PROCEDURES]
    pairs += [("nb201", "analog", "retrained"), ("nb201", "analog", "baseline")]
    compared = [("nb201", "baseline"), ("nb201", "analog"), ("baseline", "analog")]
    pairs += [(before, recipe, "cifar100") for before, recipe in compared]
    cifar100 = open_table("nb201").means("cifar100", "x-valid", 200)
    third: dict[str, str | pd.Series[float]]
    third = {"cifar100": cifar100, "baseline": f"{analog}@baseline"}
    rows = []
    for before, recipe, by in pairs:
        first = before if before == "nb201" else f"{analog}@{before}"
        found = retrained(first, f"{analog}@{recipe}", third.get(by, by))
        found = found.round(4)[list(_KEPT)]
        told = {"before": before, "recipe": recipe, "by": by}
        rows += [told | row for row in found.to_dict("records")]
    digest = hashlib.sha256(analog.read_bytes()).hexdigest()
    pairings = {
        by: _of_pairings(f"{analog}@analog", third.get(by, by)) for by in ("cifar100", "benchmark")
    }
    return {"table": "analog-nasbench", "sha256": digest, "rows": rows, "pairings": pairings}


def _of_pairings(after: str, by: str | pd.Series[float]) -> dict[str, float]:
    """Return the range of the drop in the best 5 % over random pairings of equal cells."""
    drops = []
    for seed in range(_PAIRINGS):
        found = compare(
            "nb201", after, dataset="cifar10-valid", against_dataset="cifar10",
            top_percent=[5.0], by=by, draws=0, seed=seed,
        )  # fmt: skip
        drops.append(float(found.frame()["drop"].iloc[0]))
    return {"count": _PAIRINGS, "least": round(min(drops), 4), "largest": round(max(drops), 4)}


@functools.cache
def against_published(
    recipe: str, percent: float = 100.0, *, before: str = "nb201", by: str = "benchmark"
) -> dict[str, Any]:
    """Return the stored row of a procedure at one K, with estimates in place of three numbers.

    `by` names the ranking that chose the best cells: the published runs on CIFAR-100 (`cifar100`),
    the retraining (`baseline`), or a compared ranking: the first (`benchmark`) or second
    (`retrained`).
    """
    wanted = (before, recipe, by, percent)
    rows = json.loads(STORED.read_text())["retrained"]["rows"]
    names = ("before", "recipe", "by", "top_percent")
    [row] = [one for one in rows if tuple(one[name] for name in names) == wanted]
    limits = ("", "_low", "_high")
    known = ("tau", "seed_tau", "drop")
    return {**row, **{name: Estimate(*(row[name + end] for end in limits)) for name in known}}


def shared_seed_bias(dataset: str = "cifar10-valid", percent: float = 100.0) -> float:
    """Return the bias of the estimate from equal cells if equal cells share a seed (positive)."""
    rows = json.loads(_BIAS.read_text())["published"]
    [row] = [one for one in rows if (one["dataset"], one["top_percent"]) == (dataset, percent)]
    return float(row["same_seed"] - row["seed_tau"])
