"""Readers of data sets: pickled batches, JPEGs in Parquet, IDX, and the file of scikit-learn.

`READERS` maps each `format` of a `DataSpec` to its reader, a function of the spec and the data
root.
"""

from __future__ import annotations

import dataclasses
import io
import math
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from PIL import Image

from rebench.data.files import MAX_FILE_BYTES, md5, read_files
from rebench.data.images import Images, RawData
from rebench.data.safe_pickle import load_pickle
from rebench.data.spec import DataSpec
from rebench.errors import MissingDataError

__all__ = ["READERS", "check_official"]

Array = np.ndarray[Any, Any]

_CIFAR_SIDE: Final = 32
_CIFAR_ROWS: Final = 10_000  # rows in each official batch of CIFAR-10
_IMAGENET16_ROWS: Final = 1_281_167 + 50_000
_IDX_SIDE: Final = 28
_IDX_IMAGES, _IDX_LABELS = 0x803, 0x801
_DIGITS_FILE: Final = "sklearn/datasets/data/digits.csv.gz"
_DIGITS_SEED = 1021
_NOISE = 80.0  # standard deviation, of 255 grey levels


def _read_cifar(spec: DataSpec, root: Path) -> RawData:
    """Read the pickled batches; file names with the prefix ``test`` are the test set.

    Each part uses the first images, up to its size in the spec, averaged to the spec's resolution.
    """
    files = read_files(spec, root)
    labels = b"fine_labels" if spec.classes == 100 else b"labels"
    stored = dataclasses.replace(spec, size=_CIFAR_SIDE)
    rows: dict[str, int] = {}
    train: list[Images] = []
    test: list[Images] = []
    for name, content in files.items():
        images = _to_images(*_read_batch(content, labels, name), stored, name)
        rows[name] = len(images)
        part = test if name.startswith("test") else train
        part.append(images)
    official = None if spec.size == _CIFAR_SIDE else _CIFAR_ROWS * len(files)
    return RawData(
        train=_first(train, spec.train_images, spec.size),
        test=_first(test, spec.test_images, spec.size),
        notes=check_official(spec, files, rows, official),
    )


def _first(parts: Sequence[Images], count: int, size: int) -> Images:
    whole = _joined(parts)
    pixels = _averaged(whole.pixels[:count].numpy(), size)
    return Images(torch.from_numpy(pixels), whole.labels[:count])


def _read_imagenet16(spec: DataSpec, root: Path) -> RawData:
    """Read ``train_data_batch_1..10`` and ``val_data``; classes 1 to 120 become 0 to 119."""
    files = read_files(spec, root)
    rows: dict[str, int] = {}
    train: list[Images] = []
    test: list[Images] = []
    for name in sorted(files, key=lambda name: (len(name), name)):
        pixels, labels = _read_batch(files[name], b"labels", name)
        rows[name] = len(pixels)
        chosen = np.flatnonzero((labels >= 1) & (labels <= spec.classes))
        images = _to_images(pixels[chosen], labels[chosen] - 1, spec, name)
        part = train if name.startswith("train") else test
        part.append(images)
    return RawData(
        train=_joined(train),
        test=_joined(test),
        notes=check_official(spec, files, rows, _IMAGENET16_ROWS),
    )


def _read_jpegs(spec: DataSpec, root: Path) -> RawData:
    """Read a Parquet file with the columns ``split`` (train, test), ``label`` and ``jpeg``.

    Each split uses the first images, up to its size in the spec. Boxes of pixels are averaged to
    the spec's resolution.
    """
    import pyarrow.parquet as pq  # slow to import, needed only here

    name, content = next(iter(read_files(spec, root).items()))
    try:
        table = pq.read_table(io.BytesIO(content), columns=["split", "label", "jpeg"])
    except (OSError, ValueError) as error:
        raise MissingDataError(f"{name} is not the Parquet file of {spec.name}: {error}") from error
    split = np.array(table["split"].to_pylist())
    labels = np.array(table["label"].to_pylist())

    def part(which: str, count: int) -> Images:
        chosen = np.flatnonzero(split == which)[:count]
        jpegs = table["jpeg"].take(chosen).to_pylist()
        pixels = np.array([_decode(jpeg, spec.size, name) for jpeg in jpegs])
        return _to_images(pixels, labels[chosen], spec, name)

    note = "JPEG-coded images: accuracies are slightly lower than with the lossless images"
    train = part("train", spec.train_images)
    test = part("test", spec.test_images)
    return RawData(train=train, test=test, notes=(note,))


