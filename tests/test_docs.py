"""The documentation builds without a warning, needs no other host, and names only real things."""

from __future__ import annotations

import base64
import html
import importlib
import re
import runpy
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import hooks
import numpy as np
import pandas as pd
import pytest
import typer
from documents import blocks, commands, ran
from notebook import outputs, stored
from packages import install
from run_notebooks import NOTEBOOKS
from support import PROJECT, python
from test_public_api import PACKAGES

from rebench.cli.app import root

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = sorted((PROJECT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The pages that `mkdocs build` writes; `mkdocs.yml` makes it strict."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = python("-m", "mkdocs", "build", "--strict", "--site-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


class _Asked(HTMLParser):
    """All addresses that a page loads or links to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, _tag, attrs) -> None:
        names = ("href", "src", "srcset", "action", "data", "poster")
        self.found |= {value for name, value in attrs if name in names and value}


def outside(text: str) -> set[str]:
    """Return the addresses in a page that are on another host."""
    asked = _Asked()
    asked.feed(text)
    return {one for one in asked.found if re.match(r"(?:[a-z]+:)?//", one)}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["first-sweep", "your-own-table"])
def test_tutorial_runs_and_prints_what_it_shows(name):
    page = PROJECT / "docs" / "tutorial" / f"{name}.md"
    done = python("docs/tutorials.py", page)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_page_on_comparing_recipes_prints_what_it_shows(tmp_path):
    """Four parts are not run: users' files, a user's sweep, and a table that is downloaded."""
    page = PROJECT / "docs" / "how-to" / "compare-recipes.md"
    files = {"benchmark.parquet", "first.csv"}
    typed = [words for words in commands(page, "sh") if files.isdisjoint(words)]
    for words, expected in zip(typed, blocks(page, "text")[:4], strict=True):
        done = ran(words, tmp_path, COLUMNS="80")
        assert done.returncode == 0, done.stderr
        printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        assert printed.rstrip() == expected.rstrip()
    assert {path.suffix for path in tmp_path.glob("recipes.*")} == {".pdf", ".svg", ".png", ".csv"}
    assert (tmp_path / "curve.png").is_file()
    for snippet, expected in zip(
        blocks(page, "python")[:2], blocks(page, "text", title="printed"), strict=True
    ):
        done = ran(["-c", snippet], tmp_path)
        assert done.stdout == expected, done.stderr
    assert (tmp_path / "all-recipes.pdf").is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["any-network", "own-proxy"])
def test_page_of_snippets_prints_what_it_shows(tmp_path, name):
    page = PROJECT / "docs" / "how-to" / f"{name}.md"
    done = ran(["-c", "\n".join(blocks(page, "python"))], tmp_path, COLUMNS="100")
    assert done.stdout == "".join(blocks(page, "text")), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_package_of_the_page_on_extending_is_found(tmp_path):
    page = PROJECT / "docs" / "how-to" / "extend.md"
    announced = blocks(page, "toml")[0]
    for kind, entries in tomllib.loads(announced)["project"]["entry-points"].items():
        [(name, value)] = entries.items()
        module = value.partition(":")[0]
        [source] = blocks(page, "python", title=f"{module}.py")
        install(tmp_path, module, source, kind, **{name: value})
    for words in commands(page):
        done = ran(words, tmp_path)
        assert done.returncode == 0, (words, done.stderr)
        assert "Traceback" not in done.stderr, words
    [snippet] = [each for each in blocks(page, "python") if "search.compare(" in each]
    done = ran(["-c", snippet], tmp_path)
    assert "ends best on nb201" in done.stdout, done.stderr


@pytest.mark.parametrize("page", ["sweep-file.md", "columns.md"])
def test_reference_page_lists_what_the_code_has(page):
    text = (PROJECT / "docs" / "reference" / page).read_text()
    for part in hooks.stored()[page]:
        assert f"\n{part}\n" in text, f"this part of {page} is not that of docs/hooks.py:\n{part}"


def test_page_on_extending_counts_the_operations_of_a_cell(tmp_path):
    page = PROJECT / "docs" / "how-to" / "extend.md"
    done = ran(["-c", *blocks(page, "python", title="operations.py")], tmp_path)
    assert done.stdout == blocks(page, "text")[0], done.stderr


def test_an_address_on_another_host_is_seen():
    assert outside('<a href="a.html"><img src="//x.org/a.png"><a href="https://y.org">') == {
        "//x.org/a.png",
        "https://y.org",
    }
    assert outside("<code>https://x.org</code>") == set()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("docs")
def test_site_needs_and_names_no_other_host(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert {page.name: found for page in pages if (found := outside(page.read_text()))} == {}
    for style in site.rglob("*.css"):
        asked = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", style.read_text())
        assert [one for one in asked if re.match(r"(?:https?:)?//", one)] == []


class _Shown(HTMLParser):
    """Contents of the body of a page: texts by their tag, images, and the number of scripts."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.images: list[Path] = []
        self.scripts = 0
        self._open: list[str] = []
        _, _, body = page.read_text().partition('<article class="md-content__inner')
        self._page = page
        self.feed(body.partition("</article>")[0])

    def handle_starttag(self, tag, attrs) -> None:
        if tag == "img":
            self.images.append(self._page.parent / dict(attrs)["src"])
        elif tag in ("h1", "h2", "h3", "pre", "td", "th"):
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")
        self.scripts += tag == "script" or any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag) -> None:
        if tag in self._open:
            self._open.remove(tag)

    def handle_data(self, data) -> None:
        for tag in self._open:
            self.texts[tag][-1] += data


def held(notebook, kind: str) -> list[str]:
    """Return the contents of one kind in the outputs of a stored notebook."""
    found = [output.get("data", {}).get(kind) for output in outputs(notebook)]
    return [text for text in found if text]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.xdist_group("docs")
def test_notebook_is_a_page_that_shows_all_that_is_stored(site, path):
    notebook = stored(path.name)
    page = _Shown(site / "results" / "notebooks" / f"{path.stem}.html")
    headings = [
        (f"h{len(level)}", title)
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for level, title in re.findall(r"^(#+) (.+)$", cell.source, re.MULTILINE)
    ]
    assert headings[0][0] == "h1"
    for level, title in headings:
        assert title in [text.removesuffix("\N{PILCROW SIGN}") for text in page.texts[level]]
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    printed = [output.text for output in outputs(notebook) if output.output_type == "stream"]
    assert code
    assert printed
    for text in (*code, *printed):
        assert text.strip("\n") in [one.strip("\n") for one in page.texts["pre"]]
    cells = [
        html.unescape(cell)
        for table in held(notebook, "text/html")
        for cell in re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", table)
    ]
    cells += [
        cell.strip()
        for table in held(notebook, "text/markdown")
        for row in table.splitlines()
        for cell in row.strip("| ").split("|")
        if set(cell) != {"-"}
    ]
    assert cells
    assert not Counter(cells) - Counter(page.texts["td"] + page.texts["th"])
    images = [base64.b64decode(one) for one in held(notebook, "image/png")]
    assert [image.read_bytes() for image in page.images] == images
    assert page.scripts == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("docs")
def test_overview_leads_to_every_notebook(site):
    asked = _Asked()
    asked.feed((site / "notebooks.html").read_text())
    assert {f"results/notebooks/{path.stem}.html" for path in NOTEBOOKS} <= asked.found


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("module", ["rebench", *PACKAGES])
@pytest.mark.xdist_group("docs")
def test_every_public_name_is_described(site, module):
    page = site / "reference" / "python" / f"{module.removeprefix('rebench.')}.html"
    text, loaded = page.read_text(), importlib.import_module(module)
    # A function with the name of its module has an id that contains this name twice.
    missing = [
        name
        for name in getattr(loaded, "__all__", dir(loaded))
        if f'id="{module}.{name}"' not in text and f'{module}.{name}.{name}"' not in text
    ]
    assert missing == (["__version__"] if module == "rebench" else [])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.needs("chromium")
@pytest.mark.xdist_group("docs")
def test_search_works_on_pages_opened_from_files(site, tmp_path):
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    command = ["chromium", *flags.split(), f"--user-data-dir={tmp_path}", "--dump-dom"]
    shown = subprocess.run(
        [*command, "--virtual-time-budget=20000", f"{site.as_uri()}/index.html?q=checkpoint"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = re.findall(r'<a href="([^"?#]+)[^"]*" class="md-search-result__link"', shown.stdout)
    assert f"{site.as_uri()}/how-to/resume-repair.html" in found, shown.stderr


@pytest.mark.parametrize(
    "page", [*filter(commands, PAGES)], ids=lambda page: str(page.relative_to(PROJECT))
)
def test_commands_of_a_page_exist(page):
    for words in commands(page):
        if words[0] == "rebench":
            assert problem(words[1:]) is None, f"{words}: {problem(words[1:])}"
        elif words[0].startswith(("scripts/", "slurm/")):
            assert (PROJECT / words[0]).is_file(), words
        else:
            assert words[0] in ("cat", "cp", "eval", "mkdocs", "pip", "python", "sbatch"), words


def problem(words: list[str]) -> str | None:
    """Return the error in the words of a command, or None; the command is not run."""
    command = typer.main.get_command(root)
    context = command.context_class(command, info_name="rebench")
    try:
        while hasattr(command, "resolve_command"):
            if not words:
                return "a command is missing"
            _, command, words = command.resolve_command(context, words)
            context = command.context_class(command, info_name=command.name, parent=context)
        command.parse_args(context, words)
    except SystemExit:
        return "it ends early"
    except Exception as error:  # noqa: BLE001 - typer's own errors, of a module it does not name
        return str(error)
    return None


def test_a_command_that_does_not_exist_is_seen():
    assert problem(["sweep", "nwe"])
    assert problem(["status", "runs/mine", "--jsno"])
    assert problem(["status"])
    assert problem(["status", "runs/mine", "--json"]) is None


ASSETS = PROJECT / "docs" / "assets"
CURVE = "--top 100,70,50,35,25,20,15,10,7,5 --figure tau-over-k.svg"


def markers(name: str, colour: str) -> np.ndarray:
    """Return the places of a figure's markers with this colour, in points."""
    found = re.findall(
        rf'<use xlink:href="#\w+" x="([\d.]+)" y="([\d.]+)" style="fill: {colour}[^"]* stroke: ',
        (ASSETS / f"{name}.svg").read_text(),
    )
    return np.array(found, dtype=float).T


def test_figure_of_tau_shows_the_table():
    stored = pd.read_csv(ASSETS / "tau.csv")
    drawn = runpy.run_path(str(PROJECT / "docs" / "figures.py"))["draw_tau"]().data
    pd.testing.assert_frame_equal(drawn, stored)
    best = stored["left"] <= 5
    for cells, colour in ((stored[best], "#d55e00"), (stored[~best], "#9aa3b0")):
        # The markers of a line are together: its left end, then its right end.
        _, y = markers("tau", colour)
        ranks = cells[["left", "right"]].to_numpy().ravel()
        assert np.corrcoef(y, ranks)[0, 1] == pytest.approx(1)


def test_figure_of_tau_over_k_shows_the_numbers_of_its_page():
    stored = pd.read_csv(ASSETS / "tau-over-k.csv").pivot_table("y", "x", "series")
    stored = stored.sort_index(ascending=False)
    x, y = markers("tau-over-k", "#d55e00")[:, : len(stored)]  # without the marker of the legend
    assert np.corrcoef(x, -np.log(stored.index))[0, 1] == pytest.approx(1)
    assert np.corrcoef(y, -stored["tau"])[0, 1] == pytest.approx(1)
    row = r"^ *(\d+) +\d+  (\d\.\d\d) +(\d\.\d\d)  \d"
    [shown] = blocks(PROJECT / "docs" / "how-to" / "compare-recipes.md", "console")
    printed = re.findall(row, shown, re.MULTILINE)
    assert len(printed) == 4
    for percent, *values in printed:
        row = stored.loc[int(percent), ["tau", "seed tau"]]
        assert [float(value) for value in values] == row.round(2).tolist()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_figure_of_tau_over_k_is_drawn_from_the_tables(tmp_path):
    if ran(["rebench", "table", "fetch", "analog-nasbench"], tmp_path).returncode:
        pytest.skip("the table cannot be downloaded")
    page = PROJECT / "docs" / "how-to" / "compare-recipes.md"
    command = next(line for line in commands(page) if "analog-nasbench@analog" in line)
    done = ran([*command[: command.index("--top")], *CURVE.split()], tmp_path)
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(tmp_path / "tau-over-k.csv")
    pd.testing.assert_frame_equal(found, pd.read_csv(ASSETS / "tau-over-k.csv"), atol=1e-6)
