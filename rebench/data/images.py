"""Images of a data set as uint8 tensors, and the result of a reader."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch

__all__ = ["Images", "RawData"]


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Images and their labels.

    Attributes:
        pixels: uint8, [n, 3, size, size].
        labels: int64, [n].
    """

    pixels: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, indices: torch.Tensor) -> Images:
        """Return the images at `indices`, in this order."""
        return Images(self.pixels[indices], self.labels[indices])

    def digest(self) -> str:
        """Return 16 hex digits of SHA-256 over pixels and labels."""
        content = hashlib.sha256()
        for tensor in (self.pixels, self.labels):
            content.update(tensor.contiguous().cpu().numpy().data)
        return content.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawData:
    """Data set as read from files; `notes` describe differences from the official data set."""

    train: Images
    test: Images
    notes: tuple[str, ...] = ()
