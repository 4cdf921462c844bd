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
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from rebench.errors import InputError
from rebench.runs import atomic_file

_POLL_S = 0.1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """What a piece is called, and what computes it from which arguments."""

    kind: str
    compute: Callable[..., pd.DataFrame]
    arguments: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The kind and a hash of the arguments."""
        text = json.dumps({"kind": self.kind, **self.arguments}, sort_keys=True, default=_plain)
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


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


class Pieces:
    """A folder of finished pieces, and how far the measurement is; without a folder none is kept.

    Args:
        folder: where pieces are kept.
        on_progress: called with the number of pieces done and asked for so far after each one.
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

    def map(
        self,
        kind: str,
        compute: Callable[..., pd.DataFrame],
        cases: Sequence[Mapping[str, Any]],
        **shared: object,
    ) -> list[pd.DataFrame]:
        """The frames that `compute` makes of each case's arguments and those that all share."""
        return self.get(
            [Piece(kind=kind, compute=compute, arguments={**case, **shared}) for case in cases]
        )

    def get(self, pieces: Sequence[Piece]) -> list[pd.DataFrame]:
        """The frames of pieces; what is missing is computed and kept.

        Pieces that another process is computing are left to it, and looked for again at the end.
        """
        self.expected += len(pieces)
        frames: dict[int, pd.DataFrame] = {}
        while len(frames) < len(pieces):
            before = len(frames)
            for index, piece in enumerate(pieces):
                if index in frames:
                    continue
                frame = self._read_or_compute(piece)
                if frame is not None:
                    frames[index] = frame
                    self.done += 1
                    self._on_progress(self.done, self.expected)
            if len(frames) == before:
                time.sleep(_POLL_S)
        return [frames[index] for index in range(len(pieces))]

    def _read_or_compute(self, piece: Piece) -> pd.DataFrame | None:
        """A piece's frame, or None if another process is computing it."""
        if self.folder is None:
            return piece.compute(**piece.arguments)
        path = self.folder / f"{piece.name}.parquet"
        if path.exists():
            return pd.read_parquet(path)
        with _lock(path.with_suffix(".lock")) as mine:
            if not mine:
                return None
            if path.exists():  # finished by another process since we looked
                return pd.read_parquet(path)
            frame = piece.compute(**piece.arguments)
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


def pieces_of(out: Path) -> Path:
    """Where the pieces of what is measured into `out` are kept."""
    return out / "pieces"


@contextlib.contextmanager
def share_work(
    measure: Callable[[Pieces], object], out: Path | None, workers: int
) -> Iterator[None]:
    """Let `workers` processes of one thread each, this one included, share a measurement.

    Each runs all of it and computes what nobody else does; they share through the folder `out`.
    `measure` is pickled: a function of a module, or a partial of one.
    """
    if workers == 1:
        yield
        return
    if out is None:
        raise InputError(f"{workers} workers share their finished pieces: give --out FOLDER")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    # Spawned, not forked: a display of progress may have a thread.
    context = multiprocessing.get_context("spawn")
    others = [
        context.Process(target=_work, args=(measure, out, os.getpid()), daemon=True)
        for _ in range(workers - 1)
    ]
    for other in others:
        other.start()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        for other in others:
            other.terminate()
            other.join()


def _work(measure: Callable[[Pieces], object], out: Path, parent: int) -> None:
    def stop_if_alone(_done: int, _expected: int) -> None:
        if os.getppid() != parent:  # it was killed: nobody waits for the rest
            raise SystemExit

    torch.set_num_threads(1)
    measure(Pieces(pieces_of(out), stop_if_alone))
