"""Notebooks read a user's tables after a change of one line, and stop at a wrong table."""

from __future__ import annotations

import pytest
from nats_folder import make_folder
from nbclient.exceptions import CellExecutionError
from notebook import figures, outputs, ran, said
from report_tables import published_table, run_table

from rebench.nats.ingest import ingest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("name", ["01", "02", "03"])
def test_notebook_runs_on_tables_of_ones_own(name, tmp_path):
    run_table().to_parquet(tmp_path / "run.parquet")
    published_table().to_parquet(tmp_path / "published.parquet")
    text = said(ran(name, tmp_path, ("published.parquet", "run.parquet@topology")))
    for part in ("run.parquet@topology", "cifar10", "40 cells"):
        assert part in text.replace("run@", "run.parquet@")


def test_table_that_is_not_there_stops_the_notebook(tmp_path):
    with pytest.raises(CellExecutionError, match=r"no table at nothing\.parquet"):
        ran("01", tmp_path, ("nothing.parquet", "mini@fixed"))


def test_published_notebook_shows_the_seeds_of_an_ingested_table(tmp_path):
    folder = make_folder(tmp_path / "NATS-tss-v1_0-3ffb9-simple", range(40))
    ingest(folder, tmp_path / "p.parquet", jobs=1)
    notebook = ran("06", tmp_path, ("p.parquet", "x-valid"))
    assert said(notebook).count("of 40 cells may be the best") == 3
    assert figures(notebook) == 1
    tables = [output.data["text/plain"] for output in outputs(notebook) if "data" in output]
    assert "cifar10-valid / ImageNet16-120" in tables[2]
