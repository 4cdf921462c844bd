"""A data set's images by its name: whatever reads it is found by what its entry says."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import torch

from rebench.data.files import data_root
from rebench.data.images import RawData
from rebench.data.splits import TrainingData, split_data
from rebench.datasets import DataSpec, data_spec
from rebench.errors import MissingDataError

__all__ = ["load_data", "read_raw"]


def read_raw(name: str, root: Path | str | None = None) -> RawData:
    """Read the data set `name` below `root` (see `data_root`)."""
    spec = data_spec(name)
    raw: RawData = pkgutil.resolve_name(spec.reader)(spec, data_root(root))
    for part, images in (("training", raw.train), ("test", raw.test)):
        _check(spec, part, images.pixels, images.labels)
    return raw


def load_data(
    name: str,
    split: str = "full",
    *,
    root: Path | str | None = None,
) -> TrainingData:
    """Read a data set and split it as a trial's `split` says."""
    return split_data(data_spec(name), read_raw(name, root), split, data_root(root))


def _check(spec: DataSpec, part: str, pixels: torch.Tensor, labels: torch.Tensor) -> None:
    shape = (len(labels), 3, spec.size, spec.size)
    if pixels.dtype != torch.uint8 or tuple(pixels.shape) != shape or not len(labels):
        raise MissingDataError(
            f"{spec.name}: {spec.reader} must return {part} images as uint8 of shape "
            f"{list(shape)}, got {pixels.dtype} {list(pixels.shape)}"
        )
    if (
        labels.dtype != torch.int64
        or not 0 <= int(labels.min()) <= int(labels.max()) < spec.classes
    ):
        raise MissingDataError(
            f"{spec.name}: {spec.reader} must return {part} labels as int64 in "
            f"0..{spec.classes - 1}, got {labels.dtype} in {labels.min()}..{labels.max()}"
        )
