"""The command line `python -m experiments.laws`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from support import PROJECT

from experiments.laws import am_mup
from experiments.laws.__main__ import main
from experiments.laws.registry import LAWS, listed_settings, with_settings


@pytest.fixture
def laws(capsys, monkeypatch):
    """Run a command that must succeed; return its output."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> str:
        code = main(arguments)
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return run


def finished(folder: Path) -> dict[Path, int]:
    """Return the pieces in a folder, each with its time of writing."""
    return {path: path.stat().st_mtime_ns for path in (folder / "pieces").glob("*.parquet")}


QUICK = ("measure", "depth", "--small", "--json", "--set", "widths=64", "--set", "draws=20")


def test_depth_prints_json_saves_data_and_resumes(tmp_path, laws):
    first = laws(*QUICK, "--out", str(tmp_path))
    answer = json.loads(first)
    assert {"verdicts", "growth", "terms", "exponent"} <= set(answer)
    assert {row["paper"] for row in answer["verdicts"]} == {-1.5, None}
    growth = pd.read_csv(tmp_path / "depth-growth.csv")
    assert len(growth) == len(answer["growth"])
    assert (tmp_path / "depth.png").stat().st_size > 1000
    kept = finished(tmp_path)
    assert laws(*QUICK, "--out", str(tmp_path)) == first
    assert finished(tmp_path) == kept
    assert "depth (Jelassi et al.)" in laws("verdicts", str(tmp_path))


@pytest.mark.slow
def test_two_workers_give_the_same_tables(laws):
    assert laws(*QUICK, "--workers", "2") == laws(*QUICK)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_tables(tmp_path, laws):
    command = [sys.executable, "-m", "experiments.laws", *QUICK, "--out", str(tmp_path)]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL) as killed:
        deadline = time.monotonic() + 120
        while len(finished(tmp_path)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        killed.kill()
    kept = finished(tmp_path)
    assert len(kept) >= 3
    assert laws(*QUICK, "--out", str(tmp_path)) == laws(*QUICK)
    assert kept.items() <= finished(tmp_path).items()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["verdicts", "."], 1, "experiments.laws measure depth --out"),
        (["draw", "."], 1, "experiments.laws measure depth --out"),
        (["measure", "dept"], 2, "depth"),
        (["measure", "bafu", "--small", "--set", "dataset=cifar1"], 2, "cifar10"),
        (["measure", "am-mup", "--small", "--set", "dataset=cifar1"], 2, "cifar10"),
        (["measure", "depth", "--set", "draw=3"], 2, "draws"),
        (["measure", "depth", "--set", "draws"], 2, "KEY=VALUE"),
        (["measure", "depth", "--set", "draws=many"], 2, "draws=many: input should be a valid"),
        (["measure", "depth", "--set", "unequal=3"], 2, "unequal.draws"),
        (["all", "--small", "--out", "new", "--set", "draw=3"], 2, "no law has the setting 'draw'"),
    ],
)  # fmt: skip
def test_wrong_words_say_what_is_right(tmp_path, monkeypatch, capsys, words, code, said):
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
    assert said in " ".join(capsys.readouterr().err.split())


def test_settings_of_every_kind_are_read():
    texts = ["widths=16,32", "fit_depths=2,8", "unequal.draws=7", "seed=3"]
    settings = with_settings(LAWS["depth"].full, texts)
    assert (settings.widths, settings.fit_depths, settings.seed) == ((16, 32), (2, 8), 3)
    assert (settings.unequal.draws, settings.unequal.narrow) == (7, 64)
    released = with_settings(LAWS["released"].full, ["steps=5", "only=graphs,cnn", "data_root=x"])
    assert (released.steps, released.only, released.data_root) == (5, ("graphs", "cnn"), Path("x"))
    assert with_settings(released, ["steps=none"]).steps is None


def test_list_shows_every_law_and_the_settings_of_one(capsys):
    assert main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["law"] for row in rows] == list(LAWS)
    assert main(["list", "dag", "--json"]) == 0
    rows = {row["setting"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["graphs"]["full"] == LAWS["dag"].full.graphs
    assert rows["kernel.side"]["small"] == LAWS["dag"].small.kernel.side


OF_PAPERS = [name for name, law in LAWS.items() if law.paper]


def with_digits(law: str) -> list[str]:
    """Return the options for the digits, if the law has a data set."""
    return ["--set", "dataset=digits"] * ("dataset" in listed_settings(LAWS[law].full))


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> Path:
    """A folder with measurements of all laws, with small settings."""
    folder = tmp_path_factory.mktemp("all")
    digits = ["--set", "dataset=digits"]
    assert main(["all", "--small", "--long", *digits, "--json", "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("laws")
@pytest.mark.parametrize("law", LAWS)
def test_small_run_prints_verdicts_and_saves_figure_and_data(everything, law, laws):
    """The pieces of most laws are finished already, so they are read, not computed again."""
    kept = finished(everything)
    said = laws("measure", law, "--small", *with_digits(law), "--out", str(everything))
    assert finished(everything) == kept
    table = pd.read_csv(everything / f"{law}-verdicts.csv")
    assert len(table)
    assert (table["verdict"].str.len() > 10).all()
    words = " ".join(said.split())
    assert [one for one in table["quantity"] if one not in words] == []
    assert [line for line in said.splitlines() if len(line) > 80] == []
    for suffix in ("pdf", "svg", "png"):
        assert (everything / f"{law}.{suffix}").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.xdist_group("laws")
def test_all_laws_go_into_one_folder_with_a_page_and_figures(everything, laws):
    rows = pd.DataFrame(json.loads(laws("verdicts", str(everything), "--json")))
    assert set(OF_PAPERS) <= set(rows["file"])
    trained = len(LAWS["am-mup"].small.transfer.networks)
    assert (rows["file"] == "am-mup").sum() == len(am_mup.families(small=True)) + trained
    page = laws("verdicts", str(everything), "--markdown")
    missing = [
        line
        for line in page.splitlines()
        if "not measured here; python -m experiments.laws" in line
    ]
    # Small settings have no networks with GELU, so figure 7 is missing.
    assert [line.split(" | ")[0] for line in missing] == ["| Chen et al., figure 7"]
    assert {path.stem for path in everything.glob("*.png")} >= set(OF_PAPERS)
