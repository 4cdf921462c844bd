"""scikit-learn's handwritten digits as colour images: real data that every machine has."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch

from rebench.data.images import Images, RawData
from rebench.datasets import DataSpec

__all__ = ["read_digits"]

_SPLIT_SEED = 1021


def read_digits(spec: DataSpec, root: Path) -> RawData:  # noqa: ARG001 - a reader's signature
    """Return 1,437 training and 360 test images, shuffled once and for all.

    The 8 x 8 images have 17 grey levels, spread over 0..255; at 16 x 16 each pixel is doubled.
    """
    from sklearn.datasets import load_digits  # seconds to import, and needed here alone

    grey, labels = load_digits(return_X_y=True)
    levels = np.rint(grey.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    factor = spec.size // 8
    pixels = levels.repeat(3, axis=1).repeat(factor, axis=2).repeat(factor, axis=3)
    order = list(range(len(labels)))
    random.Random(_SPLIT_SEED).shuffle(order)  # noqa: S311 - a fixed split, not a secret
    images = Images(torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64)))
    train, test = torch.tensor(order[: spec.train_images]), torch.tensor(order[spec.train_images :])
    return RawData(train=images.select(train), test=images.select(test))
