"""The notebook on the learning-rate surface runs on the released table from any folder."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient
from support import PROJECT

from rebench.tables.opening import released_tables
from rebench.tables.release import release_of

NOTEBOOK = PROJECT / "notebooks" / "05_surface.ipynb"


def test_notebook_is_stored_without_outputs():
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
def test_notebook_runs_and_says_where_its_table_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [cell["outputs"] for cell in notebook.cells if cell.get("outputs")]
    about = release_of(released_tables()["surface"])
    assert about.title in outputs[0][0]["text"]
    assert any("image/png" in out.get("data", {}) for one in outputs for out in one)
    assert "trained with" in outputs[-1][0]["text"]
