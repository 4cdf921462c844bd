"""scikit-learn's handwritten digits as colour images: real data that every machine has."""

from __future__ import annotations

import random
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import numpy as np
import torch

from rebench.data.images import Images, RawData
from rebench.datasets import DataSpec

__all__ = ["read_digits", "read_noisy_digits"]

_FILE: Final = "sklearn/datasets/data/digits.csv.gz"
_SPLIT_SEED = 1021
_NOISE = 80.0  # standard deviation, of 255 grey levels


def read_digits(spec: DataSpec, root: Path) -> RawData:  # noqa: ARG001 - a reader's signature
    """Return 1,437 training and 360 test images, shuffled once and for all.

    The 8 x 8 images have 17 grey levels, spread over 0..255; at 16 x 16 each pixel is doubled.
    """
    return _split(spec, *_levels())


def read_noisy_digits(spec: DataSpec, root: Path) -> RawData:  # noqa: ARG001 - a reader's signature
    """Return 500 training and 1,297 test images under noise drawn once and for all.

    A few seconds of training then tell networks apart that all learn the clean images.
    """
    levels, labels = _levels()
    noise = np.random.default_rng(_SPLIT_SEED).normal(0, _NOISE, levels.shape)
    noisy = np.clip(np.rint(levels + noise), 0, 255).astype(np.uint8)
    return _split(spec, noisy, labels)


def _levels() -> tuple[np.ndarray, np.ndarray]:
    """Return all images, [1797, 1, 8, 8], and their labels.

    The file that `sklearn.datasets.load_digits` reads: every worker would import sklearn for it,
    for seconds.
    """
    table = np.loadtxt(str(distribution("scikit-learn").locate_file(_FILE)), delimiter=",")
    grey, labels = table[:, :-1], table[:, -1].astype(np.int64)
    return np.rint(grey.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8), labels


def _split(spec: DataSpec, levels: np.ndarray, labels: np.ndarray) -> RawData:
    factor = spec.size // 8
    pixels = levels.repeat(3, axis=1).repeat(factor, axis=2).repeat(factor, axis=3)
    order = list(range(len(labels)))
    random.Random(_SPLIT_SEED).shuffle(order)  # noqa: S311 - a fixed split, not a secret
    images = Images(torch.from_numpy(pixels), torch.from_numpy(labels))
    train, test = torch.tensor(order[: spec.train_images]), torch.tensor(order[spec.train_images :])
    return RawData(train=images.select(train), test=images.select(test))
