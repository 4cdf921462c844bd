"""Fashion-MNIST from its IDX files, padded with zeros to 32 x 32 and repeated to three channels."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from rebench.data.files import read_files
from rebench.data.images import Images, RawData
from rebench.data.pickled import check_official
from rebench.datasets import DataSpec
from rebench.errors import MissingDataError

__all__ = ["read_fashion"]

_SIDE = 28
_IMAGES_MAGIC, _LABELS_MAGIC = 0x803, 0x801


def read_fashion(spec: DataSpec, root: Path) -> RawData:
    """Read the four IDX files, plain or gzipped."""
    files = read_files(spec, root)
    train, test = _part(files, "train", spec), _part(files, "t10k", spec)
    rows = {"train": len(train), "t10k": len(test)}
    return RawData(train=train, test=test, notes=check_official(spec, files, rows))


def _part(files: dict[str, bytes], part: str, spec: DataSpec) -> Images:
    images_name, labels_name = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
    grey = _idx(files[images_name], images_name, _IMAGES_MAGIC, (_SIDE, _SIDE))
    labels = _idx(files[labels_name], labels_name, _LABELS_MAGIC, ())
    if len(grey) != len(labels) or bool((labels >= spec.classes).any()):
        raise MissingDataError(f"{labels_name}: {len(labels)} labels for {len(grey)} images")
    margin = (spec.size - _SIDE) // 2
    pixels = F.pad(grey[:, None].expand(-1, 3, -1, -1), (margin,) * 4)
    return Images(pixels, labels.long())


def _idx(content: bytes, name: str, magic: int, row: tuple[int, ...]) -> torch.Tensor:
    header = struct.Struct(f">{2 + len(row)}I")
    found = header.unpack_from(content) if len(content) >= header.size else (0, 0)
    count = found[1]
    if found[0] != magic or found[2:] != row or len(content) != header.size + count * _area(row):
        raise MissingDataError(f"{name}: not an IDX file of bytes of shape [n, *{list(row)}]")
    values = np.frombuffer(content, np.uint8, offset=header.size).reshape(count, *row)
    return torch.from_numpy(values.copy())


def _area(row: tuple[int, ...]) -> int:
    return int(np.prod(row, dtype=np.int64))
