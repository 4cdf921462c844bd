"""Run each benchmark whose numbers are published, at a small part of its size."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from made_records import make_record, write_records
from support import PROJECT, python

SCRIPTS = {path.stem: path for path in PROJECT.glob("scripts/bench/*.py")}
CHECKS = {path.stem: path for path in PROJECT.glob("experiments/checks/*.py")}
# Scripts that are run here, with their arguments.
BENCHES = {
    "analysis": [],
    "export": [],
    "plan": [],
    "precision": ["--cells=11,284"],
    "query": [],
    "search": [],
    "search_compare": [],
    "startup": ["--repeats", "1"],
    "train": [
        "--cells=11",
        "--stacks=",
        "--small-stacks=2",
        "--surface-stacks=",
        "--repeats=1",
        "--against=HEAD",
    ],
    "whole_space": ["40"],
}
# Scripts that train on real images.
ON_IMAGES = {
    "init_memory": [],
    "proxies": ["--cells", "12"],
}
# Scripts that are not run here: they have separate tests, need other programs, or take days.
ELSEWHERE = {
    "calibration", "chaos", "coordinates", "jpeg_cost", "launch", "learning", "originals",
    "published", "retrained", "search_orders",
}  # fmt: skip
SHARED = {"reference_loop", "results_file", "stale"}


def run(name: str, *arguments: str) -> str:
    """Return the output of a benchmark at a thousandth of its size; keep its stored results."""
    script = (SCRIPTS | CHECKS)[name]
    before = {path: path.read_bytes() for path in (script.parent / "results").glob("*.json")}
    done = python(script, *arguments, REBENCH_BENCH_SCALE="0.001")
    assert done.returncode == 0, done.stderr
    assert "nothing is written: measured at a scale of 0.001" in done.stdout
    assert before == {path: path.read_bytes() for path in before}
    return done.stdout


def test_every_benchmark_is_run_here_or_elsewhere():
    assert {*SCRIPTS, *CHECKS} - SHARED == {*BENCHES, *ON_IMAGES} | ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHES)
def test_benchmark_runs(name: str):
    run(name, *BENCHES[name])


@pytest.mark.slow
def test_comparison_of_searches_uses_the_code_that_it_names(tmp_path: Path):
    (tmp_path / "rebench").mkdir()
    (tmp_path / "rebench" / "__init__.py").write_text('raise SystemExit("an earlier rebench")')
    done = python(SCRIPTS["search_compare"], "--contest", tmp_path)
    assert done.stderr.splitlines() == ["an earlier rebench"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_IMAGES)
def test_benchmark_on_images_runs(name: str, real_data: Path):
    asked = {"proxies": ["--benchmark", str(real_data / "nb201" / "nb201-200epochs-mean.csv"),
                         "--data-root", str(real_data / "cifar10-mini")]}  # fmt: skip
    run(name, *ON_IMAGES[name], *asked.get(name, ()))


def test_trials_of_two_runs_are_compared_by_their_ids(tmp_path: Path):
    one, other = tmp_path / "one", tmp_path / "other"
    for run_folder, accuracy in ((one, 50.0), (other, 52.0)):
        equal = make_record(cell=11, dirty=False)
        changed = make_record(cell=12, accuracy=accuracy, dirty=True)
        write_records(run_folder, "w", equal, changed)
    write_records(other, "x", make_record(cell=13))
    shown = run("retrained", str(one), str(other)).splitlines()
    rows = [line.split() for line in shown if line.split()[0] in ("False", "True")]
    assert rows == [
        ["False", "1", "1", "1", "0", "0", "0"],
        ["True", "1", "0", "1", "2", "2", "0"],
    ]


@pytest.mark.slow
def test_benchmark_of_rankings_of_algorithms_runs(tmp_path: Path):
    recipes = ("baseline", "ptq", "qat", "analog", "analog_drift_2592000")
    rows = pd.DataFrame([(cell, recipe) for recipe in recipes for cell in range(300)])
    rows = rows.set_axis(["index", "recipe"], axis=1).assign(
        dataset="cifar10", split="ori-test", epochs=200, seed=-2, accuracy=rows[0] / 10
    )
    rows.to_parquet(tmp_path / "generated.parquet", index=False)
    printed = run("search_orders", str(tmp_path / "generated.parquet"))
    assert all(recipe in printed for recipe in ("nb201", *recipes))


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.xdist_group("slurm")
def test_benchmark_of_the_launcher_runs():
    assert "status, 40 waiting" in run("launch")


def git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", *author, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


class Clone:
    """A project in git with a benchmark, `fast`, that measures `code.py` and has one result."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bench = folder, folder / "scripts" / "bench"
        (self.bench / "results").mkdir(parents=True)
        shutil.copy(SCRIPTS["results_file"], self.bench)
        (self.bench / "fast.py").write_text('MEASURES = ("code.py",)\n')
        (folder / "code.py").write_text("1\n")
        (folder / ".gitignore").write_text("__pycache__\n")
        git(folder, "init", "-q")
        self.first = self.commit()

    def commit(self) -> str:
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "more")
        return git(self.folder, "rev-parse", "HEAD").strip()

    def result(self, *rows: dict, name: str = "fast", **facts: object) -> None:
        content = {"when": "2026-11-26T07:00:00+00:00", **facts, "rows": rows}
        (self.bench / "results" / f"{name}.json").write_text(json.dumps(content))

    def stale(self) -> tuple[int, list[str]]:
        done = python(SCRIPTS["stale"], self.folder)
        assert not done.stderr
        return done.returncode, done.stdout.splitlines()[1:]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