def _read_idx(spec: DataSpec, root: Path) -> RawData:
    """Read four IDX files of grey images; pad with zeros and repeat to three channels."""
    files = read_files(spec, root)

    def part(which: str) -> Images:
        images_name = f"{which}-images-idx3-ubyte"
        labels_name = f"{which}-labels-idx1-ubyte"
        grey = _idx(files[images_name], images_name, _IDX_IMAGES, (_IDX_SIDE, _IDX_SIDE))
        labels = _idx(files[labels_name], labels_name, _IDX_LABELS, ())
        if len(grey) != len(labels):
            raise MissingDataError(f"{labels_name}: {len(labels)} labels for {len(grey)} images")
        margin = (spec.size - _IDX_SIDE) // 2
        pixels = grey[:, None].expand(-1, 3, -1, -1)
        return Images(F.pad(pixels, [margin] * 4), labels.long())

    train = part("train")
    test = part("t10k")
    rows = {"train": len(train), "t10k": len(test)}
    return RawData(train=train, test=test, notes=check_official(spec, files, rows))


def _read_digits(spec: DataSpec, root: Path) -> RawData:  # noqa: ARG001 - a reader's signature
    """Read the digits of scikit-learn in a fixed random order; the first images are for training.

    The 8 x 8 images have 17 grey levels, scaled to 0..255; at 16 x 16, each pixel is doubled. The
    file is that of `sklearn.datasets.load_digits`, read directly because an import of sklearn takes
    seconds in every worker. `noisy-digits` adds fixed noise: all networks learn the clean images,
    but differ on noisy images after a few seconds of training.
    """
    file = distribution("scikit-learn").locate_file(_DIGITS_FILE)
    table = np.loadtxt(str(file), delimiter=",")
    labels = table[:, -1].astype(np.int64)
    levels = np.rint(table[:, :-1] * (255 / 16)).reshape(-1, 1, 8, 8)
    if spec.format == "noisy-digits":
        drawn = np.random.default_rng(_DIGITS_SEED).normal(0, _NOISE, levels.shape)
        levels = np.rint(levels + drawn).clip(0, 255)
    factor = spec.size // 8
    pixels = np.kron(levels, np.ones((1, 3, factor, factor))).astype(np.uint8)
    order = list(range(len(labels)))
    random.Random(_DIGITS_SEED).shuffle(order)  # noqa: S311 - a fixed split, not a secret
    images = Images(torch.from_numpy(pixels[order]), torch.from_numpy(labels[order]))
    first = torch.arange(spec.train_images)
    rest = torch.arange(spec.train_images, len(images))
    return RawData(train=images.select(first), test=images.select(rest))


READERS: Final[Mapping[str, Callable[[DataSpec, Path], RawData]]] = MappingProxyType(
    {
        "cifar": _read_cifar,
        "digits": _read_digits,
        "idx": _read_idx,
        "imagenet16": _read_imagenet16,
        "jpeg": _read_jpegs,
        "noisy-digits": _read_digits,
    }
)


