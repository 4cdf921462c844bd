"""The notebooks on queries and rankings run from a clean folder, and are stored without outputs."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient
from report_tables import run_table
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
@pytest.mark.parametrize("place", [None, "here", "above"])
def test_notebook_runs_on_what_it_finds_and_says_which(name, place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    if place is not None:
        run = (folder if place == "here" else tmp_path) / "demo" / "run"
        run.mkdir(parents=True)
        table = run_table(dataset="digits").assign(epochs=5)
        table.to_parquet(run / "results.parquet")
    notebook = nbformat.read(PROJECT / "notebooks" / name, as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute()
    last = notebook.cells[-1]["outputs"]
    assert last
    assert last[-1]["output_type"] == "execute_result"
    said = "".join(
        out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", ())
    )
    source = {
        None: "a generated table",
        "here": "demo/run/results.parquet, recipe nb201",
        "above": "../demo/run/results.parquet, recipe nb201",
    }[place]
    assert f"before: {source}; after: " in said
