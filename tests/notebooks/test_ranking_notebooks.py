"""The notebooks on queries and rankings run on the released table, and on a user's own tables."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from report_tables import published_table, run_table
from support import PROJECT

NAMES = ("01_query_reranked.ipynb", "02_rankings.ipynb")
MARKED = re.compile(r"^BEFORE, AFTER = .+  # your tables$", flags=re.MULTILINE)


def ran(name, folder, tables=None):
    """The notebook with its outputs, with the marked line changed as a user would."""
    notebook = nbformat.read(PROJECT / "notebooks" / name, as_version=4)
    if tables is not None:
        changed = 0
        for cell in notebook.cells:
            cell["source"], times = MARKED.subn(f"BEFORE, AFTER = {tables!r}", cell["source"])
            changed += times
        assert changed == 1
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()
    return notebook


def said(notebook):
    outputs = (out for cell in notebook.cells for out in cell.get("outputs", ()))
    return "".join(out.get("text", "") for out in outputs)


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_stored_without_outputs(name):
    for cell in nbformat.read(PROJECT / "notebooks" / name, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_on_the_released_table(name, tmp_path):
    notebook = ran(name, tmp_path)
    assert notebook.cells[-1]["outputs"][-1]["output_type"] == "execute_result"
    assert "before: surface@fixed, cifar10-jpeg16, ori-test, 5 epochs" in said(notebook)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_on_tables_of_ones_own(name, tmp_path):
    run_table().to_parquet(tmp_path / "run.parquet")
    published_table().to_parquet(tmp_path / "published.parquet")
    notebook = ran(name, tmp_path, ("published.parquet", "run.parquet@topology"))
    assert "after: run.parquet@topology, cifar10, ori-test, 200 epochs, 40 cells" in said(notebook)


@pytest.mark.slow
def test_table_that_is_not_there_stops_the_notebook(tmp_path):
    with pytest.raises(CellExecutionError, match=r"no table at nothing\.parquet"):
        ran(NAMES[0], tmp_path, ("nothing.parquet", "surface@fixed"))
