"""A large file over HTTP: resumed where it broke off, bounded, and whole or not there at all.

What arrives lies in ``.NAME.part`` beside the file until it is complete, with the server's mark of
its version (ETag or date): it is resumed only from the same version. Its length is held against
what the server announced, and its SHA-256 against the known one, where one is known.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rebench.errors import InputError, MissingDataError, UnsafeFileError
from rebench.surfaces.catalogue import Download

__all__ = ["Downloaded", "download"]

_TIMEOUT_S: Final = 60.0
_TRIES: Final = 5
_PIECE: Final = 2**20
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_RANGE: Final = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", re.ASCII)
_BROKEN: Final = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """What was fetched; `resumed_at` is how much of it an earlier try had brought."""

    path: Path
    bytes: int
    sha256: str
    resumed_at: int


@dataclass(frozen=True, slots=True)
class _Part:
    """What has arrived of a file, and from which version."""

    path: Path

    @property
    def mark(self) -> Path:
        return self.path.with_name(f"{self.path.name}.version")

    def begun(self) -> tuple[int, str]:
        """Return how many bytes can be kept, and of which version."""
        if not (self.path.is_file() and self.mark.is_file()):
            return 0, ""
        version = self.mark.read_text("utf-8").strip()
        return (self.path.stat().st_size, version) if version else (0, "")

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)
        self.mark.unlink(missing_ok=True)


def download(
    file: Download,
    folder: Path,
    *,
    on_progress: Callable[[int, int | None], None] = lambda _done, _total: None,
    pause_s: float = 2.0,
) -> Downloaded:
    """Fetch a file into a folder; one that is there already is checked and left alone.

    Args:
        file: what to fetch.
        folder: where to.
        on_progress: called with how many bytes there are, and how many there will be, if known.
        pause_s: before it is tried again, doubled each time.
    """
    _check_url(file.url)
    target = folder / file.name
    if target.exists():
        digest = _digest(target)
        _check_digest(file, target, digest)
        return Downloaded(path=target, bytes=target.stat().st_size, sha256=digest, resumed_at=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = _Part(folder / f".{file.name}.part")
        resumed_at = part.begun()[0]
        _fetch_part(file, part, on_progress, pause_s)
        digest = _digest(part.path)
        try:
            _check_digest(file, target, digest)
        except UnsafeFileError:
            part.drop()
            raise
        size = part.path.stat().st_size
        part.path.replace(target)
        part.drop()
    except OSError as error:
        raise MissingDataError(f"{target} cannot be written: {error.strerror or error}") from error
    return Downloaded(path=target, bytes=size, sha256=digest, resumed_at=resumed_at)


def _fetch_part(
    file: Download, part: _Part, on_progress: Callable[[int, int | None], None], pause_s: float
) -> None:
    """Bring the whole file into `part`, again and again where the connection breaks."""
    problem = ""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(pause_s * 2 ** (attempt - 1))
        try:
            done, total = _try_once(file, part, on_progress)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.drop()
            elif error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                raise MissingDataError(f"{file.url}: {error.code} {error.reason}") from error
            problem = f"{error.code} {error.reason}"
        except urllib.error.URLError as error:
            problem = str(error.reason)
        except _BROKEN as error:
            problem = str(error) or type(error).__name__
        else:
            if total is None or done == total:
                return
            problem = f"the connection ended after {done} of {total} bytes"
    kept = part.begun()[0]
    more = f"; {kept} bytes are kept: the same command goes on from there" if kept else ""
    raise MissingDataError(f"{file.url} could not be fetched: {problem}{more}")


def _try_once(
    file: Download, part: _Part, on_progress: Callable[[int, int | None], None]
) -> tuple[int, int | None]:
    """Return how many bytes there are after one request, and how many there should be."""
    begun, version = part.begun()
    headers = {"Accept-Encoding": "identity", "User-Agent": "rebench"}
    if begun:
        headers |= {"Range": f"bytes={begun}-", "If-Range": version}
    request = urllib.request.Request(file.url, headers=headers)  # noqa: S310 - checked: https or loopback
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 - checked
        _check_url(response.url)
        start, total = _extent(response.status, response.headers, begun)
        if total is None and file.sha256 is None:
            raise MissingDataError(
                f"{file.url}: the server does not say how long the file is, so that nobody could "
                f"say whether all of it came"
            )
        if total is not None:
            _check_size(file, total, part.path.parent, total - start)
        if not start:
            part.drop()  # before its mark changes: no version may stand over bytes of another
        strong = response.headers.get("ETag", "")
        named = strong if not strong.startswith("W/") else ""
        part.mark.write_text(named or response.headers.get("Last-Modified", ""), "utf-8")
        with part.path.open("r+b" if start else "wb") as out:
            out.seek(start)
            out.truncate()
            done = start
            try:
                while piece := response.read(_PIECE):
                    done += len(piece)
                    _check_size(file, done, part.path.parent, 0)
                    out.write(piece)
                    on_progress(done, total)
            except http.client.IncompleteRead as error:
                out.write(error.partial)
                raise
            finally:
                out.flush()
                os.fsync(out.fileno())
    return done, total


def _extent(status: int, headers: http.client.HTTPMessage, begun: int) -> tuple[int, int | None]:
    """Return where what comes starts in the file, and how long the file is."""
    if status == http.HTTPStatus.PARTIAL_CONTENT:
        told = _RANGE.fullmatch(headers.get("Content-Range", ""))
        if told is None or int(told[1]) != begun:
            raise http.client.HTTPException(f"a part that was not asked for, instead of {begun}-")
        return begun, int(told[2])
    length = headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _check_size(file: Download, size: int, folder: Path, needed: int) -> None:
    if size > file.largest_bytes:
        raise UnsafeFileError(
            f"{file.url} is {size} bytes or more, and at most {file.largest_bytes} are taken; "
            f"refused"
        )
    free = shutil.disk_usage(folder).free if needed else needed
    if free < needed:
        raise MissingDataError(f"{folder} has {free} bytes free and {needed} are needed")


def _check_url(url: str) -> None:
    told = urllib.parse.urlsplit(url)
    if told.scheme != "https" and not (told.scheme == "http" and told.hostname in _LOOPBACK):
        raise InputError(f"a download must be from an https address, got {url}")


def _check_digest(file: Download, path: Path, digest: str) -> None:
    if file.sha256 is not None and digest != file.sha256:
        raise UnsafeFileError(
            f"{path} has the SHA-256 {digest} and should have {file.sha256}: damaged or altered; "
            f"not kept by this command. Remove it, if it is there, and fetch it again"
        )


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            found.update(piece)
    return found.hexdigest()
