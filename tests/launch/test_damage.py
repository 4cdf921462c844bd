"""Damaged files outside ``results/``: named in a line, and neither status nor submit stops."""

import json
import os
import shutil
from pathlib import Path

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.launch.status import status
from rebench.runs import FinishedTrials, Run
from rebench.runs.claims import Claims, Holder, this_process

INTENT, SENT = "submissions/0001/intent.json", "submissions/0001/sent.0.json"
OWNER, LIST, FAILED = "submissions/0001/owner.json", "trials.jsonl", "failures/w.0.jsonl"
ASIDE = "quarantine.jsonl"
# What `status` says of each; of an owner that is gone and of progress nothing has to be said.
NAMED = {
    INTENT: f"{INTENT} is damaged: which jobs submission 1 sent is not known",
    SENT: f"{SENT} is damaged: its jobs are looked for in the queue",
    LIST: "trials.jsonl is damaged in 1 lines: `rebench submit` with the sweep file",
    FAILED: "failures/w.0.jsonl:1 is damaged: ignored",
    ASIDE: "quarantine.jsonl:1 is damaged: ignored",
    OWNER: "",
    "progress/w.json": "",
}
DAMAGES = {"torn": b'{"trial_id":"', "not UTF-8": b"\xff\xfe{}\n", "not an object": b"[3]\n"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A sweep whose two trials are done."""
    sweep = Sweep(tmp_path_factory.mktemp("finished"), cells=1, epochs=1)
    recipes = sweep.spec.read_text().splitlines()[2]
    sweep.spec.write_text(sweep.spec.read_text().replace(recipes, 'recipes = ["nb201"]'))
    assert _rebench(sweep, "submit", "--cluster", "debug") == 0
    return sweep


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it without one of the records."""
    sweep = Sweep(tmp_path, cells=1, epochs=1)
    shutil.copy(finished.spec, sweep.spec)
    shutil.copytree(finished.run, sweep.run)
    # As if it had been made here.
    (sweep.run / "run.json").write_text(json.dumps({"name": Run.open(finished.run).name}))
    (shard,) = sweep.run.glob("results/*.jsonl")
    shard.write_text(shard.read_text().splitlines(keepends=True)[0])
    return sweep


def _rebench(sweep: Sweep, *arguments: str) -> int:
    return main(sweep.command(*arguments)[3:])


def _damage(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    # The other lines of a list stay whole.
    whole = path.read_bytes().split(b"\n", 1)[1] if path.name == LIST else b""
    path.write_bytes(content + (b"" if content.endswith(b"\n") or not whole else b"\n") + whole)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", NAMED)
def test_damaged_file_is_named_and_the_rest_is_sent(run, capsys, name, how):
    content = DAMAGES[how]
    # A line that has no end is being written, and not damaged.
    _damage(run.run / name, content if name.endswith("json") else content.rstrip() + b"\n")
    assert _rebench(run, "status") == 0
    said = capsys.readouterr().err
    assert NAMED[name] in said
    assert said.count("\n") == bool(NAMED[name])
    assert _rebench(run, "submit", "--cluster", "debug", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["sent"] == 1
    assert _rebench(run, "status", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["done"] == 2


@pytest.mark.parametrize("content", [b"", *DAMAGES.values()])
def test_damaged_name_of_a_run_says_how_to_mend_it(run, capsys, content):
    path = run.run / "run.json"
    path.write_bytes(content)
    for command in ("status", "submit", "cancel"):
        assert _rebench(run, command, *(["--cluster", "debug"] if command == "submit" else [])) == 1
        said = capsys.readouterr().err
        assert f"{path} is damaged: it contained the name of the run" in said
        assert said.count("\n") == 1
    path.unlink()
    assert _rebench(run, "submit", "--cluster", "debug") == 0


@pytest.mark.parametrize("content", DAMAGES.values())
def test_damaged_sweep_is_written_anew_by_submit(run, capsys, content):
    (run.run / "spec.json").write_bytes(content)
    assert _rebench(run, "submit RUN") == 1
    assert "spec.json is damaged: `rebench submit` with the sweep file" in capsys.readouterr().err
    assert _rebench(run, "submit", "--cluster", "debug") == 0
    assert _rebench(run, "submit RUN") == 0


@pytest.mark.parametrize("name", ["run.json", INTENT, SENT, OWNER, "spec.json"])
def test_keys_of_a_later_version_are_ignored(run, name):
    path = run.run / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"later": 1, "version": 2}))
    assert _rebench(run, "status") == 0
    assert _rebench(run, "submit RUN") == 0


@pytest.mark.parametrize("how", ["zeros", "cut", "joined", "digit"])
def test_damaged_record_is_trained_again_and_no_other(finished, tmp_path, capsys, how):
    sweep = Sweep(tmp_path, cells=1, epochs=1)
    shutil.copy(finished.spec, sweep.spec)
    run = Path(shutil.copytree(finished.run, sweep.run))
    (run / "run.json").write_text(json.dumps({"name": Run.open(finished.run).name}))
    (shard,) = run.glob("results/*.jsonl")
    first, second = shard.read_bytes().splitlines(keepends=True)
    whole = FinishedTrials(run).refresh().records
    at = first.index(b'"accuracy":[') + 13
    digit = b"1" if first[at : at + 1] != b"1" else b"2"
    damaged = {
        "zeros": first[:200] + b"\0" * 200 + first[400:],
        "cut": first[:-300] + b"\n",
        "joined": first[:-1],
        "digit": first[:at] + digit + first[at + 1 :],
    }[how]
    shard.write_bytes(damaged + second)
    sent = 2 if how == "joined" else 1
    assert _rebench(sweep, "status", "--json") == 0
    (status,) = json.loads(capsys.readouterr().out)
    assert (status["done"], status["pending"] + status["lost"]) == (2 - sent, sent)
    assert _rebench(sweep, "collect") == 1
    assert f"results/{shard.name}:1 is damaged" in capsys.readouterr().err
    assert _rebench(sweep, "submit", "--cluster", "debug", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["sent"] == sent
    assert _rebench(sweep, "collect") == 0
    again = FinishedTrials(run).refresh()
    assert again.duplicates == 0
    assert {one: record["outcome"] for one, record in again.records.items()} == {
        one: record["outcome"] for one, record in whole.items()
    }


def test_file_that_cannot_be_read_is_one_line(run, capsys):
    """A folder in its place stands for it: the superuser may read every file."""
    (run.run / "trials.jsonl").unlink()
    (run.run / "trials.jsonl").mkdir()
    assert _rebench(run, "status") == 0
    assert "trials.jsonl cannot be read (Is a directory)" in capsys.readouterr().err
    (run.run / SENT).unlink()
    (run.run / SENT).mkdir()
    (run.run / "trials.jsonl").rmdir()
    assert _rebench(run, "status") == 0
    assert f"{SENT} cannot be read (Is a directory)" in capsys.readouterr().err


def test_file_with_the_name_of_a_submission_is_named_and_in_nobodys_way(run, capsys):
    stray = run.run / "submissions" / "0002"
    stray.write_text("")
    assert _rebench(run, "status") == 0
    assert f"{stray} is no folder, and no submission: ignored" in capsys.readouterr().err
    assert _rebench(run, "submit", "--cluster", "debug") == 0
    assert (run.run / "submissions" / "0003" / "intent.json").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("trials.jsonl", None, "is missing"),
        ("spec.json", None, "is missing"),
        ("spec.json", b"", "is damaged"),
        ("spec.json", b'{"cells": 3}', "is damaged"),
    ],
)
def test_sweep_that_is_gone_or_wrong_is_named_by_status_and_mended_by_submit(
    run, capsys, name, content, said
):
    path = run.run / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert _rebench(run, "status") == 0
    told = capsys.readouterr().err
    assert f"{path} {said}: `rebench submit` with the sweep file writes it again" in told
    assert told.count("\n") == 1
    assert _rebench(run, "submit", "--cluster", "debug") == 0
    capsys.readouterr()
    assert _rebench(run, "status") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["submit", "status"])
