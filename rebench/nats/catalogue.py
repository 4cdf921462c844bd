"""Published benchmarks of others: authors, files, and how to get them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rebench.errors import MissingDataError, UnknownNameError
from rebench.extensions import entries
from rebench.nats.wheels import Wheel

__all__ = ["PUBLISHED", "SURFACES", "Published", "fetchable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A benchmark of others: its authors, and a file that a program can fetch, if there is one.

    Attributes:
        url: address of the file.
        largest_bytes: largest size of the file.
        by_hand: instructions for people, if a program cannot fetch the file.
        wheel: the pinned wheel of the package index that contains the benchmark, if there is one.
        is_surface: whether the benchmark has accuracies at many learning rates.
    """

    cite: str
    licence: str
    url: str = ""
    largest_bytes: int = 0
    by_hand: str = ""
    is_surface: bool = False
    wheel: Wheel | None = None

    @property
    def file(self) -> str:
        """Name of the file."""
        return self.url.rpartition("/")[2]


def _published(*, wheel: dict[str, str] | None = None, **entry: Any) -> Published:
    return Published(**entry, wheel=None if wheel is None else Wheel(**wheel))


PUBLISHED: Final = {
    name: _published(**entry) for name, entry in entries(__file__, "catalogue.toml").items()
}
SURFACES: Final = tuple(name for name, known in PUBLISHED.items() if known.is_surface)


def fetchable(name: str) -> Published:
    """Return a published benchmark that a program can fetch; else the error gives instructions."""
    if name not in PUBLISHED:
        raise UnknownNameError("published benchmark", name, PUBLISHED)
    if not PUBLISHED[name].url and PUBLISHED[name].wheel is None:
        raise MissingDataError(f"{name} cannot be fetched by a program: {PUBLISHED[name].by_hand}")
    return PUBLISHED[name]
