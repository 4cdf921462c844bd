"""A pickle's opcodes, read once before any of them runs: what is listed, bounded and a tree.

The unpickler itself allocates what a file merely claims: a memo of 64 GB for one five-byte opcode,
bytes of any announced length, millions of containers, keys that all collide.
"""

from __future__ import annotations

import contextlib
import re
from typing import Final

from rebench.errors import UnsafeFileError

__all__ = ["Scan"]

# Opcodes by what follows them. Not listed, so refused: persistent ids, extension codes,
# out-of-band buffers, the opcodes that instantiate classes, integers of more than 255 bytes, and
# those that drop or double the top of the stack, which no pickler writes for plain data.
_PLAIN: Final = b"Naesbu\x88\x89\x90"
_FIXED: Final = {b"K": 1, b"\x80": 1, b"M": 2, b"J": 4, b"G": 8}
_COUNTED: Final = {b"U": 1, b"C": 1, b"\x8c": 1, b"\x8a": 1, b"T": 4, b"X": 4, b"B": 4} | {
    b"\x8d": 8, b"\x8e": 8, b"\x96": 8
}  # fmt: skip
_LINES: Final = {b"I": 1, b"L": 1, b"F": 1, b"S": 1, b"V": 1, b"c": 2}
_TUPLES: Final = b")\x85\x86\x87t"
_CONTAINERS: Final = b"}]\x8f\x91ldR"
_PUTS: Final = {b"q": 1, b"r": 4, b"p": None, b"\x94": 0}
_GETS: Final = {b"h": 1, b"j": 4, b"g": None}
_COUNTS: Final = _TUPLES + _CONTAINERS + b"("
_FRAME, _STACK_GLOBAL, _STOP = b"\x95", b"\x93", b"."

# What each opcode means to `Scan.run`: bytes to skip, or one of the negative codes below.
_COUNT_1, _MEMOIZE, _COUNT_4, _COUNT_8, _GET_1, _OTHER, _REFUSED = range(-7, 0)
_WIDTH: Final = {_COUNT_1: 1, _COUNT_4: 4, _COUNT_8: 8}


def _opcode_table() -> list[int]:
    table = [_REFUSED] * 256
    for opcode in _PLAIN:
        table[opcode] = 0
    for name, length in _FIXED.items():
        table[name[0]] = length
    for name, width in _COUNTED.items():
        table[name[0]] = {1: _COUNT_1, 4: _COUNT_4, 8: _COUNT_8}[width]
    others = b"".join([*_LINES, *_PUTS, *_GETS, _COUNTS, _FRAME, _STACK_GLOBAL])
    for opcode in others + _STOP + b"\x8a":
        table[opcode] = _OTHER
    table[b"\x94"[0]], table[b"h"[0]] = _MEMOIZE, _GET_1
    return table


_TABLE: Final = _opcode_table()

# What makes an object of its own, so that a memo opcode after it means that object.
_MAKERS: Final = frozenset(
    b"".join([*_COUNTED, *_LINES, b"G", _TUPLES, _CONTAINERS, _STACK_GLOBAL])
)
_LONGEST_LINE: Final = 100
_CONTAINERS_AT_LEAST: Final = 4096
_BYTES_A_CONTAINER: Final = 16


