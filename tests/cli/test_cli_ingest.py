"""``rebench table ingest`` of surfaces that others have published, and ``surface`` on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign_files import BATCH_SIZES, bench12, codes, write_nas_hpo_bench

from experiments.surface.__main__ import main as ask
from rebench.cli import main

HASHES = codes(24)


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    write_nas_hpo_bench(folder, HASHES, bench12(HASHES, 0.2, (128, 256)))
    out = folder / "nas-hpo-bench-ii.parquet"
    assert (
        main(["table", "ingest", str(folder), "--surface", "nas-hpo-bench-ii", "--out", str(out)])
        == 0
    )
    return out


def test_surface_answers_on_nas_hpo_bench_ii(table: Path, capsys):
    arguments = [str(table), "--where", "batch_size=256", "--draws", "20", "--json"]
    assert ask(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    # Accuracy falls by 2 points an octave squared off the planted rate of 0.2.
    [gain] = [
        row
        for row in found["gains"]
        if (row["of"], row["over"], row["top_percent"]) == ("best single rate", "0.1 for all", 100)
    ]
    assert gain["gain"] == pytest.approx(2.0, abs=0.3)
    assert "batch size 256" in " ".join(found["notes"])


def test_surface_asks_for_one_batch_size(table: Path, capsys):
    assert ask([str(table)]) == 2
    assert "batch_size: choose one" in capsys.readouterr().err


def test_surface_warns_that_the_rates_end_below_the_rule(tmp_path: Path, capsys):
    write_nas_hpo_bench(tmp_path, HASHES, bench12(HASHES, 1.6, (256,)))
    out = str(tmp_path / "table.parquet")
    assert (
        main(["table", "ingest", str(tmp_path), "--surface", "nas-hpo-bench-ii", "--out", out]) == 0
    )
    assert ask([out, "--draws", "5", "--rule", "topology-lr(base_lr=1.6)"]) == 0
    said = capsys.readouterr().err
    assert "24 cells (100%) are best at the highest rate, 0.4, and so is the best single" in said
    assert "topology-lr(base_lr=1.6) asks" in said


def test_ingest_prints_the_counts_of_its_table(tmp_path: Path, capsys):
    write_nas_hpo_bench(tmp_path, HASHES, bench12(HASHES, batch_sizes=BATCH_SIZES[:1]))
    out = str(tmp_path / "table.parquet")
    command = ["table", "ingest", str(tmp_path), "--surface", "nas-hpo-bench-ii", "--out", out]
    assert main([*command, "--json"]) == 0
    [made] = json.loads(capsys.readouterr().out)
    runs = len(HASHES) * 8 * 3
    cells = len(HASHES)
    assert made == {
        "table": out, "curves": None, "cells": cells, "missing": 15625 - cells, "rows": 3 * runs
    }  # fmt: skip
    assert main(command) == 2
    assert "--force" in capsys.readouterr().err
