"""A dict of many cells written as one pickle without holding it: the package's files are large."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rebench.nats.template import START, Memo, empty_memo, pickled

__all__ = ["stream_dict"]


def stream_dict(
    write: Callable[[bytes], object],
    start: dict[str, Any],
    name: str,
    items: Callable[[Memo], Iterable[tuple[int, bytes]]],
    shared: Sequence[str],
) -> None:
    """Write the pickle of ``{**start, name: dict(items)}``, one item in memory at a time.

    Args:
        write: takes the bytes.
        start: what comes first.
        name: the key under which the items come.
        items: gives the keys and the pickled values of the large dict, for a memo with `shared`.
        shared: texts that many items use; they are written once, under the key `metric_names`.
    """
    names, memo = pickled(list(shared), empty_memo())

    def pushed(value: Any) -> bytes:
        return pickled(value, memo)[0]

    write(START + b"}" + pushed("metric_names") + names + b"s")
    for key, value in start.items():
        write(pushed(key) + pushed(value) + b"s")
    write(pushed(name) + b"}")
    for number, value in items(memo):
        write(pushed(number) + value + b"s")
    write(b"s" + pickle.STOP)
