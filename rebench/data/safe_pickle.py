"""Safe reader of pickles as plain data: a check of the opcodes, then an unpickler with few names.

A pickle is a program. The reader builds only numbers, text, bytes, lists, dicts, sets, tuples, and
numpy arrays and scalars of numbers or text. The opcodes are checked before anything is built: an
unpickler allocates the lengths and memo places that a file claims (64 GB for an opcode of five
bytes). Then the standard unpickler runs. Every name is replaced by a reader of this module, even
numpy's `dtype` and `_reconstruct`: forged states of these can read foreign memory. An object of a
class that the caller expects is read as a dict of its attributes.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np

from rebench.errors import UnsafeFileError

__all__ = ["load_pickle", "shown"]

_SHOWN: Final = 60
_MOST_DIMENSIONS: Final = 32
_MOST_NESTED: Final = 10
_MOST_SETS: Final = 100_000
_DTYPE: Final = re.compile(r"[<>|=]?(b1|[iufcSU][1-9]\d{0,3})", re.ASCII)

_CONSTANTS: Final = (
    "NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINBYTES SHORT_BINBYTES BINBYTES8 "
    "BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINSTRING SHORT_BINSTRING"
)
_CONTAINERS: Final = (
    "MARK EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM "
    "SETITEMS EMPTY_SET ADDITEMS"
)
_OTHERS: Final = (
    "PROTO FRAME STOP BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE "
    "NEWOBJ BUILD"
)
# These put an object on the stack and take none.
_SIMPLE: Final = frozenset(
    f"{_CONSTANTS} EMPTY_TUPLE EMPTY_LIST EMPTY_DICT EMPTY_SET GLOBAL".split()
)
_PLAIN: Final = frozenset(f"{_CONSTANTS} {_CONTAINERS} {_OTHERS}".split())


def load_pickle(
    data: bytes, *, max_bytes: int, what: str, plain_classes: Collection[tuple[str, str]] = ()
) -> Any:
    """Read the plain data in a pickle of protocol 1 or later.

    An OrderedDict is read as a dict, and a tensor of torch as None.

    Args:
        data: the pickle.
        max_bytes: largest allowed size of the pickle.
        what: name of the file, for messages.
        plain_classes: (module, name) of classes; their objects are read as dicts of their
            attributes.

    Raises:
        UnsafeFileError: the file contains anything else, or is too large.
    """
    if len(data) > max_bytes:
        raise UnsafeFileError(f"{what}: the pickle is larger than {max_bytes} bytes")
    try:
        _check_opcodes(data)
        return _Unpickler(data, plain_classes).load()
    except (
        ArithmeticError,
        AttributeError,
        EOFError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        pickle.UnpicklingError,
    ) as error:
        raise UnsafeFileError(f"{what}: refused or damaged pickle: {error}") from error


def _check_opcodes(data: bytes) -> None:
    """Refuse opcodes that plain data does not need, and lengths beyond the end of the file."""
    nesting = _Nesting()
    sets = 0
    for opcode, argument, _ in pickletools.genops(data):
        name = opcode.name
        if name not in _PLAIN:
            raise ValueError(f"opcode {name} is not plain data")
        if name == "LONG_BINPUT" and int(argument or 0) > len(data):
            raise ValueError("a memo place beyond the size of the file")
        if name == "EMPTY_SET":
            sets += 1
            if sets > _MOST_SETS:
                raise ValueError(f"more than {_MOST_SETS} sets")
        nesting.add(opcode, argument)


class _Nesting:
    """Depth of every object on the stack: hashing deeply nested tuples would end the process.

    Hashing a pair of equal pairs, nested n times, takes 2^n steps.
    """

    def __init__(self) -> None:
        self._depths: list[int] = []  # -1 is a mark
        self._memo: dict[int, int] = {}

    def add(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        """Take the objects of an opcode from the stack, and put its results there."""
        depths, name = self._depths, opcode.name
        if name in _SIMPLE:
            depths.append(0)
        elif name == "MARK":
            depths.append(-1)
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            place = len(self._memo) if argument is None else int(argument)
            self._memo[place] = depths[-1]
        elif name == "APPEND":
            item = depths.pop()
            if item > depths[-1]:
                depths[-1] = item
        elif name in ("BINGET", "LONG_BINGET"):
            depths.append(self._memo[int(argument)])
        else:
            depths += [self._of_parts(opcode)] * len(opcode.stack_after)

    def _of_parts(self, opcode: pickletools.OpcodeInfo) -> int:
        """Return the depth of an object that is made of objects on the stack."""
        depths, deepest = self._depths, 0
        for kind in reversed(opcode.stack_before):
            if kind is pickletools.stackslice:
                while depths[-1] >= 0:
                    deepest = max(deepest, depths.pop())
            else:
                deepest = max(deepest, depths.pop())
        if opcode.name.startswith("TUPLE"):
            deepest += 1
            if deepest > _MOST_NESTED:
                raise ValueError(f"tuples nested more than {_MOST_NESTED} times")
        return deepest


def shown(value: object) -> str:
    """Return a value from a file for a message: short, and for containers only the type."""
    if isinstance(value, str | bytes):
        return repr(value[:_SHOWN]) + ("..." if len(value) > _SHOWN else "")
    if value is None or isinstance(value, int | float):
        return str(value)
    return f"a {type(value).__name__}"


class _DType:
    """Dtype of numbers or text; the state contains byte order and text length."""

    __slots__ = ("value",)
    value: np.dtype[Any]

    def __init__(self, spec: object, *_: object) -> None:
        text = spec.decode("ascii") if isinstance(spec, bytes) else spec
        if not isinstance(text, str) or not _DTYPE.fullmatch(text):
            raise ValueError(f"an array of dtype {shown(spec)}; only numbers and text are read")
        self.value = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        if isinstance(order, bytes):
            order = order.decode("ascii")
        if order not in ("<", ">", "|", "=") or tuple(state[2:5]) != (None, None, None):
            raise ValueError("a structured or forged dtype; only numbers and text are read")
        if order in ("<", ">"):
            self.value = np.dtype(order + self.value.str[1:])


class _Array(np.ndarray[Any, Any]):
    """Array with a check of its state against its size, before numpy uses the state."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        checked: Any = (1, *_checked(shape, dtype, raw), bool(fortran), raw)
        super().__setstate__(checked)


