"""Hostile records, as bzip2-compressed pickles: their contents are larger than their files."""

from __future__ import annotations

import bz2
import functools
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any

from nats_folder import make_results

CELL = 3

_LEAF = b"\x8c\x01a\x94"
_MASK = 2**64 - 1
_HASH_MODULUS = 2**61 - 1


def _edited(edit: Callable[[dict[str, Any]], object]) -> bytes:
    """Return a good record after one change."""
    record = pickle.loads(_good())
    edit(record)
    return pickle.dumps(record, 4)


@functools.cache
def _good() -> bytes:
    results = make_results(CELL)["200"]
    kept = {key: results["all_results"][key] for key in [("cifar10", 777), ("cifar10", 888)]}
    return pickle.dumps(
        {"200": {**results, "all_results": kept, "dataset_seed": {"cifar10": [777, 888]}}}, 4
    )


def _results(edit: Callable[[dict[str, Any]], object]) -> bytes:
    return _edited(lambda record: edit(record["200"]))


def _spliced(name: str, hostile: bytes) -> bytes:
    """Return a record in which the opcodes `hostile` build the value of the field `name`."""
    marker = "the place of the hostile value"
    if name in ("arch_index", "arch_str", "dataset_seed", "all_results"):
        whole = _pure(lambda r: r.update({name: marker}))
    else:
        whole = _pure(lambda r: r["all_results"]["cifar10", 777].update({name: marker}))
    text = marker.encode()
    opcode = b"X" + struct.pack("<I", len(text)) + text
    start = whole.index(opcode)
    stop = start + len(opcode)
    assert whole[stop : stop + 1] in (b"q", b"r"), "the pickler numbers what it keeps"
    stop += 2 if whole[stop : stop + 1] == b"q" else 5
    return whole[:start] + hostile + whole[stop:]


def _pure(edit: Callable[[dict[str, Any]], object]) -> bytes:
    record = pickle.loads(_good())
    edit(record["200"])
    return pickle.dumps(record, 2)


def _key(opcodes: bytes) -> bytes:
    """Return a dict with one key."""
    return b"\x80\x04}" + opcodes + b"Ns."


@functools.cache
def _colliding_pairs(count: int) -> list[tuple[int, int]]:
    """Return pairs of integers with the same hash: the hash of tuples (xxHash) can be inverted."""
    prime_1, prime_2, prime_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
    inverse, pairs, first = pow(prime_2, -1, 2**64), [], 0
    while len(pairs) < count:
        first += 1
        mixed = (prime_5 + first * prime_2) & _MASK
        mixed = ((mixed << 31) | (mixed >> 33)) * prime_1 & _MASK
        second = (12345 - mixed) * inverse & _MASK
        second -= 2**64 if second >= 2**63 else 0
        if abs(second) < _HASH_MODULUS and second != -1:
            pairs.append((first, second))
    assert len({hash(pair) for pair in pairs}) == 1
    return pairs


def _minus_ones_and_twos(bits: int) -> list[tuple[int, ...]]:
    """Return tuples with the same hash, because -1 and -2 have the same hash."""
    return [tuple(-1 - (n >> bit & 1) for bit in range(bits)) for n in range(2**bits)]


def _doubled_tuples(depth: int) -> bytes:
    """Return a nested tuple of pairs: it has few bytes, but hashing it takes 2^depth steps."""
    step = b"".join(b"h%ch%c\x86\x94" % (n, n) for n in range(depth))
    return _LEAF + step


def _doubled_lists(depth: int) -> bytes:
    """Return nested lists of pairs in protocol 2, in memo positions that the record leaves free."""
    parts = [b"]r" + struct.pack("<I", 10_000)]
    for n in range(depth):
        held = b"j" + struct.pack("<I", 10_000 + n)
        parts.append(b"]r" + struct.pack("<I", 10_001 + n) + b"(" + held + held + b"e")
    return b"".join(parts)


def claims() -> Iterator[tuple[str, bytes]]:
    """Yield records with more epochs, seeds, splits or trials than any real record."""

    def many_epochs(record: dict[str, Any]) -> None:
        record["90000"] = record.pop("200")
        for trial in record["90000"]["all_results"].values():
            trial["epochs"] = 90_000
            trial["train_acc1es"][89_999] = 1.0

    yield "90,000 epochs", _edited(many_epochs)
    yield (
        "500,000 times the same seed",
        _results(lambda r: r["dataset_seed"].update(cifar10=[777] * 500_000)),
    )
    yield (
        "300,000 seeds of one trial",
        _results(lambda r: r["dataset_seed"].update(cifar10=list(range(300_000)))),
    )
    yield "1,000 trials", _results(_many_trials)
    many_names = {"eval_names": ["ori-test"] * 500_000}
    yield (
        "500,000 evaluations",
        _results(lambda r: r["all_results"]["cifar10", 777].update(many_names)),
    )


def _many_trials(results: dict[str, Any]) -> None:
    trial = results["all_results"]["cifar10", 777]
    for seed in range(1000):
        results["all_results"]["cifar10", seed] = trial
    results["dataset_seed"]["cifar10"] = list(range(1000))


