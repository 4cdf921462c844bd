"""Finished pieces of a long measurement, kept as small files so that a rerun resumes.

A piece is a frame that depends only on its settings. Its file is named by a hash of the settings
and is created by an atomic rename, so an interrupted run leaves only complete pieces.
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
    """Folder of finished pieces, with progress; without a folder no piece is kept.

    Args:
        folder: folder of the files.
        on_progress: called after each piece with the numbers of finished and requested pieces.
        workers: processes that compute pieces; they share the processor's threads equally.
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
        """Return the frames of `compute` for each case's arguments and the shared arguments.

        Missing frames are computed and kept.
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
    """Return a piece's frame, from its file if it exists."""
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
    """Return the kind and a hash of the arguments."""
    text = json.dumps({"kind": kind, **arguments}, sort_keys=True, default=_plain)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _plain(value: object) -> object:
    """Return a JSON value that identifies an argument of another type."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        # Images are identified by name, size and number.
        return {
            name: list(field.shape) if isinstance(field, torch.Tensor) else field
            for name, field in fields.items()
        }
    return str(value)
