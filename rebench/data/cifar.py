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
from rebench.data.images import Images, RawData
from rebench.data.pickled import check_official, read_batch, to_images
from rebench.datasets import DataSpec
from rebench.errors import MissingDataError

__all__ = ["read_cifar", "read_jpegs"]

_JPEG_SIDE = 32


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
        notes=check_official(spec, files, rows),
    )


def read_jpegs(spec: DataSpec, root: Path) -> RawData:
    """Read a Parquet file with the columns ``split`` (train, test), ``label`` and ``jpeg``.

    Of each split the first images are taken, as many as the data set has, and boxes of pixels are
    averaged down to its size.
    """
    import pyarrow.parquet as pq  # slow to import, and needed here alone

    (name, content), *_ = read_files(spec, root).items()
    try:
        table = pq.read_table(io.BytesIO(content), columns=["split", "label", "jpeg"])
    except (OSError, ValueError) as error:
        raise MissingDataError(f"{name} is not the Parquet file of {spec.name}: {error}") from error
    rows: dict[str, Sequence[Any]] = table.to_pydict()
    split = np.array(rows["split"])

    def part(which: str, count: int) -> Images:
        chosen = np.flatnonzero(split == which)[:count]
        pixels = np.array([_decode(rows["jpeg"][place], spec.size, name) for place in chosen])
        return to_images(pixels, np.array(rows["label"])[chosen], spec, name)

    note = "JPEG-coded images: accuracies come out a little below those of the lossless ones"
    return RawData(
        train=part("train", spec.train_images),
        test=part("test", spec.test_images),
        notes=(note,),
    )


def _decode(jpeg: bytes, size: int, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    with Image.open(io.BytesIO(jpeg), formats=["JPEG"]) as image:
        if image.size != (_JPEG_SIDE, _JPEG_SIDE):
            raise MissingDataError(f"{name}: an image of {image.size} pixels, not {_JPEG_SIDE}")
        pixels = np.moveaxis(np.asarray(image.convert("RGB")), 2, 0)
    side = _JPEG_SIDE // size
    boxes = pixels.reshape(3, size, side, size, side).sum(axis=(2, 4), dtype=np.int64)
    # To the nearest, halves up, in integers: every machine has the same images.
    return ((2 * boxes + side**2) // (2 * side**2)).astype(np.uint8)
