"""A run's ``results.parquet`` as a long table under the benchmark's names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from rebench.errors import InputError, UnknownNameError
from rebench.tables.curves import Curve
from rebench.tables.layout import Key

__all__ = ["RunCurves", "retrained_frame"]

_NETWORK: Final = ("channels", "cells_per_stage", "network")


def retrained_frame(frame: pd.DataFrame, recipe: str | None, name: str) -> pd.DataFrame:
    """Return the trials of one recipe as a long table.

    A data set trained on half its images is called as the benchmark calls CIFAR-10's:
    ``cifar10-valid``. A trial's seconds all count as training, its evaluations as free.

    Args:
        frame: rows of ``results.parquet``.
        recipe: the label; it may be None where there is only one.
        name: what messages call the table.
    """
    rows: pd.DataFrame = _of_one_recipe(frame, recipe, name)
    rows = rows.copy(deep=False)
    columns = [column for column in _NETWORK if column in rows.columns]
    networks = rows[columns].drop_duplicates()
    if columns and len(networks) > 1:
        raise InputError(
            f"{name} holds trials of {len(networks)} networks, which no table can mix: "
            f"{networks.to_dict('records')}; give Table.from_frame the rows of one"
        )
    if "train_split" in rows.columns:
        halved = rows["train_split"].astype(str).str.endswith("valid")
        dataset = rows["dataset"].astype(str)
        rows["dataset"] = dataset.where(~halved, dataset + "-valid")
    if "seconds" in rows.columns:
        rows["seconds"] = rows["seconds"].where(rows["split"] == "train", 0.0)
        rows["epoch_seconds"] = rows["seconds"] / rows["epochs"]
    return rows


def _of_one_recipe(frame: pd.DataFrame, recipe: str | None, name: str) -> pd.DataFrame:
    labels = [str(label) for label in frame["recipe"].unique()]
    if recipe is None:
        if len(labels) > 1:
            named = ", ".join(sorted(labels))
            raise InputError(f"{name} holds several recipes, choose one (--recipe): {named}")
        return frame
    if recipe not in labels:
        raise UnknownNameError(f"recipe in {name}", recipe, labels)
    chosen: pd.DataFrame = frame[frame["recipe"] == recipe]
    return chosen


class RunCurves:
    """Per-epoch curves of a run's trials, from the ``curves.parquet`` beside its results."""

    def __init__(self, path: Path, frame: pd.DataFrame) -> None:
        self._path = path
        self._trials = frame[["index", *Key._fields, "seed", "trial_id"]]

    def of(self, index: int) -> dict[tuple[Key, int], Curve]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""
        trials = self._trials[self._trials["index"] == index]
        wanted = [("trial_id", "in", trials["trial_id"].unique().tolist())]
        epochs = pq.read_table(self._path, filters=wanted).to_pandas().sort_values("epoch")
        found = {
            (str(trial), str(split)): rows
            for (trial, split), rows in epochs.groupby(["trial_id", "split"], observed=True)
        }
        return {
            (Key(str(row.dataset), str(row.split), int(row.epochs)), int(row.seed)): Curve(
                accuracy=found[row.trial_id, row.split]["accuracy"].to_numpy(dtype=np.float64),
                loss=found[row.trial_id, row.split]["loss"].to_numpy(dtype=np.float64),
                seconds=None,
            )
            for row in trials.itertuples()
            if (row.trial_id, row.split) in found
        }
