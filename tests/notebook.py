"""Notebooks in tests: run with the marked line changed, and read their outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from run_notebooks import NOTEBOOKS, run

MARKED = re.compile(r"^(.+) = .+  # your tables?$", flags=re.MULTILINE)
DATA_SETS = re.compile(r"^(.+) = .+  # their data sets.*$", flags=re.MULTILINE)


def stored(name: str) -> NotebookNode:
    """Return the stored notebook whose name begins with this text."""
    [path] = [path for path in NOTEBOOKS if path.name.startswith(name)]
    return nbformat.read(path, as_version=4)


def ran(name: str, folder: Path, tables: object) -> NotebookNode:
    """Return a notebook after a run in `folder` with `tables` in its marked line."""
    notebook = stored(name)
    changed = 0
    for cell in notebook.cells:
        cell.source, times = MARKED.subn(rf"\1 = {tables!r}", cell.source)
        cell.source = DATA_SETS.sub(r"\1 = {}", cell.source)  # the only data set of both
        changed += times
    assert changed == 1
    run(notebook, folder)
    return notebook


def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    """Return all outputs, from the top."""
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def said(notebook: NotebookNode) -> str:
    """Return all printed text."""
    return "".join(output.get("text", "") for output in outputs(notebook))


def figures(notebook: NotebookNode) -> int:
    """Return the number of images in the outputs."""
    return sum("image/png" in output.get("data", {}) for output in outputs(notebook))


def shown(notebook: NotebookNode) -> list[list[dict[str, Any]]]:
    """Return the output of every cell: its texts, and a mark for each image."""
    return [
        [
            {
                "kind": output.output_type,
                "printed": (output.get("name"), output.get("text")),
                "data": {
                    kind: None if kind.startswith("image/") else text
                    for kind, text in output.get("data", {}).items()
                },
            }
            for output in cell.get("outputs", ())
        ]
        for cell in notebook.cells
    ]
