"""Safe reader of pickles as plain data: allowed opcodes, allowed names, limits of size and depth.

A pickle is a program. This reader builds only numbers, text, bytes, lists, dicts, tuples, and numpy
arrays and scalars of numbers or text. The standard unpickler allocates the sizes that a file claims
(64 GB for an opcode of five bytes), hashes nested tuples without limit, and imports any name. This
reader verifies every length. A tuple can be a key only if it is flat and begins with text, or has
the six operations of a cell. No name is imported or called, not even numpy's `dtype` and
`_reconstruct`: forged states of these can read foreign memory. An object of a class that the caller
expects is read as a dict of its attributes.
"""

from __future__ import annotations

import io
import math
import pickletools
import re
import struct
from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

import numpy as np

from rebench.errors import UnsafeFileError

__all__ = ["load_pickle", "shown"]

_CONTAINERS_AT_LEAST: Final = 4096
_BYTES_A_CONTAINER: Final = 8
_DEEPEST_MARKS: Final = 1000
_INTEGERS: Final = (-(2**63), 2**63 - 1)  # longer integers can be chosen to collide as keys
_LONGEST_KEY: Final = 4  # parts of a tuple
# A cell as six operations: too few such tuples exist for many collisions.
_CELL_PARTS: Final = 6
_CELL_OPS: Final = range(5)
_SHOWN: Final = 60
_MOST_DIMENSIONS: Final = 32
_DTYPE: Final = re.compile(r"[<>|=]?(b1|[iufcSU][1-9]\d{0,3})", re.ASCII)

_ARGUMENTS: Final = {ord(code.code): code.arg for code in pickletools.opcodes}
_float = struct.Struct(">d").unpack_from
_FLOAT, _MEMOIZE, _SHORT_TEXT, _BYTE, _GET, _STOP = b"G\x94\x8cKh."


