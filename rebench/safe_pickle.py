"""Pickles read as plain data: an allow-list of opcodes, then of names, and bounded memory.

A pickle is a program. Here it may build numbers, text, bytes, tuples, lists, dicts and sets, and
through the names that the caller allows, numpy arrays and scalars of numbers or text. Nothing of
numpy that it names is called: `numpy.dtype` and `_reconstruct` accept forged states that read
foreign memory, so each allowed name stands for a checked reader of this module.

The opcodes are read first, once, because the unpickler itself allocates what a file merely
claims: a memo of 64 GB for one five-byte opcode, bytes of any announced length.
"""

from __future__ import annotations

import collections
import io
import math
import pickle
import re
from collections.abc import Callable
from typing import Any, BinaryIO, Final

import numpy as np

from rebench.errors import UnsafeFileError

__all__ = ["DROPPED_TENSORS", "NUMPY_NAMES", "ORDERED_DICT", "load_pickle"]

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


def load_pickle(
    source: bytes | BinaryIO,
    *,
    allow: frozenset[tuple[str, str]],
    max_bytes: int,
    what: str,
    encoding: str = "bytes",
) -> Any:
    """Return the plain data that a pickle holds.

    Args:
        source: the pickle, or a stream of which at most `max_bytes` are read.
        allow: (module, name) pairs the file may ask for, out of `NUMPY_NAMES`, `ORDERED_DICT`,
            `DROPPED_TENSORS` (a tensor is read as None).
        max_bytes: the most the pickle may weigh, after decompression.
        what: the file's name, for messages.
        encoding: how Python 2's strings are read; ``"bytes"`` leaves them as they are.

    Raises:
        UnsafeFileError: the file asks for anything else, or is larger than it may be.
    """
    unknown = allow - set(_READERS)
    if unknown:
        raise ValueError(f"no safe reader for {sorted(unknown)}")
    data = source if isinstance(source, bytes) else source.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnsafeFileError(f"{what}: the pickle is larger than {max_bytes} bytes")
    _check_opcodes(data, what)
    try:
        return _Unpickler(data, allow, encoding).load()
    except Exception as error:
        raise UnsafeFileError(f"{what}: refused or damaged pickle: {error}") from error


# Opcodes by what follows them. Not listed, so refused: persistent ids, extension codes,
# out-of-band buffers, and the opcodes that instantiate classes.
_PLAIN: Final = b"(012NaeRbustld}])" + b"\x85\x86\x87\x88\x89\x8f\x90\x91\x94"
_FIXED: Final = {b"K": 1, b"h": 1, b"q": 1, b"\x80": 1, b"M": 2, b"J": 4, b"j": 4, b"G": 8}
_COUNTED: Final = {
    b"U": 1,
    b"C": 1,
    b"\x8c": 1,
    b"\x8a": 1,
    b"T": 4,
    b"X": 4,
    b"B": 4,
    b"\x8b": 4,
    b"\x8d": 8,
    b"\x8e": 8,
    b"\x96": 8,
}
_LINES: Final = {b"I": 1, b"L": 1, b"F": 1, b"S": 1, b"V": 1, b"g": 1, b"c": 2}
_FRAME, _STACK_GLOBAL, _LONG_PUT, _TEXT_PUT, _STOP = b"\x95", b"\x93", b"r", b"p", b"."

# What each opcode means to `_check_opcodes`: bytes to skip, or one of the negative codes below.
_COUNT_1, _COUNT_4, _COUNT_8, _LINE, _TWO_LINES, _PUT_4, _PUT_LINE, _END = range(-8, 0)
_REFUSED: Final = -9


def _opcode_table() -> list[int]:
    table = [_REFUSED] * 256
    for opcode in _PLAIN:
        table[opcode] = 0
    for name, length in _FIXED.items():
        table[name[0]] = length
    for name, width in _COUNTED.items():
        table[name[0]] = {1: _COUNT_1, 4: _COUNT_4, 8: _COUNT_8}[width]
    for name, lines in _LINES.items():
        table[name[0]] = _LINE if lines == 1 else _TWO_LINES
    table[_FRAME[0]], table[_STACK_GLOBAL[0]] = 8, 0
    table[_LONG_PUT[0]], table[_TEXT_PUT[0]], table[_STOP[0]] = _PUT_4, _PUT_LINE, _END
    return table


_TABLE: Final = _opcode_table()
_WIDTH: Final = {_COUNT_1: 1, _COUNT_4: 4, _COUNT_8: 8}


