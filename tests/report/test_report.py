"""The report: it states the results, is one file, and a browser shows it."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shlex
import subprocess
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image
from report_tables import published_table, run_table, studied

from rebench.analysis import Choices
from rebench.cli import main
from rebench.errors import InputError, StoreError, UnknownNameError
from rebench.report import write_report
from rebench.report.facts import title


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run with two recipes, and a published table of the same cells."""
    folder = tmp_path_factory.mktemp("run")
    run_table(recipes=("nb201", "topology")).to_parquet(folder / "results.parquet")
    published_table().to_parquet(folder / "published.parquet")
    return folder


@pytest.fixture(scope="module")
def found(folder):
    published = folder / "published.parquet"
    chosen = Choices(draws=30, recipes=["topology"], against="benchmark", published=published)
    return studied(folder, chosen)


@pytest.fixture(scope="module")
def written(found, folder):
    return write_report(found, folder / "report")


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = []
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in {"src", "href", "srcset", "data"}]
        if tag not in {"meta", "img", "br", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_says_what_was_found(written, found):
    page = written.html.read_text()
    [one] = found.rerankings
    assert one.baseline.name == "benchmark"
    assert f"<td>{one.frame()['tau'].iloc[0]:.2f}</td>" in page.replace(" class=n", "")
    assert "The rankings differ by more than seeds explain." in page
    assert "fewer than 10 cells" in page
    assert page.count("data:image/svg+xml;base64,") == 2
    markdown = written.markdown.read_text()
    assert f"| {one.frame()['tau'].iloc[0]:.2f} |" in markdown
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", markdown):
        assert (written.markdown.parent / image).is_file()


def test_title_says_what_was_run_and_the_folder_stands_beside(folder, written):
    page = written.html.read_text()
    assert "<title>topology against benchmark on cifar10: 40 cells</title>" in page
    under = f"3 seeds a cell, 200 epochs, accuracy on ori-test; from {folder}"
    assert f"<p>{under}</p>" in page
    both = studied(folder, Choices(draws=20, against="topology"))
    assert title(both) == "nb201 against topology on cifar10: 40 cells"
    many = run_table(recipes=tuple("abcdef")).assign(dataset="digits")
    many.to_parquet(folder / "many.parquet")
    six = studied(folder / "many.parquet", Choices(draws=20, against="b"))
    assert title(six) == "5 recipes against b on digits: 40 cells"


@pytest.mark.slow
def test_the_command_on_the_page_makes_the_page_again(folder, tmp_path, capsys):
    """The study of this test sets every choice."""
    chosen = Choices(
        published=folder / "published.parquet",
        datasets=["cifar10"],
        recipes=["topology"],
        against="benchmark",
        epochs=200,
        top_percent=(100, 50),
        by="nb201",
        draws=20,
        seed=3,
    )
    found = studied(folder, chosen)
    first = write_report(found, tmp_path / "first")
    [line] = re.findall(r"^rebench report .*$", first.markdown.read_text(), flags=re.MULTILINE)
    code, _, _ = _rebench(capsys, *shlex.split(line)[1:], "--out", tmp_path / "second")
    assert code == 0
    assert (tmp_path / "second" / "report.html").read_bytes() == first.html.read_bytes()


def test_page_is_one_file_whose_links_stay_inside(written):
    parser = _Links()
    parser.feed(written.html.read_text())
    assert parser.open == []
    assert all(link.startswith(("#", "data:")) for link in parser.links)


def test_figures_lie_beside_in_every_format_with_their_data(written):
    names = {path.name for path in written.figures.iterdir()}
    for suffix in ("pdf", "svg", "png", "csv"):
        assert f"01-cifar10-reranking.{suffix}" in names


def test_link_in_the_place_of_a_figure_is_replaced_and_not_followed(found, tmp_path):
    """Others can plant links in the folder of a shared run."""
    (victim := tmp_path / "victim").write_text("precious")
    folder = tmp_path / "report/figures"
    folder.mkdir(parents=True)
    planted = [folder / f"01-cifar10-reranking.{suffix}" for suffix in ("svg", "csv")]
    for link in planted:
        link.symlink_to(victim)
    write_report(found, tmp_path / "report")
    assert victim.read_text() == "precious"
    assert not any(link.is_symlink() for link in planted)
    assert {path.name for path in folder.parent.iterdir()} == {
        *("report.html", "report.md", "figures"),
    }


def test_link_in_the_place_of_the_folder_of_figures_is_refused(found, tmp_path):
    (folder := tmp_path / "report").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (folder / "figures").symlink_to(elsewhere)
    with pytest.raises(StoreError, match=r"report/figures is not a folder but a link"):
        write_report(found, folder)
    assert not list(elsewhere.iterdir())


def test_without_a_published_table_the_runs_own_nb201_stands_in(folder):
    found = studied(folder, Choices(draws=20))
    assert [one.baseline.name for one in found.rerankings] == ["nb201"]
    [note] = found.notes
    assert note.startswith(
        "cifar10: the recipes are compared with the recipe nb201 of the table, b"
    )


@pytest.mark.slow
def test_comparisons_of_one_run_stand_in_its_order_and_rows_without_a_tau_are_folded(tmp_path):
    table = run_table(recipes=("fixed(lr=0.3)", "nb201", "topology"))
    table.to_parquet(tmp_path / "results.parquet")
    found = studied(tmp_path, Choices(draws=20, top_percent=(100, 50, 10, 5)))
    written = write_report(found, tmp_path / "report")
    page, markdown = written.html.read_text(), written.markdown.read_text()
    titles = re.findall(
        r'<h2 id="\S+">(\S+) against nb201, cifar10</h2>\n<div class="callout', page
    )
    assert titles == ["fixed(lr=0.3)", "topology"]
    assert "<title>fixed(lr=0.3) and topology against nb201" in page
    trained = [line.split(" | ")[1] for line in markdown.splitlines() if "777, 888, 999" in line]
    assert trained == ["fixed(lr=0.3)", "nb201", "topology"]
    # 4 and 2 of 40 cells are too few: they are named under the rows with a tau.
    assert page.count("No tau at K = 10, 5: fewer than 10 cells, or all tied.") == 3


def test_two_plain_tables_are_enough(folder, tmp_path):
    mine = tmp_path / "mine.csv"
    run_table(recipes=("x",)).drop(columns=["recipe", "trial_id", "status"]).to_csv(mine)
    [one] = studied(mine, Choices(published=folder / "published.parquet", draws=20)).rerankings
    assert one.other.name == "mine"


@pytest.mark.parametrize(
    ("choices", "error", "message"),
    [
        ({"datasets": ["cifar100"]}, UnknownNameError, "unknown data set 'cifar100'"),
        ({"recipes": ["topologie"]}, UnknownNameError, "valid: topology, nb201"),
        ({"against": "mup"}, UnknownNameError, r"unknown recipe 'mup' in \S+"),
        ({"against": "benchmark"}, InputError, "give --published"),
        ({"split": "x-test"}, UnknownNameError, "unknown split"),
        ({"epochs": 12}, InputError, "for 12 epochs"),
        ({"recipes": ["nb201"]}, InputError, "nothing to compare"),
        ({"top_percent": (0,)}, InputError, r"in \(0, 100\], got 0"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(folder, choices, error, message):
    with pytest.raises(error, match=message) as caught:
        studied(folder, Choices(draws=20, **choices))
    assert "\n" not in str(caught.value)


def test_no_run_at_all_is_refused(tmp_path):
    with pytest.raises(InputError, match="give a run's folder"):
        studied(tmp_path / "nowhere")
    with pytest.raises(InputError, match="neither records nor results"):
        studied(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(InputError, match=f"its run is {tmp_path / 'run'}"):
        studied(tmp_path)


def _rebench(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_json_of_rank_has_the_numbers_of_the_study_and_null_without_tau(folder, capsys):
    _, text, _ = _rebench(capsys, "rank", folder, "--draws", 20, "--top", "100,1", "--json")
    rows = json.loads(text)
    [expected] = studied(folder, Choices(draws=20, top_percent=(100, 1))).rerankings
    assert rows[0]["tau"] == round(expected.frame()["tau"].iloc[0], 4)
    assert rows[1]["tau"] is None


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Handler that serves a folder and prints nothing."""

    def log_message(self, *_):
        pass


def _requests_of(page, scratch, *more):
    """Open a page in Chromium; return its screenshot and every URL that the page asked for.

    The requests are read from Chromium's network log. Requests of the browser itself are left out.
    """
    handler = functools.partial(_Quiet, directory=page.parent)
    log, shot = scratch / f"{page.stem}.json", scratch / f"{page.stem}.png"
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    flags += " --disable-background-networking --disable-component-update --hide-scrollbars"
    flags += " --window-size=1200,2600"
    command = ["chromium", *flags.split(), *more, f"--user-data-dir={scratch / 'profile'}"]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}"
        shown = subprocess.run(
            [*command, f"--log-net-log={log}", f"--screenshot={shot}", f"{origin}/{page.name}"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        server.shutdown()
    assert shot.is_file(), shown.stderr
    text = log.read_text()
    assert f"{origin}/{page.name}" in text
    events = [line for line in text.splitlines() if f'"initiator":"{origin}"' in line]
    urls = {url for line in events for url in re.findall(r'"url":"([^"]+)"', line)}
    return shot, {url.removeprefix(origin) for url in urls}


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_report_command_writes_a_page_that_a_browser_shows_without_a_further_request(
    folder, tmp_path, capsys
):
    out = tmp_path / "report"
    assert _rebench(capsys, "report", folder, "--out", out, "--draws", 20)[0] == 0
    shot, asked = _requests_of(out / "report.html", tmp_path)
    _assert_drawn(shot)
    assert asked <= {"/favicon.ico"}
    # The same function detects the request of a page that asks another host.
    (out / "leaky.html").write_text('<img src="http://outside.invalid/x.png">')
    assert "http://outside.invalid/x.png" in _requests_of(out / "leaky.html", tmp_path)[1]


@pytest.mark.slow
@pytest.mark.needs("chromium")
@pytest.mark.parametrize(("preferred", "least", "most"), [(0, 0.0, 0.02), (1, 0.6, 1.0)])
def test_page_follows_the_screen_s_colours(written, tmp_path, preferred, least, most):
    """With a dark screen (0) almost no pixel is bright; with a light one (1) most pixels are."""
    wish = f"--blink-settings=preferredColorScheme={preferred}"
    shot, _ = _requests_of(written.html, tmp_path, wish)
    with Image.open(shot) as image:
        grey = image.convert("L").histogram()
    assert least <= sum(grey[235:]) / sum(grey) <= most
    # Text and figures have enough contrast.
    assert sum(grey[:100] if preferred else grey[150:235]) / sum(grey) > 0.005


def _assert_drawn(shot: Path) -> None:
    """The page has the figures' own colours on it: it is not an error page."""
    with Image.open(shot) as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
    for drawn in ((0, 0x72, 0xB2), (0xD5, 0x5E, 0)):  # the first two colours of every figure
        assert drawn in colours
