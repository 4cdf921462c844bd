"""The pages about published tables are their templates, filled with stored numbers."""

from __future__ import annotations

import json
import re

import pytest
from support import PROJECT

from experiments.published import pages, rate_rules, trust

FOLDER = PROJECT / "experiments" / "published"
GIVEN = {"-0.25", "0.017"}


def test_stored_pages_are_the_filled_templates():
    assert pages.main(["--check"]) == 0


@pytest.mark.parametrize("name", pages.PAGES)
def test_no_result_is_typed_into_a_template(name):
    text = (FOLDER / f"{name}.md.jinja").read_text()
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "", text, flags=re.DOTALL)
    assert set(re.findall(r"-?\d+\.\d+", text)) <= GIVEN


def test_page_on_trust_has_a_row_for_every_ranking_and_is_short():
    rows = json.loads(trust.RESULTS.read_text())["rows"]
    text = pages.PAGES["trust"].read_text()
    assert len(rows) >= 20
    assert all(f"| {row['name']} |" in text for row in rows)
    assert len(text.splitlines()) <= 100


def test_no_rule_is_distinguishable_from_one_rate_on_fcnet():
    """The page says so."""
    for row in json.loads(rate_rules.RESULTS.read_text())["fcnet"]["rules"]:
        assert row["gain_low"] <= 0 <= row["gain_high"]


def test_figure_shows_the_stored_numbers():
    rows = json.loads(trust.RESULTS.read_text())["rows"]
    shown = trust.draw(rows).data
    one = shown[(shown["name"] == rows[0]["name"]) & (shown["measure"] == "seed_tau")]
    assert one["value"].tolist() == [at["seed_tau"] for at in rows[0]["top"]]
