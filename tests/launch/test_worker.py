"""Workers in this process and in jobs: signals, claims, failures, and their place in a job."""

from __future__ import annotations

import contextlib
import getpass
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from cluster import unsafe_cifar
from made_records import make_record, write_records
from packages import install
from support import PROJECT, refusal_of

import rebench
from rebench.cli import main as command_line
from rebench.errors import ClusterError, InputError, MissingDataError, StoreError
from rebench.launch import worker
from rebench.launch.clusters import local
from rebench.launch.devices import find_device
from rebench.launch.expansion import expand_spec
from rebench.launch.journal import Chunk, Intent, Journal, Sent
from rebench.launch.liveness import Reporter, read_reports, report_path
from rebench.launch.logs import begin_of, log_of
from rebench.launch.state import read_state
from rebench.launch.worker import is_late, work
from rebench.machine import processor
from rebench.recipes.fixed import Fixed
from rebench.runs import FinishedTrials, Run, SlurmOptions, Trial, parse_spec, shards
from rebench.runs.claims import Claims, Holder, ProcessMark, mark_of, this_process

SWEEP = """
datasets = ["digits"]
seeds = [1, 2]
epochs = 1
recipes = ["nb201"]
[cells]
indices = [11]
[skeleton]
channels = 2
cells_per_stage = 1
[slurm]
device = "cpu"
"""


@pytest.fixture
def spec(tmp_path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


class Listener(logging.Handler):
    """Handler that calls a function once, at the first log line that begins with `word`."""

    def __init__(self, word: str, call: Callable[[], None]) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._word, self._call = word, call

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if self.lines[-1].startswith(self._word):
            self._word = "\0"
            self._call()


@pytest.fixture
def listening():
    """A function that adds listeners to the log of workers."""
    logger, added = logging.getLogger("rebench.worker"), []
    before = logger.level
    logger.setLevel(logging.INFO)

    def listen(word: str, call: Callable[[], None]) -> Listener:
        added.append(Listener(word, call))
        logger.addHandler(added[-1])
        return added[-1]

    yield listen
    logger.setLevel(before)
    for one in added:
        logger.removeHandler(one)


def test_signal_between_two_trials_stops_before_the_second_begins(spec, tmp_path, listening):
    before = signal.getsignal(signal.SIGINT)
    handlers = []

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)
        handlers.append(signal.getsignal(signal.SIGINT))

    heard = listening("recorded", interrupt)
    with pytest.raises(KeyboardInterrupt):
        rebench.submit(spec, cluster="debug")
    run = tmp_path / "runs/sweep"
    assert len(FinishedTrials(run).refresh().trials) == 1
    assert [line.split()[0] for line in heard.lines] == ["training", "recorded", "SIGINT:"]
    assert not list(run.glob("checkpoints/*/*"))
    assert not list(run.glob("claims/*"))
    (report,) = read_reports(run)
    assert (report.note, report.trials, report.epoch) == ("interrupted", (), 0)
    assert handlers == [signal.default_int_handler], "a second signal ends it at once"
    assert signal.getsignal(signal.SIGINT) == before
    assert rebench.status(run).counts["pending"] == 1
    assert rebench.submit(spec, cluster="debug").sent == 1


def test_a_sweep_is_submitted_asked_for_and_opened_from_python(spec, tmp_path):
    settings, run = {"seeds": [777, 888]}, tmp_path / "runs/sweep"
    done = rebench.submit(str(spec), cluster="debug", settings=settings)
    assert (done.sent, done.done) == (2, 0)
    assert {name: n for name, n in rebench.status(str(run)).counts.items() if n} == {"done": 2}
    assert rebench.collect(str(run)).trials == 2
    assert rebench.open(run).seeds(11, "digits", epochs=1).keys() == {777, 888}
    again = rebench.submit(spec, run, cluster="debug", settings=settings)
    assert (again.sent, again.done) == (0, 2)


def test_an_unknown_cluster_is_refused_before_anything_is_written(spec, tmp_path):
    with pytest.raises(InputError, match="unknown cluster 'slrum'; valid: slurm, "):
        rebench.submit(spec, cluster="slrum")
    assert not (tmp_path / "runs").exists()


def _ids() -> list[str]:
    return [one.trial_id for one in expand_spec(parse_spec(SWEEP)).trials]


def _other(**changes) -> Holder:
    told = {"worker": "other", "job": "9", "attempt": 0, "cluster": "local", "user": ""}
    return Holder(**told | {"process": this_process()} | changes)


def _claimed(run: Path, trial_id: str, **changes) -> None:
    assert Claims(run, _other(**changes), lambda _: "died").take(trial_id)


