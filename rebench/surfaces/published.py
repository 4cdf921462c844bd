"""How files that others have published are had."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from rebench.errors import MissingDataError, UnknownNameError
from rebench.surfaces.catalogue import PUBLISHED, Published
from rebench.surfaces.download import Downloaded, download

__all__ = ["fetch", "published"]


def published(name: str) -> Published:
    """Return what is known of the benchmark `name`."""
    if name not in PUBLISHED:
        raise UnknownNameError("published benchmark", name, PUBLISHED)
    return PUBLISHED[name]


def fetch(
    name: str,
    folder: Path,
    *,
    url: str | None = None,
    on_progress: Callable[[int, int | None], None] = lambda _done, _total: None,
    pause_s: float = 2.0,
) -> Downloaded:
    """Fetch the file of a published benchmark into `folder`.

    Args:
        name: one of `PUBLISHED`.
        folder: where to.
        url: another address of the same file, such as a mirror.
        on_progress: see `download`.
        pause_s: see `download`.

    Raises:
        MissingDataError: no program can fetch it; the message says how people do.
    """
    found = published(name)
    if found.file is None:
        raise MissingDataError(f"{name} cannot be fetched by a program: {found.by_hand}")
    file = dataclasses.replace(found.file, url=url) if url else found.file
    return download(file, folder, on_progress=on_progress, pause_s=pause_s)
