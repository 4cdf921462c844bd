"""`load_pickle`: the scan of the opcodes, then an unpickler that knows the allowed names alone."""

from __future__ import annotations

import io
import pickle
from typing import Any, BinaryIO

from rebench.errors import UnsafeFileError
from rebench.safe_pickle.readers import READERS, Reader
from rebench.safe_pickle.scan import Scan

__all__ = ["load_pickle"]


def load_pickle(
    source: bytes | BinaryIO,
    *,
    allow: frozenset[tuple[str, str]],
    max_bytes: int,
    what: str,
    encoding: str = "bytes",
    max_keys: int = 2048,
) -> Any:
    """Return the plain data that a pickle holds.

    Args:
        source: the pickle, or a stream of which at most `max_bytes` are read.
        allow: (module, name) pairs the file may ask for, out of `NUMPY_NAMES`, `ORDERED_DICT`,
            `DROPPED_TENSORS` (a tensor is read as None).
        max_bytes: the most the pickle may weigh, after decompression.
        what: the file's name, for messages.
        encoding: how Python 2's strings are read; ``"bytes"`` leaves them as they are.
        max_keys: the most tuples and integers beyond 64 bits, which may be keys that collide.

    Raises:
        UnsafeFileError: the file asks for anything else, or is larger than it may be.
    """
    unknown = allow - set(READERS)
    if unknown:
        raise ValueError(f"no safe reader for {sorted(unknown)}")
    data = source if isinstance(source, bytes) else source.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnsafeFileError(f"{what}: the pickle is larger than {max_bytes} bytes")
    Scan(data, what, max_keys).run()
    try:
        return _Unpickler(data, allow, encoding).load()
    except Exception as error:
        raise UnsafeFileError(f"{what}: refused or damaged pickle: {error}") from error


class _Unpickler(pickle.Unpickler):
    """The standard unpickler, to which every name is a checked reader or an error."""

    def __init__(self, data: bytes, allow: frozenset[tuple[str, str]], encoding: str) -> None:
        super().__init__(io.BytesIO(data), encoding=encoding)
        self._allow = allow

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allow:
            raise ValueError(f"the file asks for {module}.{name}")
        return Reader(READERS[module, name])
