"""Finished pieces of a long measurement, kept as small files so that a rerun resumes.

A piece is a frame that follows from its settings alone. Its file is named by a hash of them and
appears by an atomic rename, so an interrupted run leaves whole pieces only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pandas as pd

__all__ = ["Pieces", "Setting"]

Setting: TypeAlias = str | int | float | bool | list[str] | list[int] | list[float] | None


class Pieces:
    """A folder of finished pieces, and how far the measurement is; without a folder none is kept.

    Args:
        folder: where pieces are kept.
        on_progress: called with the number of pieces done and expected after each one.
    """

    def __init__(
        self,
        folder: Path | None = None,
        on_progress: Callable[[int, int], None] = lambda done, expected: None,  # noqa: ARG005
    ) -> None:
        self.folder = folder
        self.done = 0
        self.expected = 0
        self._on_progress = on_progress

    def expect(self, count: int) -> None:
        """Announce `count` more pieces."""
        self.expected += count
        self._on_progress(self.done, self.expected)

    def get(
        self, kind: str, settings: Mapping[str, Setting], compute: Callable[[], pd.DataFrame]
    ) -> pd.DataFrame:
        """Return the piece of these settings, computing and keeping it if it is not there."""
        frame = self._read_or_compute(kind, settings, compute)
        self.done += 1
        self._on_progress(self.done, self.expected)
        return frame

    def _read_or_compute(
        self, kind: str, settings: Mapping[str, Setting], compute: Callable[[], pd.DataFrame]
    ) -> pd.DataFrame:
        if self.folder is None:
            return compute()
        text = json.dumps({"kind": kind, **settings}, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        path = self.folder / f"{kind}-{digest}.parquet"
        if path.exists():
            return pd.read_parquet(path)
        frame = compute()
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        frame.to_parquet(temporary)
        temporary.replace(path)
        return frame
