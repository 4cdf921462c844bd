"""The theory's page is that of the committed results, and those are of the full settings."""

from __future__ import annotations

import re

import pandas as pd
from support import PROJECT

from experiments.laws import alignment, am_mup, cells, dag, depth, released, speed
from experiments.laws.page import theory_page

NOTEBOOKS = PROJECT / "notebooks"
RESULTS = NOTEBOOKS / "04_theory"
LAWS = ("depth", "dag", "released", "cells", "bafu", "fsc", "am-mup")


def test_committed_page_is_that_of_the_committed_results():
    page = (NOTEBOOKS / "04_theory.md").read_text()
    assert page == theory_page(RESULTS), (
        "run: python -m experiments.laws verdicts notebooks/04_theory --markdown "
        "> notebooks/04_theory.md"
    )
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page):
        assert (NOTEBOOKS / image).is_file()


def test_every_committed_verdict_stands_on_the_page_with_its_numbers():
    lines = (NOTEBOOKS / "04_theory.md").read_text().replace("\\", "").splitlines()
    rows = pd.concat([pd.read_csv(RESULTS / f"{law}-verdicts.csv") for law in LAWS])
    for row in rows.itertuples():
        numbers = f"| {row.ours:.3g} [{row.low:.3g}, {row.high:.3g}] |"
        assert sum(row.quantity in line and numbers in line for line in lines) == 1


def test_committed_results_are_of_the_full_settings():
    settings = {
        law: " ".join(pd.read_csv(RESULTS / f"{law}-verdicts.csv")["settings"]) for law in LAWS
    }
    assert f"{depth.FULL.draws} draws" in settings["depth"]
    assert f"{dag.FULL.graphs} graphs" in settings["dag"]
    many = cells.FULL.network
    assert f"{cells.FULL.cells} cells, cifar10-jpeg {many.side}x{many.side}" in settings["cells"]
    assert f"{many.steps} steps of {many.batch_size}, {many.seeds} seeds" in settings["cells"]
    assert f"{alignment.FULL.draws} draws" in settings["bafu"]
    assert f"L = {speed.FULL.depths[-1]}, {speed.FULL.draws} draws" in settings["fsc"]
    part = released.PART
    assert f"{part.graphs} graphs, cifar10-jpeg" in settings["released"]
    assert f"390 steps of 128, {part.seeds} seeds" in settings["released"]  # an epoch of 50,000
    assert f"{am_mup.FULL.transfer.seeds} seeds" in settings["am-mup"]