def _check_opcodes(data: bytes, what: str) -> None:
    """Refuse opcodes that are not listed, and lengths or memo places beyond the file's size."""
    position, end = 0, len(data)
    while position < end:
        kind = _TABLE[data[position]]
        position += 1
        if kind >= 0:
            position += kind
        elif kind in _WIDTH:
            stop = position + _WIDTH[kind]
            position = stop + int.from_bytes(data[position:stop], "little")
        elif kind == _END:
            return
        elif kind == _REFUSED:
            raise UnsafeFileError(
                f"{what}: opcode {data[position - 1]:#04x} at byte {position - 1} is not plain data"
            )
        else:
            position = _check_rest(data, position, kind, what)
    raise UnsafeFileError(f"{what}: the pickle ends before its end, or claims more than it holds")


def _check_rest(data: bytes, position: int, kind: int, what: str) -> int:
    if kind == _PUT_4:
        place, stop = int.from_bytes(data[position : position + 4], "little"), position + 4
    else:
        stop = position
        for _ in range(2 if kind == _TWO_LINES else 1):
            stop = data.find(b"\n", stop) + 1 or len(data)
        line = data[position : stop - 1]
        place = int(line) if kind == _PUT_LINE and re.fullmatch(rb"\d{1,9}", line) else -1
        if kind == _PUT_LINE and place < 0:
            raise UnsafeFileError(f"{what}: memo place {line[:20]!r} at byte {position}")
    if place > len(data):
        raise UnsafeFileError(f"{what}: memo place {place} in a file of {len(data)} bytes")
    return stop


class _Unpickler(pickle.Unpickler):
    """The standard unpickler, to which every name is a checked reader or an error."""

    def __init__(self, data: bytes, allow: frozenset[tuple[str, str]], encoding: str) -> None:
        super().__init__(io.BytesIO(data), encoding=encoding)
        self._allow = allow

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allow:
            raise ValueError(f"the file asks for {module}.{name}")
        return _Reader(_READERS[module, name])


class _Reader:
    """A callable that a pickle can call and not change."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: object) -> None:
        raise ValueError("the file tries to change a function")


class _DType:
    """A dtype of numbers or text; byte order and text length arrive with the state."""

    __slots__ = ("value",)
    value: np.dtype[Any]

    def __init__(self, spec: object, *_: object) -> None:
        text = spec.decode("ascii") if isinstance(spec, bytes) else spec
        if not isinstance(text, str) or not re.fullmatch(r"[<>|=]?(b1|[iufcSU][1-9]\d{0,3})", text):
            raise ValueError(f"an array of dtype {spec!r}; only numbers and text are read")
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
        _check_size(shape, dtype, raw)
        checked: Any = (1, shape, dtype.value, bool(fortran), bytes(raw))
        super().__setstate__(checked)


def _check_size(shape: Any, dtype: Any, raw: Any) -> None:
    if not isinstance(dtype, _DType) or not isinstance(raw, bytes | bytearray):
        raise ValueError("an array of objects; only numbers and text are read")
    sizes_valid = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not sizes_valid or math.prod(shape) * dtype.value.itemsize != len(raw):
        raise ValueError(f"an array of shape {shape!r} with {len(raw)} bytes")


def _reconstruct(_: object, shape: object, __: object) -> _Array:
    if shape != (0,):
        raise ValueError(f"an array that starts with shape {shape!r} instead of (0,)")
    return np.empty(0, "u1").view(_Array)


def _from_buffer(raw: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    _check_size(shape, dtype, raw)
    array: np.ndarray[Any, Any] = np.ndarray(
        shape, dtype.value, bytes(raw), order="F" if order == "F" else "C"
    )
    return array


def _scalar(dtype: Any, raw: Any) -> Any:
    # Protocol 2 as Python 3 writes it holds bytes as text; `_encode` has made them bytes again.
    _check_size((), dtype, raw)
    return np.frombuffer(bytes(raw), dtype.value)[0]


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError(f"text encoded as {encoding!r}; only latin1 is read")
    return text.encode("latin1")


def _no_bytes(*arguments: object) -> bytes:
    if arguments:
        raise ValueError("bytes() with arguments")
    return b""


def _drop(*_: object) -> None:
    return None


_READERS: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    **dict.fromkeys(DROPPED_TENSORS, _drop),
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _reconstruct,  # named as an argument, never called
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,  # how protocol 2 writes empty bytes
}
for _core in ("core", "_core"):
    _READERS[f"numpy.{_core}.multiarray", "_reconstruct"] = _reconstruct
    _READERS[f"numpy.{_core}.multiarray", "scalar"] = _scalar
    _READERS[f"numpy.{_core}.numeric", "_frombuffer"] = _from_buffer