def check_official(
    spec: DataSpec,
    files: Mapping[str, bytes],
    rows: Mapping[str, int],
    official_rows: int | None = None,
) -> tuple[str, ...]:
    """Return notes about files that are not official; refuse damaged official files.

    The official files have `official_rows` images, by default the images of the data set.
    """
    altered = [name for name, content in files.items() if md5(content) != spec.files[name]]
    if not altered:
        return ()
    if sum(rows.values()) == (official_rows or spec.train_images + spec.test_images):
        raise MissingDataError(
            f"{spec.name}: {', '.join(altered)} has the official number of rows but another "
            f"MD5: damaged or altered. To get it: {spec.get}"
        )
    counts = " and ".join(f"{count:,}" for count in sorted(set(rows.values())))
    return (f"not the official archive: {counts} rows per batch",)


def _read_batch(content: bytes, labels: bytes, name: str) -> tuple[Array, Array]:
    """Return the pixels and labels of one pickled batch."""
    batch = load_pickle(content, max_bytes=MAX_FILE_BYTES, what=name)
    if not isinstance(batch, dict):
        raise MissingDataError(f"{name}: a batch must be a dict, got a {type(batch).__name__}")
    found = []
    missing = []
    for key in (b"data", labels):
        value = batch.get(key, batch.get(key.decode()))
        found.append(np.asarray(value))
        if value is None:
            missing.append(key.decode())
    if missing:
        raise MissingDataError(f"{name}: no {' and no '.join(missing)} in the batch")
    return found[0], found[1]


def _to_images(pixels: Array, labels: Array, spec: DataSpec, name: str) -> Images:
    """Return checked tensors of pixels (uint8, 3 * size * size in a row) and labels."""
    wanted = 3 * spec.size**2
    if pixels.dtype != np.uint8 or pixels.ndim < 2 or math.prod(pixels.shape[1:]) != wanted:
        raise MissingDataError(
            f"{name}: pixels must be uint8 with {wanted} a row, got {pixels.dtype} {pixels.shape}"
        )
    if labels.shape != (len(pixels),) or labels.dtype.kind not in "iu":
        raise MissingDataError(f"{name}: {len(pixels)} images and labels of shape {labels.shape}")
    shaped = pixels.reshape(-1, 3, spec.size, spec.size).copy()
    return Images(torch.from_numpy(shaped), torch.from_numpy(labels.astype(np.int64)))


def _joined(parts: Sequence[Images]) -> Images:
    pixels = torch.cat([part.pixels for part in parts])
    return Images(pixels, torch.cat([part.labels for part in parts]))


def _decode(jpeg: bytes, size: int, name: str) -> Array:
    with Image.open(io.BytesIO(jpeg), formats=["JPEG"]) as image:
        if image.size != (_CIFAR_SIDE, _CIFAR_SIDE):
            raise MissingDataError(f"{name}: an image of {image.size} pixels, not {_CIFAR_SIDE}")
        pixels = np.moveaxis(np.asarray(image.convert("RGB")), 2, 0)
    return _averaged(pixels, size)


def _averaged(pixels: Array, size: int) -> Array:
    """Return square images [..., side, side] as means of boxes of pixels."""
    side = pixels.shape[-1] // size
    if side == 1:
        return pixels
    boxes = pixels.reshape(*pixels.shape[:-2], size, side, size, side)
    boxes = boxes.sum(axis=(-3, -1), dtype=np.int64)
    # Rounded to the nearest integer, halves up, in integers: images are equal on every machine.
    return ((2 * boxes + side**2) // (2 * side**2)).astype(np.uint8)


def _idx(content: bytes, name: str, magic: int, row: tuple[int, ...]) -> torch.Tensor:
    header = struct.Struct(f">{2 + len(row)}I")
    told, count, *shape = header.unpack(content[: header.size].ljust(header.size, b"\0"))
    size = header.size + count * math.prod(row)
    if told != magic or shape != list(row) or len(content) != size:
        raise MissingDataError(f"{name}: not an IDX file of bytes of shape [n, *{list(row)}]")
    values = np.frombuffer(content, np.uint8, offset=header.size).copy()
    return torch.from_numpy(values.reshape(count, *row))