def test_trial_that_was_taken_over_meanwhile_is_not_recorded_twice(spec, tmp_path, listening):
    run, (first, second) = tmp_path / "runs/sweep", _ids()
    heard = listening("training", lambda: _claimed(run, first))
    assert rebench.submit(spec, cluster="debug", settings={"train.keep": "weights"}).sent == 2
    assert FinishedTrials(run).refresh().trials.keys() == {second}
    assert [path.stem for path in run.glob("weights/*/*")] == [second]
    said = [line for line in heard.lines if first in line]
    assert said[1:] == [f"trial {first} was taken over: not recorded here"]
    (report,) = read_reports(run)
    assert report.note == "ended; 1 trials are held by other workers"
    assert {path.name for path in run.glob("claims/*")} == {f"{first}.1", f"{first}.2"}


def test_trial_that_another_has_recorded_meanwhile_is_not_trained_again(spec, tmp_path, listening):
    run, (_, second) = tmp_path / "runs/sweep", expand_spec(parse_spec(SWEEP)).trials
    theirs = make_record().model_copy(update={"trial": second, "trial_id": second.trial_id})
    heard = listening("recorded", lambda: write_records(run, "other", theirs))
    rebench.submit(spec, cluster="debug")
    assert [line.split()[0] for line in heard.lines] == ["training", "recorded"]
    finished = FinishedTrials(run).refresh()
    assert (len(finished.trials), finished.duplicates, finished.conflicts) == (2, 0, {})


@pytest.mark.parametrize(("stack", "kept"), [(1, 0), (2, 1)])
def test_claim_and_checkpoints_of_a_recorded_trial_go_with_a_later_submission(
    spec, tmp_path, stack, kept
):
    """Their worker was killed before it removed them. A stack needs those of all its trials."""
    settings = {"stack": stack}
    rebench.submit(spec, cluster="debug", settings=settings)
    run, (first, second) = tmp_path / "runs/sweep", _ids()
    for shard in run.glob("results/*.jsonl"):
        lines = shard.read_text().splitlines(keepends=True)
        shard.write_text("".join(line for line in lines if second not in line))
    _claimed(run, first, process=mark_of(1, ended=True))
    (run / f"checkpoints/{first}").mkdir(parents=True)
    assert rebench.submit(spec, cluster="debug", settings=settings).sent == 1
    assert len(list(run.glob("claims/*"))) == kept
    assert rebench.submit(spec, cluster="debug", settings=settings).sent == 0
    assert not list(run.glob("claims/*"))
    assert not list(run.glob("checkpoints/*"))


def test_worker_looks_at_the_shards_of_others_once_for_each_trial(spec, tmp_path, monkeypatch):
    asked, status_of = [], shards.status_of
    monkeypatch.setattr(shards, "status_of", lambda path: asked.append(path) or status_of(path))

    def looks(*seeds: int) -> int:
        run = tmp_path / f"{len(seeds)} trials"
        (run / "results").mkdir(parents=True)
        (theirs := run / "results/other.0.jsonl").touch()
        rebench.submit(spec, run, cluster="debug", settings={"seeds": list(seeds)})
        return asked.count(theirs)

    assert looks(1, 2, 3) - looks(1) == 2


@pytest.mark.parametrize(("deaths", "state"), [(1, "done"), (2, "failed")])
def test_trial_whose_worker_died_three_times_is_given_up(spec, tmp_path, deaths, state):
    run, (first, second) = tmp_path / "runs/sweep", _ids()
    _claimed(run, first, deaths=deaths, process=mark_of(1, ended=True))
    rebench.submit(spec, cluster="debug")
    trials = rebench.status(run).trials
    assert [trials[key].state for key in (first, second)] == [state, "done"]
    if state == "failed":
        said = "worker died: its worker died 3 times in a row while training it (out of memory?)"
        assert trials[first].reason.startswith(said)
        assert len(list(run.glob("failures/*.jsonl"))) == 1
    # The worker has closed its shards, although its process continues.
    assert not [path for path in psutil.Process().open_files() if str(run) in path.path]


@pytest.mark.parametrize("gone", ["deleted", "made anew", "damaged"])
def test_worker_ends_if_its_run_is_deleted_or_replaced(tmp_path, listening, monkeypatch, gone):
    monkeypatch.setattr(worker, "_LOOK_EVERY_S", 0.0)
    run = _prepared(tmp_path / "run", expand_spec(parse_spec(SWEEP)).trials)

    def change() -> None:
        if gone == "damaged":
            (run.folder / "run.json").write_text("{")
            return
        shutil.rmtree(run.folder)
        if gone == "made anew":
            _prepared(run.folder)

    listening("recorded", change)
    if gone == "damaged":
        _work_here(run)
        assert len(FinishedTrials(run.folder).refresh().trials) == 2
        return
    with pytest.raises(StoreError, match="was deleted or replaced: this worker ends"):
        _work_here(run)
    assert run.folder.exists() == (gone == "made anew")
    assert not (run.folder / "claims").exists()


