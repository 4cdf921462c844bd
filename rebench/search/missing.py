"""What must be trained next, so that the algorithms can be compared on re-trained values.

A re-trained table rarely covers the space. The cells that matter most are those the algorithms
answer on the published table: with them trained, "searched on the benchmark, worth what the new
recipe gives" can be said of every algorithm. Here they are counted, and written as a sweep.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from rebench.errors import InputError
from rebench.search.comparison import Comparison
from rebench.search.tabular import SearchTable
from rebench.sweep import RecipeSpec

__all__ = ["answers_retrained", "missing_answers", "sweep_toml"]


def missing_answers(comparison: Comparison, trained: Collection[int]) -> pd.DataFrame:
    """Return the answered cells that are not trained, most often answered first.

    Columns: index, runs, share (of all runs), algorithms (that answered it).
    """
    answers = comparison.answers()
    total = int(answers["runs"].sum())
    lacking = answers[~answers["index"].isin(list(trained))]
    frame: pd.DataFrame = (
        lacking.groupby("index")
        .agg(runs=("runs", "sum"), algorithms=("algorithm", lambda names: ", ".join(sorted(names))))
        .reset_index()
        .sort_values(["runs", "index"], ascending=[False, True], ignore_index=True)
    )
    frame.insert(2, "share", frame["runs"] / total)
    return frame


def answers_retrained(comparison: Comparison, retrained: SearchTable) -> pd.DataFrame:
    """Return what the answers are worth in another table, and how many of them it holds.

    Columns: algorithm, covered (share of runs whose answer is in it), searched (mean final
    accuracy of those in the comparison's own table), retrained (in the other one).
    """
    indices = comparison.table.space.indices
    worth = dict(zip(retrained.space.indices.tolist(), retrained.final.tolist(), strict=True))
    rows = []
    for name, runs in comparison.runs.items():
        positions = np.array([run.answers[-1] for run in runs])
        values = np.array([worth.get(int(indices[position]), np.nan) for position in positions])
        known = np.isfinite(values)
        searched = comparison.table.final[positions]
        rows.append(
            {
                "algorithm": name,
                "covered": float(known.mean()),
                "searched": float(searched[known].mean()) if known.any() else None,
                "retrained": float(values[known].mean()) if known.any() else None,
            }
        )
    return pd.DataFrame(rows)


def sweep_toml(
    cells: Sequence[int],
    *,
    dataset: str,
    recipe: str,
    seeds: Sequence[int],
    epochs: int,
    comment: str = "",
) -> str:
    """Return a sweep's TOML text that trains these cells; `comment` is put at the top."""
    if not cells:
        raise InputError("no cell is missing; there is nothing to train")
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += [
        f"datasets = [{json.dumps(dataset)}]",
        f"recipes = [{json.dumps(RecipeSpec.parse(recipe).label)}]",
        f"seeds = {list(seeds)}",
        f"epochs = {epochs}",
        "",
        "[cells]",
        f"indices = {list(cells)}",
    ]
    return "\n".join(lines) + "\n"
