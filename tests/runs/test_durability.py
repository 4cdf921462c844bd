"""Files are synced before they get their name, and their folder after that."""

from __future__ import annotations

import os
import shutil
import stat
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from rebench.errors import StoreError
from rebench.runs import ShardWriter, shards, write_atomically
from rebench.runs.folder import Kept, write_kept


class Synced(NamedTuple):
    """State at one call of fsync: the file or folder, and the visible files of the folder."""

    inode: int
    is_folder: bool
    size: int
    shown: dict[str, bytes]


@pytest.fixture
def synced(tmp_path, monkeypatch) -> list[Synced]:
    """List of all calls of fsync, in order; the real fsync runs too."""
    calls: list[Synced] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        about = os.fstat(descriptor)
        shown = {
            path.name: path.read_bytes()
            for path in tmp_path.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }
        is_folder = stat.S_ISDIR(about.st_mode)
        calls.append(Synced(about.st_ino, is_folder, 0 if is_folder else about.st_size, shown))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return calls


def test_file_is_synced_whole_before_it_has_its_name_and_the_folder_after_that(tmp_path, synced):
    write_kept(tmp_path / "new" / "folder" / "x", Kept())
    shutil.rmtree(tmp_path / "new")
    synced.clear()
    path, content = tmp_path / "x", b'{"version":1}'
    path.write_bytes(b"old")
    write_kept(path, Kept())
    folder = tmp_path.stat().st_ino
    assert synced == [
        (path.stat().st_ino, False, len(content), {"x": b"old"}),
        (folder, True, 0, {"x": content}),
    ]
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["x"], "no temporary file is left"


def test_lines_are_synced_before_an_append_returns_and_the_folder_once(tmp_path, synced):
    writer = ShardWriter(tmp_path / "results", "w")
    writer.append(["a", "bc"])
    assert [(one.is_folder, one.size) for one in synced] == [(True, 0), (False, 5)]
    shard, folder = writer.path.stat().st_ino, writer.folder.stat().st_ino
    assert [one.inode for one in synced] == [folder, shard]
    assert [one.shown for one in synced] == [{"w.0.jsonl": b""}, {"w.0.jsonl": b"a\nbc\n"}]
    writer.append(["d"])
    assert synced[2:] == [(shard, False, 7, {"w.0.jsonl": b"a\nbc\nd\n"})]
    writer.close()
    writer.append(["e"])
    assert [one.inode for one in synced[3:]] == [
        folder,
        (tmp_path / "results/w.1.jsonl").stat().st_ino,
    ]


def test_line_that_could_not_be_synced_is_cut_off_and_appended_again(tmp_path, monkeypatch):
    sync, shard = os.fsync, tmp_path / "w.0.jsonl"
    errors, sizes, waits = [5, 28], [], []

    def refuse_twice(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        if errors:
            raise OSError(errors[0], os.strerror(errors.pop(0)))
        sync(descriptor)

    writer = ShardWriter(tmp_path, "w", on_wait=waits.append)
    writer.append(["a"])
    monkeypatch.setattr(os, "fsync", refuse_twice)
    writer.append(["bc"])
    assert (sizes, shard.read_bytes()) == ([5, 5, 5], b"a\nbc\n")
    assert waits == [
        f"cannot append to {shard}: Input/output error; trying again in 0.1 s",
        f"cannot append to {shard}: No space left on device; trying again in 0.2 s",
    ]
    errors[:] = [30]  # a read-only file system stays read-only
    with pytest.raises(StoreError, match="Read-only file system; earlier lines are not lost"):
        writer.append(["d"])
    errors[:] = [5]
    with pytest.raises(StoreError, match=r"cannot write .*: Input/output error; it is unchanged"):
        write_atomically(shard, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["w.0.jsonl"]
    assert (len(waits), shard.read_bytes()) == (2, b"a\nbc\n")


def test_pauses_double_up_to_ten_seconds_and_end_with_the_patience(tmp_path, monkeypatch):
    """The test replaces the clock. There is no further pause, because it would end after 60 s."""
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append)
    monkeypatch.setattr(shards, "time", clock)
    (tmp_path / "results").touch()
    writer = ShardWriter(tmp_path / "results", "w")
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(writer, "_try_append", lambda _: full)
    with pytest.raises(StoreError, match="No space left on device"):
        writer.append(["a"])
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10])
