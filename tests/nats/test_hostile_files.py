"""Files with false or hostile contents: they are refused by name, and nothing in them runs."""

from __future__ import annotations

import bz2
import os
import pickle
import resource
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from nats_folder import make_results
from support import PROJECT

from rebench.errors import InputError, UnsafeFileError
from rebench.nats.files import CellResults, read_results
from rebench.nats.ingest import _Member, ingest


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments) -> None:
        self._call = (function, arguments)

    def __reduce__(self):
        return self._call


def _nested(result: dict, hostile: object) -> dict:
    result["200"]["all_results"]["cifar10", 777]["latency"] = hostile
    return result


HOSTILE = {
    "os.system": (Calls(os.system, "touch ran"), "system"),
    "eval": (Calls(eval, "open('ran', 'w')"), "builtins.eval"),
    "exec": (Calls(exec, "open('ran', 'w')"), "builtins.exec"),
    "getattr": (Calls(getattr, "x", "upper"), "builtins.getattr"),
    "nested": (OrderedDict({"12": [{"a": (Calls(os.system, "touch ran"),)}]}), "system"),
    "subprocess": (Calls(subprocess.Popen, ["touch", "ran"]), "subprocess.Popen"),
    "path": (Path("ran"), "pathlib"),
    "objects": (np.array([Calls(os.system, "touch ran")], dtype=object), "array of dtype 'O"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_refused_with_its_file_and_global(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile, asked_for = HOSTILE[name]
    folder = tmp_path / "simple"
    folder.mkdir()
    (folder / "000007.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps(hostile, protocol=4)))
    with pytest.raises(UnsafeFileError, match=r"000007\.pickle\.pbz2") as caught:
        ingest(folder, tmp_path / "t.parquet", jobs=1)
    assert asked_for in str(caught.value)
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "t.parquet").exists()


def test_a_hostile_value_deep_in_a_good_record_is_refused():
    good = make_results(3)
    into = CellResults()
    read_results(bz2.compress(pickle.dumps(good)), 3, "good", into)
    rows = len(into.rows["index"])
    assert rows > 50
    bad = bz2.compress(pickle.dumps(_nested(make_results(3), Calls(os.system, "touch ran"))))
    with pytest.raises(UnsafeFileError, match=r"bad: .*the file refers to posix.system"):
        read_results(bad, 3, "bad", into)
    assert len(into.rows["index"]) == rows, "nothing of a refused file is kept"


def test_a_bzip2_bomb_is_stopped_by_size_and_memory(tmp_path):
    # 2 GiB of zeros in about 1.5 kB, read by a process that may not take 1 GiB.
    bomb = bz2.compress(bytes(2**24)) * 128
    (tmp_path / "bomb").write_bytes(bomb)
    code = (
        "import sys; from pathlib import Path; from rebench.nats.files import decompress\n"
        "from rebench.errors import UnsafeFileError; import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30 + 2**29, 2**30 + 2**29))\n"
        "try: decompress(Path(sys.argv[1]).read_bytes(), 'bomb.pbz2')\n"
        "except UnsafeFileError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "bomb")],
        cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "bomb.pbz2: unpacks to more than" in done.stdout


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x80\x04r\xff\xff\xff\xff.",  # a memo place of 4 billion
        b"\x80\x05\x96\x00\x00\x00\x00\x00\x10\x00\x00.",  # a bytearray of 16 TB
        b"\x80\x04" + b"(" * 3 + b"\x8e" + b"\xff" * 7 + b"\x7f.",  # bytes of 9 EB
    ],
)
def test_a_pickle_bomb_is_refused_before_it_allocates(bomb):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnsafeFileError, match="bomb"):
        read_results(bz2.compress(bomb), 0, "bomb", CellResults())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_truncated_empty_and_foreign_files_are_named():
    whole = bz2.compress(pickle.dumps(make_results(3)))
    for data, message in (
        (whole[:-100], "truncated"),
        (whole[:10], "truncated"),
        (b"", "empty"),
        (bz2.compress(b""), "empty"),
        (b"PK\x03\x04 not bzip2", "not a bzip2 file"),
        (whole + b"tail", "not a bzip2 file"),
        (bz2.compress(pickle.dumps(make_results(3))[:-50]), "pickle"),
    ):
        with pytest.raises(UnsafeFileError, match=rf"f\.pbz2.*{message}"):
            read_results(data, 3, "f.pbz2", CellResults())


@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        {"200": {"arch_index": 3}},
        {"two": make_results(3)["200"]},
        {"90": make_results(3)["200"]},
        make_results(4),
    ],
)
def test_plain_data_of_another_shape_is_refused(content):
    with pytest.raises(InputError, match=r"f.pbz2: not a result of NATS-Bench's topology space"):
        read_results(bz2.compress(pickle.dumps(content)), 3, "f.pbz2", CellResults())


@pytest.mark.parametrize("size", [-1, 2**29 + 1])
def test_a_member_of_an_impossible_size_is_refused_unread(size, tmp_path):
    member = _Member(tmp_path / "absent", "000011.pickle.pbz2", 0, size, 0)
    with pytest.raises(UnsafeFileError, match=f"000011.pickle.pbz2: claims {size} bytes; refused"):
        member.read()


@pytest.mark.parametrize(("size", "read"), [(0, b""), (2, b"bc"), (2**29, b"bcd")])
def test_a_member_is_read_from_where_it_begins(size, read, tmp_path):
    (tmp_path / "archive").write_bytes(b"abcd")
    assert _Member(tmp_path / "archive", "000011.pickle.pbz2", 1, size, 0).read() == read
