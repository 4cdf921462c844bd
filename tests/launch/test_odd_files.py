"""Odd files in a run's folder: none is waited for, each is a line, and the command goes on."""

import json
import os
import shutil
from pathlib import Path

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.launch.journal import Journal
from rebench.launch.liveness import last_heard_s
from rebench.runs import Run
from rebench.runs.claims import Claims, Holder, this_process
from rebench.runs.files import OddFileError, read_file

FIRST = "submissions/0001"
SENT, INTENT = f"{FIRST}/sent.0.json", f"{FIRST}/intent.json"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A sweep whose two trials are done."""
    sweep = Sweep(tmp_path_factory.mktemp("finished"), cells=1, epochs=1)
    recipes = sweep.spec.read_text().splitlines()[2]
    sweep.spec.write_text(sweep.spec.read_text().replace(recipes, 'recipes = ["nb201"]'))
    assert main(sweep.command("submit", "--cluster", "debug")[3:]) == 0
    return sweep


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it, which knows nothing of the other."""
    sweep = Sweep(tmp_path, cells=1, epochs=1)
    shutil.copy(finished.spec, sweep.spec)
    shutil.copytree(finished.run, sweep.run)
    (sweep.run / "run.json").write_text(json.dumps({"name": Run.open(finished.run).name}))
    return sweep


def _replaced(file: Path, **content: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | content))


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def _shard_of_no_text(run: Path) -> None:
    (shard,) = run.glob("results/*.jsonl")
    name = os.fsencode(run / "results") + b"/\xff.jsonl"
    Path(os.fsdecode(name)).write_bytes(shard.read_bytes() + b"{\n")


def _unknown_type(run: Path) -> None:
    path = run / INTENT
    content = json.loads(path.read_text())
    content["chunks"][0]["type_name"] = "none"
    path.write_text(json.dumps(content))


def _process_of(run: Path, **content: object) -> None:
    path = run / SENT
    process = json.loads(path.read_text())["process"]
    _replaced(path, process=process | content)


# What is done to a run, and what status says of it.
ODD = {
    "shard": (_shard_of_no_text, r"results/\udcff.jsonl:3 is damaged and ignored"),
    "no jobs": (lambda run: _replaced(run / SENT, jobs=[]), f"{SENT} is damaged: its jobs are"),
    "job": (lambda run: _replaced(run / SENT, jobs=["/x"]), f"{SENT} is damaged: its jobs are"),
    "process": (lambda run: _process_of(run, pid=-1), f"{SENT} is damaged: its jobs are"),
    "large process": (lambda run: _process_of(run, pid=2**40), f"{SENT} is damaged: its jobs are"),
    "type": (_unknown_type, f"{INTENT} is damaged: which jobs submission 1 sent"),
    "number": (lambda run: (run / "submissions/²").mkdir(), "submissions/² is no submission"),
    "short number": (lambda run: (run / "submissions/1").mkdir(), "submissions/1 is no submission"),
    "NUL": (lambda run: _replaced(run / "run.json", path="/a\0b"), ""),
    "pipe as spec": (lambda run: _pipe(run / "spec.json"), "spec.json cannot be read (it is no"),
    "zeros as spec": (lambda run: _device(run / "spec.json"), "spec.json cannot be read (it is no"),
    "pipe as sent": (lambda run: _pipe(run / SENT), f"{SENT} cannot be read (it is not a regular"),
    "pipe as intent": (lambda run: _pipe(run / INTENT), f"{INTENT} cannot be read (it is no"),
    "pipe as owner": (lambda run: _pipe(run / FIRST / "owner.json"), ""),
    "pipe as progress": (lambda run: _pipe(run / "progress/w.json"), ""),
    "zeros as list": (lambda run: _device(run / "trials.jsonl"), "trials.jsonl cannot be read (it"),
    "pipe as aside": (lambda run: _pipe(run / "quarantine.jsonl"), "quarantine.jsonl cannot be"),
    "pipe as failures": (lambda run: _pipe(run / "failures/w.jsonl"), "w.jsonl is not a file"),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_file_is_one_line_and_status_and_collect_go_on(run, capsys, odd):
    change, said = ODD[odd]
    (run.run / "failures").mkdir(exist_ok=True)
    change(run.run)
    assert main(["status", str(run.run), "--json"]) == 0
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == bool(said)
    (counts,) = json.loads(told.out)
    listed = 0 if odd == "zeros as list" else 2
    assert (counts["done"], counts["trials"]) == (listed, listed)
    assert main(["collect", str(run.run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["trials"] == 2


@pytest.mark.parametrize("odd", ODD)
def test_odd_file_keeps_nobody_from_submitting(run, capsys, odd):
    (run.run / "failures").mkdir(exist_ok=True)
    ODD[odd][0](run.run)
    command = ["submit", "--cluster", "debug", "--json"]
    assert main(run.command(*command)[3:]) == 0
    assert json.loads(capsys.readouterr().out)[0]["already_done"] == 2


@pytest.mark.parametrize("change", [_pipe, _device])
def test_name_of_a_run_that_is_no_file_is_one_line(run, capsys, change):
    change(run.run / "run.json")
    for command in ("status", "collect", "logs"):
        words = ["0" * 16] if command == "logs" else []
        code = main([command, str(run.run), *words])
        said = capsys.readouterr().err
        if command != "collect":  # which needs no name
            assert code == 1
            assert "run.json cannot be read (it is not a regular file)" in said
            assert said.count("\n") == 1


def test_pipe_as_a_log_is_named_where_its_lines_would_be(run, capsys):
    (sent,) = Journal(run.run).submissions()
    job = sent.sent(0).jobs[0]
    sent.logs.mkdir(exist_ok=True)
    _pipe(sent.logs / f"{job}_0.log")
    assert main(["logs", str(run.run), Run.open(run.run).ids()[0]]) == 0
    assert "cannot be read: it is not a regular file" in capsys.readouterr().out


def test_what_a_worker_says_of_itself_names_no_file(run):
    """Its report is the file that it stands in, whatever name it gives."""
    (path,) = (run.run / "progress").glob("*.json")
    report = json.loads(path.read_text())
    report["holder"] |= {"worker": "a\0b", "job": "7"}
    (run.run / "progress" / "x.json").write_text(json.dumps(report))
    assert last_heard_s(run.run)["7"] >= 0


@pytest.mark.parametrize("name", ["²", "٣", "007", "x"])
def test_claim_without_a_number_is_no_claim(tmp_path, name):
    trial_id = "0123456789abcdef"
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / f"{trial_id}.{name}").write_text("")
    me = Holder(worker="w", job="1", attempt=0, cluster="local", process=this_process())
    claims = Claims(tmp_path, me, lambda _: True)
    assert claims.take(trial_id)
    assert (tmp_path / "claims" / f"{trial_id}.1").exists()


def test_pipe_as_a_claim_is_taken_over(tmp_path):
    trial_id = "0123456789abcdef"
    (tmp_path / "claims").mkdir()
    os.mkfifo(tmp_path / "claims" / f"{trial_id}.1")
    me = Holder(worker="w", job="1", attempt=0, cluster="local", process=this_process())
    assert Claims(tmp_path, me, lambda _: True).take(trial_id)
    assert (tmp_path / "claims" / f"{trial_id}.2").exists()


def test_file_without_end_is_read_to_its_bound(tmp_path):
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(OddFileError, match="it has more than 1000 bytes"):
        read_file(path, 1000)
    os.truncate(path, 1000)
    assert read_file(path, 1000) == bytes(1000)
