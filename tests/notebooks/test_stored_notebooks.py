"""The notebooks are stored with what a run of theirs shows, and with nothing of the machine."""

from __future__ import annotations

import itertools
import json
import re

import pandas as pd
import pytest
from notebook import figures, outputs, said, shown, stored
from run_notebooks import NOTEBOOKS, asks_published, run_stored
from simulated_tables import synthetic_table
from support import shared_data

from rebench.tables import open_table
from rebench.tables.opening import released_tables
from rebench.tables.release import release_of

MEANS = {  # columns of a file of published means
    "cifar10_ori_test": ("cifar10", "ori-test"),
    "cifar100_x_test": ("cifar100", "x-test"),
    "imagenet16_120_x_test": ("ImageNet16-120", "x-test"),
}
# Train networks in float32: between processors even first digits differ, of some rates by far.
TRAINS = ("04", "07", "08")
# The same words and tables in a twentieth of the time.
SHORTER = {
    "07_any_network": "SEEDS, EPOCHS, BATCH, WIDTH = 2, 1, 100, 4\n"
    "RESNET18, RESNET34 = (1, 1, 1), (1, 1, 8)",
}
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@every_notebook
def test_notebook_is_stored_as_run_from_top_to_bottom(path):
    code = [cell for cell in stored(path.name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.outputs for cell in code)


@every_notebook
def test_stored_notebook_holds_nothing_of_the_machine(path):
    notebook = stored(path.name)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    assert not any(cell.metadata for cell in notebook.cells)
    for output in outputs(notebook):
        assert output.output_type in ("stream", "execute_result", "display_data")
        assert output.get("name", "stdout") == "stdout"
        assert set(output.get("data", {})) <= {
            *("image/png", "text/plain", "text/html", "text/markdown"),
        }
    texts = json.dumps(shown(notebook))
    assert not re.search(r"(?<![\w.])/(?:home|root|tmp|work|Users|usr|var|opt)/", texts)
    assert not re.search(r"\b0x[0-9a-f]{6,}", texts)


@every_notebook
def test_stored_notebook_is_small_and_shows_a_figure(path):
    assert path.stat().st_size < 400_000
    assert figures(stored(path.name)) >= 1


@every_notebook
def test_first_code_cells_print_an_answer(path):
    assert outputs(stored(path.name))[0].name == "stdout"


@pytest.mark.parametrize("name", ["01", "02", "03"])
def test_stored_comparison_is_of_the_released_table(name):
    text = said(stored(name))
    for side, table in (("before", "mini@fixed"), ("after", "mini@topology")):
        key = open_table(table).usual_key()
        lines = (line.removeprefix(f"{side}: ") for line in text.splitlines())
        line = next(line for line in lines if line.startswith(table))
        assert all(str(part) in line for part in key)


@pytest.mark.parametrize("name", ["01", "02"])
def test_stored_ranking_notebook_gives_the_verdict(name):
    verdict = r"The rankings differ by more than seeds explain|No difference was detected"
    assert re.search(verdict, said(stored(name)))


def test_stored_comparison_of_algorithms_stands_beside_reruns():
    notebook = stored("03")
    assert "agree by Kendall's tau" in said(notebook)
    assert "With other seeds of" in said(notebook)
    assert figures(notebook) == 3
    code = [cell.source.splitlines() for cell in notebook.cells if cell.cell_type == "code"]
    assert sum(map(bool, itertools.chain(*code))) == 10


def test_stored_theory_shows_every_law():
    notebook = stored("04")
    shown_data = [output.data for output in outputs(notebook) if "data" in output]
    assert figures(notebook) == 4
    verdicts = [
        one["text/html"] for one in shown_data if "<th>verdict</th>" in one.get("text/html", "")
    ]
    assert len(verdicts) == 4
    assert all("<th>settings</th>" in table and table.count("<tr>") > 3 for table in verdicts)
    for law in ("depth", "graphs", "feature updates", "AM-muP"):
        assert law in shown_data[0]["text/plain"]


def test_stored_surface_says_where_its_table_comes_from():
    notebook = stored("05")
    about = release_of(released_tables()["mini"])
    assert about.title in said(notebook)
    assert "trained with" in outputs(notebook)[-1].text


@pytest.mark.slow
@pytest.mark.timeout(1800)
@every_notebook
def test_run_shows_what_is_stored(path, tmp_path):
    expected = shown(stored(path.name))
    folder = shared_data()
    if not asks_published(path):
        again = shown(run_stored(path, shorter=SHORTER.get(path.stem, "")))
    elif folder is not None:
        again = shown(run_stored(path, folder / "nb201" / "nb201-200epochs-mean.csv"))
    else:  # the same questions; what is stored is of the published means
        again = shown(run_stored(path, generated_means(tmp_path / "means.csv")))
        again, expected = kinds(again), kinds(expected)
    if path.name.startswith(TRAINS):
        again, expected = in_words(again), in_words(expected)
    assert again == expected


def generated_means(path):
    """Write a generated table as a file in the format of the published means."""
    table = synthetic_table(0)
    pd.DataFrame({name: table.means(*key) for name, key in MEANS.items()}).round(4).to_csv(path)
    return path


def kinds(cells):
    return [[(output["kind"], sorted(output["data"])) for output in cell] for cell in cells]


def in_words(cells):
    """Numbers masked: which are there, and every word, but no digit."""
    masked = re.sub(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", "#", json.dumps(cells))
    return json.loads(re.sub(r"(?: |\\n)+", " ", masked))