def test_result_older_than_its_code_is_listed_and_no_error(clone: Clone):
    clone.result(commit=clone.first)
    clone.result(name="fast-gpu", commit=clone.first, uncommitted_changes=True)
    clone.commit()
    assert clone.stale() == (0, []), "no change of the code since"
    (clone.folder / "code.py").write_text("2\n")
    changed = clone.commit()
    clone.result(name="fast-new", commit=changed)
    code, listed = clone.stale()
    since = f"on 2026-11-26, code changed since, last in {changed[:7]}"
    assert code == 0
    assert {line.rpartition(" of ")[0] for line in listed} == {
        f"  fast: measured at {clone.first[:7]} {since}",
        f"  fast-gpu: measured at {clone.first[:7]} with uncommitted changes {since}",
    }


def test_result_with_a_row_older_than_its_code_is_listed(clone: Clone):
    (clone.folder / "code.py").write_text("2\n")
    now = clone.commit()
    clone.result({"seconds": 1}, commit=now)
    assert clone.stale() == (0, [])
    clone.result({"seconds": 1}, {"seconds": 2, "commit": clone.first}, commit=now)
    [line] = clone.stale()[1]
    assert f"fast: measured at {clone.first[:7]} on" in line


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("no commit", "names no commit"),
        ("row without commit", "names no commit"),
        ("no files", "MEASURES of fast.py names no files"),
        ("file not found", "MEASURES of fast.py names gone.py, not found"),
        ("no benchmark", "MEASURES of other.py names no files"),
    ],
)
def test_result_that_cannot_be_judged_is_an_error(clone: Clone, wrong: str, told: str):
    rows = [{"commit": None}] if wrong == "row without commit" else []
    clone.result(*rows, name="other" if wrong == "no benchmark" else "fast",
                 commit=None if wrong == "no commit" else clone.first)  # fmt: skip
    if wrong == "no files":
        (clone.bench / "fast.py").write_text("")
    if wrong == "file not found":
        (clone.bench / "fast.py").write_text('MEASURES = ("code.py", "gone.py")\n')
    code, [line] = clone.stale()
    assert code == 1
    assert told in line


@pytest.mark.parametrize("lacking", ["history", "git"])
def test_clone_without_history_cannot_tell_and_is_no_error(clone: Clone, lacking: str):
    clone.result(commit=clone.first)
    (clone.folder / "code.py").write_text("2\n")
    clone.commit()
    if lacking == "git":
        shutil.rmtree(clone.folder / ".git")
    else:
        shallow = clone.folder.with_name("shallow")
        git(clone.folder, "clone", "-q", "--depth=1", clone.folder.as_uri(), str(shallow))
        clone.folder = shallow
    told = f"  fast: cannot tell: this clone's history lacks commit {clone.first[:7]}"
    assert clone.stale() == (0, [told])


def test_result_names_the_commit_at_which_its_benchmark_started(clone: Clone):
    def published() -> tuple[object, object]:
        code = (
            "import results_file; results_file.publish('fast', [{'seconds': 1}])\n"
            "assert results_file.kept('fast', {}) == "
            "[{'commit': results_file.MEASURED_AT['commit'], 'seconds': 1}]\n"
        )
        done = python("-c", code, folder=clone.bench)
        assert done.returncode == 0, done.stderr
        content = json.loads((clone.bench / "results" / "fast.json").read_text())
        return content["commit"], content["uncommitted_changes"]

    assert published() == (clone.first, False)
    assert published() == (clone.first, False), "a new result is no change of the code"
    (clone.folder / "code.py").write_text("2\n")
    assert published() == (clone.first, True)
    shutil.rmtree(clone.folder / ".git")
    assert published() == (None, None)


def measured(name: str) -> list[dict]:
    kept = PROJECT / "experiments" / "checks" / "results" / f"{name}.json"
    return json.loads(kept.read_text())["rows"]


def test_page_on_training_says_what_was_measured():
    page = (PROJECT / "docs" / "explanation" / "training.md").read_text()
    [row] = measured("learning-C8-N1-from1000")
    assert len(row["reference"].split()) == len(row["float32"].split()) == 60
    interval = f"(95 % CI {row['low_95']} to {row['high_95']}, p = .46)"
    told = [f"{row['difference']} points {interval}"]
    row = measured("learning-C8-N1")[0]
    told.append(f"{row['difference']} points (95 % CI {row['low_95']} to {row['high_95']})")
    last = {row["split"]: row for row in measured("published-cifar10-jpeg-valid-12")}
    for row in (last["train"], last["ori-test"]):
        theirs = " and ".join(row["published_seeds"].split())
        told.append(f"is {row['ours']:.2f} %, and those of the published runs are {theirs} %")
    for row in measured("jpeg_cost"):
        interval = f"(95 % CI {row['low']:.1f} to {row['high']:.1f})"
        told.append(
            f"{round(row['difference'], 1) + 0.0:.1f} points {interval} for cell {row['cell']}"
        )
    assert [one for one in told if one not in page] == []
