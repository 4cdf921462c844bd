"""What a data set is: its constants (`DataSpec`) and its images as uint8 tensors (`Images`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from rebench.data.files import Archive, ExpectedFile

__all__ = ["DataSpec", "Images", "RawData"]


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Images and their classes.

    Attributes:
        pixels: uint8, [n, 3, size, size].
        labels: int64, [n].
    """

    pixels: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, indices: torch.Tensor) -> Images:
        """Return the images at `indices`, in their order."""
        return Images(self.pixels[indices], self.labels[indices])

    def to(self, device: torch.device | str) -> Images:
        """Return the images on `device`."""
        return Images(self.pixels.to(device), self.labels.to(device))

    def digest(self) -> str:
        """Return 16 hex digits of SHA-256 over pixels and labels."""
        content = hashlib.sha256()
        for tensor in (self.pixels, self.labels):
            content.update(tensor.contiguous().cpu().numpy().data)
        return content.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawData:
    """A data set as it was read; `notes` say where it is not the official one."""

    train: Images
    test: Images
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """What is known of a data set before it is read.

    `mean` and `std` normalise pixels in 0..1; `padding` and `flip` are its augmentation. `files`
    are looked for in the folders that `places` names below the data root, and in the archive.
    """

    name: str
    title: str
    classes: int
    size: int
    padding: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    flip: bool = True
    read: Callable[[DataSpec, Path], RawData] = field(repr=False)
    files: tuple[ExpectedFile, ...] = ()
    archive: Archive | None = None
    places: tuple[str, ...] = ()
    get: str = "embedded: nothing to download"
