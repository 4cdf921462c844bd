"""A run's ``results.parquet`` as a long table under the benchmark's names."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from rebench.errors import InputError, UnknownNameError
from rebench.sweep import RecipeSpec

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["dataset_names", "label_of", "of_recipe", "retrained_frame"]

_NETWORK: Final = ("channels", "cells_per_stage", "network")


def retrained_frame(frame: pd.DataFrame, recipe: str | None, name: str) -> pd.DataFrame:
    """Return the trials of one recipe as a long table.

    A trial's seconds all count as training, its evaluations as free.

    Args:
        frame: rows of ``results.parquet``, with `dataset_names`.
        recipe: the label; it may be None where there is only one.
        name: what messages call the table.
    """
    labels = sorted({str(label) for label in frame["recipe"].unique()})
    if recipe is None and len(labels) > 1:
        raise InputError(
            f"{name} holds several recipes, choose one (--recipe): {', '.join(labels)}"
        )
    rows = frame if recipe is None else of_recipe(frame, recipe, name)
    columns = [column for column in _NETWORK if column in rows.columns]
    networks = rows[columns].drop_duplicates()
    if columns and len(networks) > 1:
        raise InputError(
            f"{name} holds trials of {len(networks)} networks, which no table can mix: "
            f"{networks.to_dict('records')}; give Table.from_frame the rows of one"
        )
    if "seconds" in rows.columns:
        seconds = rows["seconds"].where(rows["split"] == "train", 0.0)
        rows = rows.assign(seconds=seconds, epoch_seconds=seconds / rows["epochs"])
    return rows


def dataset_names(frame: pd.DataFrame) -> pd.Series[str]:
    """Call a data set trained on half its images as the benchmark does: ``cifar10-valid``."""
    dataset = frame["dataset"].astype(str)
    if "train_split" not in frame.columns:
        return dataset
    halved = frame["train_split"].astype(str).str.endswith("valid")
    return dataset.where(~halved, dataset + "-valid")


def of_recipe(frame: pd.DataFrame, recipe: str, name: str) -> pd.DataFrame:
    """Return the rows of one recipe of the table called `name`."""
    labels = [str(label) for label in frame["recipe"].unique()]
    return frame[frame["recipe"] == label_of(recipe, labels, name)]


def label_of(recipe: str, labels: Collection[str], name: str) -> str:
    """Return which label of the table called `name` a recipe is, however it is spelt."""
    if recipe in labels:
        return recipe
    with contextlib.suppress(InputError):  # a name that another program gave
        spelt = RecipeSpec.parse(recipe).label
        if spelt in labels:
            return spelt
    raise UnknownNameError(f"recipe in {name}", recipe, labels)
