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


def retrained_frame(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the trials of one recipe as a long table; refuse several recipes or networks.

    Args:
        rows: rows of ``results.parquet``, with the names of `in_words_of_benchmark`.
        name: the name of the table in messages.
    """
    labels = sorted({str(label) for label in rows["recipe"].unique()})
    if len(labels) > 1:
        raise InputError(
            f"{name} has several recipes: {', '.join(labels)}. "
            f"Choose one, such as {name}@{labels[0]}"
        )
    columns = [column for column in _NETWORK if column in rows.columns]
    if any(len(rows[column].unique()) > 1 for column in columns):
        networks = rows[columns].drop_duplicates()
        raise InputError(
            f"{name} has trials of {len(networks)} networks: {networks.to_dict('records')}. "
            f"A table contains one network: pass the rows of one network to Table.from_frame"
        )
    if "seconds" in rows.columns and "epoch_seconds" not in rows.columns:
        rows = rows.assign(epoch_seconds=rows["seconds"] / rows["epochs"])
    return rows


def in_words_of_benchmark(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of recipes under the benchmark's names; other rows are unchanged.

    The data set of a training on half of CIFAR-10 becomes ``cifar10-valid``.
    """
    if "recipe" not in rows.columns:
        return rows
    dataset = rows["dataset"].astype(str)
    if "train_split" in rows.columns:
        halved = rows["train_split"].astype(str).str.endswith("valid")
        dataset = dataset.where(~halved, dataset + "-valid")
    return rows.assign(dataset=dataset)


def of_recipe(frame: pd.DataFrame, recipe: str, name: str) -> pd.DataFrame:
    """Return the rows of one recipe of the table called `name`."""
    labels = [str(label) for label in frame["recipe"].unique()]
    return frame[frame["recipe"] == label_of(recipe, labels, name)]


def label_of(recipe: str, labels: Collection[str], name: str) -> str:
    """Return the label of a recipe in the table called `name`, for any spelling."""
    if recipe in labels:
        return recipe
    from rebench.runs import RecipeSpec  # slow (pydantic); most labels match above

    with contextlib.suppress(InputError):  # another program may name recipes freely
        spelt = RecipeSpec.parse(recipe).label
        if spelt in labels:
            return spelt
    raise UnknownNameError(f"recipe in {name}", recipe, labels)
