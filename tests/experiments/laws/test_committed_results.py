"""The theory's page is that of the committed results, and those are of the full settings."""

from __future__ import annotations

import re

import pandas as pd
from support import PROJECT

from experiments.laws.page import takeaways, theory_page
from experiments.laws.registry import LAWS
from experiments.laws.result import load_verdicts

NOTEBOOKS = PROJECT / "notebooks"
RESULTS = NOTEBOOKS / "04_theory"
FILES = ("depth", "dag", "released", "cells", "bafu", "fsc", "am-mup")


def test_committed_page_is_that_of_the_committed_results():
    page = (NOTEBOOKS / "04_theory.md").read_text()
    assert page == theory_page(RESULTS), (
        "run: python -m experiments.laws verdicts notebooks/04_theory --markdown "
        "> notebooks/04_theory.md"
    )
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page):
        assert (NOTEBOOKS / image).is_file()


def test_committed_results_are_of_the_full_settings():
    settings = {
        law: " ".join(pd.read_csv(RESULTS / f"{law}-verdicts.csv")["settings"]) for law in FILES
    }
    full = {name: law.full for name, law in LAWS.items()}
    assert f"{full['depth'].draws} draws" in settings["depth"]
    assert f"{full['dag'].graphs} graphs" in settings["dag"]
    many = full["cells"].network
    assert f"{full['cells'].cells} cells, cifar10-jpeg {many.side}x{many.side}" in settings["cells"]
    assert f"{many.steps} steps of {many.batch_size}, {many.seeds} seeds" in settings["cells"]
    assert f"{full['bafu'].draws} draws" in settings["bafu"]
    assert f"L = {full['fsc'].depths[-1]}, {full['fsc'].draws} draws" in settings["fsc"]
    part = LAWS["released"].part
    assert f"{part.graphs} graphs, cifar10-jpeg" in settings["released"]
    assert f"390 steps of 128, {part.seeds} seeds" in settings["released"]  # an epoch of 50,000
    assert f"{full['am-mup'].transfer.seeds} seeds" in settings["am-mup"]


def test_page_begins_with_the_result_of_the_committed_measurements():
    page = (NOTEBOOKS / "04_theory.md").read_text()
    verdicts, answers = load_verdicts(RESULTS), takeaways(RESULTS, load_verdicts(RESULTS))
    begin = page.partition("### Terms")[0]
    assert "The law of Jelassi et al. holds in networks that are much wider than deep" in begin
    assert "agrees with -3/2" in answers["depth"][0]  # width 256, at most 16 layers
    assert "The speed formula holds exactly" in begin
    assert "It holds" in answers["bafu"][0]
    assert "The law of AM-muP holds in few of the tested networks" in begin
    of_am_mup = verdicts.loc[verdicts["file"] == "am-mup", "verdict"]
    assert of_am_mup.str.startswith("agrees").mean() < 0.25
    assert "better than one rate for all networks in some experiments, and worse in others" in begin
    assert not re.search(r"in 0( of|\W)", answers["dag"][2])
    assert "no rule was shown to be better than one rate for all cells" in begin
    assert "No rule is shown to be better" in answers["cells"][0]
