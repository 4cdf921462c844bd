"""Files with false or hostile contents: they are refused by name, and nothing in them runs."""

from __future__ import annotations

import bz2
import os
import pickle
import subprocess
import sys
import time

import pytest
from nats_folder import make_folder, make_results
from support import PROJECT

from rebench.errors import RebenchError, UnsafeFileError
from rebench.nats.files import CellResults, decompress, read_results
from rebench.nats.ingest import _Member, ingest


class Runs:
    """Pickles as a call that makes the file `ran`; test_safe_pickle has the other attacks."""

    def __reduce__(self):
        return os.system, ("touch ran",)


def test_a_hostile_value_deep_in_a_good_record_is_refused_with_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = make_folder(tmp_path / "simple", [2])
    hostile = make_results(7)
    hostile["200"]["all_results"]["cifar10", 777]["latency"] = Runs()
    (folder / "000007.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps(hostile)))
    told = r"^000007\.pickle\.pbz2: .* refers to posix\.system"
    with pytest.raises(UnsafeFileError, match=told):
        ingest(folder, tmp_path / "t.parquet", jobs=1)
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "t.parquet").exists()


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


def test_many_streams_are_unpacked_in_work_that_grows_with_their_number():
    """Copying the rest of the file after each of 320,000 streams would be 700 GB."""
    start = time.process_time()
    streams = bz2.compress(b"") * 160_000
    assert decompress(streams + bz2.compress(b"end") + streams, "f") == b"end"
    assert time.process_time() - start < 10


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
        (bz2.compress(pickle.dumps([1, 2])), "the file: expected a dict, got a list"),
    ):
        with pytest.raises(RebenchError, match=rf"f\.pbz2.*{message}"):
            read_results(data, 3, "f.pbz2", CellResults())


@pytest.mark.parametrize("size", [-1, 2**29 + 1])
def test_a_member_of_an_impossible_size_is_refused_unread(size, tmp_path):
    member = _Member(tmp_path / "absent", "000011.pickle.pbz2", 0, size, 0)
    with pytest.raises(UnsafeFileError, match=f"000011.pickle.pbz2: claims {size} bytes; refused"):
        member.read()


@pytest.mark.parametrize(("size", "read"), [(0, b""), (2, b"bc"), (2**29, b"bcd")])
def test_a_member_is_read_from_where_it_begins(size, read, tmp_path):
    (tmp_path / "archive").write_bytes(b"abcd")
    assert _Member(tmp_path / "archive", "000011.pickle.pbz2", 1, size, 0).read() == read
