"""What the pickled archives share: reading one batch, checking it, and saying what it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rebench.data.files import MAX_FILE_BYTES, md5
from rebench.data.images import Images
from rebench.datasets import DataSpec
from rebench.errors import MissingDataError
from rebench.safe_pickle import NUMPY_NAMES, load_pickle

__all__ = ["check_official", "read_batch", "to_images"]

Array = np.ndarray[Any, Any]


def read_batch(content: bytes, labels: bytes, name: str) -> tuple[Array, Array]:
    """Return the pixels and labels of one pickled batch, as they are stored."""
    batch = load_pickle(content, allow=NUMPY_NAMES, max_bytes=MAX_FILE_BYTES, what=name)
    if not isinstance(batch, dict):
        raise MissingDataError(f"{name}: not a batch of images but a {type(batch).__name__}")
    named = {key.encode() if isinstance(key, str) else key: value for key, value in batch.items()}
    missing = [key.decode() for key in (b"data", labels) if key not in named]
    if missing:
        raise MissingDataError(f"{name}: no {' and no '.join(missing)} in the batch")
    return np.asarray(named[b"data"]), np.asarray(named[labels])


def to_images(pixels: Array, labels: Array, spec: DataSpec, name: str) -> Images:
    """Return checked tensors of pixels (uint8, any shape of 3 * size * size a row) and labels."""
    wanted = 3 * spec.size**2
    if pixels.dtype != np.uint8 or pixels.ndim < 2 or pixels[:1].size != wanted * len(pixels[:1]):
        raise MissingDataError(
            f"{name}: pixels must be uint8 with {wanted} a row, got {pixels.dtype} {pixels.shape}"
        )
    if labels.shape != (len(pixels),) or labels.dtype.kind not in "iu":
        raise MissingDataError(f"{name}: {len(pixels)} images and labels of shape {labels.shape}")
    if len(labels) and not (labels.min() >= 0 and labels.max() < spec.classes):
        raise MissingDataError(f"{name}: labels must be in 0..{spec.classes - 1}")
    shaped = np.ascontiguousarray(pixels).reshape(-1, 3, spec.size, spec.size)
    return Images(torch.from_numpy(shaped.copy()), torch.from_numpy(labels.astype(np.int64)))


def check_official(
    spec: DataSpec,
    files: Mapping[str, bytes],
    rows: Mapping[str, int],
    official_rows: int | None = None,
) -> tuple[str, ...]:
    """Return what is not official about files that can be read; refuse damaged official ones.

    The official files have `official_rows` images, by default those of the data set.
    """
    expected = {file.name: file.md5 for file in spec.files}
    altered = [name for name, content in files.items() if md5(content) != expected[name]]
    if not altered:
        return ()
    if sum(rows.values()) == (official_rows or spec.train_images + spec.test_images):
        raise MissingDataError(
            f"{spec.name}: {', '.join(altered)} has the official number of rows and not the "
            f"official content (MD5): damaged or altered. To get it: {spec.get}"
        )
    counts = " and ".join(f"{count:,}" for count in sorted(set(rows.values())))
    return (f"not the official archive: {counts} rows per batch",)
