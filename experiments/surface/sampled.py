"""A learning-rate surface by regression on a sample of configurations.

usage: python -m experiments.surface.sampled TABLE OUT.parquet [DATASET]

In TABLE every configuration has its own rate, as in JAHS-Bench-201. Gradient boosting predicts the
accuracy of each cell at each rate; `python -m experiments.surface OUT.parquet` analyses the result.
The model is fitted to disjoint parts of the configurations. The parts replace seeds: a choice on
one part is scored on the other parts, so that an error of one fit is not a finding. Errors that all
fits share, for example because a cell has few configurations, are not detected.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from cells.ops import EDGES, OP_NAMES
from cells.table import compile_space
from experiments.surface.recipe_rates import with_rates
from rebench.analysis.concordance import Floats, Ints
from rebench.analysis.paired import known_runs
from rebench.errors import InputError
from rebench.recipes import BENCHMARK_LR, make_recipe
from rebench.tables.columns import usual_split
from rebench.tables.opening import read_rows

# Settings of the benchmark. The surface is predicted at these values if the sample has them.
BENCHMARK_SETTINGS: Final[Mapping[str, str | float]] = {
    "channels": 16,
    "cells_per_stage": 5,
    "resolution": 1.0,
    "activation": "ReLU",
    "augmentation": "standard",
    "weight_decay": 5e-4,
    "batch_size": 256,
}

_PARTS: Final = 3
_FEWEST: Final = 300
# Input columns with operations: of all edges, then of live edges.
_CATEGORIES: Final = range(2 * len(EDGES))
_DEAD: Final = len(OP_NAMES)
_BOOSTING: Final = {"max_iter": 150, "learning_rate": 0.1, "min_samples_leaf": 20}


def regress_surface(
    rows: pd.DataFrame, *, reference: float, rng: np.random.Generator
) -> tuple[pd.DataFrame, list[str]]:
    """Predict every cell of a sample at rates that double, `reference` among them.

    Args:
        rows: one data set, split and number of epochs, with a column `rate`; other settings are
            the columns of `BENCHMARK_SETTINGS`.
        reference: a rate that must be among the predicted rates.
        rng: random generator that divides the configurations into parts and gives the fits their
            seeds.

    Returns:
        Predicted rows of a surface, a `seed` for each part of the sample; and notes.
    """
    rows, unknown = known_runs(rows)
    n = len(rows)
    if n < _FEWEST:
        raise InputError(f"a regression over configurations needs {_FEWEST} of them, got {n}")
    accuracy = rows["accuracy"].to_numpy(dtype=np.float64)
    settings = _held(rows)
    known = _inputs(rows["index"].to_numpy(), rows["rate"].to_numpy(), rows[list(settings)])
    cells, rates = np.unique(rows["index"].to_numpy()), _grid(rows["rate"], reference)
    asked_cells, asked_rates = np.repeat(cells, len(rates)), np.tile(rates, len(cells))
    alike = pd.DataFrame({name: [value] * len(asked_cells) for name, value in settings.items()})
    asked = _inputs(asked_cells, asked_rates, alike)
    part = rng.permutation(np.arange(n) % _PARTS)
    predictions, errors = [], np.zeros(n)
    for number in range(_PARTS):
        seen = part == number
        fit = HistGradientBoostingRegressor(
            random_state=int(rng.integers(2**31)),
            early_stopping=False,
            categorical_features=list(_CATEGORIES),
            **_BOOSTING,
        ).fit(known[seen], accuracy[seen])
        errors[~seen] += (fit.predict(known[~seen]) - accuracy[~seen]) ** 2 / (_PARTS - 1)
        predictions.append(np.clip(fit.predict(asked), 0, 100))
    first = rows.iloc[0]
    predicted = pd.DataFrame(
        {
            "index": np.tile(asked_cells, _PARTS),
            "dataset": first["dataset"],
            "split": first["split"],
            "epochs": first["epochs"],
            "seed": np.repeat(np.arange(_PARTS), len(asked_cells)),
            "rate": np.tile(asked_rates, _PARTS),
            "accuracy": np.concatenate(predictions),
        }
    )
    held = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items())
    unseen = 1 - errors.mean() / accuracy.var()
    note = (
        f"regression: no cell was trained at these rates. Gradient boosting over {n} "
        f"configurations, in {_PARTS} disjoint parts that replace seeds, predicts them at "
        f"{held or 'one setting'}; "
        f"it explains {unseen:.0%} of the variance of configurations outside the fit "
        f"({np.sqrt(errors.mean()):.2f} points off)"
    )
    left_out = f"{len(unknown)} configurations without a finite accuracy are left out"
    return predicted, [note, *([left_out] if len(unknown) else [])]


def _held(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the settings of the predicted surface: the benchmark's, or the most frequent."""
    held: dict[str, Any] = {}
    for name, usual in BENCHMARK_SETTINGS.items():
        if name not in rows or rows[name].nunique() < 2:
            continue
        if isinstance(usual, float) and rows[name].min() <= usual <= rows[name].max():
            held[name] = usual
        else:
            there = rows[name].isin([usual]).any()
            held[name] = usual if there else rows[name].mode().iloc[0]
    return held


def _inputs(cells: Ints, rates: Floats, settings: pd.DataFrame) -> Floats:
    """Return the inputs of the regression [rows, ...]: the graph, the rate and the settings.

    The graph is given by its operations and by the number of paths with each number of
    convolutions. A rule's own statistic is not an input, because it would favour that rule.
    """
    space = compile_space()
    operations = space.ops[cells].astype(np.float64)
    live = np.where(space.live_edges[cells], operations, _DEAD)
    paths = space.depths[cells].astype(np.float64)
    columns = [operations, live, paths, np.log2(rates)[:, None]]
    for name in map(str, settings):
        values = settings[name]
        if pd.api.types.is_numeric_dtype(values):
            columns.append(values.to_numpy(dtype=np.float64)[:, None])
        else:
            known = BENCHMARK_SETTINGS[name]
            columns.append((values.astype(str) == known).to_numpy(dtype=np.float64)[:, None])
    return np.concatenate(columns, axis=1)


def _grid(rates: pd.Series[float], reference: float) -> Floats:
    """Return rates that double from one end of the sample to the other, with `reference`."""
    steps = np.log2(np.array([rates.min(), rates.max()]) / reference)
    grid: Floats = reference * 2.0 ** np.arange(np.ceil(steps[0]), np.floor(steps[1]) + 1)
    if len(grid) < 3:
        raise InputError(
            f"the rates of a sample must span two octaves about {reference:g}, got {rates.min():g} "
            f"to {rates.max():g}"
        )
    return grid


def main(table: str, out: str, dataset: str | None = None) -> None:
    """Predict a surface from the last epochs of a sample, and write it."""
    rows = with_rates(read_rows(table))
    rows = rows[rows["dataset"] == (dataset or rows["dataset"].iloc[0])]
    rows = rows[rows["rate"].notna() & (rows["split"] == usual_split(rows["split"].unique()))]
    rows = rows[rows["epochs"] == rows["epochs"].max()]
    rng = np.random.default_rng([0, 5])
    predicted, notes = regress_surface(rows, reference=BENCHMARK_LR, rng=rng)
    rates = predicted.pop("rate").rename("learning_rate")
    labels = {rate: make_recipe("fixed", lr=float(rate)).spec.label for rate in rates.unique()}
    predicted.assign(learning_rate=rates, recipe=rates.map(labels)).to_parquet(out)
    sys.stdout.write("\n".join([*notes, ""]))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
