"""A run's ``results.parquet`` as a long table under the benchmark's names."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from rebench.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["in_words_of_benchmark", "label_of", "of_recipe", "retrained_frame"]

_NETWORK: Final = ("channels", "cells_per_stage", "network")


def retrained_frame(frame: pd.DataFrame, recipe: str | None, name: str) -> pd.DataFrame:
    """The trials of one recipe as a long table.

    Args:
        frame: rows of ``results.parquet``, with the names of `in_words_of_benchmark`.
        recipe: the label; it may be None where there is only one.
        name: what messages call the table.
    """
    labels = sorted({str(label) for label in frame["recipe"].unique()})
    if recipe is None and len(labels) > 1:
        raise InputError(
            f"{name} holds several recipes, choose one, such as {name}@{labels[0]}; "
            f"there are {', '.join(labels)}"
        )
    rows = frame if recipe is None else of_recipe(frame, recipe, name)
    columns = [column for column in _NETWORK if column in rows.columns]
    if any(len(rows[column].unique()) > 1 for column in columns):
        networks = rows[columns].drop_duplicates()
        raise InputError(
            f"{name} holds trials of {len(networks)} networks, which no table can mix: "
            f"{networks.to_dict('records')}; give Table.from_frame the rows of one"
        )
    if "seconds" in rows.columns and "epoch_seconds" not in rows.columns:
        rows = rows.assign(epoch_seconds=rows["seconds"] / rows["epochs"])
    return rows


def in_words_of_benchmark(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of recipes as the benchmark would have them; those of no recipe are as they are.

    A data set trained on half its images is ``cifar10-valid``, and a trial's time is that of its
    training: its evaluations were not timed.
    """
    if "recipe" not in rows.columns:
        return rows
    dataset = rows["dataset"].astype(str)
    if "train_split" in rows.columns:
        halved = rows["train_split"].astype(str).str.endswith("valid")
        dataset = dataset.where(~halved, dataset + "-valid")
    rows = rows.assign(dataset=dataset)
    if {"trial_id", "seconds"} <= set(rows.columns):
        rows = rows.assign(seconds=rows["seconds"].where(rows["split"] == "train"))
    return rows


def of_recipe(frame: pd.DataFrame, recipe: str, name: str) -> pd.DataFrame:
    """The rows of one recipe of the table called `name`."""
    labels = [str(label) for label in frame["recipe"].unique()]
    return frame[frame["recipe"] == label_of(recipe, labels, name)]


def label_of(recipe: str, labels: Collection[str], name: str) -> str:
    """The label of the table called `name` that a recipe has, however it is spelt."""
    if recipe in labels:
        return recipe
    from rebench.runs import RecipeSpec  # with pydantic; most labels are spelt as they are

    with contextlib.suppress(InputError):  # a name that another program gave
        spelt = RecipeSpec.parse(recipe).label
        if spelt in labels:
            return spelt
    raise UnknownNameError(f"recipe in {name}", recipe, labels)
