"""Pickles as inert trees, and pandas' frames in them: what is read, and what is refused."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import struct
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import PROJECT

from rebench.errors import UnsafeFileError
from rebench.safe_pickle import Call, Name, Pairs, bounded, read_frame, read_inert

ARCHIVE = PROJECT / "tests/surfaces/jahs/metric_data.tar"


def plain(tree):
    """What a tree without calls stands for."""
    if type(tree) is Pairs:
        return {plain(k): plain(v) for k, v in zip(tree.keys, tree.values, strict=True)}
    if type(tree) in (list, tuple):
        return type(tree)(map(plain, tree))
    return bytes(tree) if type(tree) is memoryview else tree


def frames() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        return {entry.name: gzip.decompress(archive.extractfile(entry).read()) for entry in archive}


PLAIN = {"text": ["é", 1, 300, -5, 70000, 2**40, -(2**40), 2.5, None, True, False], (1, "k"): {}}
KEYS = [(f"hash {number}", 0.1, 256, 777) for number in range(3000)]
TABLE = {
    name: dict(zip(KEYS, np.random.default_rng(seed).normal(size=3000).tolist(), strict=True))
    for seed, name in enumerate(("a", "b", "c"))
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_read_at_every_binary_protocol(protocol: int):
    assert plain(read_inert(pickle.dumps(PLAIN, protocol), "file")) == PLAIN
    assert plain(read_inert(pickle.dumps(TABLE, protocol), "file")) == TABLE


def test_bytes_are_views_of_the_file():
    data = pickle.dumps([b"a" * 100, b"b" * 300], 4)
    first, second = read_inert(data, "file")
    assert first.obj is data
    assert (bytes(first), bytes(second)) == (b"a" * 100, b"b" * 300)


@pytest.mark.parametrize("broken", [0, 1, 15, 16, 17, 999, 1000, 1001, 2500])
def test_table_with_another_value_in_its_midst_is_read(broken: int):
    values: list[object] = [float(value) for value in range(3000)]
    values[broken] = "text"
    shared = {"first": dict.fromkeys(KEYS, 0.0), "second": dict(zip(KEYS, values, strict=True))}
    assert plain(read_inert(pickle.dumps(shared, 4), "file")) == shared


class Harm:
    def __reduce__(self):
        return os.system, ("touch /tmp/never",)


def test_call_is_written_down_and_not_made():
    call = read_inert(pickle.dumps(Harm(), 4), "file")
    assert type(call) is Call
    assert call.function == Name(os.system.__module__, "system")
    assert call.arguments == ("touch /tmp/never",)


def test_file_that_is_cut_off_anywhere_is_refused():
    data = pickle.dumps({"table": TABLE["a"], **PLAIN}, 4)
    places = {*range(200), *range(200, len(data), 997), *range(len(data) - 50, len(data))}
    for stop in sorted(places):
        with pytest.raises(UnsafeFileError, match="file: "):
            read_inert(data[:stop], "file")


def test_frame_with_changed_bytes_is_refused_or_a_frame():
    data = next(content for name, content in frames().items() if "train" in name)
    draw = random.Random(0)
    refusals = []
    for _ in range(1000):
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            read = read_frame(bytes(changed), "file")
        except UnsafeFileError as error:
            refusals.append(str(error))
        else:
            assert len({len(column) for column in read.values()}) == 1
    assert len(refusals) > 50
    assert all(said.startswith("file: ") and "\n" not in said for said in refusals)


HOSTILE = {
    "marks": b"\x80\x04" + b"(" * 5000 + b".",
    "containers": b"\x80\x04" + b"]" * 50_000 + b".",
    "tuples of tuples": b"\x80\x04)" + b"\x85" * 50_000 + b".",
    "memo place ahead of its turn": b"\x80\x02Nr\xff\xff\xff\xff.",
    "memo place that is not there": b"\x80\x02h\x09.",
    "bytes longer than the file": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"ab.",
    "length that overflows": b"\x80\x04\x8e" + struct.pack("<Q", 2**64 - 1) + b"ab.",
    "integer of many bytes": b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b".",
    "item of a list": b"\x80\x02]K\x01K\x02s.",
    "element of a dict": b"\x80\x02}K\x01a.",
    "odd items": b"\x80\x02}(K\x01u.",
    "nothing": b"",
    "nothing but a stop": b".",
    "two objects": b"NN.",
    "open mark": b"N(.",
    "state of a list": b"\x80\x02]}b.",
    "call without a tuple": b"\x80\x04\x8c\x01a\x8c\x01b\x93NR.",
    "name of numbers": b"\x80\x04K\x01K\x02\x93.",
    "text that is no text": b"\x80\x04\x8c\x02\xff\xff.",
    "persistent id": b"\x80\x04NQ.",
    "extension": b"\x80\x02\x82\x01.",
    "buffer": b"\x80\x05\x97.",
    "pop": b"\x80\x02N0.",
    "set": b"\x80\x04\x8f.",
    "text in lines": b"S'a'\n.",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_crafted_pickle_is_refused_in_one_line(kind: str):
    with pytest.raises(UnsafeFileError, match="file: ") as refused, bounded("file"):
        read_inert(HOSTILE[kind], "file")
    assert "\n" not in str(refused.value)


def test_tree_that_is_deep_or_holds_itself_is_let_go_again():
    name = b"\x8c\x01a\x8c\x01b\x93"
    deep_calls = b"\x80\x04" + name * 900 + b")" + b"R\x85" * 900 + b"."
    for data in (b"\x80\x04]\x94h\x00a.", b"\x80\x04" + b"(" * 900 + b"t" * 900 + b".", deep_calls):
        tree = read_inert(data, "file")
        assert type(tree) in (list, tuple)
        del tree


@pytest.mark.parametrize("name", ["raw", "train_set", "valid_set", "test_set"])
def test_frame_is_read_as_pandas_reads_it(name: str, tmp_path: Path):
    held = {path: data for path, data in frames().items() if f"/{name}.pkl.gz" in path}
    assert len(held) == 2
    for path, data in held.items():
        (tmp_path / "frame.pkl").write_bytes(data)
        expected = pd.read_pickle(tmp_path / "frame.pkl")
        found = read_frame(data, path)
        assert list(found) == [tuple(column) for column in expected.columns]
        for column, values in found.items():
            pd.testing.assert_series_equal(
                pd.Series(values), expected[column], check_index=False, check_names=False,
                check_dtype=False,
            )  # fmt: skip


def test_frame_that_asks_for_another_function_is_refused():
    data = next(iter(frames().values()))
    # Blocks are told by what stands in them; what would make them is never called.
    assert read_frame(data.replace(b"new_block", b"make_bomb"), "file").keys()
    for name, other in (
        (b"_reconstruct", b"_deconstruct"),
        (b"BlockManager", b"BlockMangler"),
        (b"DataFrame", b"DataFlame"),
        (b"_new_Index", b"_new_Label"),
        (b"partial", b"martial"),
        (b"slice", b"slide"),
    ):
        with pytest.raises(UnsafeFileError, match=r"file: not a data frame.*asks for|must be"):
            read_frame(data.replace(name, other), "file")
    with pytest.raises(UnsafeFileError, match="file: not a data frame"):
        read_frame(pickle.dumps({"features": 1}, 4), "file")
