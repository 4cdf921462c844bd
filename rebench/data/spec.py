"""What is known of a data set before it is read: ours, in `datasets.toml`, and other packages'.

Reading images is `rebench.data.readers`'; nothing here needs torch. A package of the user's
announces a `DataSpec` of its own::

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

from cells import CostModel
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
"""The benchmark's own names of what it trained on -> data set, split."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The official archive: where it is published, its MD5, and the folder inside it."""

    name: str
    url: str
    md5: str
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DataSpec:
    """What is known of a data set before it is read.

    Attributes:
        size: side of its images in pixels; they have three channels.
        train_images: how many images the whole training set holds.
        test_images: how many the whole test set holds.
        mean: normalises pixels in 0..1, as `std` does.
        padding: zeros around an image before it is cropped at random.
        flip: whether images are mirrored at random.
        format: one that `rebench.data` reads, or
        reader: a function of another package's that is called with the spec and the data root.
        files: MD5 of the official file by name, or nothing; looked for in the folders `places`
            below the data root, and in the archive.
        valid_split: the name of the split that holds back half of the training images.
        test_halves: the benchmark's file of the test set's two halves, if it has one.
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
        """Refuse what no data set can be."""
        for name in ("classes", "size", "train_images", "test_images"):
            if getattr(self, name) < 1:
                raise InputError(f"{self.name}: {name} must be at least 1")
        if not self.format and not callable(self.reader):
            raise InputError(f"{self.name}: reader must be a function, got {self.reader!r}")

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits; `rebench.data.splits` says what each one is."""
        return ("full", self.valid_split, *(["halved"] if self.test_halves else []))

    def part_sizes(self, split: str) -> dict[str, int]:
        """Images in each part of a split: ``train``, then what is evaluated."""
        if split not in self.splits:
            raise UnknownNameError(f"split of {self.name}", split, self.splits)
        train, test = self.train_images, {"ori-test": self.test_images}
        if split == self.valid_split:
            return {"train": train // 2, "x-valid": train - train // 2, **test}
        if split == "halved":
            half = self.test_images // 2
            return {"train": train, "x-valid": half, "x-test": self.test_images - half, **test}
        return {"train": train, **test}

    def cost_model(self, channels: int = 16, cells_per_stage: int = 5) -> CostModel:
        """What networks for its images cost; by default the benchmark's."""
        return CostModel(
            image_side=self.size,
            classes=self.classes,
            channels=channels,
            cells_per_stage=cells_per_stage,
        )


def data_spec(name: str) -> DataSpec:
    """What is known of the data set `name`."""
    # Other packages are looked through only for what is not ours.
    spec = _ours().get(name) or data_specs().get(name)
    if spec is None:
        raise UnknownNameError("data set", name, data_specs())
    return spec


def data_specs() -> Mapping[str, DataSpec]:
    """Every data set by name: ours, then those that installed packages announce."""
    specs = dict(_ours())
    for spec in announced("datasets"):
        if not isinstance(spec, DataSpec) or specs.setdefault(spec.name, spec) is not spec:
            warnings.warn(
                f"an installed package adds {getattr(spec, 'name', spec)!r} to rebench.datasets:"
                " it is left out, since it is no DataSpec or its name is taken",
                stacklevel=2,
            )
    return specs


def benchmark_data(name: str) -> DataSpec | None:
    """The data set behind one of the benchmark's names; None for any other name."""
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
