"""The notebooks run on tables of one's own by one marked line, and stop where it is wrong."""

from __future__ import annotations

import pytest
from nats_folder import make_folder
from nbclient.exceptions import CellExecutionError
from notebook import figures, ran, said
from report_tables import published_table, run_table

from rebench.nats.ingest import ingest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("name", ["01", "02", "03"])
def test_notebook_runs_on_tables_of_ones_own(name, tmp_path):
    run_table().to_parquet(tmp_path / "run.parquet")
    published_table().to_parquet(tmp_path / "published.parquet")
    text = said(ran(name, tmp_path, ("published.parquet", "run.parquet@topology")))
    lines = (line.removeprefix("after: ") for line in text.splitlines())
    line = next(line for line in lines if line.startswith("run.parquet@topology"))
    for part in ("cifar10", "ori-test", "200 epochs", "40 cells"):
        assert part in line


def test_table_that_is_not_there_stops_the_notebook(tmp_path):
    with pytest.raises(CellExecutionError, match=r"no table at nothing\.parquet"):
        ran("01", tmp_path, ("nothing.parquet", "mini@fixed"))


def test_published_notebook_shows_the_seeds_of_an_ingested_table(tmp_path):
    folder = make_folder(tmp_path / "NATS-tss-v1_0-3ffb9-simple", range(40))
    ingest(folder, tmp_path / "p.parquet", jobs=1)
    notebook = ran("06", tmp_path, "p.parquet")
    assert "40 cells in all of them" in said(notebook)
    assert "with seeds" in said(notebook)
    assert figures(notebook) == 2
    tables = [
        output.data["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    assert "ImageNet16-120 / itself by other seeds" in tables[0]
    assert any("by_seeds" in table for table in tables)
