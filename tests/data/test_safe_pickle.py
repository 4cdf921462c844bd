"""The reader of pickles by an allow-list: accepted data, and all known attacks."""

from __future__ import annotations

import collections
import copyreg
import os
import pickle
import resource
import struct
from pathlib import Path

import numpy as np
import pytest

from rebench.data.safe_pickle import load_pickle, shown
from rebench.errors import UnsafeFileError


def load(data: bytes, max_bytes: int = 1 << 20):
    return load_pickle(data, max_bytes=max_bytes, what="file.pkl")


PLAIN = {
    "text": ["é", b"bytes", 1, -5, 300, 70_000, 2**40, -(2**40), 2.5, None, True, False],
    "ordered": collections.OrderedDict(a=1),
    ("key", 1): {"nested": [()], 5: (1, (2, [3]))},
}
KEYS = [(f"hash {number}", 0.1, 256, 777) for number in range(3000)]
TABLE = {
    name: dict(zip(KEYS, np.random.default_rng(seed).normal(size=3000).tolist(), strict=True))
    for seed, name in enumerate(("a", "b", "c"))
}
# The benchmarks' files are of protocol 2 and 4.
PROTOCOLS = [2, 3, 4, 5]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_data_is_read_at_every_binary_protocol(protocol: int):
    assert load(pickle.dumps(PLAIN, protocol)) == PLAIN
    assert load(pickle.dumps(TABLE, protocol)) == TABLE


@pytest.mark.parametrize("protocol", [4, 5])
def test_a_set_is_read(protocol: int):
    assert load(pickle.dumps({3, 1, 2}, protocol)) == {3, 1, 2}


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("array", [
    np.arange(12, dtype=np.uint8).reshape(3, 4),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(3, dtype=">i4"),
    np.array([b"ab", b"c"]),
    np.array(["å", "bc"]),
    np.array([True, False]),
    np.zeros((0, 3)),
], ids=lambda array: array.dtype.str)  # fmt: skip
def test_arrays_are_read_as_numpy_reads_them(array: np.ndarray, protocol: int):
    data = pickle.dumps(array, protocol)
    read = load(data)
    assert read.dtype == pickle.loads(data).dtype
    assert np.array_equal(read, array)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scalars_are_read(protocol: int):
    assert load(pickle.dumps([np.float64(2.5), np.int64(-3)], protocol)) == [2.5, -3]


@pytest.mark.parametrize("core", [b"numpy.core", b"numpy._core"])
def test_arrays_are_read_under_both_of_numpys_names(core: bytes):
    data = pickle.dumps(np.arange(3), 2)
    data = data.replace(b"numpy._core", b"numpy.core").replace(b"numpy.core", core)
    assert load(data).tolist() == [0, 1, 2]


def test_python_2_strings_stay_bytes():
    # protocol 2 as Python 2 writes {'labels': [6]}: SHORT_BINSTRING keys
    assert load(b"\x80\x02}U\x06labels]K\x06as.") == {b"labels": [6]}


class Asks:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("function", [os.system, eval, np.load, getattr])
def test_other_names_are_refused_by_name(function, protocol: int):
    with pytest.raises(UnsafeFileError, match=rf"file.pkl: .*{function.__name__}"):
        load(pickle.dumps(Asks(function, "x"), protocol))


def reduce(name: bytes, arguments: bytes) -> bytes:
    return b"c" + name + b"\n" + arguments + b"R"


DTYPE = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
ARRAY = reduce(b"numpy.core.multiarray\n_reconstruct", b"(cnumpy\nndarray\n(K\x00tU\x01btb"[:-1])
STATE = b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
HUGE = struct.pack("<I", 2**31 - 1)


def _of_dimensions(count: int, byte: bytes = b"a") -> bytes:
    shape = b"(K\x01(" + b"K\x01" * count + b"t"
    return ARRAY + shape + DTYPE + STATE + b"\x89U\x01" + byte + b"tb."


