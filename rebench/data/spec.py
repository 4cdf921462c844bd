"""Descriptions of data sets: those of rebench, in `datasets.toml`, and those of other packages.

`rebench.data.readers` reads the images; this module does not need torch. Another package can
announce a `DataSpec`::

    [project.entry-points."rebench.datasets"]
    mine = "my_package.my_images:SPEC"
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rebench.errors import InputError, UnknownNameError
from rebench.extensions import announced, entries

if TYPE_CHECKING:
    from rebench.data.images import RawData

__all__ = ["BENCHMARK", "Archive", "DataSpec", "benchmark_data", "data_spec", "data_specs"]

BENCHMARK: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "cifar10-valid": ("cifar10", "cifar10-valid"),
        "cifar10": ("cifar10", "full"),
        "cifar100": ("cifar100", "halved"),
        "ImageNet16-120": ("ImageNet16-120", "halved"),
    }
)
"""The benchmark's name of a training set -> (data set, split)."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Official archive: its address, its MD5, and the folder inside it."""

    name: str
    url: str
    md5: str
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DataSpec:
    """Description of a data set.

    Attributes:
        size: side of the images in pixels; they have three channels.
        train_images: number of images in the whole training set.
        test_images: number of images in the whole test set.
        mean: mean of each channel, for pixels in 0..1; with `std` for normalisation.
        padding: width of the border of zeros before a random crop.
        flip: whether images are mirrored at random.
        format: name of a reader of `rebench.data`; otherwise give `reader`.
        reader: function of the spec and the data root, from another package.
        files: name of each file -> its official MD5, or an empty text; searched in the folders
            `places` below the data root, and in the archive.
        valid_split: name of the split that holds out half of the training images.
        test_halves: name of the benchmark's file with the two halves of the test set, if any.
    """

    name: str
    title: str
    classes: int
    size: int
    train_images: int
    test_images: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int
    flip: bool = True
    format: str = ""
    reader: Callable[[DataSpec, Path], RawData] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    archive: Archive | None = None
    places: tuple[str, ...] = ()
    get: str = "embedded: nothing to download"
    valid_split: str = "valid"
    test_halves: str | None = None

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name in ("classes", "size", "train_images", "test_images"):
            if getattr(self, name) < 1:
                raise InputError(f"{self.name}: {name} must be at least 1")
        if not self.format and not callable(self.reader):
            raise InputError(f"{self.name}: reader must be a function, got {self.reader!r}")

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits; `rebench.data.loading` describes them."""
        return ("full", self.valid_split, *(["halved"] if self.test_halves else []))

    def part_sizes(self, split: str) -> dict[str, int]:
        """Return the numbers of images in the parts of a split: ``train``, then evaluations."""
        if split not in self.splits:
            raise UnknownNameError(f"split of {self.name}", split, self.splits)
        train, test = self.train_images, {"ori-test": self.test_images}
        if split == self.valid_split:
            return {"train": train // 2, "x-valid": train - train // 2, **test}
        if split == "halved":
            half = self.test_images // 2
            return {"train": train, "x-valid": half, "x-test": self.test_images - half, **test}
        return {"train": train, **test}


def data_spec(name: str) -> DataSpec:
    """Return the description of the data set `name`."""
    # Other packages are searched only if rebench has no data set of this name.
    spec = _ours().get(name) or data_specs().get(name)
    if spec is None:
        raise UnknownNameError("data set", name, data_specs())
    return spec


def data_specs() -> Mapping[str, DataSpec]:
    """Return all data sets by name: those of rebench, then those of other installed packages."""
    specs = dict(_ours())
    for spec in announced("datasets"):
        if not isinstance(spec, DataSpec) or specs.setdefault(spec.name, spec) is not spec:
            warnings.warn(
                f"an installed package adds {getattr(spec, 'name', spec)!r} to rebench.datasets:"
                " it is ignored, since it is not a DataSpec or its name is taken",
                stacklevel=2,
            )
    return specs


def benchmark_data(name: str) -> DataSpec | None:
    """Return the data set of a benchmark name, or None for any other name."""
    return data_spec(BENCHMARK[name][0]) if name in BENCHMARK else None


@functools.cache
def _ours() -> Mapping[str, DataSpec]:
    return {
        name: _from_toml(name, **entry)
        for name, entry in entries(__file__, "datasets.toml").items()
    }


def _from_toml(name: str, *, levels: int = 1, **entry: Any) -> DataSpec:
    for statistic in ("mean", "std"):
        entry[statistic] = tuple(value / levels for value in entry[statistic])
    archive = entry.pop("archive", None)
    entry["places"] = tuple(entry.get("places", ()))
    return DataSpec(name=name, archive=archive and Archive(**archive), **entry)
