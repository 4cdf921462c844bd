"""What stands for each name that a pickle may ask for: checked readers of numbers and text.

Nothing of numpy that a file names is called: `numpy.dtype` and `_reconstruct` accept forged states
that read foreign memory.
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

__all__ = [
    "DROPPED_TENSORS",
    "NUMPY_NAMES",
    "ORDERED_DICT",
    "READERS",
    "DType",
    "Reader",
    "check_size",
    "shown",
]

ORDERED_DICT: Final = frozenset({("collections", "OrderedDict")})
NUMPY_NAMES: Final = frozenset(
    {("numpy", "dtype"), ("numpy", "ndarray"), ("_codecs", "encode"), ("__builtin__", "bytes")}
    | {
        (f"numpy.{core}.{module}", name)
        for core in ("core", "_core")
        for module, name in (
            ("multiarray", "_reconstruct"),
            ("multiarray", "scalar"),
            ("numeric", "_frombuffer"),
        )
    }
)

# Torch's tensors are pickles within pickles: where they are allowed they are passed over, unread.
DROPPED_TENSORS: Final = frozenset(
    {
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_parameter"),
        ("torch.storage", "_load_from_bytes"),
    }
)

_SHOWN: Final = 60
_MOST_DIMENSIONS: Final = 32


def shown(value: object) -> str:
    """Return a value of a file for a message: short, and of containers their kind alone."""
    if isinstance(value, str | bytes):
        return repr(value[:_SHOWN]) + ("..." if len(value) > _SHOWN else "")
    if value is None or isinstance(value, int | float):
        return str(value)
    return f"a {type(value).__name__}"


class Reader:
    """A callable that a pickle can call and not change."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        """Call the checked reader."""
        return self._function(*arguments)

    def __setstate__(self, state: object) -> None:
        raise ValueError("the file tries to change a function")


class DType:
    """A dtype of numbers or text; byte order and text length arrive with the state."""

    __slots__ = ("value",)
    value: np.dtype[Any]

    def __init__(self, spec: object, *_: object) -> None:
        text = spec.decode("ascii") if isinstance(spec, bytes) else spec
        if not isinstance(text, str) or not re.fullmatch(r"[<>|=]?(b1|[iufcSU][1-9]\d{0,3})", text):
            raise ValueError(f"an array of dtype {shown(spec)}; only numbers and text are read")
        self.value = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise ValueError("a structured or forged dtype; only numbers and text are read")
        if order in ("<", ">"):
            self.value = np.dtype(order + self.value.str[1:])


class _Array(np.ndarray[Any, Any]):
    """An array whose state is checked against its own size before numpy sees it."""

    def __setstate__(self, state: Any) -> None:
        if len(state) != 5:
            raise ValueError("an array whose state has not five parts")
        _, shape, dtype, fortran, raw = state
        check_size(shape, dtype, raw)
        checked: Any = (1, shape, dtype.value, bool(fortran), bytes(raw))
        super().__setstate__(checked)


def check_size(shape: Any, dtype: Any, raw: Any) -> None:
    """Refuse an array whose shape and dtype do not make up exactly its bytes."""
    if not isinstance(dtype, DType) or not isinstance(raw, bytes | bytearray | memoryview):
        raise ValueError("an array of objects; only numbers and text are read")
    sizes_valid = (
        isinstance(shape, tuple)
        and len(shape) <= _MOST_DIMENSIONS
        and all(type(n) is int and 0 <= n < 2**63 for n in shape)
    )
    if not sizes_valid or math.prod(shape) * dtype.value.itemsize != len(raw):
        raise ValueError(f"an array whose shape does not hold its {len(raw)} bytes")


def _reconstruct(_: object, shape: object, __: object) -> _Array:
    if shape != (0,):
        raise ValueError("an array that starts with another shape than (0,)")
    return np.empty(0, "u1").view(_Array)


def _from_buffer(raw: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    check_size(shape, dtype, raw)
    return np.ndarray(shape, dtype.value, bytes(raw), order="F" if order == "F" else "C")


def _scalar(dtype: Any, raw: Any) -> Any:
    # Protocol 2 as Python 3 writes it holds bytes as text; `_encode` has made them bytes again.
    check_size((), dtype, raw)
    if dtype.value.itemsize > 8 and dtype.value.kind not in "SU":
        raise ValueError(f"a scalar of dtype {dtype.value}; only those of up to 8 bytes are read")
    return np.frombuffer(bytes(raw), dtype.value)[0]


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError(f"text encoded as {shown(encoding)}; only latin1 is read")
    return text.encode("latin1")


def _no_bytes(*arguments: object) -> bytes:
    if arguments:
        raise ValueError("bytes() with arguments")
    return b""


def _drop(*_: object) -> None:
    return None


READERS: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    **dict.fromkeys(DROPPED_TENSORS, _drop),
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("numpy", "dtype"): DType,
    ("numpy", "ndarray"): _reconstruct,  # named as an argument, never called
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,  # how protocol 2 writes empty bytes
}
for _core in ("core", "_core"):
    READERS[f"numpy.{_core}.multiarray", "_reconstruct"] = _reconstruct
    READERS[f"numpy.{_core}.multiarray", "scalar"] = _scalar
    READERS[f"numpy.{_core}.numeric", "_frombuffer"] = _from_buffer
