"""Folders of the benchmark, a generated one and the real one, and the tables made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from nats_folder import make_folder

from rebench.nats.ingest import ingest
from rebench.tables import Table, open_table


@pytest.fixture(scope="session")
def real_folder(real_data: Path) -> Path:
    return real_data / "nats-bench" / "NATS-tss-v1_0-3ffb9-simple"


@pytest.fixture(
    scope="module", params=["generated", pytest.param("real", marks=pytest.mark.shared_data)]
)
def folder(request, tmp_path_factory) -> Path:
    if request.param == "real":
        return request.getfixturevalue("real_folder")
    return make_folder(tmp_path_factory.mktemp("nats") / "simple", [2, 9, 13, 14, 33])


@pytest.fixture(scope="module")
def table(folder, tmp_path_factory) -> Table:
    return open_table(ingest(folder, tmp_path_factory.mktemp("t") / "t.parquet", jobs=1).path)