ATTACKS = {
    "object array": pickle.dumps(np.array([{}], dtype=object), 2),
    "structured array": pickle.dumps(np.zeros(1, dtype=[("a", "O")]), 2),
    "dtype with forged fields": DTYPE + b"(K\x03U\x01|N(U\x01atN" + b"K\x01K\x01K\x00tb.",
    "object dtype": b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR.",
    "1 TB array to begin with": reduce(
        b"numpy.core.multiarray\n_reconstruct",
        b"(cnumpy\nndarray\n(\x8a\x06\x00\x00\x00\x00\x00\x01tU\x01bt",
    )
    + b".",
    "1 TB array by its state": b"".join(
        (ARRAY, b"(K\x01(\x8a\x06\x00\x00\x00\x00\x00\x01t", DTYPE, STATE, b"\x89U\x01atb.")
    ),
    "negative shape": ARRAY + b"(K\x01(J\xff\xff\xff\xfft" + DTYPE + STATE + b"\x89U\x01atb.",
    "scalar of a real dtype's memory": reduce(
        b"numpy.core.multiarray\nscalar", b"(" + DTYPE + STATE + b"U\x02abt"
    )
    + b".",
    "state set on a reader": b"cnumpy.core.multiarray\nscalar\n}b.",
    "defaults set on a reader": b"cnumpy.core.multiarray\nscalar\n(N}U\x0c__defaults__Nstb.",
    "memo of 64 GB as text": b"Np99999999\n.",
    "memo of 64 GB": b"\x80\x02Nr\xff\xff\xff\xff.",
    "memo place that is no number": b"Np-1\n.",
    "bytes beyond the end": b"B" + HUGE + b"abc.",
    "bytearray of 16 TB": b"\x80\x05\x96\x00\x00\x00\x00\x00\x10\x00\x00.",
    "bytes of 9 EB": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.",
    "text of 2^60 bytes": b"\x8d" + struct.pack("<Q", 2**60) + b"a.",
    "marks": b"\x80\x04" + b"(" * 5000 + b".",
    "array of 33 dimensions": _of_dimensions(33),
    "object of a class that is not expected": b"\x80\x04cmine\nCell\n)\x81.",
    "memo place that is not there": b"\x80\x02h\x09.",
    "length that overflows": b"\x80\x04\x8e" + struct.pack("<Q", 2**64 - 1) + b"ab.",
    "item of a list": b"\x80\x02]K\x01K\x02s.",
    "element of a dict": b"\x80\x02}K\x01a.",
    "odd items": b"\x80\x02}(K\x01u.",
    "nothing but a stop": b".",
    "open mark": b"N(.",
    "state of a list": b"\x80\x02]}b.",
    "call without a tuple": b"\x80\x04cnumpy\ndtype\nNR.",
    "name of numbers": b"\x80\x04K\x01K\x02\x93.",
    "text that is no text": b"\x80\x04\x8c\x02\xff\xff.",
    "pop": b"\x80\x02N0.",
    "tuple of more than there is": b"\x80\x02NN\x87.",
    "frozen set": b"\x80\x04(\x91.",
    "text in lines": b"S'a'\n.",
    "truncated": pickle.dumps(PLAIN, 4)[:-20],
    "empty": b"",
    "no stop": b"N",
    "persistent id": b"Px\n.",
    "binary persistent id": b"NQ.",
    "extension code": b"\x82\x01.",
    "extension code of two bytes": b"\x83\x01\x00.",
    "extension code of four bytes": b"\x84\x01\x00\x00\x00.",
    "instance": b"(U\x01xios\nsystem\n.",
    "object": b"(cos\nsystem\no.",
    "new object with keywords": b"ccollections\nOrderedDict\n)}\x92.",
    "out-of-band buffer": b"\x97.",
    "latin1 that is a command": reduce(
        b"_codecs\nencode", b"(X\x01\x00\x00\x00aX\x03\x00\x00\x00hext"
    )
    + b".",
    "call of a call": pickle.dumps(Asks(Asks, 1), 2),
    "call of a number": b"K\x01)R.",
    "endless number": b"L" + b"9" * 5000 + b"L\n.",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused_with_the_files_name(name: str):
    with pytest.raises(UnsafeFileError, match=r"file\.pkl"):
        load(ATTACKS[name])


def test_attacks_cost_no_memory():
    limit = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), limit[1]))
    try:
        for data in ATTACKS.values():
            with pytest.raises(UnsafeFileError):
                load(data)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)