def load_pickle(
    data: bytes, *, max_bytes: int, what: str, plain_classes: Collection[tuple[str, str]] = ()
) -> Any:
    """Read the plain data in a pickle of protocol 1 or later.

    An OrderedDict is read as a dict, a set as a list and a tensor of torch as None.

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
        return _Machine(data, plain_classes).run()
    except (IndexError, struct.error) as error:
        raise UnsafeFileError(
            f"{what}: the pickle is truncated, or a length in it is too large; fetch it again"
        ) from error
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnsafeFileError(f"{what}: refused or damaged pickle: {error}") from error


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
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
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
    sizes_valid = (
        isinstance(shape, tuple)
        and len(shape) <= _MOST_DIMENSIONS
        and all(type(n) is int and n >= 0 for n in shape)
    )
    if not sizes_valid or math.prod(shape) * dtype.value.itemsize != len(raw):
        raise ValueError(f"an array with {len(raw)} bytes and another shape")
    return tuple(shape), dtype.value


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


_NAMES: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    ("collections", "OrderedDict"): dict,
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _reconstruct,  # named as an argument, never called
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda: b"",  # empty bytes in protocol 2
    # Torch's tensors are pickles within pickles; they are skipped.
    ("torch._utils", "_rebuild_tensor_v2"): lambda *_: None,
    ("torch._utils", "_rebuild_parameter"): lambda *_: None,
    ("torch.storage", "_load_from_bytes"): lambda *_: None,
}


class _Object(dict[str, Any]):
    """Attributes of an object of a class that the caller expects."""


class _Part(tuple[Any, ...]):  # noqa: SLOT001 - a tuple cannot have slots
    """Tuple that cannot be a key, because a forged tuple could need unlimited time to hash."""

    __hash__ = None  # type: ignore[assignment]  # marks a class without a hash


def _is_cell(items: list[Any]) -> bool:
    """Return whether the parts of a tuple are the six operations of a cell."""
    return len(items) == _CELL_PARTS and all(type(i) is int and i in _CELL_OPS for i in items)


class _Machine:
    """Interpreter of a pickle, with its stack and memo."""

    def __init__(self, data: bytes, plain_classes: Collection[tuple[str, str]] = ()) -> None:
        self.data, self.stream = data, io.BytesIO(data)
        self.names = {**_NAMES, **dict.fromkeys(plain_classes, _Object)}
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.containers = _CONTAINERS_AT_LEAST + len(data) // _BYTES_A_CONTAINER

    def run(self) -> Any:
        data, memo, position = self.data, self.memo, 0
        while (opcode := data[position]) != _STOP:
            stack = self.stack
            position += 1
            # Tables of numbers consist of these opcodes, so they are handled here for speed.
            if opcode == _FLOAT:
                stack.append(_float(data, position)[0])
                position += 8
            elif opcode == _MEMOIZE:
                memo[len(memo)] = stack[-1]
            elif opcode == _SHORT_TEXT:
                start, position = position + 1, position + 1 + data[position]
                stack.append(data[start:position].decode("utf-8", "surrogatepass"))
            elif opcode == _BYTE:
                stack.append(data[position])
                position += 1
            elif opcode == _GET:
                stack.append(memo[data[position]])
                position += 1
            else:
                argument, position = self.argument(opcode, position)
                _ACTIONS[opcode](self, argument)
        if self.marked or len(self.stack) != 1:
            raise ValueError("it ends with more or less than one object")
        return self.stack[0]

    def argument(self, opcode: int, position: int) -> tuple[Any, int]:
        """Return the argument of an opcode, and the position after it."""
        if opcode not in _ACTIONS:
            raise ValueError(f"opcode {opcode:#04x} is not plain data")
        kind = _ARGUMENTS[opcode]
        if kind is None:
            return None, position
        self.stream.seek(position)
        return kind.reader(self.stream), self.stream.tell()

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_integer(self, value: int) -> None:
        if not _INTEGERS[0] <= value <= _INTEGERS[1]:
            raise ValueError("an integer of more than 8 bytes")
        self.stack.append(value)

    def make(self, value: Any) -> None:
        """Push a container; their number is limited by the size of the file."""
        self.containers -= 1
        if self.containers < 0:
            raise ValueError("it makes more containers than a file of its size needs")
        self.stack.append(value)

    def make_tuple(self, items: list[Any]) -> None:
        # The hash of text uses a secret of the process, so nobody can choose tuples that collide.
        is_key = 1 < len(items) <= _LONGEST_KEY and type(items[0]) is str and items[0] != ""
        is_key = is_key and all(type(item) in (str, int, float) for item in items)
        if not items or is_key or _is_cell(items):
            self.make(tuple(items))
        else:
            self.make(_Part(items))

    def last(self, count: int) -> list[Any]:
        """Remove the last objects from the stack and return them."""
        if len(self.stack) < count:
            raise IndexError
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marked.pop()
        return items

    def mark(self) -> None:
        if len(self.marked) >= _DEEPEST_MARKS:
            raise ValueError(f"it is nested deeper than {_DEEPEST_MARKS}")
        self.marked.append(self.stack)
        self.stack = []

    def put(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def set_items(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not dict:
            raise ValueError("items of an object that is not a dict")
        before = len(self.stack[-1])
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))
        if len(self.stack[-1]) != before + len(items) // 2:
            raise ValueError("a dict with a repeated key")

    def extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise ValueError("elements of an object that is not a list")
        self.stack[-1].extend(items)

    def name(self, names: list[Any]) -> None:
        module, name = names
        if type(name) is not str or type(module) is not str:
            raise ValueError("a name that is not a text")
        if (module, name) not in self.names:
            raise ValueError(f"the file refers to {module[:80]}.{name[:80]}, which is not allowed")
        self.make(self.names[module, name])

    def call(self) -> None:
        reader, arguments = self.last(2)
        if reader is _Object:
            raise ValueError("a call of a class that is read as attributes")
        if not isinstance(arguments, tuple) or not callable(reader):
            raise ValueError("a call of an object that is not a function, or without arguments")
        self.make(reader(*arguments))

    def new(self) -> None:
        """Push an object without attributes, of a class that the caller expects."""
        kind, arguments = self.last(2)
        if kind is not _Object or arguments != ():
            raise ValueError("a new object of a class that is not expected, or with arguments")
        self.make(_Object())

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is _Object:
            if type(state) is not dict or any(type(name) is not str for name in state):
                raise ValueError("attributes that are not a dict with text keys")
            target.update(state)
        elif type(target) in (_Array, _DType):
            target.__setstate__(state)
        elif type(target) is not dict:  # the attributes of an OrderedDict are ignored
            raise ValueError("a state for an object that has no state")


_Action: TypeAlias = Callable[[_Machine, Any], None]
_BY_OPCODES: Final[dict[bytes, _Action]] = {
    b"\x80\x95": lambda *_: None,  # the protocol's number, the length of a frame
    b"N": lambda machine, _: machine.push(None),
    b"\x88": lambda machine, _: machine.push(True),
    b"\x89": lambda machine, _: machine.push(False),
    b")": lambda machine, _: machine.push(()),
    b"MJCBX\x8d\x8e": _Machine.push,
    b"UT": lambda machine, text: machine.push(text.encode("latin1")),  # Python 2's strings
    b"\x8a": _Machine.push_integer,
    b"(": lambda machine, _: machine.mark(),
    b"\x85": lambda machine, _: machine.make_tuple(machine.last(1)),
    b"\x86": lambda machine, _: machine.make_tuple(machine.last(2)),
    b"\x87": lambda machine, _: machine.make_tuple(machine.last(3)),
    b"t": lambda machine, _: machine.make_tuple(machine.since_mark()),
    b"}": lambda machine, _: machine.make({}),
    b"]\x8f": lambda machine, _: machine.make([]),  # a set too, to avoid hashing
    b"a": lambda machine, _: machine.extend(machine.last(1)),
    b"e\x90": lambda machine, _: machine.extend(machine.since_mark()),
    b"s": lambda machine, _: machine.set_items(machine.last(2)),
    b"u": lambda machine, _: machine.set_items(machine.since_mark()),
    b"qr": _Machine.put,
    b"j": lambda machine, place: machine.push(machine.memo[place]),
    b"c": lambda machine, names: machine.name(names.split(" ")),
    b"\x93": lambda machine, _: machine.name(machine.last(2)),
    b"R": lambda machine, _: machine.call(),
    b"\x81": lambda machine, _: machine.new(),
    b"b": lambda machine, _: machine.build(),
}
_ACTIONS: Final = {opcode: act for opcodes, act in _BY_OPCODES.items() for opcode in opcodes}
