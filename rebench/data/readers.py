"""Readers of data sets: pickled batches, JPEGs in Parquet, IDX, and the file of scikit-learn.

`READERS` maps each `format` of a `DataSpec` to its reader, a function of the spec and the data
root.
"""

from __future__ import annotations

import dataclasses
import io
import random
import struct
from collections.abc import Callable, Iterable, Mapping
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
    images = {
        name: _to_images(*_read_batch(content, labels, name), stored, name)
        for name, content in files.items()
    }

    def first(count: int, parts: Iterable[Images]) -> Images:
        whole = _joined(parts)
        pixels = torch.from_numpy(_averaged(whole.pixels[:count].numpy(), spec.size))
        return Images(pixels, whole.labels[:count])

    train = (part for name, part in images.items() if not name.startswith("test"))
    test = (part for name, part in images.items() if name.startswith("test"))
    rows = {name: len(part) for name, part in images.items()}
    official = None if spec.size == _CIFAR_SIDE else _CIFAR_ROWS * len(files)
    return RawData(
        train=first(spec.train_images, train),
        test=first(spec.test_images, test),
        notes=check_official(spec, files, rows, official),
    )


def _read_imagenet16(spec: DataSpec, root: Path) -> RawData:
    """Read ``train_data_batch_1..10`` and ``val_data``; classes 1 to 120 become 0 to 119."""
    files = read_files(spec, root)
    rows: dict[str, int] = {}
    parts: dict[str, Images] = {}
    for name in sorted(files, key=lambda name: (len(name), name)):
        pixels, labels = _read_batch(files[name], b"labels", name)
        rows[name] = len(pixels)
        chosen = np.flatnonzero((labels >= 1) & (labels <= spec.classes))
        parts[name] = _to_images(pixels[chosen], labels[chosen] - 1, spec, name)
    return RawData(
        train=_joined(part for name, part in parts.items() if name.startswith("train")),
        test=parts["val_data"],
        notes=check_official(spec, files, rows, _IMAGENET16_ROWS),
    )


def _read_jpegs(spec: DataSpec, root: Path) -> RawData:
    """Read a Parquet file with the columns ``split`` (train, test), ``label`` and ``jpeg``.

    Each split uses the first images, up to its size in the spec. Boxes of pixels are averaged to
    the spec's resolution.
    """
    import pyarrow.parquet as pq  # slow to import, needed only here

    (name, content), *_ = read_files(spec, root).items()
    try:
        table = pq.read_table(io.BytesIO(content), columns=["split", "label", "jpeg"])
    except (OSError, ValueError) as error:
        raise MissingDataError(f"{name} is not the Parquet file of {spec.name}: {error}") from error
    split, labels = np.array(table["split"].to_pylist()), np.array(table["label"].to_pylist())

    def part(which: str, count: int) -> Images:
        chosen = np.flatnonzero(split == which)[:count]
        jpegs = table["jpeg"].take(chosen).to_pylist()
        pixels = np.array([_decode(jpeg, spec.size, name) for jpeg in jpegs])
        return _to_images(pixels, labels[chosen], spec, name)

    note = "JPEG-coded images: accuracies are slightly lower than with the lossless images"
    return RawData(
        train=part("train", spec.train_images), test=part("test", spec.test_images), notes=(note,)
    )


def _read_idx(spec: DataSpec, root: Path) -> RawData:
    """Read four IDX files of grey images; pad with zeros and repeat to three channels."""
    files = read_files(spec, root)

    def part(which: str) -> Images:
        images_name, labels_name = f"{which}-images-idx3-ubyte", f"{which}-labels-idx1-ubyte"
        grey = _idx(files[images_name], images_name, _IDX_IMAGES, (_IDX_SIDE, _IDX_SIDE))
        labels = _idx(files[labels_name], labels_name, _IDX_LABELS, ())
        if len(grey) != len(labels):
            raise MissingDataError(f"{labels_name}: {len(labels)} labels for {len(grey)} images")
        margin = (spec.size - _IDX_SIDE) // 2
        return Images(F.pad(grey[:, None].expand(-1, 3, -1, -1), (margin,) * 4), labels.long())

    train, test = part("train"), part("t10k")
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
    levels = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    if spec.format == "noisy-digits":
        drawn = np.random.default_rng(_DIGITS_SEED).normal(0, _NOISE, levels.shape)
        levels = np.clip(np.rint(levels + drawn), 0, 255).astype(np.uint8)
    factor = spec.size // 8
    pixels = levels.repeat(3, axis=1).repeat(factor, axis=2).repeat(factor, axis=3)
    images = Images(torch.from_numpy(pixels), torch.from_numpy(table[:, -1].astype(np.int64)))
    order = list(range(len(images)))
    random.Random(_DIGITS_SEED).shuffle(order)  # noqa: S311 - a fixed split, not a secret
    train, test = order[: spec.train_images], order[spec.train_images :]
    return RawData(train=images.select(torch.tensor(train)), test=images.select(torch.tensor(test)))


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
    named = {key.encode() if isinstance(key, str) else key: value for key, value in batch.items()}
    missing = [key.decode() for key in (b"data", labels) if key not in named]
    if missing:
        raise MissingDataError(f"{name}: no {' and no '.join(missing)} in the batch")
    return np.asarray(named[b"data"]), np.asarray(named[labels])


def _to_images(pixels: Array, labels: Array, spec: DataSpec, name: str) -> Images:
    """Return checked tensors of pixels (uint8, 3 * size * size in a row) and labels."""
    wanted = 3 * spec.size**2
    if pixels.dtype != np.uint8 or pixels.ndim < 2 or pixels[:1].size != wanted * len(pixels[:1]):
        raise MissingDataError(
            f"{name}: pixels must be uint8 with {wanted} a row, got {pixels.dtype} {pixels.shape}"
        )
    if labels.shape != (len(pixels),) or labels.dtype.kind not in "iu":
        raise MissingDataError(f"{name}: {len(pixels)} images and labels of shape {labels.shape}")
    shaped = np.ascontiguousarray(pixels).reshape(-1, 3, spec.size, spec.size)
    return Images(torch.from_numpy(shaped.copy()), torch.from_numpy(labels.astype(np.int64)))


def _joined(parts: Iterable[Images]) -> Images:
    pixels, labels = zip(*((part.pixels, part.labels) for part in parts), strict=True)
    return Images(torch.cat(pixels), torch.cat(labels))


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
    told = header.unpack_from(content) if len(content) >= header.size else (0, 0)
    size = int(np.prod(row, dtype=np.int64))
    if told[0] != magic or told[2:] != row or len(content) != header.size + told[1] * size:
        raise MissingDataError(f"{name}: not an IDX file of bytes of shape [n, *{list(row)}]")
    values = np.frombuffer(content, np.uint8, offset=header.size).reshape(told[1], *row)
    return torch.from_numpy(values.copy())
