"""CIFAR-10 and CIFAR-100 from the official python archives, and CIFAR-10 as a file of JPEGs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from rebench.data.files import read_files
from rebench.data.images import DataSpec, Images, RawData
from rebench.data.pickled import check_official, read_batch, to_images
from rebench.errors import MissingDataError

__all__ = ["SMALL_TRAIN_IMAGES", "read_cifar", "read_jpegs", "read_small_jpegs"]

SMALL_TRAIN_IMAGES = 10_000

_OFFICIAL_ROWS = 60_000
_JPEG_SIDE = 32
_JPEG_NOTE = "JPEG-coded images: accuracies come out a little below those of the lossless ones"


def read_cifar(spec: DataSpec, root: Path) -> RawData:
    """Read the pickled batches; the test set is the file whose name starts with ``test``."""
    files = {
        name: content
        for name, content in read_files(spec, root).items()
        if not name.endswith("meta")
    }
    labels = b"fine_labels" if spec.classes == 100 else b"labels"
    batches = {name: read_batch(content, labels, name) for name, content in files.items()}
    images = {name: to_images(*batch, spec, name) for name, batch in batches.items()}
    train = [images[name] for name in images if not name.startswith("test")]
    rows = {name: len(batch) for name, batch in images.items()}
    return RawData(
        train=Images(
            torch.cat([part.pixels for part in train]), torch.cat([part.labels for part in train])
        ),
        test=next(images[name] for name in images if name.startswith("test")),
        notes=check_official(spec, files, rows, _OFFICIAL_ROWS),
    )


def read_jpegs(spec: DataSpec, root: Path) -> RawData:
    """Read a Parquet file with the columns ``split`` (train, test), ``label`` and ``jpeg``."""
    (name, content), *_ = read_files(spec, root).items()
    rows = _jpeg_rows(content, spec, name)
    return RawData(
        train=_decoded(rows["train"], spec, name),
        test=_decoded(rows["test"], spec, name),
        notes=(_JPEG_NOTE,),
    )


def read_small_jpegs(spec: DataSpec, root: Path) -> RawData:
    """Read the same file smaller: its first training images alone, boxes of pixels averaged."""
    (name, content), *_ = read_files(spec, root).items()
    rows = _jpeg_rows(content, spec, name)
    note = (
        f"{spec.name} is a part of CIFAR-10: its first {SMALL_TRAIN_IMAGES:,} training images and"
        f" its test set, averaged to {spec.size}x{spec.size}"
    )
    return RawData(
        train=_decoded(rows["train"][:SMALL_TRAIN_IMAGES], spec, name),
        test=_decoded(rows["test"], spec, name),
        notes=(note, _JPEG_NOTE),
    )


def _jpeg_rows(content: bytes, spec: DataSpec, name: str) -> dict[str, list[tuple[int, bytes]]]:
    """Return the labels and JPEGs of each split, in the order of the file."""
    import pyarrow.parquet as pq  # slow to import, and needed here alone

    try:
        table = pq.read_table(io.BytesIO(content), columns=["split", "label", "jpeg"])
    except (OSError, ValueError) as error:
        raise MissingDataError(f"{name} is not the Parquet file of {spec.name}: {error}") from error
    columns = table.to_pydict()  # in the order asked for
    rows: dict[str, list[tuple[int, bytes]]] = {"train": [], "test": []}
    for split, label, jpeg in zip(
        *(columns[key] for key in ("split", "label", "jpeg")), strict=True
    ):
        rows.setdefault(split, []).append((label, jpeg))
    return rows


def _decoded(rows: Sequence[tuple[int, bytes]], spec: DataSpec, name: str) -> Images:
    """Return the images of some rows, each averaged over boxes down to the data set's size."""
    side = _JPEG_SIDE // spec.size
    pixels = np.empty((len(rows), 3, spec.size, spec.size), dtype=np.uint8)
    for place, (_, jpeg) in enumerate(rows):
        whole = _decode(jpeg, _JPEG_SIDE, name)
        boxes = whole.reshape(3, spec.size, side, spec.size, side)
        # To the nearest, halves up: integers only, so that every machine has the same images.
        pixels[place] = (2 * boxes.sum(axis=(2, 4), dtype=np.int64) + side**2) // (2 * side**2)
    labels = np.array([label for label, _ in rows], dtype=np.int64)
    return to_images(pixels, labels, spec, name)


def _decode(jpeg: bytes, size: int, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    with Image.open(io.BytesIO(jpeg), formats=["JPEG"]) as image:
        if image.size != (size, size):
            raise MissingDataError(f"{name}: an image of {image.size} pixels instead of {size}")
        pixels: np.ndarray[Any, Any] = np.asarray(image.convert("RGB"))
    return np.moveaxis(pixels, 2, 0)
