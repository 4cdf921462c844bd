"""`read_inert`: the opcodes of a pickle, followed one by one, that build a tree and nothing else.

`load_pickle` builds what it allows; this reads what is too large or too varied for that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from rebench.errors import UnsafeFileError
from rebench.safe_pickle.pairs import FLOAT, LONG_GET, are_pairs, read_pairs
from rebench.safe_pickle.tree import Call, Name, Pairs

__all__ = ["read_inert"]

_CONTAINERS_AT_LEAST: Final = 4096
_BYTES_A_CONTAINER: Final = 8
_DEEPEST_MARKS: Final = 1000
_LONGEST_INTEGER: Final = 8  # bytes: longer ones can be chosen to collide as keys

_float = struct.Struct(">d").unpack_from
_place = struct.Struct("<I").unpack_from
_GET, _MEMOIZE, _STOP = b"h\x94."


def read_inert(data: bytes, what: str) -> Any:
    """Return the tree of a pickle of protocol 1 or later; bytes are views of `data`.

    Raises:
        UnsafeFileError: it is damaged, or holds what plain data and calls do not need.
    """
    machine = _Machine(data, what)
    try:
        return machine.run()
    except (IndexError, struct.error) as error:
        raise UnsafeFileError(
            f"{what}: the pickle ends before its end, or claims more than it holds"
        ) from error
    except (UnicodeDecodeError, ValueError, TypeError) as error:
        raise UnsafeFileError(f"{what}: refused or damaged pickle: {error}") from error


class _Machine:
    """The stack and memo of a pickle that is being read."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what = data, what
        self.view = memoryview(data)
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: list[Any] = []
        self.containers = _CONTAINERS_AT_LEAST + len(data) // _BYTES_A_CONTAINER

    def run(self) -> Any:
        data, memo, stack = self.data, self.memo, self.stack
        position = 0
        while True:
            opcode = data[position]
            position += 1
            # What tables of numbers are made of; the rest are handled one by one.
            if opcode == LONG_GET and are_pairs(data, position - 1):
                found, position = read_pairs(data, memo, position - 1)
                stack += found
            elif opcode == FLOAT:
                stack.append(_float(data, position)[0])
                position += 8
            elif opcode == LONG_GET:
                stack.append(memo[_place(data, position)[0]])
                position += 4
            elif opcode == _GET:
                stack.append(memo[data[position]])
                position += 1
            elif opcode == _MEMOIZE:
                memo.append(stack[-1])
            elif opcode == _STOP:
                if self.marked or len(stack) != 1:
                    raise ValueError("it ends with more or less than one object")
                return stack[0]
            else:
                handle = _HANDLERS.get(opcode)
                if handle is None:
                    raise ValueError(f"opcode {opcode:#04x} is not plain data")
                position = handle(self, position)
                stack = self.stack

    def made(self, value: Any) -> None:
        """Push a container, of which there may be so many."""
        self.containers -= 1
        if self.containers < 0:
            raise ValueError("it makes more containers than a file of its size needs")
        self.stack.append(value)

    def span(self, position: int, width: int) -> tuple[int, int]:
        """Return where what is counted in `width` bytes starts and ends."""
        start = position + width
        stop = start + int.from_bytes(self.data[position:start], "little")
        if stop > len(self.data):
            raise IndexError
        return start, stop

    def since_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.marked.pop()
        return items

    def mark(self, position: int) -> int:
        if len(self.marked) >= _DEEPEST_MARKS:
            raise ValueError(f"it is nested deeper than {_DEEPEST_MARKS}")
        self.marked.append(self.stack)
        self.stack = []
        return position

    def put(self, place: int) -> None:
        if place > len(self.memo):
            raise ValueError(f"memo place {place} before its turn")
        self.memo[place : place + 1] = [self.stack[-1]]

    def long_put(self, position: int) -> int:
        self.put(_place(self.data, position)[0])
        return position + 4

    def short_put(self, position: int) -> int:
        self.put(self.data[position])
        return position + 1

    def long_integer(self, position: int) -> int:
        start, stop = self.span(position, 1)
        if stop - start > _LONGEST_INTEGER:
            raise ValueError(f"an integer of {stop - start} bytes")
        self.stack.append(int.from_bytes(self.data[start:stop], "little", signed=True))
        return stop

    def setitem(self, position: int) -> int:
        value, key = self.stack.pop(), self.stack.pop()
        pairs = self.stack[-1]
        if type(pairs) is not Pairs:
            raise ValueError("an item of what is no dict")
        pairs.keys.append(key)
        pairs.values.append(value)
        return position

    def setitems(self, position: int) -> int:
        items = self.since_mark()
        pairs = self.stack[-1]
        if type(pairs) is not Pairs or len(items) % 2:
            raise ValueError("items of what is no dict")
        pairs.keys += items[::2]
        pairs.values += items[1::2]
        return position

    def append(self, position: int) -> int:
        value = self.stack.pop()
        self._list().append(value)
        return position

    def appends(self, position: int) -> int:
        items = self.since_mark()
        self._list().extend(items)
        return position

    def _list(self) -> list[Any]:
        found = self.stack[-1]
        if type(found) is not list:
            raise ValueError("an element of what is no list")
        return found

    def marked_tuple(self, position: int) -> int:
        items = tuple(self.since_mark())
        self.made(items)
        return position

    def name(self, position: int) -> int:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise ValueError("a name that is no text")
        self.made(Name(module, name))
        return position

    def name_in_lines(self, position: int) -> int:
        middle = self.data.index(b"\n", position)
        stop = self.data.index(b"\n", middle + 1)
        module, name = self.data[position:middle], self.data[middle + 1 : stop]
        self.made(Name(module.decode("ascii"), name.decode("ascii")))
        return stop + 1

    def call(self, position: int) -> int:
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple:
            raise ValueError("a call whose arguments are no tuple")
        self.made(Call(function, arguments))
        return position

    def build(self, position: int) -> int:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is not Call or target.state is not None:
            raise ValueError("a state of what has none")
        target.state = state
        return position


