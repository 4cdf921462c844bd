"""The worker: it runs inside a job, and trains the trials of the job in order.

The worker reads its trials from the journal of the run. It keeps its progress in files only, so it
may be killed at any moment.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from rebench.errors import ClusterError, Interrupted, MissingDataError, StoreError
from rebench.launch.clusters import recorded
from rebench.launch.devices import find_device, set_threads
from rebench.launch.journal import Job, JobState, Journal, Submission
from rebench.launch.liveness import Reporter
from rebench.launch.logs import begin_of
from rebench.machine import search_garbage_rarely
from rebench.runs import (
    Failure,
    FinishedTrials,
    Record,
    Run,
    ShardWriter,
    Trial,
    job_name,
    now,
)
from rebench.runs.claims import Claims, Fate, Holder, mark_of, runs, this_process
from rebench.runs.folder import Identity, read_kept
from rebench.runs.record import code_digest, node_name, slurm_number

if TYPE_CHECKING:
    from rebench.data import TrainingData
    from rebench.train import Checkpoint

__all__ = ["is_late", "work", "work_here"]

TrialGroup: TypeAlias = tuple[Trial, ...]

# A trial is given up after this many deaths of its worker in a row without a checkpoint.
_DEATHS = 3
_NODE: Final = node_name()
# Seconds between two looks at the folder of the run and at the job.
_LOOK_EVERY_S: Final = 2.0
# The remedy in a message that ends a job.
_AGAIN: Final = "`rebench submit` sends the remaining trials of the job again"
_log = logging.getLogger("rebench.worker")


def _identify(submission: Submission, cluster: str, *, in_job: bool) -> tuple[Holder, int, int]:
    """Return the identity of this process, its rank, and the number of processes of its job."""
    rank, processes = 0, 1
    if in_job:
        # A job of this machine has the number of its first process, which the submitter knows.
        number = os.environ.get("REBENCH_JOB", "")
        if "SUBMITIT_EXECUTOR" in os.environ:
            from submitit import JobEnvironment

            job = JobEnvironment()
            cluster, rank, processes = job.cluster, job.global_rank, job.num_tasks
    else:
        # Outside of a worker's job: if this process runs inside another SLURM job, the claims name
        # that job, and the queue shows whether it is alive.
        cluster = "slurm" if job_name() else "debug"
        number = str(os.getpid())
    attempt = 0
    if cluster == "slurm":
        number = job_name() or ""
        attempt = slurm_number("SLURM_RESTART_COUNT")
    worker = f"{submission.number:04d}-{number}"
    if cluster != "slurm":
        worker += f"-{_NODE}"
    if processes > 1:
        worker += f"-p{rank}"
    me = Holder(
        worker=worker,
        job=number,
        attempt=attempt,
        cluster=cluster,
        user=getpass.getuser(),
        process=this_process(),
    )
    return me, rank, processes


def work(run: Path, submission: int, chunk: int, task: int) -> None:
    """Train the remaining trials of a job in its own process."""
    search_garbage_rarely()
    _Worker(Journal(run).submission(submission), chunk, task, in_job=True).work()


def work_here(job: Job) -> None:
    """Train the remaining trials of a job in the process of the submitter."""
    _Worker(job.submission, job.chunk, job.task, in_job=False).work()


class _Worker:
    """One attempt of one worker."""

    def __init__(self, submission: Submission, chunk: int, task: int, *, in_job: bool) -> None:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        folder = submission.run
        intent = submission.intent()
        if intent is None:
            raise StoreError(
                f"{submission.folder}/intent.json is missing or damaged, so that this job does not"
                " know its trials: they are pending; submit again"
            )
        me, rank, processes = _identify(submission, intent.cluster, in_job=in_job)
        self._submission = submission
        self._intent = intent
        self._options = intent.options
        self._me = me
        self._rank = rank
        self._processes = processes
        self._in_job = in_job
        self._begun = time.monotonic()
        self._cluster = recorded(me.cluster)
        self._log_file = submission.logs / f"{me.job}_{rank}.log" if in_job else None
        self._claims = Claims(folder, me, self._fate)
        self._reporter = Reporter(folder, me, self._log_file)
        self._results = ShardWriter(folder / "results", me.worker, me.attempt, on_wait=_log.warning)
        self._failures = ShardWriter(folder / "failures", me.worker, me.attempt, patience_s=5.0)
        job = submission.planned(intent, chunk)[task]
        # The name of a job contains that of the run, so a damaged run.json is no problem.
        self._run = Run(folder, job.name.removeprefix("rebench-").rpartition("-")[0])
        own = set(job.trials)
        trials = self._run.trials(own, _log.warning)
        # Trials that are no longer in the sweep are not trained.
        groups: list[TrialGroup] = []
        for ids in job.groups:
            group = tuple(trials[one] for one in ids if one in trials)
            if group:
                groups.append(group)
        # Each process of a job begins with its own share of the groups, and then helps the other
        # processes with theirs.
        self._groups: list[TrialGroup] = []
        for at in range(processes):
            self._groups += groups[(rank + at) % processes :: processes]
        self._finished = FinishedTrials(folder, own).refresh()
        self._failed: set[str] = set()
        self._signal: int | None = None
        self._ended_by = "cancelled or preempted"
        self._next_look_s = 0.0
        # The process of the submitter continues after the worker, as it was before.
        self._at_end = contextlib.ExitStack()
        self._at_end.callback(self._results.close)
        self._at_end.callback(self._failures.close)

    def work(self) -> None:
        """Train the remaining trials of all groups."""
        self._listen()
        try:
            for group in self._groups:
                self._train_rest(group)
        except Interrupted:
            self._leave()
        except (StoreError, ClusterError, MissingDataError, OSError) as error:
            self._reporter.end(f"stopped: {error}")
            _log.exception("stopped on node %s; finished trials are recorded", _NODE)
            raise
        finally:
            self._at_end.close()
        left = sum(len(self._open(group)) for group in self._groups)
        note = "ended"
        if left:
            note = f"ended; {left} trials are held by other workers"
        self._reporter.end(note)

    def _fate(self, holder: Holder) -> Fate:
        """Return whether the holder of a claim may live, and otherwise how it ended."""
        me = self._me
        seen = runs(holder.process)
        if seen and (holder.job, holder.attempt) == (me.job, me.attempt):
            return "lives"
        state = self._state_of(holder)
        if state.live and seen is not False:
            return "lives"
        return "stopped" if state.kind == "stopped" else "died"

    def _state_of(self, holder: Holder) -> JobState:
        """Return the state of the job of a worker."""
        try:
            (job,) = recorded(holder.cluster).look([self._job_of(holder)])
        except ClusterError:
            return JobState("unknown")
        return job.state

    def _job_of(self, holder: Holder) -> Job:
        """Return the job of a worker, as far as its claim describes it."""
        return Job(
            submission=self._submission,
            cluster=holder.cluster,
            is_sent=True,
            number=holder.job,
            process=holder.process,
            owner=holder.user,
        )

    def _open(self, group: TrialGroup) -> set[str]:
        return {one.trial_id for one in group} - self._finished.trials.keys() - self._failed

    def _look(self) -> None:
        """Read the records and failures of other workers."""
        self._finished.refresh()
        for key, failure in self._run.failures().items():
            if failure.submission >= self._submission.number:
                self._failed.add(key)

    def _train_rest(self, group: TrialGroup) -> None:
        """Claim and train the trials of a group that no worker has trained or holds."""
        if self._must_stop():
            raise Interrupted
        opened = self._open(group)
        if not opened:
            return
        # Load torch before claiming a trial: if torch crashes on this node, no trial is claimed.
        _ = self._device
        taken = []
        for trial_id in sorted(opened):
            claim = self._claims.take(trial_id)
            if claim is None:
                _log.info("trial %s is held by another worker", trial_id)
                continue
            taken.append(trial_id)
            if claim.deaths >= _DEATHS:
                times = f"its worker died {claim.deaths} times in a row while training it"
                self._fail(trial_id, "worker died", f"{times} (out of memory?)")
        # Another worker may have finished a trial between the last look and the claim.
        self._look()
        wanted = set(taken) & self._open(group)
        try:
            if wanted:
                self._train(group, wanted)
        finally:
            for trial_id in taken:
                self._claims.release(trial_id)

    @functools.cached_property
    def _device(self) -> str:
        """The device, after torch has put a tensor on it."""
        with _blaming_the_node():
            import torch

            import rebench.train  # noqa: F401 - loaded here, for its errors are the node's

            device = find_device(self._options, self._rank)
            torch.zeros(1, device=device)
            before = set_threads(self._options)
            if not self._in_job:
                self._at_end.callback(torch.set_num_threads, before)
            self._check_code()
        return device

    def _check_code(self) -> None:
        """Raise if the loaded code is not that of the submitter, whose commit the records name."""
        from rebench.recipes import recipe_names

        recipe_names()  # loads the packages of all recipes
        code = self._intent.code.items()
        changed = [name for name, digest in code if code_digest(name) != digest]
        # A container may have other code than the submitter.
        if changed and not self._options.container_image:
            raise ClusterError(
                f"the code of {', '.join(changed)} changed after the submission, or node {_NODE}"
                " has another installation: no trial was started; `rebench submit` sends the trials"
                " again, with the present code"
            )

    def _train(self, group: TrialGroup, wanted: set[str]) -> None:
        """Train a whole group, so that interruptions do not change results; keep wanted trials."""
        from rebench.train import Speed, train

        options = self._options
        self._reporter.begin(group)
        _log.info("%s", begin_of(group))
        with _blaming_the_node():
            data = _data(group[0].dataset, group[0].split, self._intent.data_root)
        try:
            train(
                group,
                data,
                self._device,
                self._run.folder / "checkpoints",
                stack=len(group),
                speed=Speed(compile=options.compile_net, cuda_graphs=options.cuda_graphs),
                on_epoch=lambda report: self._reporter.on_epoch(report.epoch),
                on_record=lambda record: self._append(record, wanted),
                on_network=lambda record, final: self._keep(record, final, wanted),
                start_from=self._intent.start_from,
                stop=self._must_stop,
                checkpoint_every_minutes=options.checkpoint_min,
            )
        except (Interrupted, StoreError, ClusterError, MissingDataError):
            # The node or the job is the cause, not the trial: the job ends, and no trial fails.
            raise
        except OSError as error:
            # The machine failed, not the trial: the job ends, and no trial fails.
            raise StoreError(f"{error}; {_AGAIN}") from error
        except Exception as error:  # noqa: BLE001 - a trial that raises must not end the others
            _log.exception("%s (%d in its stack) failed", group[0].describe(), len(group))
            if len(group) == 1:
                message = str(error).partition("\n")[0]
                kind = type(error).__name__
                if "out of memory" in message:
                    kind = "out of memory"
                self._fail(group[0].trial_id, kind, message)
                return
        else:
            return
        # Retry one by one, after `except`: the error keeps the memory of the failed stack alive.
        for one in group:
            if one.trial_id in self._open(group) & wanted:
                self._train((one,), {one.trial_id})

    def _keep(self, record: Record, final: Checkpoint, wanted: set[str]) -> None:
        """Write the network of a trial. Its record follows, so that no record lacks its network."""
        from rebench.train import save_network

        if record.trial_id in wanted and self._claims.holds(record.trial_id):
            save_network(self._run.folder, self._intent.train, record, final)

    def _append(self, record: Record, wanted: set[str]) -> bool:
        """Write the record of a trial; return whether no other worker needs its checkpoints."""
        if record.trial_id not in wanted:
            return record.trial_id in self._finished.trials
        if not self._claims.holds(record.trial_id):
            _log.warning("trial %s was taken over: not recorded here", record.trial_id)
            return False
        intent = self._intent
        known: dict[str, object] = {"spec_hash": intent.spec_hash}
        # A container may have other code than the submitter.
        if intent.commit and not self._options.container_image:
            known |= {"commit": intent.commit, "dirty": intent.dirty}
        origin = record.provenance.model_copy(update=known)
        self._results.append([record.model_copy(update={"provenance": origin}).to_line()])
        self._finished.refresh(self._results.path)
        _log.info("recorded %s in %.1f s", record.trial.describe(), record.cost.seconds)
        return True

    def _fail(self, trial_id: str, kind: str, message: str) -> None:
        failure = Failure(
            trial_id=trial_id,
            submission=self._submission.number,
            kind=kind,
            message=message,
            job=self._me.job,
            worker=self._me.worker,
            node=_NODE,
            log=str(self._log_file or ""),
            time=now(),
        )
        self._failed.add(trial_id)
        self._failures.append([failure.model_dump_json()])

    def _listen(self) -> None:
        """Listen to the signals that ask a worker to stop at the next checkpoint."""
        asked: list[signal.Signals] = []
        if not self._cluster.waits:
            asked += [signal.SIGUSR2, signal.SIGTERM]
        if not self._in_job:
            asked.append(signal.SIGINT)
        # Python can set signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in asked:
                before = signal.signal(number, self._on_signal)
                if not self._in_job:
                    self._at_end.callback(signal.signal, number, before)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._signal is None:  # local jobs get the signal again and again
            _log.warning("%s: stopping at the next checkpoint", signal.Signals(number).name)
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)  # a second Ctrl-C ends it
        self._signal = self._signal or number

    def _must_stop(self) -> bool:
        """Return whether to stop at the next checkpoint; raise if the run is no longer there."""
        if time.monotonic() < self._next_look_s:
            return self._signal is not None
        self._next_look_s = time.monotonic() + _LOOK_EVERY_S
        identity = read_kept(Identity, self._run.folder / "run.json")
        replaced = identity is not None and identity.name != self._run.name
        if replaced or not _is_there(self._submission.folder):
            raise StoreError(f"{self._run.folder} was deleted or replaced: this worker ends")
        # The process that leads a job of this machine has the number of the job. The system does
        # not use the number again before this session ends.
        leader = os.getsid(0)
        is_led = self._in_job and self._me.job == str(leader)
        if self._signal is None and is_led and not mark_of(leader).started:
            self._ended_by = f"process {leader} of the job was killed"
            _log.warning("%s: stopping at the next checkpoint", self._ended_by)
            self._signal = signal.SIGTERM
        return self._signal is not None

    def _leave(self) -> NoReturn:
        """Requeue the job unless it was cancelled, and end. Checkpoints are on disk."""
        number = self._signal or signal.SIGUSR2
        if number == signal.SIGINT:
            self._reporter.end("interrupted")
            raise KeyboardInterrupt
        again = self._in_job and self._cluster.has_queue
        if again and number == signal.SIGTERM:
            # A cancelled job gets this signal too, and must not start again.
            again = self._state_of(self._me).kind == "running"
        self._reporter.end("requeued" if again else self._ended_by)
        if again:
            self._requeue(number)
        # If a process of a job ends with another code than 0, some clusters end the other
        # processes.
        raise SystemExit(0 if self._processes > 1 else 128 + number)

    def _requeue(self, number: int) -> None:
        me = self._me
        used_s = time.monotonic() - self._begun
        if number == signal.SIGUSR2 and is_late(used_s, self._options.time_min * 60):
            times = self._submission.time_outs(me.job, me.attempt)
            # Without this limit the job would be requeued for ever.
            if times > self._options.max_requeues:
                why = f"gave up: the job reached its time limit too many times ({times})"
                self._reporter.end(f"{why}; raise slurm.time_min, or submit again")
                raise ClusterError(why)
        try:
            self._cluster.stop([self._job_of(me)], requeue=True)
        except ClusterError:
            # Another process of the job requeued it first; SLURM lets this process finish.
            if self._processes == 1 or self._state_of(me).kind == "running":
                raise


def is_late(used_s: float, limit_s: float) -> bool:
    """Return whether a job has used most of its time."""
    return used_s >= min(0.8 * limit_s, limit_s - 600)


@contextlib.contextmanager
def _blaming_the_node() -> Iterator[None]:
    """Convert errors into a ClusterError about the node: the job ends, and no trial fails."""
    try:
        yield
    except (StoreError, ClusterError, MissingDataError):
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        said = f"{type(error).__name__}: {reason}"
        raise ClusterError(f"node {_NODE} cannot train ({said}); {_AGAIN}") from error


@functools.lru_cache(maxsize=1)
def _data(dataset: str, split: str, root: str | None) -> TrainingData:
    from rebench.data import load_data

    return load_data(dataset, split, root=root)


def _is_there(folder: Path) -> bool:
    """Return whether a folder exists, or may exist."""
    try:
        folder.stat()
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return True


# The command of a job: `python -m rebench.launch.worker RUN SUBMISSION CHUNK TASK`.
if __name__ == "__main__":
    folder, number, chunk, task = sys.argv[1:]
    work(Path(folder), int(number), int(chunk), int(task))