def test_what_the_node_lacks_ends_the_job_and_fails_no_trial(spec, tmp_path):
    spec.write_text(SWEEP.replace("digits", "cifar10"))
    with pytest.raises(MissingDataError):
        rebench.submit(spec, cluster="debug", preflight=False, data_root=str(tmp_path))
    (report,) = read_reports(tmp_path / "runs/sweep")
    assert report.note.startswith("stopped: ")
    assert str(tmp_path) in report.note
    assert rebench.status(tmp_path / "runs/sweep").counts["failed"] == 0
    assert not list((tmp_path / "runs/sweep").glob("claims/*"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="shows what happens without a GPU")
def test_node_without_the_gpu_ends_the_job_and_fails_no_trial(spec, tmp_path):
    settings = {"slurm.cuda_graphs": True, "slurm.device": "auto"}
    for preflight in (True, False):
        with pytest.raises(ClusterError, match=r"a GPU was asked for \(cuda_graphs = true\)"):
            rebench.submit(spec, cluster="debug", settings=settings, preflight=preflight)
    assert read_reports(tmp_path / "runs/sweep")[0].note.startswith("stopped: a GPU was asked for")
    assert rebench.status(tmp_path / "runs/sweep").counts["failed"] == 0


def _wait_for_local_jobs() -> None:
    for process in local._started:  # otherwise they are reaped only at the end
        process.wait()


def _git(*words: str) -> str | None:
    done = subprocess.run(
        ["git", "-C", PROJECT, *words], capture_output=True, text=True, check=False
    )
    return None if done.returncode else done.stdout.strip()


def test_record_names_the_submitters_commit_though_the_worker_finds_no_git(spec, tmp_path):
    run = tmp_path / "runs/sweep"
    rebench.submit(spec, cluster="local", settings={"slurm.setup": ["export PATH=/nowhere"]})
    _wait_for_local_jobs()
    records = FinishedTrials(run).refresh().records.values()
    # A copy of the project without its history has no commit.
    edited = _git("status", "--porcelain", "--untracked-files=all", "--", "rebench", "cells")
    known = (_git("rev-parse", "HEAD"), None if edited is None else edited != "")
    origins = [record["provenance"] for record in records]
    assert [(one["commit"], one["dirty"]) for one in origins] == [known] * 2


def test_record_names_the_workers_commit_where_an_older_submitter_wrote_none(tmp_path):
    run = _prepared(tmp_path / "run", expand_spec(parse_spec(SWEEP)).trials[:1])
    assert Journal(run.folder).submission(1).intent().commit is None
    _work_here(run)
    [record] = FinishedTrials(run.folder).refresh().records.values()
    assert record["provenance"]["commit"] == _git("rev-parse", "HEAD")


RULE = """
import dataclasses
from typing import ClassVar

from rebench.recipes import HyperParameters, Recipe, default_init, register


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Half(Recipe):
    name: ClassVar[str] = "half"
    summary: ClassVar[str] = "half of the benchmark's rate"
    paper: ClassVar[str] = "none"

    def hyperparameters(self, cell):
        return HyperParameters(learning_rate=0.05)

    def layer_init(self, layer, cell):
        return default_init(layer)
"""


def test_trial_does_not_start_with_other_code_than_the_submitters(spec, tmp_path):
    install(tmp_path / "packages", "my_rules", RULE, "rebench.recipes", mine="my_rules")
    rules = tmp_path / "packages/my_rules.py"
    spec.write_text(SWEEP.replace("nb201", "half"))
    run = tmp_path / "runs/sweep"

    def rebench_of_the_package(*words: object, code: int = 0) -> str:
        path = f"{rules.parent}:{os.environ.get('PYTHONPATH', '')}"
        line = [sys.executable, "-m", "rebench", *map(str, words)]
        done = subprocess.run(
            line, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    later = f"slurm.setup=[\"echo '# later' >> {rules}\"]"
    submit = ("submit", spec, "--set", "slurm.array_parallelism=1")
    rebench_of_the_package(*submit, "--cluster", "local", "--set", later)
    rebench_of_the_package("watch", run, "--every-s", "0.5", code=1)
    changed = "stopped: the code of my_rules changed after the submission"
    assert [changed in one.reason for one in rebench.status(run).trials.values()] == [True] * 2
    assert not FinishedTrials(run).refresh().trials
    # The next submission is of the present code, which is in no repository.
    rebench_of_the_package(*submit, "--cluster", "debug")
    origins = [one["provenance"] for one in FinishedTrials(run).refresh().records.values()]
    assert len(origins) == 2
    assert all(one["recipe_code"] and one["dirty"] is not False for one in origins)
    # A changed initialisation has the same learning rate.
    rules.write_text(RULE.replace("default_init", "he_init"))
    more = ("--set", "seeds=[1,2,3]", "--accept-change")
    rebench_of_the_package(*submit, "--cluster", "debug", *more)
    told = rebench_of_the_package("collect", run)
    assert "recipe 'half': the code of its package changed during the run (2 versions)" in told


def test_worker_in_a_container_may_have_other_code(tmp_path):
    trials = expand_spec(parse_spec(SWEEP)).trials[:1]
    for options in ({}, {"container_image": "image.sif"}):
        run = _prepared(tmp_path / f"run{len(options)}", trials, **options)
        submission = Journal(run.folder).submission(1)
        submission.write_intent(submission.intent().model_copy(update={"code": {"rebench": "0"}}))
        refused = pytest.raises(ClusterError, match="the code of rebench changed after the submis")
        with contextlib.nullcontext() if options else refused:
            _work_here(run)
        assert len(FinishedTrials(run.folder).refresh().trials) == len(options)


@pytest.mark.parametrize(
    ("torch_code", "reason"),
    [
        ("raise ImportError('cannot map')", "ImportError: cannot map"),
        ("import os; os._exit(1)", ""),
    ],
    ids=["raises", "crashes"],
)
def test_node_on_which_torch_does_not_load_fails_its_job_and_no_trial(
    spec, tmp_path, torch_code, reason
):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/torch.py").write_text(torch_code)
    run, path = tmp_path / "runs/sweep", f"{tmp_path}/broken:{os.environ.get('PYTHONPATH', '')}"
    settings = {"slurm.setup": [f"export PYTHONPATH={path}"], "slurm.array_parallelism": 1}
    sent = rebench.submit(spec, cluster="local", settings=settings)
    _wait_for_local_jobs()
    again = "`rebench submit` sends the remaining trials of the job again"
    told = f"node {NODE} cannot train ({reason}); {again}"
    lost = f"job ended (stopped: {told})" if reason else "job ended"
    trials = rebench.status(run).trials.values()
    assert [(one.state, one.reason) for one in trials] == [("lost", lost)] * 2
    assert not list(run.glob("claims/*")), "no trial's worker has died while training it"
    # Both jobs count as jobs without work. Three such jobs in a row would leave the node out.
    assert read_state(Run.open(run)).idle == set(sent.jobs)
    assert rebench.submit(spec, cluster="debug").sent == 2
    assert rebench.status(run).counts["done"] == 2


def test_data_that_cannot_be_read_end_the_job_and_fail_no_trial(spec, tmp_path):
    spec.write_text(SWEEP.replace("digits", "cifar10"))
    root = str(unsafe_cifar(tmp_path / "data"))
    with pytest.raises(
        ClusterError, match=r"cannot train \(UnsafeFileError: .*`rebench submit` sends"
    ):
        rebench.submit(spec, cluster="debug", data_root=root)
    assert rebench.status(tmp_path / "runs/sweep").counts["failed"] == 0


def test_jobs_of_this_machine_share_its_gpus(spec, tmp_path, monkeypatch):
    """The jobs end in their set-up lines, before any worker starts."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3,5,7,9")
    spec.write_text(SWEEP.replace("[1, 2]", "[1, 2, 3]"))
    out = tmp_path / "out"
    out.mkdir()
    # Each job prints its GPUs, its session (a new one, with the job's number) and its input.
    told = "$CUDA_VISIBLE_DEVICES $(cut -d' ' -f6 /proc/$$/stat) $(readlink /proc/$$/fd/0)"
    seen = f"echo {told} > {out}/$$; mv {out}/$$ {out}/$$.seen"
    both = f"until [ $(ls {out} | grep -c seen) = 2 ]; do sleep 0.05; done"
    settings = {"slurm.setup": [seen, both, "exit 0"], "slurm.gpus_per_task": 2}
    settings |= {"slurm.device": "auto"}
    how = {"cluster": "local", "trials_per_job": 1, "preflight": False}
    done = rebench.submit(spec, settings=settings, **how)
    assert (done.sent, len(done.jobs)) == (3, 2), "there is room for two jobs"
    files = [out / f"{job}.seen" for job in done.jobs]
    for _ in range(3000):
        if all(path.exists() for path in files):
            break
        time.sleep(0.01)
    said = [path.read_text().split() for path in files]
    assert said == [
        [gpus, job, "/dev/null"] for gpus, job in zip(("1,3", "5,7"), done.jobs, strict=True)
    ]
    _wait_for_local_jobs()


# The number and the attempt of a worker among the processes of its job


def _prepared(folder: Path, trials: tuple[Trial, ...] = (), **options) -> Run:
    """Return a run with one submission: an array of two jobs; the first job has these trials."""
    run = Run.create(folder).settled()
    run.write_sweep(parse_spec(SWEEP), trials)
    mine = Journal(run.folder).begin()
    groups = tuple((one.trial_id,) for one in trials)
    chunk = Chunk(name=f"{run.job_prefix}1.0", jobs=(groups, ()))
    told = {"cluster": "slurm", "spec_hash": "", "options": SlurmOptions(**options)}
    mine.write_intent(Intent(chunks=(chunk,), **told))
    mine.close()
    return run


def _work_here(run: Run) -> None:
    """Do the work of the first job in this process."""
    job, *_ = Journal(run.folder).submission(1).jobs()
    worker.work_here(job)


def test_job_that_does_not_know_its_trials_ends_and_says_what_to_do(tmp_path):
    run = _prepared(tmp_path / "run")
    (run.folder / "submissions/0001/intent.json").write_text("{")
    with pytest.raises(StoreError, match=r"intent.json is missing or damaged.* submit again"):
        work(run.folder, 1, 0, 0)


def test_trouble_of_the_machine_is_no_failure_of_the_trial(spec, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Fixed, "layer_init", fail)
    with pytest.raises(
        StoreError, match="Input/output error; `rebench submit` sends the remaining"
    ):
        rebench.submit(spec, cluster="debug", settings={"recipes": ["fixed"]})
    assert rebench.status(tmp_path / "runs/sweep").counts["pending"] == 2


def test_trials_that_fail_in_this_process_are_counted_and_exit_with_one(
    spec, tmp_path, monkeypatch, capsys
):
    def fail(*_):
        raise ValueError("no such init")

    monkeypatch.setattr(Fixed, "layer_init", fail)
    typed = ["submit", str(spec), "--cluster", "debug", "--set", 'recipes=["nb201", "fixed"]']
    assert command_line(typed) == 1
    said = f"2 of 4 trials failed: see `rebench status {tmp_path}/runs/sweep --state failed`"
    assert capsys.readouterr().err.splitlines()[-1] == said
    # The failed trials are not trained again, so this call succeeds.
    assert command_line(typed) == 0
    assert "2 trials failed before" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. x")])
def test_of_a_stack_that_fails_the_trials_are_trained_alone(spec, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(Fixed, "layer_init", fail)
    of_two = {"recipes": ["nb201", "fixed"], "stack": 2, "seeds": [777]}
    done = rebench.submit(spec, cluster="debug", settings=of_two)
    seen = rebench.status(done.run)
    assert {name: n for name, n in seen.counts.items() if n} == {"done": 1, "failed": 1}
    (failed,) = [one for one in seen.trials.values() if one.state == "failed"]
    message = str(error) or "cell 11 digits fixed seed 777"
    assert failed.reason.startswith(f"out of memory: {message}")
    again = rebench.submit(spec, cluster="debug", settings=of_two)
    assert (again.sent, again.failed) == (0, 1), "failed trials are sent only on request"


@pytest.mark.parametrize(("settings", "threads"), [({}, 1), ({"slurm.cpus_per_task": 2}, 2)])
def test_worker_computes_with_the_threads_of_its_task(spec, tmp_path, settings, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        rebench.submit(spec, cluster="debug", settings=settings)
        assert torch.get_num_threads() == 3, "this process goes on as before"
    finally:
        torch.set_num_threads(before)
    records = FinishedTrials(tmp_path / "runs/sweep").refresh().records.values()
    assert {one["provenance"]["device"] for one in records} == {
        f"cpu ({processor()}, {threads} threads)"
    }


def test_log_of_a_trial_is_what_stands_between_its_beginning_and_the_next(tmp_path, capsys):
    trials = expand_spec(parse_spec(SWEEP)).trials
    run = _prepared(tmp_path / "run", trials)
    mine = Journal(run.folder).submission(1)
    mine.write_sent(0, Sent(jobs=("7_0", "7_1")))
    mine.logs.mkdir()
    lines = [
        *("came", f"a b training {trials[1].trial_id}: other", "of the other"),
        *(f"a b {begin_of(trials)}", "of both", "2"),
        *(f"a b {begin_of(trials[1:])}", f"names {trials[0].trial_id}", "last"),
    ]
    (mine.logs / "7_0_0.log").write_text("\n".join(lines))
    (mine.logs / "7_1_0.log").write_text("another job")
    (mine.logs / "7_0_1.log").write_text("")
    (printed,) = log_of(run, trials[0].trial_id)
    assert printed.log == mine.logs / "7_0_0.log"
    assert list(printed.lines) == [*lines[3:6], lines[7]]
    typed = ["logs", str(run.folder), trials[0].trial_id, "-n", "2", "--json"]
    assert command_line(typed) == 0
    [row] = json.loads(capsys.readouterr().out)
    known = {"log": str(printed.log), "about_trial": True}
    assert row == known | {"lines": ["2", f"names {trials[0].trial_id}"]}
    (mine.logs / "7_0_0.log").write_bytes(b"br\xffke\nat once")
    (printed,) = log_of(run, trials[0].trial_id)
    assert printed == (mine.logs / "7_0_0.log", ["br\ufffdke", "at once"], False)
    assert command_line(typed[:3]) == 0
    assert "(no line about this trial: the last lines of its job)\nbr" in capsys.readouterr().out


def test_newest_log_of_a_run_is_shown_without_the_id_of_a_trial(tmp_path, capsys):
    run = _prepared(tmp_path / "run", expand_spec(parse_spec(SWEEP)).trials)
    assert command_line(["logs", str(run.folder)]) == 0
    assert "no job has printed anything yet" in capsys.readouterr().out
    logs = Journal(run.folder).submission(1).logs
    logs.mkdir()
    for number, (name, text) in enumerate((("7_1", "new"), ("7_0", "old"), ("7_2", ""))):
        path = logs / f"{name}_0.log"
        path.write_text(text)
        os.utime(path, (100 - number, 100 - number))
    assert command_line(["logs", str(run.folder)]) == 0
    shown = capsys.readouterr().out
    assert "7_1_0.log" in shown
    assert shown.endswith("new\n")


@pytest.mark.parametrize(
    ("options", "gpus", "rank", "device"),
    [
        ({}, 0, 0, "cpu"),
        ({"device": "cpu", "gpus_per_task": 1}, 0, 0, "cpu"),
        ({"device": "cpu"}, 2, 1, "cpu"),
        ({}, 2, 1, "cuda"),
        ({"processes_per_job": 3}, 2, 0, "cuda:0"),
        ({"processes_per_job": 2}, 2, 1, "cuda:1"),
        ({"processes_per_job": 3}, 2, 2, "cuda:0"),
        ({"device": "cuda:1"}, 2, 0, "cuda:1"),
        ({"device": "cuda:1"}, 0, 0, "device = 'cuda:1'"),
        ({"cuda_graphs": True}, 0, 0, "cuda_graphs = true"),
        ({"gpus_per_task": 1, "cuda_graphs": True}, 0, 0, "gpus_per_task = 1"),
    ],
)
def test_device_is_a_gpu_where_there_is_one_and_a_word_where_one_was_asked_in_vain(
    monkeypatch, options, gpus, rank, device
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    asked = SlurmOptions(**options)
    if gpus or device == "cpu":
        assert find_device(asked, rank) == device
    else:
        with pytest.raises(ClusterError, match=rf"a GPU was asked for \({re.escape(device)}\)"):
            find_device(asked, rank)


@pytest.fixture
def place(monkeypatch):
    """A function that sets the environment of a job's process; signals are restored at the end."""
    before = {one: signal.getsignal(one) for one in (signal.SIGUSR2, signal.SIGTERM)}
    for name in [one for one in os.environ if one.startswith(("SLURM", "REBENCH_", "SUBMITIT"))]:
        monkeypatch.delenv(name)
    yield lambda **told: [monkeypatch.setenv(name, value) for name, value in told.items()]
    for number, handler in before.items():
        signal.signal(number, handler)


NODE = socket.gethostname()
SLURM = {"SUBMITIT_EXECUTOR": "slurm"}
ALONE = SLURM | {"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "1"}
# submitit gives its job the number 6; for `rebench` it is the job 5 of this machine.
HERE = {"SUBMITIT_EXECUTOR": "local", "SUBMITIT_LOCAL_JOB_ID": "6", "REBENCH_JOB": "5"}


@pytest.mark.parametrize(
    ("told", "worker", "job", "attempt", "cluster", "log"),
    [
        (
            SLURM | {"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "2"},
            *("0001-77", "77", 2, "slurm", "77_0.log"),
        ),
        (
            SLURM
            | {"SLURM_JOB_ID": "78", "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "1"}
            | {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"},
            *("0001-77_1-p1", "77_1", 0, "slurm", "77_1_1.log"),
        ),
        (
            # The submission came from inside a job of SLURM.
            ALONE
            | HERE
            | {"SUBMITIT_LOCAL_GLOBALID": "2", "SUBMITIT_LOCAL_NTASKS": "3"}
            | {"SLURM_ARRAY_TASK_ID": "7"},
            *(f"0001-5-{NODE}-p2", "5", 0, "local", "5_2.log"),
        ),
        (HERE, f"0001-5-{NODE}", "5", 0, "local", "5_0.log"),
    ],
    ids=["requeued", "task of an array", "third of three here", "alone here"],
)
def test_process_of_a_job_knows_its_place(
    tmp_path, place, told, worker, job, attempt, cluster, log
):
    run = _prepared(tmp_path / "run")
    place(**told)
    work(run.folder, 1, 0, 0)
    (report,) = read_reports(run.folder)
    me = report.holder
    assert (me.worker, me.job, me.attempt, me.cluster) == (worker, job, attempt, cluster)
    assert (me.process, me.user) == (this_process(), getpass.getuser())
    assert report.log == str(run.folder / "submissions/0001/logs" / log)
    assert report.note == "ended"


def test_command_of_a_job_names_its_work(tmp_path, place):
    trials = expand_spec(parse_spec(SWEEP)).trials[:1]
    run = _prepared(tmp_path / "run", trials, device="cpu")
    place(**SLURM, SLURM_JOB_ID="78", SLURM_ARRAY_JOB_ID="77", SLURM_ARRAY_TASK_ID="0")
    command = [sys.executable, "-u", "-m", "rebench.launch.worker", str(run.folder), "1", "0", "0"]
    subprocess.run(command, check=True, capture_output=True)
    assert FinishedTrials(run.folder).refresh().trials.keys() == {trials[0].trial_id}
    (report,) = read_reports(run.folder)
    assert (report.holder.worker, report.holder.cluster) == ("0001-77_0", "slurm")


@pytest.mark.parametrize(("told", "cluster"), [({}, "debug"), (ALONE, "slurm")])
def test_worker_in_the_process_of_the_submitter_is_known_by_that_process_or_its_job(
    tmp_path, place, told, cluster
):
    run = _prepared(tmp_path / "run")
    place(**told)
    _work_here(run)
    (report,) = read_reports(run.folder)
    job = "77" if told else str(os.getpid())
    assert (report.holder.cluster, report.holder.job, report.log) == (cluster, job, "")


def test_failure_names_the_job_and_the_log_of_its_worker(tmp_path, place):
    run = _prepared(tmp_path / "run", expand_spec(parse_spec(SWEEP)).trials[:1], device="cpu")
    place(**ALONE)
    _claimed(run.folder, _ids()[0], deaths=2, process=mark_of(1, ended=True))
    work(run.folder, 1, 0, 0)
    (failure,) = run.failures().values()
    assert (failure.job, failure.worker, failure.node) == ("77", "0001-77", NODE)
    assert failure.log == str(run.folder / "submissions/0001/logs/77_0.log")
    assert (failure.submission, failure.kind) == (1, "worker died")


@pytest.mark.parametrize(
    ("used_s", "limit_s", "late"),
    [(7999, 10_000, False), (8000, 10_000, True), (399, 1000, False), (400, 1000, True)],
)
def test_job_is_late_after_four_fifths_of_its_time_or_ten_minutes_before_its_end(
    used_s, limit_s, late
):
    assert is_late(used_s, limit_s) is late


def test_unknown_trial_names_the_three_nearest():
    run = PROJECT / "tests/small_run"
    first = Run.open(run).ids()[0]
    said = refusal_of("logs", run, first[:-1] + "x")
    assert re.search(
        rf"no trial '{first[:-1]}x' in .*near: {first}(, [0-9a-f]{{16}}){{2}} \(", said
    )


@pytest.mark.parametrize(
    ("shown", "fate"),
    [
        ("echo '7|RUNNING|None|x|n1|0:01|x'", "lives"),
        ("echo '7|PENDING|None|x||0:00|x'", "lives"),
        ("echo '7|FAILED|None|x|n1|0:01|x'", "died"),
        ("echo '7|COMPLETED|None|x|n1|0:01|x'", "died"),
        ("echo '7|NODE_FAIL|None|x|n1|0:01|x'", "stopped"),
        ("echo '7|PREEMPTED|None|x|n1|0:01|x'", "stopped"),
        ("true", "died"),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "died"),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", "lives"),
    ],
)
def test_queue_tells_whether_a_worker_lives_and_if_it_died_by_itself(
    stand_in, tmp_path, place, shown, fate
):
    run = _prepared(tmp_path / "run")
    place(**ALONE)
    stand_in("squeue", shown)
    me = worker._Worker(Journal(run.folder).submission(1), 0, 0, in_job=True)
    away = ProcessMark(host="elsewhere", pid=1, started="1")
    other = _other(job="7", cluster="slurm", process=away)
    assert me._fate(other) == fate
    # Of a process on this host that has ended, the queue tells only how it ended.
    ended = other.model_copy(update={"process": mark_of(1, ended=True)})
    assert me._fate(ended) == ("stopped" if fate == "stopped" else "died")
    # For another process of the same job on this host, the queue is not asked.
    assert me._fate(_other(job="77", cluster="slurm", attempt=1)) == "lives"


def test_worker_of_another_machine_lives_until_it_has_been_silent_for_half_an_hour(tmp_path, place):
    run = _prepared(tmp_path / "run")
    place(**HERE)
    me = worker._Worker(Journal(run.folder).submission(1), 0, 0, in_job=True)
    away = _other(process=ProcessMark(host="elsewhere", pid=1, started="1"))
    assert me._fate(away) == "died", "it has never reported anything"
    Reporter(run.folder, away)
    assert me._fate(away) == "lives"
    path = report_path(run.folder, away.worker)
    past = path.stat().st_mtime - 2000
    os.utime(path, (past, past))
    assert me._fate(away) == "died"


OF_TWO = ALONE | {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
TERM, USR2 = signal.SIGTERM, signal.SIGUSR2
GONE = "cancelled or preempted"


@pytest.mark.parametrize(
    ("told", "number", "options", "shown", "code", "note", "requeues"),
    [
        (ALONE, USR2, {}, "RUNNING", 128 + USR2, "requeued", 1),
        (ALONE, TERM, {}, "RUNNING", 128 + TERM, "requeued", 1),
        (ALONE, TERM, {}, "COMPLETING", 128 + TERM, GONE, 0),
        (OF_TWO, USR2, {}, "RUNNING", 0, "requeued", 1),
        (HERE, USR2, {}, "RUNNING", 128 + USR2, GONE, 0),
        (HERE, TERM, {}, "RUNNING", 128 + TERM, GONE, 0),
        # The job has timed out once before. A signal in the first minute counts as a time-out if
        # the limit is 10 minutes, but not if it is 11.
        (ALONE, USR2, {"time_min": 10, "max_requeues": 2}, "RUNNING", 128 + USR2, "requeued", 1),
        (ALONE, USR2, {"time_min": 11, "max_requeues": 1}, "RUNNING", 128 + USR2, "requeued", 1),
        (ALONE, TERM, {"time_min": 10, "max_requeues": 1}, "RUNNING", 128 + TERM, "requeued", 1),
        (ALONE, USR2, {"time_min": 10, "max_requeues": 1}, "RUNNING", "gave up", "gave up", 0),
        # SLURM refuses to requeue. If the job is pending, another of its processes was faster.
        (OF_TWO, USR2, {"refused": True}, "PENDING", 0, "requeued", 0),
        (OF_TWO, USR2, {"refused": True}, "RUNNING", "no", "requeued", 0),
        (ALONE, USR2, {"refused": True}, "PENDING", "no", "requeued", 0),
    ],
)
def test_worker_that_is_told_to_stop_requeues_its_job_unless_that_was_ended(
    tmp_path, place, stand_in, listening, told, number, options, shown, code, note, requeues
):
    refused = options.get("refused", False)
    options = {name: value for name, value in options.items() if name != "refused"}
    run = _prepared(tmp_path / "run", expand_spec(parse_spec(SWEEP)).trials, **options)
    stand_in("squeue", f"echo '77|{shown}|None|rebench-x-1.0|n1|0:01|x'")
    stand_in("scontrol", "echo no; exit 1" if refused else "echo $* >> $here/requeued")
    (run.folder / "submissions/0001/time_outs.77").write_text("0\n")
    place(**told)
    _claimed(run.folder, _ids()[0])
    heard = listening("trial", lambda: signal.raise_signal(number))
    with pytest.raises((SystemExit, ClusterError)) as left:
        work(run.folder, 1, 0, 0)
    assert left.value.code == code if isinstance(code, int) else code in str(left.value)
    assert [line.partition(" ")[0] for line in heard.lines] == ["trial", f"{number.name}:"]
    (report,) = read_reports(run.folder)
    assert report.note.startswith(note)
    log = tmp_path / "slurm/requeued"
    assert (log.read_text() if log.exists() else "") == "requeue 77\n" * requeues
