"""Measure the bias of seed tau from equal cells on `nb201`, where the true seed tau is known.

Run: ``python -m experiments.published.equal_cells [--analog analog-nasbench.parquet]``. It writes
``results/equal_cells.json`` in the folder of this file:

- `published`: three values by data set and K, all on the cells that have the seeds 777, 888 and 999
  and an equal cell with the same seeds. `seed_tau` is the mean over the three pairs of seeds.
  `same_seed` is the estimate from partners with the same seed, `other_seed` with another seed. The
  difference of both estimates is the effect of a shared seed.
- `coverage`: number of tables with the expected seed tau inside their 95 % interval, among 400
  simulated tables of 300 classes.
- `retrained`: estimates with intervals for tables with one run a cell: the recipes of
  analog-nasbench, if `--analog` names its table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from rebench.analysis.equal_cells import EqualCells, equal_cell_tau
from rebench.analysis.tau import Floats, tau_curves
from rebench.tables import open_table
from rebench.tables.opening import open_recipes

__all__ = ["RESULTS", "coverage", "main", "published", "retrained"]

RESULTS: Final = Path(__file__).parent / "results" / "equal_cells.json"
_SEEDS: Final = (777, 888, 999)
_TOP: Final = (100.0, 50.0, 20.0, 10.0, 5.0)
_DATASETS: Final = ("cifar10-valid", "cifar100", "ImageNet16-120")
_RECIPES: Final = ("baseline", "ptq", "qat", "analog")
_DIGITS: Final = 4


def published() -> Iterator[dict[str, object]]:
    """Yield one row per data set and K: seed tau and its estimates on the same cells."""
    table = open_table("nb201")
    for dataset in _DATASETS:
        group = table.group(dataset, "x-valid", 200)
        runs = group.column("accuracy")[:, [group.seeds.index(seed) for seed in _SEEDS]]
        cells = np.flatnonzero(np.isfinite(runs).all(axis=1))
        equal = EqualCells.among(cells)
        own = runs[cells].T
        pairs = list(itertools.permutations(range(len(_SEEDS)), 2))
        known = _mean([_seed_tau(own[one], own[two], equal) for one, two in pairs])
        same = _mean([_estimated(run, run, equal) for run in own])
        other = _mean([_estimated(own[one], own[two], equal) for one, two in pairs])
        for number, percent in enumerate(_TOP):
            yield {
                "dataset": dataset, "top_percent": percent, "cells": len(equal.rows),
                "classes": equal.n_classes, "seed_tau": round(float(known[number]), _DIGITS),
                "same_seed": round(float(same[number]), _DIGITS),
                "other_seed": round(float(other[number]), _DIGITS),
            }  # fmt: skip


def _seed_tau(one: Floats, two: Floats, equal: EqualCells) -> Floats:
    return tau_curves(one[None, equal.rows], two[None, equal.rows], _TOP)[0][0]


def _estimated(values: Floats, second: Floats, equal: EqualCells) -> Floats:
    told = equal_cell_tau(values, equal, _TOP, second=second, groups=2, rng=0)
    return told["tau"].to_numpy()


def _mean(curves: list[Floats]) -> Floats:
    return np.mean(curves, axis=0)


def coverage(tables: int = 400, classes: int = 300, noise: float = 0.3) -> dict[str, object]:
    """Count the simulated tables with the expected seed tau inside their interval.

    True accuracies of classes are standard normal. Class sizes are drawn from those of the space.
    """
    sizes = np.bincount(EqualCells.among(np.arange(15625)).classes)
    rng = np.random.default_rng(0)
    expected, intervals = [], []
    for _ in range(tables):
        own = np.repeat(np.arange(classes), rng.choice(sizes, size=classes))
        equal = EqualCells(rows=np.arange(len(own)), classes=own)
        runs = rng.normal(size=classes)[own] + noise * rng.normal(size=(2, len(own)))
        expected.append(tau_curves(runs[:1], runs[1:], [100])[0][0, 0])
        told = equal_cell_tau(runs[0], equal, [100], draws=5, rng=rng)
        intervals.append(told[["tau_low", "tau_high"]].to_numpy()[0])
    low, high = np.array(intervals).T
    inside = (low <= np.mean(expected)) & (np.mean(expected) <= high)
    return {
        "tables": tables, "classes": classes, "noise": noise,
        "expected_seed_tau": round(float(np.mean(expected)), _DIGITS),
        "mean_width": round(float((high - low).mean()), _DIGITS),
        "covered": int(inside.sum()),
    }  # fmt: skip


def retrained(analog: Path) -> Iterator[dict[str, object]]:
    """Yield the estimate for each recipe of analog-nasbench, a row per K."""
    equal = EqualCells.among(np.arange(15625))
    tables = open_recipes(analog)
    for recipe in _RECIPES:
        values = tables[recipe].means().reindex(range(15625)).to_numpy()
        told = equal_cell_tau(values, equal, _TOP, rng=0).round(_DIGITS)
        yield from ({"recipe": recipe, **row} for row in told.to_dict("records"))


def main(words: list[str]) -> None:
    """Compute and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--analog", type=Path, help="table of `rebench table fetch`")
    asked = parser.parse_args(words)
    content = {"published": list(published()), "coverage": coverage()}
    if asked.analog is not None:
        content["retrained"] = list(retrained(asked.analog))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
