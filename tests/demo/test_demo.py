"""A small demonstration is complete and reproducible, and resumes after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from report_tables import run_table
from support import PROJECT

import rebench.cli.demo
import rebench.machine
from cells import functional_classes
from rebench import search
from rebench.cli import main
from rebench.cli.demo import CELLS, _train
from rebench.errors import RebenchError
from rebench.launch.expansion import expand_spec
from rebench.launch.state import cancel_jobs
from rebench.launch.status import status
from rebench.launch.submit import submit
from rebench.runs import Run, read_spec
from rebench.tables import open_table
from rebench.tables.opening import read_rows

SMALL = ("--cells", "2", "--draws", "20")
# Options for hours of training, so that every interruption comes during the training.
ENDLESS = ("--cells", "2", "--epochs", "5000", "--draws", "20")


def _command(out, size=SMALL):
    return [sys.executable, "-m", "rebench", "demo", "--out", str(out), *size]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "demo"
    subprocess.run(_command(out), stdout=subprocess.DEVNULL, check=True)
    return out


def _running(out):
    return status(out / "run").counts["running"]


def _accuracies(out):
    table = pd.read_parquet(out / "run" / "results.parquet")
    rows = table[table["split"] == "ori-test"].sort_values("trial_id")
    return rows[["trial_id", "accuracy", "loss"]].reset_index(drop=True)


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert complaint == f"rebench: cannot read or write {tmp_path / 'file'}: File exists"


@pytest.mark.parametrize("file", ["sweep.toml", "report.md"])
def test_folder_with_other_files_is_refused(file, tmp_path, capsys):
    (tmp_path / file).write_text("mine")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "contains other files" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_cells_of_the_demo_are_ordered_and_of_different_classes():
    measured = open_table("mini@fixed").means().index
    assert set(CELLS) <= set(measured)
    assert (np.diff(open_table("nb201").means("cifar10", "ori-test")[list(CELLS)]) > 0).all()
    assert len(np.unique(functional_classes()[list(CELLS)])) == len(CELLS) == 24


def test_demo_names_the_best_cell_and_its_trainings(tmp_path, monkeypatch, capsys):
    """A generated table replaces the trainings; it has three recipes, and the last one is shown."""
    rows = run_table(12, "digits-noisy", ("nb201", "topology", "fixed(lr=0.46)"))

    def train(spec, folder, total):
        trials = expand_spec(read_spec(spec)).trials
        assert {trial.cell.index for trial in trials} == {CELLS[at] for at in (0, 12, 23)}
        assert total == len(trials) == 27
        folder.mkdir()
        rows.to_parquet(folder / "results.parquet", index=False)

    monkeypatch.setattr(rebench.cli.demo, "_train", train)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--cells", "3", "--draws", "20"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("3 cells under 3 recipes with 3 seeds: 27 trainings on digits")
    said = " ".join(shown.out.split())
    means = rows[rows["recipe"] == "topology"].groupby("index")["accuracy"].mean()
    assert f"rebench query {out}/run {means.idxmax()} " in said
    for recipe in ("fixed(lr=0.46)", "topology"):
        assert f" {recipe} against nb201, digits-noisy: " in said
    assert (out / "report" / "report.html").is_file()
    tables = [f"{out / 'run'}@{recipe}" for recipe in ("nb201", "topology")]
    budget = search.Budget(evaluations=2)
    searched = search.compare(tables, ["rea", "random"], budget=budget, repeats=200)
    assert " ".join(f"topology: {searched}".split()) in said


def test_demo_with_unfinished_trials_counts_their_states(tmp_path):
    spec, run = tmp_path / "sweep.toml", tmp_path / "run"
    spec.write_text(
        'datasets = ["digits"]\nrecipes = ["nb201"]\nseeds = [1, 2]\nepochs = 1\nstack = 2\n'
        "[cells]\nindices = [284]\n[skeleton]\nchannels = 2\ncells_per_stage = 1\n"
        '[slurm]\ndevice = "cpu"\n'
    )
    submit(spec, run, cluster="debug")
    _train(spec, run, 2)
    with pytest.raises(
        RebenchError,
        match=r"not all trials of the demo are finished \(2 done\): see `rebench status",
    ):
        _train(spec, run, 3)


@pytest.mark.parametrize(("cores", "each"), [(1, 20), (3, 7), (8, 3), (40, 3)])
def test_demo_divides_its_trials_into_a_job_for_each_of_at_most_eight_cores(
    cores, each, tmp_path, monkeypatch
):
    def refuse(*_: object, trials_per_job: int, **__: object) -> None:
        raise RebenchError(f"{trials_per_job} trials per job")

    monkeypatch.setattr(rebench.machine, "cores", lambda: cores)
    monkeypatch.setattr("rebench.launch.submit.submit", refuse)
    with pytest.raises(RebenchError, match=f"^{each} trials per job"):
        _train(tmp_path / "sweep.toml", tmp_path / "run", 20)


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_demo_killed_and_called_again_ends_with_the_records_of_an_undisturbed_one(
    undisturbed, tmp_path
):
    killed = tmp_path / "killed"
    first = subprocess.Popen(_command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (killed / "run" / "run.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    first.kill()
    first.wait()
    cancel_jobs(Run.open(killed / "run"))  # also ends jobs that have started

    again = subprocess.run(_command(killed), capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "rebench submit my-sweep.toml --cluster slurm" in again.stdout
    assert "Kendall's tau between the two orders" in again.stdout
    assert "mini@topology against mini@fixed, cifar10-jpeg16: The ranking" in again.stdout
    assert (killed / "report" / "report.html").is_file()
    found = status(killed / "run")
    assert found.counts["done"] == 2 * 3 * 3
    assert found.extra_records == 0
    pd.testing.assert_frame_equal(_accuracies(killed), _accuracies(undisturbed))


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_picture_on_the_first_page_shows_what_the_demo_finds(undisturbed):
    drawn = pd.read_csv(PROJECT / "notebooks" / "demo.csv")
    drawn = drawn[drawn["series"] == "accuracy"].set_index("index")
    assert sorted(drawn.index) == sorted(CELLS)
    rows = read_rows(undisturbed / "run")
    rows = rows[rows["split"] == "ori-test"]
    means = rows.groupby(["recipe", "index"])["accuracy"].mean()
    for cell in (CELLS[0], CELLS[-1]):
        # Other processors round differently; between seeds accuracies differ by about four points.
        assert means["nb201", cell] == pytest.approx(drawn.loc[cell, "x"], abs=2)
        assert means["topology", cell] == pytest.approx(drawn.loc[cell, "y"], abs=2)


@pytest.mark.slow
def test_interrupted_demo_ends_its_jobs_and_prints_how_to_resume(tmp_path):
    out = tmp_path / "demo"
    # A process in the background of a shell ignores Ctrl-C; `env` makes it react again.
    command = ["env", "--default-signal=INT", *_command(out, ENDLESS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list((out / "run").glob("submissions/*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    while not _running(out) and time.monotonic() < deadline:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    try:
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"resumes: rebench demo --out {out} --cells 2 --epochs 5000 --draws 20" in said
    deadline = time.monotonic() + 60
    while _running(out) and time.monotonic() < deadline:
        time.sleep(0.5)
    found = status(out / "run")
    assert found.counts["running"] == 0
    assert found.counts["done"] < 2 * 3 * 3
