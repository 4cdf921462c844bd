"""More processes for one measurement: each runs all of it, and computes what nobody else does."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import torch

from rebench.errors import InputError
from rebench.theory.pieces import Pieces
from rebench.theory.result import LawResult

__all__ = ["pieces_of", "share_work"]

Settings = TypeVar("Settings")


def pieces_of(out: Path) -> Path:
    """Return where the pieces of what is measured into `out` are kept."""
    return out / "pieces"


@contextlib.contextmanager
def share_work(
    measure: Callable[[Settings, Pieces], LawResult],
    settings: Settings,
    out: Path | None,
    workers: int,
) -> Iterator[None]:
    """Let `workers` processes of one thread each, this one included, share a measurement.

    They share through the folder `out`; `measure` is a function of a module, to be imported.
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
        context.Process(target=_work, args=(measure, settings, out, os.getpid()), daemon=True)
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


def _work(
    measure: Callable[[Settings, Pieces], LawResult], settings: Settings, out: Path, parent: int
) -> None:
    def stop_if_alone(_done: int, _expected: int) -> None:
        if os.getppid() != parent:  # it was killed: nobody waits for the rest
            raise SystemExit

    torch.set_num_threads(1)
    measure(settings, Pieces(pieces_of(out), stop_if_alone))
