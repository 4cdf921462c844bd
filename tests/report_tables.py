"""Generated tables of results for tests of reports: a run's long table and a published one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from rebench.analysis import Choices, Study
from rebench.analysis.study import study
from rebench.tables import open_table
from rebench.tables.opening import read_rows

SEEDS = (777, 888, 999)


def studied(name: Path, chosen: Choices | None = None) -> Study:
    """Return the study of a table by its name, with the published table of the choices."""
    published = open_table(chosen.published) if chosen and chosen.published else None
    return study(read_rows(name), chosen, name=name, published=published)


def published_table(n_cells: int = 40, dataset: str = "cifar10") -> pd.DataFrame:
    """Return a long table of `n_cells` random cells with three seeds at 200 epochs."""
    return _long(n_cells, dataset, shift=0.0, change=0.0, salt=0)


def run_table(
    n_cells: int = 40,
    dataset: str = "cifar10",
    recipes: tuple[str, ...] = ("nb201", "topology", "fixed(lr=0.3)"),
) -> pd.DataFrame:
    """Return a run's long table: each further recipe is better by 0.3 and ranks differently."""
    parts = []
    for place, recipe in enumerate(recipes):
        part = _long(n_cells, dataset, shift=0.3 * place, change=0.8 * (place > 0), salt=1 + place)
        part["recipe"] = recipe
        part["trial_id"] = [f"{recipe}-{i:05d}" for i in range(len(part))]
        part["status"] = "done"
        part["learning_rate"] = 0.1 * (1 + place)
        part["seconds"] = 12.0
        part["environment"] = "rebench 0.1.0, torch 2.13"
        part["device"] = "cpu"
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _long(n_cells: int, dataset: str, *, shift: float, change: float, salt: int) -> pd.DataFrame:
    cells = np.sort(np.random.default_rng(n_cells).choice(15_625, n_cells, replace=False))
    true = 93 - np.random.default_rng([n_cells, 1]).gamma(1.2, 2.5, n_cells)
    rng = np.random.default_rng([n_cells, 2, salt])
    true = true + shift + change * rng.normal(size=n_cells)
    values = np.round(true[:, None] + rng.normal(0, 0.25, (n_cells, len(SEEDS))), 2)
    return pd.DataFrame(
        {
            "index": np.repeat(cells, len(SEEDS)),
            "dataset": dataset,
            "split": "ori-test",
            "epochs": 200,
            "seed": np.tile(SEEDS, n_cells),
            "accuracy": values.ravel(),
            "loss": 1 - values.ravel() / 100,
        }
    )
