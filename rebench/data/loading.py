"""Data sets by name and split: images for training and images for evaluation.

========  ==================  =================================================================
split     training            evaluation
========  ==================  =================================================================
full      all training        ori-test: the whole test set
valid     half of training    x-valid: the other half; ori-test
halved    all training        x-valid and x-test: the test set's halves by file; ori-test
========  ==================  =================================================================

The split `valid` of CIFAR-10 has the benchmark's name `cifar10-valid`. Its halves are drawn with
seed 1021, as in the benchmark's file. The benchmark evaluates CIFAR-100 and ImageNet16-120 with
`halved`. These halves exist only as files, in the folder `splits` of the data root.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from rebench.data.files import data_root
from rebench.data.images import Images, RawData
from rebench.data.readers import READERS
from rebench.data.spec import DataSpec, data_spec
from rebench.errors import MissingDataError, UnknownNameError

__all__ = ["TrainingData", "derived_halves", "load_data", "read_raw", "split_data"]

_SEED = 1021


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingData:
    """Data set after the split, as a trial uses it."""

    spec: DataSpec
    split: str
    train: Images
    evaluation: Mapping[str, Images]
    digest: str
    notes: tuple[str, ...] = ()


def read_raw(name: str, root: Path | str | None = None) -> RawData:
    """Read the data set `name` below `root` (see `data_root`)."""
    spec = data_spec(name)
    reader = spec.reader or READERS.get(spec.format)
    if reader is None:
        raise UnknownNameError(f"format of {name}", spec.format, READERS)
    raw = reader(spec, data_root(root))
    for part, images in (("training", raw.train), ("test", raw.test)):
        _check(spec, part, images.pixels, images.labels)
    return raw


def load_data(name: str, split: str = "full", *, root: Path | str | None = None) -> TrainingData:
    """Read a data set and split it into images for training and for evaluation.

    Args:
        name: name of a data set, one of `data_specs`.
        split: ``full`` (all training images), or another of the `splits` of its `data_spec`.
        root: folder of data sets; by default `REBENCH_DATA` or ``~/.local/share/rebench``.

    Raises:
        MissingDataError: files are missing or damaged; the message says how to get them.
    """
    return split_data(data_spec(name), read_raw(name, root), split, data_root(root))


def derived_halves(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sorted halves of `range(n)`, drawn as the benchmark's halves of CIFAR-10."""
    order = list(range(n))
    random.Random(_SEED).shuffle(order)  # noqa: S311 - a fixed split, not a secret
    kept = sorted(order[: n // 2])
    held_out = sorted(order[n // 2 :])
    return torch.tensor(kept), torch.tensor(held_out)


def split_data(spec: DataSpec, raw: RawData, split: str, root: Path) -> TrainingData:
    """Split a data set; `root` is the data root with the benchmark's split files."""
    if split not in spec.splits:
        raise UnknownNameError(f"split of {spec.name}", split, spec.splits)
    train = raw.train
    evaluation = {"ori-test": raw.test}
    if split == spec.valid_split:
        kept, held_out = derived_halves(len(raw.train))
        train = raw.train.select(kept)
        evaluation = {"x-valid": raw.train.select(held_out)} | evaluation
    elif spec.test_halves is not None and split == "halved":
        halves = _read_halves(root / "splits" / spec.test_halves, len(raw.test))
        evaluation = {name: raw.test.select(half) for name, half in halves.items()} | evaluation
    digests = "".join(part.digest() for part in (train, *evaluation.values()))
    return TrainingData(
        spec=spec,
        split=split,
        train=train,
        evaluation=evaluation,
        digest=hashlib.sha256(digests.encode()).hexdigest()[:16],
        notes=raw.notes,
    )


def _read_halves(path: Path, n: int) -> dict[str, torch.Tensor]:
    """Read ``{"xvalid": ["int", ["1", ...]], "xtest": [...]}``; together they must be 0..n-1."""
    if not path.is_file():
        raise MissingDataError(
            f"{path} is missing; copy the benchmark's split file of this name from the folder "
            "configs/nas-benchmark of https://github.com/D-X-Y/AutoDL-Projects"
        )
    try:
        content = json.loads(path.read_text())
        halves = {}
        for name in ("xvalid", "xtest"):
            indices = [int(value) for value in content[name][1]]
            halves[f"x-{name[1:]}"] = torch.tensor(indices)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise MissingDataError(f"{path} is not a split file of the benchmark: {error}") from error
    both = torch.cat(list(halves.values()))
    if not torch.equal(both.sort().values, torch.arange(n)):
        raise MissingDataError(f"{path} must contain each of {n} images in exactly one half")
    return halves


def _check(spec: DataSpec, part: str, pixels: torch.Tensor, labels: torch.Tensor) -> None:
    shape = (len(labels), 3, spec.size, spec.size)
    if pixels.dtype != torch.uint8 or tuple(pixels.shape) != shape or not len(labels):
        raise MissingDataError(
            f"{spec.name}: its reader must return {part} images as uint8 of shape "
            f"{list(shape)}, got {pixels.dtype} {list(pixels.shape)}"
        )
    if (
        labels.dtype != torch.int64
        or not 0 <= int(labels.min()) <= int(labels.max()) < spec.classes
    ):
        raise MissingDataError(
            f"{spec.name}: its reader must return {part} labels as int64 in "
            f"0..{spec.classes - 1}, got {labels.dtype} in {labels.min()}..{labels.max()}"
        )
