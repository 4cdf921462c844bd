"""Shards on a real file system: one writer each, torn tails, full disks, read-only folders."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import small_disk

from rebench.errors import StoreError
from rebench.runs import ShardReader, ShardWriter


def _lines(folder: Path) -> list[bytes]:
    return [line.data for line in ShardReader(folder).read_new()]


def test_second_writer_of_one_name_takes_the_next_attempt(tmp_path):
    first, second = ShardWriter(tmp_path, "w", 0), ShardWriter(tmp_path, "w", 0)
    before = os.umask(0)
    try:
        first.append(["a"])
    finally:
        os.umask(before)
    assert first.path.stat().st_mode & 0o777 == 0o664
    second.append(["b"])
    first.append(["c"])
    assert (tmp_path / "w.0.jsonl").read_text() == "a\nc\n"
    assert (tmp_path / "w.1.jsonl").read_text() == "b\n"


def test_reader_goes_on_where_it_stopped_and_finishes_a_torn_line_later(tmp_path):
    shard = tmp_path / "w.0.jsonl"
    shard.write_bytes(b"a\nbb")
    reader = ShardReader(tmp_path)
    assert [(line.number, line.data) for line in reader.read_new()] == [(1, b"a")]
    assert reader.problems == [
        f"{tmp_path.name}/w.0.jsonl ends with an unfinished line, which is ignored"
    ]
    with shard.open("ab") as file:
        file.write(b"b\nc\n")
    assert [(line.number, line.data) for line in reader.read_new()] == [(2, b"bbb"), (3, b"c")]
    assert not reader.problems
    assert list(reader.read_new()) == []


def test_full_disk_loses_nothing_and_the_next_append_works_once_there_is_room(tmp_path):
    with small_disk(tmp_path / "disk", "size=64k") as disk:
        writer = ShardWriter(disk / "results", "w", 0, patience_s=0.2)
        writer.append(["first"])
        ballast = disk / "ballast"
        with contextlib.suppress(OSError):
            ballast.write_bytes(bytes(48 * 1024))
        with pytest.raises(StoreError, match=r"w\.0\.jsonl: No space left.*not lost"):
            writer.append(["x" * 40_000])
        assert _lines(disk / "results") == [b"first"]
        ballast.unlink()
        writer.append(["second"])
        assert _lines(disk / "results") == [b"first", b"second"]
        writer.close()


@pytest.mark.slow
def test_writer_killed_at_random_moments_leaves_whole_lines(tmp_path):
    """A process that appends numbered lines is killed many times; only whole lines count."""
    code = (
        "import sys; from pathlib import Path; from rebench.runs import ShardWriter\n"
        "writer = ShardWriter(Path(sys.argv[1]), 'w')\n"
        "for number in range(10**6): writer.append([f'{number}:' + 'x' * 5000])"
    )
    for attempt, delay_s in enumerate((0.01, 0.083, 0.157, 0.211)):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        shard = tmp_path / f"w.{attempt}.jsonl"
        while not shard.exists() or shard.stat().st_size < 6000:
            time.sleep(0.01)
        time.sleep(delay_s)
        process.kill()
        process.wait()
    shards = sorted(tmp_path.glob("w.*.jsonl"))
    assert len(shards) == 4
    for shard in shards:
        *lines, _ = shard.read_bytes().split(b"\n")
        assert lines
        for number, line in enumerate(lines):
            assert line == f"{number}:".encode() + b"x" * 5000


def test_folder_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot append to .*file/results: Not a directory"):
        ShardWriter(tmp_path / "file" / "results", "w", patience_s=0).append(["a"])
