"""ImageNet16-120: the first 120 classes of ImageNet at 16 x 16 pixels, from its pickled batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from rebench.data.files import read_files
from rebench.data.images import Images, RawData
from rebench.data.pickled import check_official, read_batch, to_images
from rebench.datasets import DataSpec

__all__ = ["read_imagenet16"]

_OFFICIAL_ROWS = 1_281_167 + 50_000


def read_imagenet16(spec: DataSpec, root: Path) -> RawData:
    """Read ``train_data_batch_1..10`` and ``val_data``; classes 1 to 120 become 0 to 119."""
    files = read_files(spec, root)
    rows: dict[str, int] = {}
    parts: dict[str, Images] = {}
    for name in sorted(files, key=lambda name: (len(name), name)):
        pixels, labels = read_batch(files[name], b"labels", name)
        rows[name] = len(pixels)
        chosen = np.flatnonzero((labels >= 1) & (labels <= spec.classes))
        parts[name] = to_images(pixels[chosen], labels[chosen] - 1, spec, name)
    train = [part for name, part in parts.items() if name.startswith("train")]
    return RawData(
        train=Images(
            torch.cat([part.pixels for part in train]), torch.cat([part.labels for part in train])
        ),
        test=parts["val_data"],
        notes=check_official(spec, files, rows, _OFFICIAL_ROWS),
    )