_Handler = Callable[[_Machine, int], int]


def _skipping(size: int) -> _Handler:
    return lambda _, position: position + size


def _constant(value: object) -> _Handler:
    def handle(machine: _Machine, position: int) -> int:
        machine.stack.append(value)
        return position

    return handle


def _integer(width: int, *, signed: bool = False) -> _Handler:
    def handle(machine: _Machine, position: int) -> int:
        stop = position + width
        machine.data[stop - 1]  # there, or the file is cut off
        machine.stack.append(int.from_bytes(machine.data[position:stop], "little", signed=signed))
        return stop

    return handle


def _text(width: int) -> _Handler:
    def handle(machine: _Machine, position: int) -> int:
        start, stop = machine.span(position, width)
        machine.stack.append(machine.data[start:stop].decode("utf-8", "surrogatepass"))
        return stop

    return handle


def _bytes(width: int) -> _Handler:
    def handle(machine: _Machine, position: int) -> int:
        start, stop = machine.span(position, width)
        machine.stack.append(machine.view[start:stop])
        return stop

    return handle


def _empty(make: Callable[[], object]) -> _Handler:
    def handle(machine: _Machine, position: int) -> int:
        machine.made(make())
        return position

    return handle


def _tuple(size: int) -> _Handler:
    def handle(machine: _Machine, position: int) -> int:
        if len(machine.stack) < size:
            raise IndexError
        items = tuple(machine.stack[-size:])
        del machine.stack[-size:]
        machine.made(items)
        return position

    return handle


_HANDLERS: Final[dict[int, _Handler]] = {
    name[0]: handler
    for name, handler in {
        b"\x80": _skipping(1), b"\x95": _skipping(8), b"(": _Machine.mark,
        b"N": _constant(None), b"\x88": _constant(True), b"\x89": _constant(False),
        b"K": _integer(1), b"M": _integer(2), b"J": _integer(4, signed=True),
        b"\x8a": _Machine.long_integer,
        b"\x8c": _text(1), b"X": _text(4), b"\x8d": _text(8),
        b"C": _bytes(1), b"B": _bytes(4), b"\x8e": _bytes(8),
        b")": _constant(()), b"\x85": _tuple(1), b"\x86": _tuple(2), b"\x87": _tuple(3),
        b"t": _Machine.marked_tuple,
        b"]": _empty(list), b"a": _Machine.append, b"e": _Machine.appends,
        b"}": _empty(Pairs), b"s": _Machine.setitem, b"u": _Machine.setitems,
        b"q": _Machine.short_put, b"r": _Machine.long_put,
        b"c": _Machine.name_in_lines, b"\x93": _Machine.name,
        b"R": _Machine.call, b"\x81": _Machine.call, b"b": _Machine.build,
    }.items()
}  # fmt: skip