def _checked(shape: Any, dtype: Any, raw: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype of an array; refuse them if they do not match its bytes."""
    if not isinstance(dtype, _DType) or not isinstance(raw, bytes):
        raise ValueError("an array of objects; only numbers and text are read")
    wrong = ValueError(f"an array with {len(raw)} bytes and another shape")
    if not isinstance(shape, tuple) or len(shape) > _MOST_DIMENSIONS:
        raise wrong
    for size in shape:
        if type(size) is not int or size < 0:
            raise wrong
    if math.prod(shape) * dtype.value.itemsize != len(raw):
        raise wrong
    return shape, dtype.value


def _reconstruct(_: object, shape: object, __: object) -> _Array:
    if shape != (0,):
        raise ValueError("an array that starts with another shape than (0,)")
    return np.empty(0, "u1").view(_Array)


def _scalar(dtype: Any, raw: Any) -> Any:
    _, kind = _checked((), dtype, raw)
    if kind.itemsize > 8 and kind.kind not in "SU":
        raise ValueError(f"a scalar of dtype {kind}; only scalars of up to 8 bytes are read")
    return np.frombuffer(raw, kind)[0]


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    # Python 3 writes bytes in this form in protocol 2.
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError(f"text encoded as {shown(encoding)}; only latin1 is read")
    return text.encode("latin1")


class _Reader:
    """Function of this module that a pickle may call; a pickle cannot set its attributes."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, _: object) -> None:
        raise ValueError("a state for a function")


class _Ordered(dict[Any, Any]):
    """Dict that was an OrderedDict; its attributes are ignored."""

    def __setstate__(self, _: object) -> None:
        pass


class _Object(dict[str, Any]):
    """Attributes of an object of a class that the caller expects."""

    def __init__(self) -> None:
        raise ValueError("a call of a class that is read as attributes")

    def __setstate__(self, state: Any) -> None:
        if type(state) is not dict or any(type(name) is not str for name in state):
            raise ValueError("attributes that are not a dict with text keys")
        self.update(state)


def _nothing(*_: object) -> None:
    """Replace a tensor of torch: a pickle within the pickle, which is skipped."""


_ARRAY: Final = _Reader(_reconstruct)
_SCALAR: Final = _Reader(_scalar)
_TENSOR: Final = _Reader(_nothing)
_NAMES: Final[Mapping[tuple[str, str], Callable[..., Any]]] = {
    ("collections", "OrderedDict"): _Ordered,
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _ARRAY,  # named as an argument, never called
    ("numpy.core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("numpy._core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy._core.multiarray", "scalar"): _SCALAR,
    ("_codecs", "encode"): _Reader(_encode),
    ("__builtin__", "bytes"): _Reader(bytes),  # empty bytes in protocol 2
    ("torch._utils", "_rebuild_tensor_v2"): _TENSOR,
    ("torch._utils", "_rebuild_parameter"): _TENSOR,
    ("torch.storage", "_load_from_bytes"): _TENSOR,
}


class _Unpickler(pickle.Unpickler):
    """The standard unpickler, in which every name is one of `_NAMES` or an expected class."""

    def __init__(self, data: bytes, plain_classes: Collection[tuple[str, str]]) -> None:
        # Python 2's strings stay bytes.
        super().__init__(io.BytesIO(data), fix_imports=False, encoding="bytes")
        self._plain_classes = frozenset(plain_classes)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self._plain_classes:
            return _Object
        if (module, name) not in _NAMES:
            raise ValueError(f"the file refers to {module[:80]}.{name[:80]}, which is not allowed")
        return _NAMES[module, name]
