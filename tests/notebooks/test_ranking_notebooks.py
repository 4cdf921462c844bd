"""The notebooks on queries and rankings run from a clean folder, and are stored without outputs."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient
from support import PROJECT

NAMES = ("01_query_reranked.ipynb", "02_rankings.ipynb")


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_stored_without_outputs(name):
    notebook = nbformat.read(PROJECT / "notebooks" / name, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    notebook = nbformat.read(PROJECT / "notebooks" / name, as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    last = notebook.cells[-1]["outputs"]
    assert last
    assert last[-1]["output_type"] == "execute_result"
