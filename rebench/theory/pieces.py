"""Finished pieces of a long measurement, kept as small files so that a rerun resumes.

A piece is a frame that follows from its settings alone. Its file is named by a hash of them and
appears by an atomic rename, so an interrupted run leaves whole pieces only. Processes that share
a folder share the work: each computes pieces that nobody else is computing, and waits for the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from rebench.store import atomic_file

__all__ = ["Piece", "Pieces", "Setting"]

Setting: TypeAlias = str | int | float | bool | list[str] | list[int] | list[float] | None

_POLL_S = 0.1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """What a piece is called, what it follows from, and how to compute it."""

    kind: str
    settings: Mapping[str, Setting]
    compute: Callable[[], pd.DataFrame]

    @property
    def name(self) -> str:
        """The kind and a hash of the settings."""
        text = json.dumps({"kind": self.kind, **self.settings}, sort_keys=True)
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


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
        """Announce `count` more pieces; those that `get` is then asked for are counted so."""
        self.expected += count
        self._on_progress(self.done, self.expected)

    def get(self, pieces: Sequence[Piece]) -> list[pd.DataFrame]:
        """Return the frames of pieces, announced before; what is missing is computed and kept.

        Pieces that another process is computing are left to it, and looked for again at the end.
        """
        found: dict[int, pd.DataFrame] = {}
        while len(found) < len(pieces):
            before = len(found)
            for index, piece in enumerate(pieces):
                if index in found:
                    continue
                frame = self._read_or_compute(piece)
                if frame is not None:
                    found[index] = frame
                    self.done += 1
                    self._on_progress(self.done, self.expected)
            if len(found) == before:
                time.sleep(_POLL_S)
        return [found[index] for index in range(len(pieces))]

    def _read_or_compute(self, piece: Piece) -> pd.DataFrame | None:
        """Return a piece's frame, or None if another process is computing it."""
        if self.folder is None:
            return piece.compute()
        path = self.folder / f"{piece.name}.parquet"
        if path.exists():
            return pd.read_parquet(path)
        with _lock(path.with_suffix(".lock")) as mine:
            if not mine:
                return None
            if path.exists():  # finished by another process since we looked
                return pd.read_parquet(path)
            frame = piece.compute()
            with atomic_file(path) as temporary:
                frame.to_parquet(temporary)
        return frame


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold a lock that ends with this process; yield whether it was free."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            # Whoever opened it before has a lock that nobody sees, and finds the piece.
            path.unlink(missing_ok=True)
