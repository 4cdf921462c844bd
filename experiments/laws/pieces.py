"""Finished pieces of a long measurement, kept as small files so that a rerun resumes.

A piece is a frame that follows from its settings alone. Its file is named by a hash of them and
appears by an atomic rename, so an interrupted run leaves whole pieces only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch

from rebench.runs import atomic_file


class Pieces:
    """A folder of finished pieces, and how far the measurement is; without a folder none is kept.

    Args:
        folder: where pieces are kept.
        on_progress: called with the number of pieces done and asked for so far after each one.
        workers: processes that compute pieces; each has its share of the processor's threads.
    """

    def __init__(
        self,
        folder: Path | None = None,
        on_progress: Callable[[int, int], None] = lambda done, expected: None,  # noqa: ARG005
        workers: int = 1,
    ) -> None:
        self.folder = folder
        self.done = 0
        self.expected = 0
        self._on_progress = on_progress
        self._pool = joblib.Parallel(workers, return_as="generator")

    def map(
        self,
        kind: str,
        compute: Callable[..., pd.DataFrame],
        cases: Sequence[Mapping[str, Any]],
        **shared: object,
    ) -> list[pd.DataFrame]:
        """The frames that `compute` makes of each case's arguments and those that all share.

        What is missing is computed and kept.
        """
        self.expected += len(cases)
        frames = []
        asked = (
            joblib.delayed(_piece)(self.folder, kind, compute, {**case, **shared}) for case in cases
        )
        for frame in self._pool(asked):
            frames.append(frame)
            self.done += 1
            self._on_progress(self.done, self.expected)
        return frames


def _piece(
    folder: Path | None,
    kind: str,
    compute: Callable[..., pd.DataFrame],
    arguments: Mapping[str, Any],
) -> pd.DataFrame:
    """A piece's frame, read where it is kept."""
    if folder is None:
        return compute(**arguments)
    path = folder / f"{piece_name(kind, arguments)}.parquet"
    if path.exists():
        return pd.read_parquet(path)
    frame = compute(**arguments)
    with atomic_file(path) as temporary:
        frame.to_parquet(temporary)
    return frame


def piece_name(kind: str, arguments: Mapping[str, Any]) -> str:
    """The kind and a hash of the arguments."""
    text = json.dumps({"kind": kind, **arguments}, sort_keys=True, default=_plain)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _plain(value: object) -> object:
    """What names an argument that JSON has no type for."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        # Of images what they are called, how large and how many.
        return {
            name: list(field.shape) if isinstance(field, torch.Tensor) else field
            for name, field in fields.items()
        }
    return str(value)
