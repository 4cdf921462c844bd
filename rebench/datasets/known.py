"""Data sets by name: ours, what other packages announce, and what the benchmark calls its own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rebench.datasets.ours import OURS
from rebench.datasets.spec import DataSpec
from rebench.errors import UnknownNameError
from rebench.extensions import announced

__all__ = ["BENCHMARK", "benchmark_data", "data_spec", "data_specs"]

_BY_NAME: Final[Mapping[str, DataSpec]] = MappingProxyType({spec.name: spec for spec in OURS})

BENCHMARK: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "cifar10-valid": ("cifar10", "cifar10-valid"),
        "cifar10": ("cifar10", "full"),
        "cifar100": ("cifar100", "halved"),
        "ImageNet16-120": ("ImageNet16-120", "halved"),
    }
)
"""The benchmark's own names of what it trained on -> data set, split."""


def data_spec(name: str) -> DataSpec:
    """Return what is known of the data set `name`."""
    # Other packages are looked through only for what is not ours.
    found = _BY_NAME.get(name) or data_specs().get(name)
    if found is None:
        raise UnknownNameError("data set", name, data_specs())
    return found


def benchmark_data(name: str) -> DataSpec | None:
    """Return the data set behind one of the benchmark's names; None for any other name."""
    return _BY_NAME[BENCHMARK[name][0]] if name in BENCHMARK else None


def data_specs() -> Mapping[str, DataSpec]:
    """Return every data set by name: ours, then those that installed packages announce."""
    specs = dict(_BY_NAME)
    for found in announced("datasets"):
        if not isinstance(found, DataSpec) or specs.setdefault(found.name, found) is not found:
            warnings.warn(
                f"an installed package adds {getattr(found, 'name', found)!r} to rebench.datasets:"
                " it is left out, since it is no DataSpec or its name is taken",
                stacklevel=2,
            )
    return specs
