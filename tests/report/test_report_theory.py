"""The theory in pages: the verdicts of a folder as Markdown, and in the report of a run."""

from __future__ import annotations

import dataclasses
import re

import pandas as pd
import pytest
from report_tables import run_table

from rebench.analysis import Choices, study
from rebench.errors import MissingDataError
from rebench.figures.theory import draw_law
from rebench.report import write_report
from rebench.report.theory import theory_page
from rebench.theory import depth


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder as `rebench theory depth --out` leaves it, measured small."""
    folder = tmp_path_factory.mktemp("theory")
    settings = dataclasses.replace(depth.QUICK, widths=(16,), depths=(1, 2, 4), draws=20)
    result = depth.measure_depth_law(settings)
    result.save(folder)
    draw_law(result, folder)
    return folder


def test_page_has_every_verdict_with_its_numbers_and_every_figure(measured):
    page = theory_page(measured)
    rows = pd.read_csv(measured / "depth-verdicts.csv")
    lines = page.replace("\\", "").splitlines()
    for row in rows.itertuples():
        numbers = f"| {row.ours:.3g} [{row.low:.3g}, {row.high:.3g}] | {row.verdict} |"
        assert sum(row.quantity in line and numbers in line for line in lines) == 1
    [image] = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page)
    assert (measured.parent / image).is_file()


def test_report_carries_the_verdicts_and_figures_of_a_folder(measured, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    run_table(recipes=("nb201", "topology")).to_parquet(run / "results.parquet")
    written = write_report(study(run, Choices(draws=10)), tmp_path / "report", theory=measured)
    rows = pd.read_csv(measured / "depth-verdicts.csv")
    page, markdown = written.html.read_text(), written.markdown.read_text()
    for row in rows.itertuples():
        assert f"<td>{row.ours:.3g} [{row.low:.3g}, {row.high:.3g}]</td>" in page
        assert row.quantity in markdown
    assert (written.figures / "theory-depth.svg").is_file()
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", markdown):
        assert (written.markdown.parent / image).is_file()


def test_a_folder_without_verdicts_is_refused(tmp_path):
    with pytest.raises(MissingDataError, match="rebench theory depth --out"):
        theory_page(tmp_path)
