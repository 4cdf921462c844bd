"""A copied run folder is another run: the jobs of the original are neither counted nor ended."""

import json
import os
import shutil
import signal

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.runs import Run


def _copy(sweep: Sweep, name: str) -> Sweep:
    other = Sweep(sweep.run.parent / name, cells=1)
    shutil.copytree(sweep.run, other.run)
    return other


@pytest.mark.slow
def test_copy_counts_and_ends_no_job_of_the_original_and_sends_its_own(tmp_path):
    sweep = Sweep(tmp_path, cells=1, epochs=3)
    sweep.submit("--cluster", "local", "--trials-per-job", "6")
    sweep.wait_until(lambda: len(list(sweep.run.glob("claims/*.1"))) == 1, "a claim")
    worker = json.loads(next(sweep.run.glob("claims/*.1")).read_text())["process"]["pid"]
    os.kill(worker, signal.SIGSTOP)
    copy = _copy(sweep, "copy")
    shown = copy.rebench("status", "--json")
    assert f"{copy.run} is a copy of {sweep.run}: the jobs of that run are not" in shown.stderr
    assert json.loads(shown.stdout)[0]["pending"] == 6 - copy.records()
    assert "cancelled 0 jobs" in copy.rebench("cancel").stdout
    copy.spec.write_text(sweep.spec.read_text())
    # The one that the stopped worker holds is trained here as well.
    sent = copy.submit("--cluster", "debug")
    assert sent["sent"] == 6 - sent["already_done"]
    assert copy.counts()["done"] == 6
    assert Run.open(copy.run).name != Run.open(sweep.run).name
    os.kill(worker, signal.SIGCONT)
    assert sweep.wait_until_over()["done"] == 6
    assert sweep.outcomes() == copy.outcomes()


def test_folder_that_was_moved_is_the_run_that_it_was(tmp_path, capsys):
    sweep = Sweep(tmp_path / "a", cells=1, epochs=1)
    assert main(sweep.command("submit", "--cluster", "debug")[3:]) == 0
    name = Run.open(sweep.run).name
    moved = tmp_path / "moved"
    sweep.run.rename(moved)
    assert (Run.open(moved).name, Run.open(moved).original) == (name, None)
    link = tmp_path / "link"
    link.symlink_to(moved)
    assert Run.open(link).original is None
    sweep.run = moved
    capsys.readouterr()
    assert main(sweep.command("submit", "--cluster", "debug", "--json")[3:]) == 0
    assert json.loads(capsys.readouterr().out)[0]["already_done"] == 6
    stored = json.loads((moved / "run.json").read_text())
    assert (stored["name"], stored["path"]) == (name, str(moved))


def test_run_of_an_earlier_version_has_no_path_and_opens(tmp_path):
    (tmp_path / "run.json").write_text('{"name": "0123abcd"}')
    assert Run.open(tmp_path).original is None
    assert Run.open(tmp_path).settled().original is None
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert Run.open(tmp_path / "copy").original == tmp_path
