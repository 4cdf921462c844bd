"""Typed makers of frames: rows of equal keys to columns, frames one below the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

__all__ = ["join_frames", "make_frame"]


def make_frame(columns: Mapping[str, object] | Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """Return a frame of columns by name, or of rows."""
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def join_frames(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all frames, numbered anew."""
    joined: pd.DataFrame = pd.concat(list(frames), ignore_index=True)
    return joined