def colliding() -> Iterator[tuple[str, bytes]]:
    """Yield records with dicts and sets whose keys all have the same hash."""
    long = [n * _HASH_MODULUS for n in range(1, 30_000)]
    yield "colliding integers", b"\x80\x04}(" + b"".join(_longs([n]) + b"N" for n in long) + b"u."
    yield "colliding integers in a set", b"\x80\x04\x8f(" + _longs(long) + b"\x90."
    yield "colliding integers as text", b"}(" + b"".join(b"L%dL\nN" % n for n in long) + b"u."
    pairs = b"".join(_int(a) + _int(b) + b"\x86N" for a, b in _colliding_pairs(15_000))
    yield "colliding pairs", b"\x80\x04}(" + pairs + b"u."
    ones = _minus_ones_and_twos(12)
    flat = b"".join(b"(" + b"".join(map(_int, key)) + b"tN" for key in ones)
    yield "tuples of -1 and -2", b"\x80\x04}(" + flat + b"u."
    lists = b"".join(b"](" + _int(a) + _int(b) + b"\x86Ne" for a, b in _colliding_pairs(15_000))
    ordered = b"ccollections\nOrderedDict\n"
    yield "an OrderedDict of pairs", b"\x80\x04" + ordered + b"](" + lists + b"e\x85R."
    complex_scalar = b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(U\x03c16K\x00K\x01tRC\x10"
    yield "a complex scalar", b"\x80\x04" + complex_scalar + bytes(16) + b"tR."


def _int(value: int) -> bytes:
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)


def _longs(values: list[int]) -> bytes:
    return b"".join(b"\x8a\x0c" + value.to_bytes(12, "little") for value in values)


def nested() -> Iterator[tuple[str, bytes]]:
    """Yield records with deeply nested keys and values, for hashes, comparisons and messages."""
    deep = 1_900_000
    yield "key nested deeply", _key(b")" + b"\x85" * deep)
    yield "key nested deeply, kept", _key(b")" + b"\x85\x94" * deep)
    yield "key nested in marks", _key(b"(" * (deep // 2) + b"t" * (deep // 2))
    yield "key nested to the limit", _key(b")" + b"\x85" * 1000)
    yield "key of doubled tuples", _key(_doubled_tuples(60))
    yield "doubled by DUP", _key(b")" + b"2\x86" * 60)
    yield (
        "kept twice",
        _key(_LEAF + b"".join(b"h%ch%c\x86\x94\x94" % (2 * n, 2 * n) for n in range(60))),
    )
    yield (
        "kept after nothing",
        _key(_LEAF + b"".join(b"h%ch%c\x86(e\x94" % (n, n) for n in range(60))),
    )
    yield (
        "kept after a POP",
        _key(_LEAF + b"".join(b"h%ch%c\x86N0\x94" % (n, n) for n in range(60))),
    )
    numbered = b"X\x01\x00\x00\x00aq\x00" * 2 + b"".join(
        b"h%ch%c\x86\x94" % (n, n) for n in range(60)
    )
    yield "counted and numbered", _key(numbered)
    yield "frozensets nested", _key(b"(" * 500_000 + b"\x91" * 500_000)
    yield "lists nested", b"\x80\x04" + b"]" * (deep // 2) + b"a" * (deep // 2 - 1) + b"."
    yield "dicts nested", b"\x80\x04" + b"}N" * (deep // 3) + b"}" + b"s" * (deep // 3) + b"."
    for field in ("latency", "eval_names", "epochs", "params", "train_acc1es", "eval_losses"):
        yield f"doubled lists as {field}", _spliced(field, _doubled_lists(60))
    for field in ("arch_index", "arch_str", "dataset_seed", "all_results"):
        yield f"doubled lists as the {field}", _spliced(field, _doubled_lists(60))


def sizes() -> Iterator[tuple[str, bytes]]:
    """Yield records with many objects of a few bytes, or one object of a huge claimed size."""
    many = 1_900_000
    start = b"\x80\x04]("
    yield "lists", start + b"]" * many + b"e."
    yield "dicts", start + b"}" * many + b"e."
    yield "sets", start + b"\x8f" * many + b"e."
    yield (
        "OrderedDicts",
        start + b"ccollections\nOrderedDict\n\x94" + b"h\x00)R" * (many // 4) + b"e.",
    )
    yield "empty tuples", start + b")" * many + b"e."
    yield "marks", start + b"(" * many + b"e."
    yield "short texts", start + b"\x8c\x02ab" * (many // 4) + b"e."
    yield "a bomb", b"\x80\x04" + bytes(2**26)
    yield "an integer of 1 MB", b"\x80\x04\x8b" + struct.pack("<I", 2**20) + b"\xff" * 2**20 + b"."
    yield "an integer of 2 million digits", b"I" + b"9" * 2_000_000 + b"\n."
    yield "text beyond the end", b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b"a."
    yield "a memo of 4 billion", b"\x80\x04Nr\xff\xff\xff\xff."
    shape = b"(" + b"\x8a\x08" + b"\xff" * 7 + b"\x7f"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
    state = b"(K\x01(" + (shape[1:]) * 50_000 + b"t" + dtype + b"\x89U\x01atb."
    yield "an array of 50,000 dimensions", array + state
    yield (
        "a dtype of doubled lists",
        (
            b"\x80\x04cnumpy\ndtype\n]\x94"
            + b"".join(b"]\x94(h%ch%ce" % (n, n) for n in range(60))
            + b"\x85R."
        ),
    )


def crafted_records() -> dict[str, bytes]:
    """Return all hostile records by name."""
    groups = (claims, colliding, nested, sizes)
    return {name: bz2.compress(data, 1) for group in groups for name, data in group()}
