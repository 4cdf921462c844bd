"""The theory notebook runs from top to bottom with its quick settings."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient
from support import PROJECT


@pytest.mark.slow
def test_theory_notebook_runs_and_shows_every_law(monkeypatch):
    monkeypatch.delenv("REBENCH_THEORY_OUT", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    notebook = nbformat.read(PROJECT / "notebooks" / "04_theory.ipynb", as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    shown = [
        output["data"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "display_data"
    ]
    assert sum("image/png" in data for data in shown) == 4
    tables = [data["text/markdown"] for data in shown if "text/markdown" in data]
    assert all(table.count("\n") >= 2 for table in tables)
    assert len(tables) == 4


def test_theory_notebook_is_stored_without_outputs():
    notebook = nbformat.read(PROJECT / "notebooks" / "04_theory.ipynb", as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
