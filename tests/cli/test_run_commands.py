"""Output and exit codes of the commands on a run."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import typer
from support import PROJECT, json_of

from rebench.cli import main
from rebench.cli.runs import _ask, _print, _print_status
from rebench.launch.status import Status, TrialStatus
from rebench.launch.submit import Submitted
from rebench.runs import Run

SMALL = PROJECT / "tests" / "small_run"
_CHANGE = (
    "queued trials with this reason do not start without a change: for example `rebench cancel"
    " RUN`, then `rebench submit RUN --set slurm.KEY=VALUE`"
)


def _submitted(**changed: object) -> Submitted:
    usual = {
        "run": Path.cwd() / "runs" / "mine", "sent": 6, "jobs": ("1", "2"), "done": 3, "held": {},
        "failed": 0, "waiting": 0, "limit": "the limit",
    }  # fmt: skip
    return Submitted(**usual | changed)


def test_submission_is_a_row_and_a_line_for_each_kind_of_omitted_trial(capsys):
    done = _submitted(held={"1": 2, "2": 3}, failed=1, waiting=4, adopted=5)
    with pytest.raises(typer.Exit) as ended:
        _print(done, dry_run=False, as_json=True)
    assert ended.value.exit_code == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out) == [
        {
            "sent": 6, "jobs": 2, "already_done": 3, "held_by_live_jobs": 5, "failed_before": 1,
            "waiting": 4, "taken_over": 5, "run": "runs/mine",
        }
    ]  # fmt: skip
    starts = [line.partition(" trials ")[0] for line in shown.err.splitlines()]
    assert starts == ["5", "1", "4"]
    assert "wait: the limit; submit again later" in shown.err


def test_submission_of_all_trials_prints_only_its_row(capsys):
    _print(_submitted(run=Path("/elsewhere/run")), dry_run=False, as_json=True)
    shown = capsys.readouterr()
    assert shown.err == ""
    assert json.loads(shown.out)[0]["run"] == "/elsewhere/run"
    _print(_submitted(), dry_run=True, as_json=False)
    assert capsys.readouterr() == ("", "nothing would be sent\n")


def _status(*trials: TrialStatus, **changed: object) -> Status:
    usual = {"jobs": (), "train_hours": 1.23456, "extra_records": 0, "warnings": ()}
    known = {trial.trial_id: trial for trial in trials}
    return Status(run=Run.open(SMALL), trials=known, **usual | changed)


def _trial(number: int, state: str, **known: object) -> TrialStatus:
    return TrialStatus(trial_id=f"t{number}", state=state, **known)


def test_status_shows_totals_running_trials_and_reasons(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("8.log").touch()
    known = {"job": "7", "epochs": 30, "eta_s": 59.6}
    running = [_trial(at, "running", epoch=at, **known) for at in range(21)]
    troubles = [
        _trial(30, "failed", reason="nan", job="8", log="8.log"),
        _trial(31, "lost", reason="cut", log="never-written.log"),
        _trial(32, "lost", reason="cut"),
        _trial(33, "queued", reason="pending: PartitionTimeLimit"),
        _trial(34, "queued", reason="pending: Priority"),
        _trial(35, "done"),
    ]
    _print_status(_status(*running, *troubles, extra_records=2), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    heading, totals = (line.split() for line in lines[:2])
    assert totals == ["1", "0", "21", "2", "1", "2", "0", "27", "1.235", "2"]
    assert " ".join(heading).startswith("done diverged running queued failed lost pending trials")
    assert lines[3] == "running"
    assert [line.split()[0] for line in lines[5:25]] == [f"t{at}" for at in range(20)]
    assert lines[24].split() == ["t19", "running", "7", "19/30", "60", "-"]
    assert lines[25:] == [
        "and 1 more: rebench status RUN --state running",
        "",
        "2 lost: cut",
        "  such as t31, job -, log -",
        "",
        "1 failed: nan",
        "  such as t30, job 8, log 8.log",
        "",
        "1 queued: pending: PartitionTimeLimit",
        "  such as t33, job -, log -",
        "",
        _CHANGE,
        "",
        "`rebench submit RUN` submits lost trials again",
        "",
        "`rebench submit RUN --retry-failed` submits failed trials again",
    ]


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("queued", _CHANGE),
        ("lost", "`rebench submit RUN` submits lost trials again"),
        ("failed", "`rebench submit RUN --retry-failed` submits failed trials again"),
    ],
)
def test_status_gives_advice_for_the_state_of_the_trouble_only(state: str, advice: str, capsys):
    _print_status(_status(_trial(1, state, reason="JobHeldUser")), as_json=False)
    told = capsys.readouterr().out.splitlines()[2:]
    assert told[:4] == ["", f"1 {state}: JobHeldUser", "  such as t1, job -, log -", ""]
    assert " ".join(told[4:]) == advice


def test_live_status_fits_80_columns_with_one_line_a_trial(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    log = "/home/somebody/projects/rebench/runs/sweep/submissions/0001/logs/12345678_100_0.log"
    known = {"job": "12345678_100", "epoch": 99, "epochs": 200, "eta_s": 86_400.0, "log": log}
    running = [_trial(at, "running", **known) for at in range(10**15, 10**15 + 5)]
    lost = _trial(1, "lost", job="12345678_99", reason="job node_fail", log=log)
    _print_status(_status(*running, lost, extra_records=2), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    # A path is never broken, so that it can be copied.
    assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []
    own = [line.split() for line in lines if line.startswith("t1000")]
    assert own == [
        [trial.trial_id, "running", "12345678_100", "99/200", "86400", "-"] for trial in running
    ]


def test_status_without_trouble_is_its_totals(capsys):
    quiet = _status(_trial(1, "done"), _trial(2, "queued", reason="pending: Priority"))
    _print_status(quiet, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "records" not in lines[0]
    _print_status(quiet, as_json=True)
    [row] = json.loads(capsys.readouterr().out)
    assert (row["device_hours"], row["records_of_other_trials"]) == (1.2346, 0)


def test_trials_of_all_states_or_of_one_state_are_listed(capsys):
    every = json_of("status", str(SMALL), "--trials")
    states = [row["state"] for row in every]
    assert (len(states), states.count("done")) == (18, 16)
    other = next(state for state in states if state != "done")
    assert json_of("status", str(SMALL), "--state", other) == [
        row for row in every if row["state"] == other
    ]
    assert main(["status", str(SMALL), "--state", "dnoe"]) == 2
    assert "valid: done" in capsys.readouterr().err


def test_watch_prints_the_counts_and_exits_with_1_if_trials_are_missing(tmp_path, capsys):
    # Make the files old. With new files, as after a checkout, a submitter could still be alive.
    run = shutil.copytree(SMALL, tmp_path / "run")
    for path in run.rglob("*"):
        os.utime(path, (0, 0))
    assert main(["watch", str(run)]) == 1
    line, *reasons = capsys.readouterr().out.splitlines()
    assert line == "16 done, 1 failed, 1 lost"
    assert "`rebench submit RUN` submits lost trials again" in reasons
    assert main(["watch", str(run), "--json"]) == 1
    [row] = json.loads(capsys.readouterr().out)
    assert (row["done"], row["failed"], row["lost"], row["pending"]) == (16, 1, 1, 0)


@pytest.mark.parametrize(
    ("hours", "screens", "questions"),
    [
        (100.1, ("stdin", "stderr"), ["this submission needs about 100 device hours: submit it?"]),
        (100.0, ("stdin", "stderr"), []),
        (100.1, ("stdin",), []),
        (100.1, ("stderr",), []),
    ],
)
def test_more_than_100_device_hours_are_confirmed_on_a_terminal(
    hours, screens, questions, monkeypatch
):
    asked = []
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda on=stream in screens: on)
    monkeypatch.setattr(typer, "confirm", lambda text, **_: asked.append(text))
    _ask(hours)
    assert asked == questions


def test_logs_and_cancel_of_a_run_without_logs_or_live_jobs(capsys):
    said = "no job with this trial has printed anything yet\n"
    for typed, plain, as_json in (
        (["logs", str(SMALL), "5d3d593b8a6333e6"], said, []),
        (["cancel", str(SMALL)], "cancelled 0 jobs\n", [{"cancelled": 0, "jobs": []}]),
    ):
        assert main(typed) == 0
        assert capsys.readouterr().out == plain
        assert json_of(*typed) == as_json
