"""Damaged and unexpected files in a run's folder: each gives one message; commands continue."""

import json
import os
import shutil
from pathlib import Path

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.launch.journal import Journal
from rebench.launch.liveness import last_heard_s
from rebench.launch.status import status
from rebench.printable import printable
from rebench.runs import FinishedTrials, Run

FIRST = "submissions/0001"
SENT, INTENT, OWNER = (f"{FIRST}/{name}.json" for name in ("sent.0", "intent", "owner"))
LIST, TRIAL = "trials.jsonl", "0123456789abcdef"
# The same bytes in every locale.
SQUARE = os.fsdecode("²".encode())
ANEW = "`rebench submit` with the sweep file writes it again"
DAMAGES = {"torn": b'{"trial_id":"', "not UTF-8": b"\xff\xfe{}\n", "not an object": b"[3]\n"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A sweep whose two trials are done."""
    sweep = Sweep(tmp_path_factory.mktemp("finished"), cells=1, epochs=1)
    recipes = sweep.spec.read_text().splitlines()[2]
    sweep.spec.write_text(sweep.spec.read_text().replace(recipes, 'recipes = ["nb201"]'))
    sweep.rebench("submit", "--cluster", "debug")
    return sweep


@pytest.fixture
def run(finished, tmp_path):
    """An independent copy of the finished sweep."""
    sweep = Sweep(tmp_path, cells=1, epochs=1)
    shutil.copy(finished.spec, sweep.spec)
    shutil.copytree(finished.run, sweep.run)
    (sweep.run / "run.json").write_text(json.dumps({"name": Run.open(finished.run).name}))
    (sweep.run / "failures").mkdir(exist_ok=True)
    return sweep


def _row(sweep: Sweep, *arguments: str) -> tuple[dict, str]:
    """Return the row that a command prints, and its messages."""
    done = sweep.rebench(*arguments, "--json")
    return json.loads(done.stdout)[0], done.stderr


def _replaced(file: Path, **content: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | content))


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _damage(path: Path, how: str) -> None:
    content = DAMAGES[how].rstrip(b"\n")
    # A line without a line break counts as unfinished, not as damaged, so one is added. In the
    # list of trials only the first line is damaged.
    rest = path.read_bytes().split(b"\n", 1)[1] if path.name == LIST else b""
    path.write_bytes(content + b"\n" * path.name.endswith("jsonl") + rest)


def _shard_of_no_text(run: Path) -> None:
    (shard,) = run.glob("results/*.jsonl")
    name = os.fsencode(run / "results") + b"/\xff.jsonl"
    Path(os.fsdecode(name)).write_bytes(shard.read_bytes() + b"{\n")


def _process_of(run: Path, **content: object) -> None:
    path = run / SENT
    process = json.loads(path.read_text())["process"]
    _replaced(path, process=process | content)


# Changes of a run, and the message of `status`.
ODD = {
    "shard": (_shard_of_no_text, r"results/\udcff.jsonl:3 is damaged and ignored"),
    "no jobs": (lambda run: _replaced(run / SENT, jobs=[]), f"{SENT} is damaged: its jobs are"),
    "job": (lambda run: _replaced(run / SENT, jobs=["/x"]), f"{SENT} is damaged: its jobs are"),
    "process": (lambda run: _process_of(run, pid=-1), f"{SENT} is damaged: its jobs are"),
    "large process": (lambda run: _process_of(run, pid=2**40), f"{SENT} is damaged: its jobs are"),
    "number": (
        lambda run: (run / "submissions" / SQUARE).mkdir(),
        f"submissions/{printable(SQUARE)} is not a submission",
    ),
    "short number": (
        lambda run: (run / "submissions/1").mkdir(),
        "submissions/1 is not a submission",
    ),
    "NUL": (lambda run: _replaced(run / "run.json", path="/a\0b"), ""),
    "pipe as spec": (lambda run: _pipe(run / "spec.json"), "spec.json cannot be read (it is no"),
    "zeros as spec": (lambda run: _device(run / "spec.json"), "spec.json cannot be read (it is no"),
    "pipe as sent": (lambda run: _pipe(run / SENT), f"{SENT} cannot be read (it is not a regular"),
    "pipe as intent": (lambda run: _pipe(run / INTENT), f"{INTENT} cannot be read (it is no"),
    "pipe as owner": (lambda run: _pipe(run / OWNER), ""),
    "pipe as progress": (lambda run: _pipe(run / "progress/w.json"), ""),
    "zeros as list": (lambda run: _device(run / "trials.jsonl"), "trials.jsonl cannot be read (it"),
    "pipe as failures": (lambda run: _pipe(run / "failures/w.jsonl"), "w.jsonl is not a file"),
}
# Messages of `status` about damaged files. Owners and progress need none.
NAMED = {
    INTENT: f"{INTENT} is damaged: which jobs submission 1 sent is not known",
    SENT: f"{SENT} is damaged: its jobs are looked for in the queue",
    LIST: "trials.jsonl is damaged in 1 lines (the first is line 1): `rebench submit`",
    "failures/w.0.jsonl": "failures/w.0.jsonl:1 is damaged: ignored",
    OWNER: "",
    "progress/w.json": "",
}
ODD |= {
    f"{how}: {name}": (lambda run, name=name, how=how: _damage(run / name, how), said)
    for name, said in NAMED.items()
    for how in DAMAGES
}
ODD |= {
    "folder as list": (lambda run: _folder(run / LIST), f"{LIST} cannot be read (Is a directory)"),
    "folder as sent": (lambda run: _folder(run / SENT), f"{SENT} cannot be read (Is a directory)"),
    "file as submission": (
        lambda run: (run / "submissions/0002").write_text(""),
        "submissions/0002 is not a folder, so not a submission: ignored",
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_file_is_one_line_and_every_command_goes_on(run, odd):
    change, said = ODD[odd]
    change(run.run)
    counts, told = _row(run, "status")
    assert said in told
    assert told.count("\n") == bool(said)
    listed = {"zeros as list": 0, "folder as list": 0}.get(odd, 1 if odd.endswith(LIST) else 2)
    assert (counts["done"], counts["trials"]) == (listed, listed)
    assert _row(run, "collect")[0]["trials"] == 2
    if odd != "folder as list":  # only the user can remove a folder
        assert _row(run, "submit", "--cluster", "debug")[0]["already_done"] == 2


def test_trial_without_a_record_is_sent_whatever_else_is_damaged(run):
    (shard,) = run.run.glob("results/*.jsonl")
    shard.write_text(shard.read_text().splitlines(keepends=True)[0])
    for name in NAMED:
        _damage(run.run / name, "torn")
    assert _row(run, "submit", "--cluster", "debug")[0]["sent"] == 1
    assert _row(run, "status")[0]["done"] == 2


@pytest.mark.parametrize("content", [b"", *DAMAGES.values(), _pipe, _device])
def test_damaged_name_of_a_run_is_one_line_that_says_how_to_repair_it(run, content):
    path, why = run.run / "run.json", "is damaged: it contained the name of the run"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
        why = "cannot be read (it is not a regular file): it contained the name of the run"
    for command in (["status"], ["submit", "--cluster", "debug"], ["cancel"], ["logs", TRIAL]):
        said = run.rebench(*command, code=1).stderr
        assert f"{path} {why}" in said
        assert said.count("\n") == 1
    run.rebench("collect")  # needs no name
    path.unlink()
    run.rebench("submit", "--cluster", "debug")


@pytest.mark.parametrize("name", ["run.json", INTENT, SENT, OWNER, "spec.json"])
def test_keys_of_a_later_version_are_ignored(run, name):
    path = run.run / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"later": 1, "version": 2}))
    run.rebench("status")
    run.rebench("submit RUN")


@pytest.mark.parametrize("how", ["zeros", "joined"])
def test_damaged_record_is_trained_again_and_no_other(run, how):
    (shard,) = run.run.glob("results/*.jsonl")
    first, second = shard.read_bytes().splitlines(keepends=True)
    whole = FinishedTrials(run.run).refresh().records
    zeros = first[:200] + b"\0" * 200 + first[400:]
    shard.write_bytes((zeros if how == "zeros" else first[:-1]) + second)
    sent = 2 if how == "joined" else 1
    counts, _ = _row(run, "status")
    assert (counts["done"], counts["pending"] + counts["lost"]) == (2 - sent, sent)
    assert f"results/{shard.name}:1 is damaged" in run.rebench("collect", code=1).stderr
    assert _row(run, "submit", "--cluster", "debug")[0]["sent"] == sent
    run.rebench("collect")
    again = FinishedTrials(run.run).refresh()
    assert again.duplicates == 0
    assert {one: record["outcome"] for one, record in again.records.items()} == {
        one: record["outcome"] for one, record in whole.items()
    }


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("trials.jsonl", None, "is missing"),
        ("spec.json", None, "is missing"),
        ("spec.json", b"", "is damaged"),
        ("spec.json", b'{"cells": 3}', "is damaged"),
        *(("spec.json", content, "is damaged") for content in DAMAGES.values()),
    ],
)
def test_sweep_that_is_gone_or_wrong_is_named_by_status_and_mended_by_submit(
    run, name, content, said
):
    path = run.run / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    told = run.rebench("status").stderr
    assert f"{path} {said}: `rebench submit` with the sweep file writes it again" in told
    assert told.count("\n") == 1
    run.rebench("submit RUN", code=1 if said == "is damaged" else 2)
    run.rebench("submit", "--cluster", "debug")
    assert run.rebench("status").stderr == ""


@pytest.mark.parametrize("command", ["submit", "status"])
def test_file_in_place_of_a_run_is_one_line(run, command):
    shutil.rmtree(run.run)
    run.run.write_text("")
    here = ["--cluster", "debug"] if command == "submit" else []
    said = run.rebench(command, *here, code=1 if command == "submit" else 2).stderr
    assert str(run.run) in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("wrong", ['"seed":-1', '"seed":778'])
def test_trial_that_is_damaged_inside_is_named_and_left_out(run, wrong):
    path = run.run / "trials.jsonl"
    path.write_text(path.read_text().replace('"seed":777', wrong))
    first, told = Run.open(run.run).ids()[0], []
    assert [one.seed for one in Run.open(run.run).trials(tell=told.append).values()] == [888]
    assert told == [f"{path} is damaged in the line of trial {first}: {ANEW}"]


# Changes of the bytes of a list of two trials, and where its message says that it is damaged.
LISTS = {
    "cut": (lambda lines: lines.replace(b"}}\n", b"}\n", 1), "1 lines (the first is line 1)"),
    "seed": (lambda lines: lines.replace(b'"seed":777', b'"seed":-1'), "the line of trial "),
    "id": (lambda lines: lines[:13] + b"0" * 16 + lines[29:], f"the line of trial {'0' * 16}"),
    "joined": (lambda lines: lines.replace(b"}}\n", b"}}", 1), "the line of trial "),
}


@pytest.mark.parametrize("how", LISTS)
def test_damaged_list_of_trials_is_not_sent_again_and_mended_by_the_file(run, how):
    path, (change, where) = run.run / LIST, LISTS[how]
    before = path.read_bytes()
    path.write_bytes(change(before))
    damaged = path.read_bytes()
    said = run.rebench("submit RUN", code=2).stderr
    assert f"{path} is damaged in {where}" in said
    assert ANEW in said
    assert path.read_bytes() == damaged
    run.rebench("submit", "--cluster", "debug")
    assert path.read_bytes() == before
    run.rebench("submit RUN")


def test_status_sees_a_change_that_times_do_not_tell(run):
    run.rebench("collect")
    (shard,) = run.run.glob("results/*.jsonl")
    kept, content = shard.stat(), bytearray(shard.read_bytes())
    content[300] ^= 1
    with shard.open("r+b") as file:
        file.write(content)
    os.utime(shard, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    changed = status(run.run)
    assert changed.counts["done"] == 1
    assert any(f"{shard.name}:1 is damaged" in line for line in changed.warnings)


def test_pipe_as_a_log_is_named_where_its_lines_would_be(run, capsys):
    (sent,) = Journal(run.run).submissions()
    job = sent.sent(0).jobs[0]
    sent.logs.mkdir(exist_ok=True)
    _pipe(sent.logs / f"{job}_0.log")
    assert main(["logs", str(run.run), Run.open(run.run).ids()[0]]) == 0
    assert "cannot be read: it is not a regular file" in capsys.readouterr().out


def test_what_a_worker_says_of_itself_names_no_file(run):
    """The worker's name in a report is not used as a file name, so it may contain anything."""
    (path,) = (run.run / "progress").glob("*.json")
    report = json.loads(path.read_text())
    report["holder"] |= {"worker": "a\0b", "job": "7"}
    (run.run / "progress" / "x.json").write_text(json.dumps(report))
    assert last_heard_s(run.run)["7"] >= 0
