"""Files of data sets: search, check by MD5 and download."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rebench.data.spec import Archive, DataSpec
from rebench.errors import MissingDataError
from rebench.machine import expanded

__all__ = [
    "MAX_FILE_BYTES",
    "FileState",
    "data_root",
    "fetch",
    "file_states",
    "is_present",
    "md5",
    "read_files",
]

MAX_FILE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """Result of the search for one expected file; `found` is its place, None if it is missing.

    `state` is ``whole`` (the official MD5), ``not official`` (another MD5), ``present`` (no MD5 is
    known) or ``missing``.
    """

    file: str
    found: str | None = None
    bytes: int | None = None
    state: str = "missing"


def data_root(given: Path | str | None = None) -> Path:
    """Return the folder of data sets: `given`, `REBENCH_DATA` or ``~/.local/share/rebench``."""
    return expanded(given or os.environ.get("REBENCH_DATA") or "~/.local/share/rebench")


def read_files(spec: DataSpec, root: Path) -> dict[str, bytes]:
    """Return the contents of the data set's files, from a folder or from the archive.

    Raises:
        MissingDataError: names the missing files, the searched places and how to get the files.
    """
    contents: dict[str, bytes] = {}
    for name, _, content in _found(spec, root):
        contents.setdefault(name, content)
    missing = [name for name in spec.files if name not in contents]
    if missing:
        places = list(spec.places)
        if spec.archive:
            places.append(spec.archive.name)
        looked = ", ".join(str(root / place) for place in places)
        raise MissingDataError(
            f"{spec.name}: missing {', '.join(missing)}; looked in {looked} "
            f"(set another folder with --data-root or REBENCH_DATA). To get it: {spec.get}"
        )
    return contents


def is_present(spec: DataSpec, root: Path) -> bool:
    """Return whether the files or their archive exist; contents are not read."""
    archived = spec.archive is not None and (root / spec.archive.name).is_file()
    return archived or len(_unpacked(spec, root)) == len(spec.files)


def file_states(spec: DataSpec, root: Path) -> list[FileState]:
    """Return the place of every expected file, and whether its content is official."""
    states = {name: FileState(file=name) for name in spec.files}
    for name, where, content in _found(spec, root):
        if states[name].found is not None:
            continue
        state = "present"
        if spec.files[name]:
            state = "whole" if md5(content) == spec.files[name] else "not official"
        states[name] = FileState(file=name, found=where, bytes=len(content), state=state)
    return list(states.values())


def md5(content: bytes) -> str:
    """Return the MD5 of `content` as hex digits, as data sets publish it."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def fetch(spec: DataSpec, root: Path) -> Path:
    """Download the official archive into `root`, checked by its MD5; return its path."""
    import pooch  # slow to import, needed only here

    if spec.archive is None:
        raise MissingDataError(f"{spec.name} cannot be fetched by rebench. To get it: {spec.get}")
    root.mkdir(parents=True, exist_ok=True)
    try:
        path = pooch.retrieve(
            spec.archive.url,
            known_hash=f"md5:{spec.archive.md5}",
            fname=spec.archive.name,
            path=root,
        )
    except (OSError, ValueError) as error:
        raise MissingDataError(
            f"{spec.name}: {spec.archive.url} could not be fetched: {error}"
        ) from error
    return Path(path)


def _found(spec: DataSpec, root: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield (file, place, content) of existing files; read the archive only for missing files."""
    unpacked = _unpacked(spec, root)
    for name, path in unpacked.items():
        yield name, str(path), _read(path)
    missing = set(spec.files) - set(unpacked)
    if missing and spec.archive and (root / spec.archive.name).is_file():
        yield from _archived(spec.archive, root / spec.archive.name, missing)


def _unpacked(spec: DataSpec, root: Path) -> dict[str, Path]:
    found = {}
    for name in spec.files:
        for folder in reversed(spec.places):
            for suffix in (".gz", ""):
                path = root / folder / f"{name}{suffix}"
                if path.is_file():
                    found[name] = path
    return found


def _read(path: Path) -> bytes:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError) as error:
        raise MissingDataError(f"{path} cannot be read: {error}") from error
    if len(content) > MAX_FILE_BYTES:
        raise MissingDataError(f"{path} is larger than {MAX_FILE_BYTES} bytes; replace it")
    return content


def _archived(archive: Archive, path: Path, wanted: set[str]) -> Iterator[tuple[str, str, bytes]]:
    """Yield wanted members of an archive, without unpacking to disk."""
    try:
        with tarfile.open(path, "r:gz") as members:
            for member in members:
                name = member.name.removeprefix("./").removeprefix(f"{archive.folder}/")
                if name in wanted and member.isfile() and member.size <= MAX_FILE_BYTES:
                    stream = members.extractfile(member)
                    assert stream is not None, "a regular file has content"
                    yield name, f"{path}:{member.name}", stream.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise MissingDataError(f"{path} is damaged ({error}); fetch it again") from error
