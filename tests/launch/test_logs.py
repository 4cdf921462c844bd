"""What jobs printed about a trial, found by its id."""

import re

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.runs import Run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A sweep of two cells, three recipes and two seeds whose trials one background job trained."""
    sweep = Sweep(tmp_path_factory.mktemp("logs"), cells=2, epochs=1)
    sweep.submit(
        "--cluster", "local", "--trials-per-job", "12", "--set", "slurm.array_parallelism=1"
    )
    assert sweep.wait_until_over()["done"] == 12
    return sweep.run


def _logs(run, *arguments: str, code: int = 0) -> None:
    assert main(["logs", str(run), *arguments]) == code


def _trials(run):
    return Run.open(run).trials()


def test_trial_of_a_job_of_many_shows_its_own_lines_alone(run, capsys):
    for trial_id, trial in _trials(run).items():
        _logs(run, trial_id)
        said = capsys.readouterr().out
        assert said.startswith("==> ")
        recorded = re.findall(r"recorded (.*) in [\d.]+ s", said)
        assert recorded == [trial.describe()]
        assert len(re.findall(" training ", said)) == 1


def test_trial_that_no_log_names_shows_what_its_job_printed(run, capsys):
    """A log of an earlier version, or of a job that ended before it came to the trial."""
    (log,) = run.glob("submissions/0001/logs/*.log")
    text = log.read_text()
    log.write_text("it began\nit broke\n")
    try:
        _logs(run, next(iter(_trials(run))), "-n", "1")
    finally:
        log.write_text(text)
    said = capsys.readouterr().out
    assert f"==> {log} <== (no line about this trial: the last lines of its job)\nit broke\n" in said
    assert "it began" not in said


def test_trial_that_the_run_does_not_hold_is_bad_input(run, capsys):
    _logs(run, "0123456789abcdef", code=2)
    assert "no trial '0123456789abcdef' in this run; near: " in capsys.readouterr().err
