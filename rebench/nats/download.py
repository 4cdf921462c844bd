"""A large file over HTTP: resumed where it broke off, bounded, and whole or not there at all.

What arrives lies in ``.NAME.part`` beside the file until it is complete, with the server's mark of
its version (ETag or date): it is resumed only from the same version. Its length is held against
what the server announced, and its SHA-256 against the known one, where one is known.
"""

from __future__ import annotations

import dataclasses
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

from rebench.errors import InputError, MissingDataError, UnknownNameError, UnsafeFileError
from rebench.nats.catalogue import PUBLISHED, Download

__all__ = ["Downloaded", "download", "fetch"]

_TIMEOUT_S: Final = 60.0
_TRIES: Final = 5
_PIECE: Final = 2**20
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_RANGE: Final = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", re.ASCII)
_BROKEN: Final = (
    http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError, urllib.error.URLError
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """What was fetched; `resumed_at` is how much of it an earlier try had brought."""

    path: Path
    bytes: int
    sha256: str
    resumed_at: int


def fetch(
    name: str,
    folder: Path,
    *,
    url: str | None = None,
    on_progress: Callable[[int, int | None], None] = lambda _done, _total: None,
    pause_s: float = 2.0,
) -> Downloaded:
    """Fetch the file of a published benchmark into `folder`.

    Args:
        name: one of `PUBLISHED`.
        folder: where to.
        url: another address of the same file, such as a mirror.
        on_progress: see `download`.
        pause_s: see `download`.

    Raises:
        MissingDataError: no program can fetch it; the message says how people do.
    """
    if name not in PUBLISHED:
        raise UnknownNameError("published benchmark", name, PUBLISHED)
    known = PUBLISHED[name]
    if known.file is None:
        raise MissingDataError(f"{name} cannot be fetched by a program: {known.by_hand}")
    file = dataclasses.replace(known.file, url=url) if url else known.file
    return download(file, folder, on_progress=on_progress, pause_s=pause_s)


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
    import pooch  # with its network stack, needed here alone

    _check_url(file.url)
    target, part = folder / file.name, folder / f".{file.name}.part"
    there, resumed_at = target.exists(), 0
    try:
        if not there:
            folder.mkdir(parents=True, exist_ok=True)
            resumed_at, _ = _begun(part)
            _fetch_part(file, part, on_progress, pause_s)
        digest = pooch.file_hash(str(target if there else part))
        if file.sha256 not in (None, digest):
            _drop(part)
            raise UnsafeFileError(
                f"{target} has the SHA-256 {digest} and should have {file.sha256}: damaged or "
                f"altered; not kept by this command. Remove it, if it is there, and fetch it again"
            )
        if not there:
            part.replace(target)
            _drop(part)
        size = target.stat().st_size
    except OSError as error:
        raise MissingDataError(f"{target} cannot be written: {error.strerror or error}") from error
    return Downloaded(path=target, bytes=size, sha256=digest, resumed_at=resumed_at)


def _mark(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


def _begun(part: Path) -> tuple[int, str]:
    """How many bytes of what has arrived can be kept, and of which version."""
    version = _mark(part).read_text("utf-8").strip() if _mark(part).is_file() else ""
    return (part.stat().st_size, version) if version and part.is_file() else (0, "")


def _drop(part: Path) -> None:
    part.unlink(missing_ok=True)
    _mark(part).unlink(missing_ok=True)


def _fetch_part(
    file: Download, part: Path, on_progress: Callable[[int, int | None], None], pause_s: float
) -> None:
    """Bring the whole file into `part`, again and again where the connection breaks."""
    problem = ""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(pause_s * 2 ** (attempt - 1))
        try:
            return _try_once(file, part, on_progress)
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"{error.code} {error.reason}"
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                _drop(part)
            elif error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                raise MissingDataError(f"{file.url}: {problem}") from error
        except _BROKEN as error:
            problem = str(getattr(error, "reason", error)) or type(error).__name__
    kept, _ = _begun(part)
    more = f"; {kept} bytes are kept: the same command goes on from there" if kept else ""
    raise MissingDataError(f"{file.url} could not be fetched: {problem}{more}")


def _try_once(file: Download, part: Path, on_progress: Callable[[int, int | None], None]) -> None:
    """Make one request for what is not there yet."""
    done, version = _begun(part)
    headers = {"Accept-Encoding": "identity", "User-Agent": "rebench"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": version}
    request = urllib.request.Request(file.url, headers=headers)  # noqa: S310 - checked: https or loopback
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 - checked
        _check_url(response.url)
        told = response.headers
        if response.status == http.HTTPStatus.PARTIAL_CONTENT:
            extent = _RANGE.fullmatch(told.get("Content-Range", ""))
            if extent is None or int(extent[1]) != done:
                raise http.client.HTTPException(f"a part that was not asked for, not {done}-")
            total: int | None = int(extent[2])
        else:
            _drop(part)  # before its mark changes: no version may stand over bytes of another
            length = told.get("Content-Length", "")
            done, total = 0, int(length) if length.isdecimal() else None
        if total is None and file.sha256 is None:
            raise MissingDataError(
                f"{file.url}: the server does not say how long the file is, so that nobody could "
                f"say whether all of it came"
            )
        _check_size(file, total or 0)
        free = shutil.disk_usage(part.parent).free
        if (needed := (total or 0) - done) > free:
            raise MissingDataError(f"{part.parent} has {free} bytes free and {needed} are needed")
        strong = told.get("ETag", "")
        named = "" if strong.startswith("W/") else strong
        _mark(part).write_text(named or told.get("Last-Modified", ""), "utf-8")
        with part.open("ab") as out:
            try:
                while piece := response.read(_PIECE):
                    done += len(piece)
                    _check_size(file, done)
                    out.write(piece)
                    on_progress(done, total)
            except http.client.IncompleteRead as error:
                out.write(error.partial)
                raise
            finally:
                out.flush()
                os.fsync(out.fileno())
    if total not in (None, done):
        raise http.client.HTTPException(f"the connection ended after {done} of {total} bytes")


def _check_size(file: Download, size: int) -> None:
    if size > file.largest_bytes:
        raise UnsafeFileError(
            f"{file.url} is {size} bytes or more, and at most {file.largest_bytes} are taken; "
            f"refused"
        )


def _check_url(url: str) -> None:
    told = urllib.parse.urlsplit(url)
    if told.scheme != "https" and not (told.scheme == "http" and told.hostname in _LOOPBACK):
        raise InputError(f"a download must be from an https address, got {url}")
