"""What is read of others: who published it, its files, and how they are had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rebench.extensions import entries

__all__ = ["ARCHIVE", "FILES", "PUBLISHED", "SURFACES", "Download", "Published"]

ARCHIVE: Final = "metric_data.tar"
FILES: Final = ("cellinfo.pkl", "bench12.pkl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One file that is published: `sha256` only where its publisher says it."""

    name: str
    url: str
    largest_bytes: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A benchmark of others: who published it, and a file that a program can fetch, if any.

    Attributes:
        by_hand: what to do where there is none.
        is_surface: whether it holds accuracies at many learning rates.
    """

    cite: str
    licence: str
    file: Download | None = None
    by_hand: str = ""
    is_surface: bool = False


def _of(entry: dict[str, Any]) -> Published:
    file = entry.pop("file", None)
    return Published(**entry, file=file and Download(**file))


PUBLISHED: Final = {name: _of(entry) for name, entry in entries(__file__, "catalogue.toml").items()}
SURFACES: Final = tuple(name for name, known in PUBLISHED.items() if known.is_surface)
