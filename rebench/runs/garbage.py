"""A pause for Python's search for cycles, where millions of objects are made that have none.

It pays: 10,000 records are collected in .51 s of the processor instead of .75, and 250,000 trials
are planned in 3.0 s instead of 3.5.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["garbage_search_paused"]


@contextlib.contextmanager
def garbage_search_paused() -> Iterator[None]:
    """Hold the garbage collection of cycles off, if it is on; also a decorator."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
