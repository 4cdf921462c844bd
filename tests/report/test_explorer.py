"""The page to explore: its numbers are those of the analyses, and a browser shows them."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pandas as pd
import pytest
from report_tables import published_table, run_table

from cells import Cell
from rebench.analysis import compare, rank_intervals, reliability
from rebench.cli import main
from rebench.report import explorer, write_explorer
from rebench.spaces import NB201
from rebench.tables import Table

BASELINE = Table.from_frame(published_table(400), name="baseline")
OTHER = Table.from_frame(run_table(400), recipe="topology", name="other")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of two tables of 400 cells."""
    path = tmp_path_factory.mktemp("page") / "explore.html"
    assert write_explorer(path, BASELINE, OTHER, draws=20) == 400
    return path


def data_of(path):
    """Return the data in a page, as the browser reads them."""
    text = path.read_text()
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_points_are_the_means_and_ranks_of_both_tables(page):
    data = data_of(page)
    found = compare(BASELINE, OTHER, draws=0)
    for side, own in zip(data["sides"], (found.baseline, found.other), strict=True):
        ranks = rank_intervals(own)
        for item, cell in enumerate(map(int, data["items"])):
            for name in ("rank", "rank_low", "rank_high"):
                assert data["columns"][side[name]][item] == ranks.loc[cell, name]
        place = {cell: row for row, cell in enumerate(own.cells.tolist())}
        means = [own.means[place[int(cell)]] for cell in data["items"]]
        assert data["columns"][side["mean"]] == pytest.approx(means, abs=1e-3)
        first = [own.runs[place[int(cell)], 0] for cell in data["items"]]
        assert data["columns"][side["runs"]["seed 777"]] == pytest.approx(first, abs=1e-3)
    baseline_ranks = data["columns"][data["sides"][0]["rank"]]
    assert baseline_ranks == sorted(baseline_ranks)


def test_numbers_of_the_slider_are_those_of_compare(page):
    by_k = compare(BASELINE, OTHER, top_percent=explorer.TOP_PERCENT, draws=20).by_k
    by_k = by_k.set_index("top_percent")
    levels = data_of(page)["levels"]
    assert [level["percent"] for level in levels][-2:] == [5, 3]  # 2 % are 8 cells, too few
    for level in levels:
        row = by_k.loc[level["percent"]]
        assert level["texts"]["tau"].startswith(f"{row['tau']:.2f} (95 % CI ")
        assert level["texts"]["drop"].startswith(f"{row['drop']:.2f} (95 % CI ")
    assert levels[0]["texts"]["overlap"] == "100 %"


def test_overlap_counts_the_best_of_both_tables(page):
    """The ranks in the page give the same overlap, counted slowly."""
    data = data_of(page)
    ranks = [data["columns"][side["rank"]] for side in data["sides"]]
    [level] = [level for level in data["levels"] if level["percent"] == 10]
    both = [item for item in range(400) if ranks[0][item] <= 40 and ranks[1][item] <= 40]
    assert level["texts"]["overlap"] == f"{100 * len(both) / 40:.0f} %"


def test_one_table_shows_its_seeds_and_its_cost(tmp_path):
    write_explorer(tmp_path / "one.html", BASELINE, draws=20)
    data = data_of(tmp_path / "one.html")
    assert [view["name"] for view in data["views"]] == ["accuracy and cost", "two seeds"]
    found = reliability(BASELINE, draws=20).by_k.iloc[0]
    assert data["levels"][0]["texts"]["seed tau"].startswith(f"{found['seed_tau']:.2f} (95 % CI ")
    assert "overlap" not in data["levels"][0]["texts"]


def test_table_without_seeds_has_ranks_without_intervals(tmp_path):
    rows = published_table(400)
    single = Table.from_frame(rows[rows["seed"] == 777], name="single")
    write_explorer(tmp_path / "single.html", single, OTHER, draws=20)
    first, second = data_of(tmp_path / "single.html")["sides"]
    assert "rank_low" not in first
    assert "rank_low" in second


def test_every_item_is_drawn_from_shared_parts(page):
    data = data_of(page)
    pieces = data["pictures"]["pieces"]
    assert len(pieces) < 100
    for cell, numbers in zip(data["items"][:20], data["pictures"]["items"][:20], strict=True):
        drawn = "".join(pieces[number] for number in numbers)
        assert drawn == "".join(NB201.picture(int(cell)))
        whole = Cell.from_index(int(cell))._repr_svg_()
        assert re.sub(r'<text [^>]*font-weight="bold">.*?</text>', "", whole) == drawn


