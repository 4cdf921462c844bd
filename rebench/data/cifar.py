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
    """Read a Parquet file with the columns ``split`` (train, test), ``label`` and ``jpeg``."""
    import pyarrow.parquet as pq  # slow to import, and needed here alone

    (name, content), *_ = read_files(spec, root).items()
    try:
        table = pq.read_table(io.BytesIO(content), columns=["split", "label", "jpeg"])
    except (OSError, ValueError) as error:
        raise MissingDataError(f"{name} is not the Parquet file of {spec.name}: {error}") from error
    rows: dict[str, Sequence[Any]] = table.to_pydict()
    split = np.array(rows["split"])
    pixels = np.stack([_decode(jpeg, spec.size, name) for jpeg in rows["jpeg"]])
    labels = np.array(rows["label"])

    def part(which: str) -> Images:
        chosen = split == which
        return to_images(pixels[chosen], labels[chosen], spec, name)

    note = "JPEG-coded images: accuracies come out a little below those of the lossless ones"
    return RawData(train=part("train"), test=part("test"), notes=(note,))


def _decode(jpeg: bytes, size: int, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    with Image.open(io.BytesIO(jpeg), formats=["JPEG"]) as image:
        if image.size != (size, size):
            raise MissingDataError(f"{name}: an image of {image.size} pixels instead of {size}")
        pixels: np.ndarray[Any, Any] = np.asarray(image.convert("RGB"))
    return np.moveaxis(pixels, 2, 0)