def test_extension_code_is_refused_where_the_program_registered_one():
    copyreg.add_extension("os", "system", 0x7F01)
    try:
        with pytest.raises(UnsafeFileError, match="EXT2"):
            load(b"\x83\x01\x7f.")
    finally:
        copyreg.remove_extension("os", "system", 0x7F01)


def test_larger_files_are_refused_unread():
    with pytest.raises(UnsafeFileError, match="larger than 500 bytes"):
        load(pickle.dumps(b"x" * 1000), max_bytes=500)


def test_file_that_is_cut_off_anywhere_is_refused():
    data = pickle.dumps({"table": dict.fromkeys(KEYS[:500], 1.5), **PLAIN}, 4)
    places = {*range(200), *range(200, len(data), 4999), *range(len(data) - 50, len(data))}
    for stop in sorted(places):
        with pytest.raises(UnsafeFileError, match=r"file\.pkl: "):
            load(data[:stop])


def test_deep_or_recursive_data_can_be_freed():
    held = load(b"\x80\x04]\x94h\x00a.")
    assert isinstance(held, list)
    del held


@pytest.mark.parametrize(
    "data",
    [b")" + b"\x85" * 11, b"(" * 12 + b"t" * 12, b")\x94" + b"h\x00\x85\x94"
     + b"".join(b"h%c\x85\x94" % place for place in range(1, 12))],
    ids=["one in another", "by marks", "by the memo"],
)  # fmt: skip
def test_tuples_in_tuples_in_tuples_are_refused(data: bytes):
    """The hash of such a key can end the process, or takes exponential time."""
    with pytest.raises(UnsafeFileError, match="tuples nested more than 10 times"):
        load(b"\x80\x04" + data + b".")
    assert load(b"\x80\x04)" + b"\x85" * 9 + b".") is not None


def scalar(kind: str, raw: bytes, order: bytes = b"<") -> bytes:
    spec = DTYPE.replace(b"U\x02u1", b"U" + bytes([len(kind)]) + kind.encode())
    state = STATE.replace(b"U\x01|", b"U\x01" + order)
    held = b"U" + bytes([len(raw)]) + raw
    return reduce(b"numpy.core.multiarray\nscalar", b"(" + spec + state + held + b"t") + b"."


def test_scalars_are_read_up_to_eight_bytes_and_text_of_any_length():
    assert load(scalar("i8", struct.pack("<q", -7))) == -7
    assert load(scalar("f4", struct.pack(">f", 2.5), b">")) == 2.5
    assert load(scalar("S20", b"x" * 20, b"|")) == b"x" * 20
    with pytest.raises(UnsafeFileError, match="up to 8 bytes"):
        load(scalar("c16", bytes(16)))


@pytest.mark.parametrize(("value", "text"), [
    ("x" * 60, repr("x" * 60)),
    ("x" * 61, repr("x" * 60) + "..."),
    (b"ab", "b'ab'"),
    (None, "None"),
    (1.5, "1.5"),
    ([1], "a list"),
])  # fmt: skip
def test_values_in_messages_are_short(value, text):
    assert shown(value) == text


def test_array_may_have_32_dimensions():
    assert load(_of_dimensions(32, b"\x07")).tolist() == np.full((1,) * 32, 7).tolist()
