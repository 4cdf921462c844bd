"""Description of an export: source of its values, missing cells, version of rebench.

It is written as JSON next to the export. A short form is inside the export, so that a generated
table is not mistaken for the benchmark.
"""

from __future__ import annotations

import contextlib
import json
import shutil
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
    """Yield a temporary path; without an error, move it to `made.path` and write the JSON file."""
    out = made.path
    if out.exists() and not force:
        raise InputError(f"{out} exists; give another name, or --force to replace it")
    if not made.cells:
        raise MissingDataError("the tables contain no cell to export")
    unfinished = out.with_name(f"{out.name}.unfinished")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove(unfinished)
        yield unfinished
        _remove(out)
        unfinished.rename(out)
        about = out.with_name(f"{out.name}.about.json")
        about.write_text(json.dumps(_about(choice, made, form), indent=1) + "\n")
    except OSError as error:
        raise StoreError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # a second error would hide the first error
            _remove(unfinished)


def _about(choice: Choice, made: Exported, form: str) -> dict[str, object]:
    return {
        "format": form,
        **marker(choice),
        "tables": [
            {"name": table.name, "origin": table.origin, "recipe": table.recipe or "nb201"}
            for table in choice.tables
        ],
        "values": [f"{key}" for key in sorted(choice.keys)],
        "missing": {"cells": made.missing, "curves": not choice.has_curves},
        "notes": list(made.notes),
    }


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