class Scan:
    """One pass over a pickle's opcodes before any of them runs.

    A tuple may be part of another or a dict's key, and both are hashed, by recursion and without
    a cache: so a tuple is reached once, there are few, and with them few integers that someone
    can choose to collide.
    """

    def __init__(self, data: bytes, what: str, max_keys: int) -> None:
        self.data, self.what = data, what
        self.keys, self.max_keys = 0, max_keys
        self.containers = 0
        self.memo = 0  # how many objects MEMOIZE has counted, from protocol 4 on
        self.numbered = False  # whether earlier protocols' opcodes name its places
        self.tuples: set[int] = set()  # the memo's places that hold one

    def run(self) -> None:
        """Refuse what is not listed, and lengths or memo places beyond the file's size."""
        with contextlib.suppress(IndexError):
            if self._reaches_its_end():
                return
        raise UnsafeFileError(
            f"{self.what}: the pickle ends before its end, or claims more than it holds"
        )

    def _reaches_its_end(self) -> bool:
        data, position, end = self.data, 0, len(self.data)
        previous = made = 0  # the last opcode, and the last that was none of the memo's
        while position < end:
            opcode = data[position]
            kind = _TABLE[opcode]
            position += 1
            if kind >= 0:
                position += kind
            elif kind == _MEMOIZE:
                self._put(self.memo, previous, position)
                self.memo += 1
                previous = opcode
                continue
            elif kind in _WIDTH:
                stop = position + _WIDTH[kind]
                position = stop + int.from_bytes(data[position:stop], "little")
            elif kind == _GET_1 and data[position] not in self.tuples:
                position += 1
            elif opcode == _STOP[0]:
                if self.memo and self.numbered:
                    raise self._refusal("the memo is counted and numbered", position)
                return True
            else:
                position = self._other(opcode, position, previous, made)
                if opcode == _FRAME[0]:
                    continue  # it may stand between an object and what the memo says of it
                if bytes([opcode]) in _PUTS:
                    previous = opcode
                    continue
            made = previous = opcode
        return False

    def _put(self, place: int, maker: int, position: int) -> None:
        if maker not in _MAKERS:
            raise self._refusal("the memo keeps what was not just made", position)
        if place > len(self.data):
            raise self._refusal(f"memo place {place} in a file of {len(self.data)} bytes", position)
        if maker in _TUPLES:
            self.tuples.add(place)
        elif place in self.tuples:
            self.tuples.remove(place)

    def _other(self, opcode: int, position: int, previous: int, made: int) -> int:
        """Check an opcode that is not frequent; return where the next one begins."""
        name = bytes([opcode])
        if opcode in _COUNTS:
            self._count(opcode, position, made)
        elif opcode in b"\x8aIL":
            return self._integer(opcode, position)
        elif name in _LINES:
            limit = _LONGEST_LINE if name == b"F" else 0
            return self._line(position, _LINES[name], limit=limit)
        elif name in _PUTS or name in _GETS:
            return self._memo_place(name, position, previous)
        elif name == _FRAME:
            return position + 8
        elif name != _STACK_GLOBAL:
            raise self._refusal(f"opcode {opcode:#04x} is not plain data", position)
        return position

    def _count(self, opcode: int, position: int, made: int) -> None:
        self.keys += opcode in _TUPLES
        self.containers += opcode not in _TUPLES
        if opcode == b"R"[0] and made in _TUPLES:
            self.keys -= 1  # a call's arguments are neither key nor part of anything
        if self.containers > _CONTAINERS_AT_LEAST + len(self.data) // _BYTES_A_CONTAINER:
            raise self._refusal(f"more than {self.containers - 1} containers and marks", position)
        self._check_keys(position)

    def _check_keys(self, position: int) -> None:
        if self.keys > self.max_keys:
            raise self._refusal(f"more than {self.max_keys} tuples and long integers", position)

    def _integer(self, opcode: int, position: int) -> int:
        if opcode == 0x8A:
            digits = 2 * int.from_bytes(self.data[position : position + 1], "little")
            stop = position + 1 + digits // 2
        else:
            stop = self._line(position, 1, limit=_LONGEST_LINE)
            digits = stop - position - 2
        self.keys += digits > 16
        self._check_keys(position)
        return stop

    def _memo_place(self, name: bytes, position: int, previous: int) -> int:
        width = (_PUTS | _GETS)[name]
        if width is None:
            stop = self._line(position, 1, limit=_LONGEST_LINE)
            line = self.data[position : stop - 1]
            if not re.fullmatch(rb"\d{1,9}", line):
                raise self._refusal(f"memo place {line[:20]!r}", position)
            place = int(line)
        else:
            stop = position + width
            place = int.from_bytes(self.data[position:stop], "little")
        if name in _PUTS:
            self.numbered = True
            self._put(place, previous, position)
        elif place in self.tuples:
            raise self._refusal("one tuple is used twice", position)
        return stop

    def _line(self, position: int, lines: int, *, limit: int = 0) -> int:
        stop = position
        for _ in range(lines):
            stop = self.data.find(b"\n", stop) + 1 or len(self.data)
        if limit and stop - position > limit:
            raise self._refusal(f"a number of {stop - position} digits", position)
        return stop

    def _refusal(self, why: str, position: int) -> UnsafeFileError:
        return UnsafeFileError(f"{self.what}: {why}, at byte {position - 1}")