def test_losses_of_named_items_keep_their_size_and_unit(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"item": f"net {number:02}", "seed": seed, "accuracy": 1e-5 * (1 + number + rng.random())}
        for number in range(20)
        for seed in (1, 2)
    ]
    named = {"item": "item", "accuracy": "accuracy", "seed": "seed"}
    table = Table.from_frame(pd.DataFrame(rows), unit="<b>", lower_is_better=True, **named)
    write_explorer(tmp_path / "page.html", table, draws=20)
    data = data_of(tmp_path / "page.html")
    assert data["items"][0] == "net 00", "the lowest loss is the best"
    assert data["measure"] == {"name": "score", "unit": "<b>", "percent": False}
    [side] = data["sides"]
    means = data["columns"][side["mean"]]
    expected = table.means().sort_values().to_numpy()
    np.testing.assert_allclose(means, expected, rtol=1e-3)


def test_name_of_a_table_ends_no_element_of_the_page(tmp_path):
    name = "</script><img src=x onerror=alert(1)>"
    write_explorer(tmp_path / "x.html", Table.from_frame(published_table(40), name=name), draws=20)
    text = (tmp_path / "x.html").read_text()
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert name in data_of(tmp_path / "x.html")["sides"][0]["name"]


def test_command_writes_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    published_table(40).to_csv("table.csv", index=False)
    assert main(["explore", "table.csv", "--draws", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"page": "explore.html", "cells": 40}]
    for words, message in (
        (["table.csv"], "--force"),
        (["table.csv", "--out", "page.txt"], "--out must end in .html, got 'page.txt'"),
        (["table.csv", "--against-dataset", "cifar10"], "name two tables"),
    ):
        assert main(["explore", *words]) == 2
        assert message in capsys.readouterr().err


def shown(page, tmp_path, script=""):
    """Return the page in a browser; for a further script, the policy of the page is removed."""
    if script:
        text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text())
        page = tmp_path / "acted.html"
        page.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    command = ["chromium", *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, "--virtual-time-budget=5000", page.as_uri()],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "</html>" in done.stdout, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_browser_runs_the_script_of_the_page_and_no_other(page, tmp_path):
    dom = shown(page, tmp_path)
    assert '<b id="top">Top 10 % of baseline</b>' in dom
    assert dom.count("compare cell ") == 50
    assert "1 to 50 of 400" in dom
    injected = tmp_path / "injected.html"
    injected.write_text(
        page.read_text().replace("</body>", "<script>document.body.innerHTML='!'</script></body>")
    )
    assert "1 to 50 of 400" in shown(injected, tmp_path)


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_browser_shows_items_by_pointer_keyboard_and_name(page, tmp_path):
    third = data_of(page)["items"][2]
    script = f"""
    const said = [];
    const card = () => document.querySelector("#card h2")?.textContent ?? "nothing";
    const move = (kind, x, y) => {{
      const event = new MouseEvent(kind, {{clientX: x, clientY: y}});
      canvas.dispatchEvent(event);
    }};
    const box = canvas.getBoundingClientRect();
    const [x, y] = places[7];
    move("pointermove", box.left + x, box.top + y);
    said.push(card());
    move("click", box.left + x, box.top + y);
    canvas.dispatchEvent(new KeyboardEvent("keydown", {{key: "ArrowRight"}}));
    said.push(card());
    canvas.dispatchEvent(new KeyboardEvent("keydown", {{key: "Enter"}}));
    said.push(document.querySelectorAll("#chosen .strip").length);
    said.push(document.querySelectorAll("svg.cell").length);
    byId("find").value = "{third}";
    byId("find").onchange({{target: byId("find")}});
    said.push(card(), byId("where").textContent);
    byId("slider").value = 0;
    byId("slider").oninput();
    said.push(byId("top").textContent);
    const pixels = points.getContext("2d").getImageData(0, 0, points.width, points.height).data;
    said.push(pixels.some((value) => value > 0));
    document.title = JSON.stringify(said);
    """
    dom = shown(page, tmp_path, script)
    items = data_of(page)["items"]
    said = json.loads(re.search("<title>(.*?)</title>", dom)[1])
    assert said == [
        f"cell {items[7]}",
        f"cell {items[8]}",
        2,
        3,
        f"cell {third}",
        "3 to 52 of 400",
        "Top 100 % of baseline",
        True,
    ]
