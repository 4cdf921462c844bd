"""Published benchmarks of others: authors, and how to get their files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rebench.errors import MissingDataError, UnknownNameError
from rebench.extensions import entries
from rebench.nats.wheels import Wheel

__all__ = ["PUBLISHED", "SURFACES", "Published", "fetchable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A benchmark of others: its authors, and how to get its files.

    Attributes:
        by_hand: instructions for people, if a program cannot fetch the files.
        wheel: the pinned wheel of the package index that contains the benchmark, if there is one.
        url: the public address of a file, with `sha256`, its digest.
        is_surface: whether the benchmark has accuracies at many learning rates.
    """

    cite: str
    licence: str
    by_hand: str = ""
    is_surface: bool = False
    wheel: Wheel | None = None
    url: str = ""
    sha256: str = ""


def _published(*, wheel: dict[str, str] | None = None, **entry: Any) -> Published:
    return Published(**entry, wheel=None if wheel is None else Wheel(**wheel))


PUBLISHED: Final = {
    name: _published(**entry) for name, entry in entries(__file__, "catalogue.toml").items()
}
SURFACES: Final = tuple(name for name, known in PUBLISHED.items() if known.is_surface)


def fetchable(name: str) -> Published:
    """Return a published benchmark that a program can fetch; otherwise, say how to get it."""
    if name not in PUBLISHED:
        raise UnknownNameError("published benchmark", name, PUBLISHED)
    if PUBLISHED[name].wheel is None and not PUBLISHED[name].url:
        raise MissingDataError(f"{name} cannot be fetched by a program: {PUBLISHED[name].by_hand}")
    return PUBLISHED[name]
