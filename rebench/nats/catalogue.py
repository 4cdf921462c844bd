"""What is read of others: who published it, its files, and how they are had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rebench.errors import MissingDataError, UnknownNameError
from rebench.extensions import entries
from rebench.nats.wheels import Wheel

__all__ = ["PUBLISHED", "SURFACES", "Published", "fetchable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A benchmark of others: who published it, and a file that a program can fetch, if any.

    Attributes:
        url: where the file is.
        largest_bytes: what it can weigh at most.
        by_hand: what to do where there is no such file.
        wheel: the pinned wheel of the package index that holds it, if one does.
        is_surface: whether it holds accuracies at many learning rates.
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
        """What the file is called."""
        return self.url.rpartition("/")[2]


def _published(*, wheel: dict[str, str] | None = None, **entry: Any) -> Published:
    return Published(**entry, wheel=None if wheel is None else Wheel(**wheel))


PUBLISHED: Final = {
    name: _published(**entry) for name, entry in entries(__file__, "catalogue.toml").items()
}
SURFACES: Final = tuple(name for name, known in PUBLISHED.items() if known.is_surface)


def fetchable(name: str) -> Published:
    """A published benchmark that a program can fetch; of another the error says how people do."""
    if name not in PUBLISHED:
        raise UnknownNameError("published benchmark", name, PUBLISHED)
    if not PUBLISHED[name].url and PUBLISHED[name].wheel is None:
        raise MissingDataError(f"{name} cannot be fetched by a program: {PUBLISHED[name].by_hand}")
    return PUBLISHED[name]
