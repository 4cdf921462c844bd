"""Downloads of large files over HTTP: resumable, limited in size, and complete or absent.

The bytes that arrived stay in ``.NAME.part`` next to the file until it is complete, with the
server's mark of its version (ETag or date). Only the same version is resumed. The length must be
the announced length.

pooch cannot resume, and a file of 36 GB must, so pooch computes the hash only. Resuming costs about
50 lines here. On top of pooch's downloader it costs about 70.
"""

from __future__ import annotations

import http.client
import os
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from rebench.errors import InputError, MissingDataError, UnsafeFileError

__all__ = ["Downloaded", "download"]

_OnProgress: TypeAlias = Callable[[int, int], None]

_TIMEOUT_S: Final = 60.0
_PIECE: Final = 2**20
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_RANGE: Final = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", re.ASCII)
_BROKEN: Final = (
    http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError, urllib.error.URLError
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """Result of a download: the file, its size and its SHA-256."""

    path: Path
    bytes: int
    sha256: str


def download(
    url: str,
    target: Path,
    *,
    largest_bytes: int,
    on_progress: _OnProgress = lambda _done, _total: None,
) -> Downloaded:
    """Download a file; a file that exists is not changed.

    Args:
        url: address of the file: https, or http on this machine.
        target: path to write.
        largest_bytes: largest size that is accepted.
        on_progress: called with the number of bytes that arrived and with their total.
    """
    import pooch  # imported here, because it loads its network code

    _check_url(url)
    part = target.with_name(f".{target.name}.part")
    try:
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            _fetch_part(url, part, largest_bytes, on_progress)
            part.replace(target)
            _drop(part)
        digest, size = pooch.file_hash(str(target)), target.stat().st_size
    except OSError as error:
        raise MissingDataError(f"{target} cannot be written: {error.strerror or error}") from error
    return Downloaded(path=target, bytes=size, sha256=digest)


def _mark(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


def _begun(part: Path) -> tuple[int, str]:
    """Return the number of bytes that an earlier download left, and their version."""
    version = _mark(part).read_text("utf-8").strip() if _mark(part).is_file() else ""
    return (part.stat().st_size, version) if version and part.is_file() else (0, "")


def _drop(part: Path) -> None:
    part.unlink(missing_ok=True)
    _mark(part).unlink(missing_ok=True)


def _fetch_part(url: str, part: Path, largest_bytes: int, on_progress: _OnProgress) -> None:
    """Download the rest of the file into `part`."""
    try:
        _request_rest(url, part, largest_bytes, on_progress)
    except _BROKEN as error:
        kept, _ = _begun(part)
        problem = str(getattr(error, "reason", error)) or type(error).__name__
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            if kept and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                _drop(part)  # the part is longer than the file
                return _fetch_part(url, part, largest_bytes, on_progress)
            raise MissingDataError(f"{url}: {error.code} {problem}") from error
        more = f"; {kept} bytes are kept: the same command resumes" if kept else ""
        raise MissingDataError(f"{url} could not be fetched: {problem}{more}") from error


def _request_rest(url: str, part: Path, largest_bytes: int, on_progress: _OnProgress) -> None:
    """Make one request for the missing bytes."""
    done, version = _begun(part)
    headers = {"Accept-Encoding": "identity", "User-Agent": "rebench"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": version}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked: https or loopback
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 - checked
        _check_url(response.url)
        told = response.headers
        if response.status == http.HTTPStatus.PARTIAL_CONTENT:
            extent = _RANGE.fullmatch(told.get("Content-Range", ""))
            if extent is None or int(extent[1]) != done:
                raise http.client.HTTPException(f"got other bytes than the requested {done}-")
            total = int(extent[2])
        else:
            _drop(part)  # first drop the bytes of the old version, then store the new mark
            length = told.get("Content-Length", "")
            if not length.isdecimal():
                raise MissingDataError(
                    f"{url}: the server does not say how long the file is; try another address"
                )
            done, total = 0, int(length)
        if total > largest_bytes:
            problem = f"{url} is {total} bytes, and at most {largest_bytes} are taken; refused"
            raise UnsafeFileError(problem)
        _mark(part).write_text(told.get("ETag") or told.get("Last-Modified", ""), "utf-8")
        with part.open("ab") as out:
            try:
                while piece := response.read1(min(_PIECE, total - done)):
                    done += len(piece)
                    out.write(piece)
                    on_progress(done, total)
            finally:
                out.flush()
                os.fsync(out.fileno())
    if done != total:
        raise http.client.HTTPException(f"the connection ended after {done} of {total} bytes")


def _check_url(url: str) -> None:
    told = urllib.parse.urlsplit(url)
    if told.scheme != "https" and not (told.scheme == "http" and told.hostname in _LOOPBACK):
        raise InputError(f"a download must be from an https address, got {url}")
