"""The pages of results are their templates, filled."""

from __future__ import annotations

import json
import re

import jinja2
import pandas as pd
import pytest
from support import PROJECT

from experiments.findings import __main__ as pages
from experiments.findings.estimate import Estimate
from experiments.findings.figures import draw_procedures
from experiments.findings.full_size import STORED
from rebench.tables.opening import released_tables
from rebench.tables.release import release_of

FOLDER = PROJECT / "experiments" / "findings"
# Numbers of plans, recipes and papers, which no table can give.
GIVEN = {
    "0.025",
    "0.05",
    "0.0125",
    "0.0167",
    "0.08",
    "0.09",
    "0.1",
    "0.10",
    "0.18",
    "0.2",
    "0.44",
    "0.46",
    "1.24",
    "2.09",
    "2.2",
    "2.3",
    "97.5",
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_stored_pages_are_the_filled_templates():
    assert pages.main(["--check"]) == 0


@pytest.fixture
def small_pages(monkeypatch, tmp_path):
    """A folder with one template and the page that is generated from it."""
    (tmp_path / "page.md.jinja").write_text("drop {{ against_published('analog').drop.value }}\n")
    monkeypatch.setattr(pages, "_HERE", tmp_path)
    monkeypatch.setattr(pages, "_FIGURES", {})
    monkeypatch.setattr(pages, "PAGES", {"page": tmp_path / "page.md"})
    return tmp_path / "page.md"


def test_check_fails_where_a_page_differs_and_writes_nothing(small_pages, capsys):
    assert pages.main([]) == 0
    assert re.fullmatch(r"drop \d\.\d\d\n", small_pages.read_text())
    assert pages.main(["--check"]) == 0
    small_pages.write_text("drop 0.99\n")
    assert pages.main(["--check"]) == 1
    assert str(small_pages) in capsys.readouterr().err
    assert small_pages.read_text() == "drop 0.99\n"


def test_an_unknown_number_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="drops"):
        pages.filled("{{ drops('mini') }}")


def test_numbers_are_shown_alike_everywhere():
    shown = pages.filled("{{ a }} {{ b }} {{ c }} {{ d }}", a=0.126, b=-0.001, c=15625, d="text")
    assert shown == "0.13 0.00 15,625 text"
    assert str(Estimate(0.126, 0, 2)) == "0.13 (0.00 to 2.00)"
    assert Estimate(0.1024, 0, 1).to(3) == "0.102 (0.000 to 1.000)"
    assert pages.filled("{{ number(49.6, 0) }}") == "50"


def test_intervals_of_a_page_are_counted():
    shown = pages.filled("{{ a }} {{ a }} in {{ n_intervals }}", a=Estimate(0.1, -0.2, 0.3))
    assert shown.endswith("in 2")


def test_interval_is_of_the_draws_after_the_first():
    drawn = pd.Series([5.0, *range(101)]).to_numpy()
    assert Estimate.of(drawn) == pytest.approx((5, 2.5, 97.5))
    assert Estimate.of(drawn, 0.9) == pytest.approx((5, 5, 95))


def test_a_limit_near_zero_keeps_its_sign():
    assert str(Estimate(0.18, -0.0024, 0.358)) == "0.18 (-0.002 to 0.36)"


def test_verdict_is_open_where_the_limit_is_inside_the_interval():
    estimate = Estimate(0.2, 0.1, 0.3)
    assert [estimate.above(limit) for limit in (0.05, 0.2, 0.4)] == ["yes", "open", "no"]
    assert [estimate.below(limit) for limit in (0.05, 0.2, 0.4)] == ["no", "open", "yes"]


@pytest.mark.parametrize("name", pages.PAGES)
def test_no_result_is_typed_into_a_template(name):
    text = (FOLDER / f"{name}.md.jinja").read_text()
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "", text, flags=re.DOTALL)
    text = re.sub(
        r"arXiv:\S+|(?:theorem|propositions?|figure|E)[ .](?:[\d.]+(?: (?:to|and) )?)+", "", text
    )
    assert set(re.findall(r"\d+\.\d+", text)) <= GIVEN


def test_claims_of_the_short_page_are_claims_of_the_other():
    """They have the same numbers there, and their results are shown on both pages."""
    rows = [
        dict(re.findall(r"^\| (\d+) \|(.*)", pages.PAGES[name].read_text(), re.MULTILINE))
        for name in ("findings", "findings-details")
    ]
    assert list(rows[1]) == [str(number) for number in range(1, 30)]
    assert len(rows[0]) == 6
    told = pages.PAGES["findings-details"].read_text()
    for claim, row in rows[0].items():
        shown = re.findall(r"-?\d\.\d\d", row)
        assert shown, claim
        assert [one for one in shown if one not in told] == [], claim


def test_first_page_of_findings_is_short():
    """At most 1,300 words next to its tables."""
    lines = pages.PAGES["findings"].read_text().splitlines()
    words = [word for line in lines if not line.startswith("|") for word in line.split()]
    assert len(words) <= 1300


def test_order_of_the_algorithms_was_measured_on_the_released_table():
    about = release_of(released_tables()["mini-all"])
    assert json.loads(STORED.read_text())["order"]["records_sha256"] == about.records_sha256


def test_order_without_pairs_that_differ_is_open():
    """If no pair differs on one of the two tables, no pair can change its order."""
    order = json.loads(STORED.read_text())["order"]
    decidable = all(row["pairs_that_differ"] for row in order["tables"])
    assert (order["verdict"] == "inconclusive") != decidable


def test_figure_of_procedures_shows_the_stored_numbers():
    data = draw_procedures().data
    row = data[(data["series"] == "hardware-aware") & (data["x"] == 50)]
    [stored] = [
        row
        for row in json.loads(STORED.read_text())["retrained"]["rows"]
        if (row["before"], row["recipe"], row["by"]) == ("nb201", "analog", "benchmark")
        and row["top_percent"] == 50
    ]
    assert row["y"].tolist() == [stored["tau"]]


def test_figures_of_the_page_are_there():
    shown = "".join(path.read_text() for path in pages.PAGES.values())
    for name in pages._FIGURES:
        assert f"../assets/{name}.svg" in shown
        assert (PROJECT / "docs" / "assets" / f"{name}.svg").stat().st_size > 1000
