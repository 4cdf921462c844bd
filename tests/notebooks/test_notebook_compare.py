"""The notebook runs from a clean checkout, top to bottom, and is stored without outputs."""

import nbformat
import pytest
from nbclient import NotebookClient
from support import PROJECT

PATH = PROJECT / "notebooks" / "03_compare_nas.ipynb"


def test_it_is_stored_without_outputs():
    for cell in nbformat.read(PATH, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
def test_it_runs_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    notebook = nbformat.read(PATH, as_version=4)
    NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(PATH.parent)}}
    ).execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])
    )
    assert "tau between the tables" in printed
    assert "tau of reruns" in printed
    figures = sum(
        "image/png" in output.get("data", {})
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )
    assert figures == 3