def test_file_in_place_of_a_run_is_one_line(run, capsys, command):
    shutil.rmtree(run.run)
    run.run.write_text("")
    here = ["--cluster", "debug"] if command == "submit" else []
    assert _rebench(run, command, *here) in (1, 2)
    said = capsys.readouterr().err
    assert str(run.run) in said
    assert said.count("\n") == 1


def test_trial_that_is_damaged_inside_is_named_and_left_out(run):
    path = run.run / "trials.jsonl"
    path.write_text(path.read_text().replace('"seed":777', '"seed":-1'))
    told = []
    assert [one.seed for one in Run.open(run.run).trials(tell=told.append).values()] == [888]
    assert told == [f"{path} is damaged: ignored"]


def test_typo_in_the_id_of_a_trial_names_those_that_are_near(run, capsys):
    first, second = Run.open(run.run).ids()
    assert _rebench(run, "logs", first[:-1] + "x") == 2
    said = capsys.readouterr().err
    assert f"no trial '{first[:-1]}x' in" in said
    assert f"near: {first}, {second}" in said


def test_sweep_that_is_not_utf8_is_bad_input(run, capsys):
    run.spec.write_bytes(b"seeds = [1]  # \xe9\n")
    assert _rebench(run, "submit", "--cluster", "debug") == 2
    assert "is not text in UTF-8" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_claim_that_may_not_be_read_is_taken_for_live(tmp_path):
    trial_id = "0123456789abcdef"
    me = Holder(worker="w", job="1", attempt=0, cluster="local", process=this_process())
    assert Claims(tmp_path, me, lambda _: False).take(trial_id)
    (tmp_path / "claims" / f"{trial_id}.1").chmod(0)
    other = me.model_copy(update={"job": "2"})
    assert Claims(tmp_path, other, lambda _: False).take(trial_id) is None


def test_status_sees_a_change_that_times_do_not_tell(finished, tmp_path):
    sweep = Sweep(tmp_path, cells=1, epochs=1)
    run = Path(shutil.copytree(finished.run, sweep.run))
    (run / "run.json").write_text(json.dumps({"name": Run.open(finished.run).name}))
    assert _rebench(sweep, "collect") == 0
    (shard,) = run.glob("results/*.jsonl")
    kept, content = shard.stat(), bytearray(shard.read_bytes())
    content[300] ^= 1
    with shard.open("r+b") as file:
        file.write(content)
    os.utime(shard, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    changed = status(run)
    assert changed.counts["done"] == 1
    assert any(f"{shard.name}:1 is damaged" in line for line in changed.warnings)
