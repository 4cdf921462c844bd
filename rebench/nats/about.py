"""Description of an export: source of its values, missing cells, version of rebench.

It is written as JSON next to the export. A short form is inside the export, so that a generated
table is not mistaken for the benchmark.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cells import SPACE_SIZE
from rebench.errors import InputError, MissingDataError, StoreError
from rebench.nats.choice import Choice
from rebench.version import version

__all__ = ["Exported", "OnProgress", "marker", "written"]

OnProgress: TypeAlias = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Result of an export, and notes on its values."""

    path: Path
    cells: int
    notes: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Number of cells of the space that are not in the export."""
        return SPACE_SIZE - self.cells


def marker(choice: Choice) -> dict[str, object]:
    """Return the short form: origins, recipes, the version, and if any value is generated."""
    origins = [table.origin for table in choice.tables]
    return {
        "origin": " and ".join(origins),
        "generated": "generated" in origins,
        "recipe": " and ".join(table.recipe or "nb201" for table in choice.tables),
        "rebench": version(),
    }


@contextlib.contextmanager
def written(choice: Choice, made: Exported, form: str, *, force: bool) -> Iterator[Path]:
    """Yield a temporary path; without an error, move it to `made.path` and write the JSON file.

    With `force`, an earlier export at `made.path` is replaced, but nothing else.
    """
    # "." has no name, and resolve() would follow a link.
    out = Path(os.path.abspath(made.path))  # noqa: PTH100
    about = out.parent / f"{out.name}.about.json"
    _check_replaceable(out, about, force=force)
    if not made.cells:
        raise MissingDataError("the tables contain no cell to export")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
            unfinished = Path(folder) / out.name
            yield unfinished
            _check_replaceable(out, about, force=force)
            _remove(out)
            tables = []
            for table in choice.tables:
                recipe = table.recipe or "nb201"
                tables.append({"name": table.name, "origin": table.origin, "recipe": recipe})
            content = {
                "format": form,
                **marker(choice),
                "tables": tables,
                "values": [str(key) for key in sorted(choice.keys)],
                "missing": {"cells": made.missing, "curves": not choice.has_curves},
                "notes": [*choice.replaced, *made.notes],
                "listing_sha256": _listing_sha256(unfinished),
            }
            about.write_text(json.dumps(content, indent=1) + "\n")
            unfinished.rename(out)
    except OSError as error:
        raise StoreError(f"cannot write {made.path}: {error.strerror or error}") from error


def _check_replaceable(out: Path, about: Path, *, force: bool) -> None:
    """Raise InputError if `out` is there, except if `force` is set and it is an earlier export."""
    described = _listing_in(about)
    if os.path.lexists(about) and described is None:
        raise InputError(f"{about} exists and does not describe an export; give another name")
    if not os.path.lexists(out):
        return
    if not force:
        raise InputError(f"{out} exists; give another name, or --force to replace it")
    if out.is_symlink() or described != _listing_sha256(out):
        raise InputError(
            f"{out} is not an unchanged export, and --force replaces only what an earlier "
            f"`rebench export` wrote (see {about.name}); give another name, or remove it yourself"
        )


def _listing_in(about: Path) -> str | None:
    """Return the digest in the JSON file of an export; None if the file is something else."""
    try:
        return str(json.loads(about.read_bytes())["listing_sha256"])
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _files(out: Path) -> list[Path]:
    """Return the files of an export; its folders contain no folders."""
    return sorted(out.iterdir()) if out.is_dir() else [out]


def _listing_sha256(out: Path) -> str:
    """Return a digest of the names and sizes of all files of an export."""
    lines = [f"{file.relative_to(out)} {file.lstat().st_size}" for file in _files(out)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _remove(out: Path) -> None:
    """Remove an export that `_check_replaceable` accepted; a folder is never removed with files."""
    if not out.exists():
        return
    for file in _files(out):
        file.unlink()
    if out.is_dir():
        out.rmdir()
