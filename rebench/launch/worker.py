"""The worker: what runs inside a job. It trains the trials it was given, in order, and survives.

submitit starts it, and submitit's own checkpoint mechanism requeues it; what it has done is told by
the run's files alone.
"""

from __future__ import annotations

import functools
import getpass
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeAlias

from submitit.core.utils import DelayedSubmission, UncompletedJobError

from rebench.errors import ClusterError, MissingDataError, StoreError
from rebench.launch.claims import Claims, Holder
from rebench.launch.journal import Intent, Journal
from rebench.launch.liveness import is_meant_to_run, worker_died, worker_lives
from rebench.launch.logs import begin_of
from rebench.launch.place import find_place
from rebench.launch.processes import this_process
from rebench.launch.progress import Reporter
from rebench.launch.run import FailedTrials, Failure, Run, trial_ids
from rebench.launch.training import Stopped, train_group
from rebench.launch.trust import kept_from_others
from rebench.store import FinishedTrials, Record, RecordWriter, ShardWriter, now
from rebench.sweep import Trial

__all__ = ["Worker"]

Group: TypeAlias = tuple[Trial, ...]

# A trial whose worker died so often in a row, without a checkpoint in between, is given up.
_DEATHS = 3
# How often, and at most how long before a requeue, the processes of one job look after each other.
_LOOK_S = 0.5
_PATIENCE_S = 30.0
_log = logging.getLogger("rebench.worker")


class Worker:
    """One job's task: which trials it trains follows from the run's journal, not from arguments."""

    def __init__(self, run: str, submission: int, chunk: int, task: int) -> None:
        self.run = run
        self.submission = submission
        self.chunk = chunk
        self.task = task

    def checkpoint(self) -> DelayedSubmission:
        """Tell submitit how to go on after a requeue: the same again; the files hold the state."""
        return DelayedSubmission(Worker(self.run, self.submission, self.chunk, self.task))

    def __call__(self) -> str:
        """Train what is still to be trained; return one line for the log."""
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        return _Shift(self).work()


class _Shift:
    """One attempt of one worker."""

    def __init__(self, worker: Worker) -> None:
        folder = Path(worker.run)
        self._submission = worker.submission
        # A worker needs no name, whatever has become of run.json.
        self._run = Run(folder, "")
        self._place = find_place(worker.submission)
        self._place.remove_leftovers()
        me = Holder(
            worker=self._place.worker,
            job=self._place.job,
            attempt=self._place.attempt,
            cluster=self._place.cluster,
            user=getpass.getuser(),
            process=this_process(),
        )
        lives = functools.partial(worker_lives, folder, me)
        self._claims = Claims(folder, me, lives, worker_died)
        self._reporter = Reporter(folder, me, self._place.log)
        name, attempt = self._place.worker, self._place.attempt
        self._results = RecordWriter(folder / "results", name, attempt, on_wait=_log.warning)
        self._failures = ShardWriter(folder / "failures", name, attempt, patience_s=5.0)
        self._intent: Intent = Journal(folder).get(worker.submission)
        chunk = self._intent.chunks[worker.chunk]
        self._options = self._intent.options.of(chunk.type_name)
        names = chunk.jobs[worker.task]
        own = set(trial_ids(names))
        trials = self._run.trials(own, _log.warning)
        # What the sweep no longer asks for is no longer trained.
        listed = [tuple(trials[one] for one in group if one in trials) for group in names]
        groups = [group for group in listed if group]
        rank, processes = self._place.rank, self._place.processes
        # Each process of a job begins with its own share, and then helps with the others'.
        self._groups = [
            group
            for at in range(processes)
            for group in groups[(rank + at) % processes :: processes]
        ]
        self._finished = FinishedTrials(folder, own).refresh()
        self._failed = FailedTrials(folder, worker.submission)
        self._seen_held: set[str] = set()
        self._signal: int | None = None
        self._requeue: Callable[[int, FrameType | None], Any] | None = None

    def work(self) -> str:
        """Go through the groups twice: those held by others are looked at again at the end."""
        self._listen()
        try:
            for _ in range(2):
                for group in self._groups:
                    self._attend(group)
            if self._place.leads:
                self._outlast_siblings()
        except Stopped:
            self._leave()
        except (StoreError, ClusterError, MissingDataError, OSError) as error:
            self._reporter.end(f"stopped: {error}")
            _log.exception("stopped on %s; what is recorded is safe", self._place.node)
            raise
        finally:
            self._results.close()
            self._failures.close()
        left = sum(len(self._open(group)) for group in self._groups)
        note = f"ended; {left} trials are held by other workers" if left else "ended"
        self._reporter.end(note)
        return note

    def _open(self, group: Group) -> set[str]:
        return {
            one.trial_id
            for one in group
            if one.trial_id not in self._finished.trials and one.trial_id not in self._failed.trials
        }

    def _outlast_siblings(self) -> None:
        """Stay while other processes of this job train: they need this one to requeue the job."""
        if self._place.processes == 1:
            return
        while True:
            self._look()
            opened = [trial_id for group in self._groups for trial_id in self._open(group)]
            if all(self._claims.is_held_elsewhere(trial_id) for trial_id in opened):
                return
            # One that died leaves trials behind.
            for group in self._groups:
                self._attend(group)
            time.sleep(_LOOK_S)

    def _look(self) -> None:
        """Take in what other workers have done."""
        self._finished.refresh()
        self._failed.refresh()

    def _attend(self, group: Group) -> None:
        if self._signal is not None:
            raise Stopped
        opened = self._open(group)
        if not opened:
            return
        taken = [trial_id for trial_id in sorted(opened) if self._take(trial_id)]
        # Another worker may have finished one between the last look and the claim.
        self._look()
        wanted = set(taken) & self._open(group)
        try:
            if wanted:
                self._train(group, wanted)
        finally:
            for trial_id in taken:
                self._claims.release(trial_id)

    def _take(self, trial_id: str) -> bool:
        claim = self._claims.take(trial_id)
        if claim is None:
            if trial_id not in self._seen_held:
                self._seen_held.add(trial_id)
                _log.info("trial %s is held by another worker", trial_id)
            return False
        if claim.deaths >= _DEATHS:
            times = f"its worker died {claim.deaths} times in a row while training it"
            self._fail(trial_id, "worker died", f"{times} (out of memory?)")
        return True

    def _train(self, group: Group, wanted: set[str]) -> None:
        """Train a whole group, so that numbers do not depend on what is done; keep the wanted."""
        self._reporter.begin(group)
        _log.info("%s", begin_of(group))
        try:
            train_group(
                group,
                checkpoints=self._run.checkpoints,
                data_root=self._intent.data_root,
                options=self._options,
                rank=self._place.rank,
                on_epoch=self._reporter.on_epoch,
                on_record=lambda record: self._append(record, wanted),
                stop=lambda: self._signal is not None,
            )
        except (Stopped, StoreError, ClusterError, MissingDataError):
            # What this node lacks another may have: the job ends, and the trial is pending again.
            raise
        except OSError as error:
            # The machine's trouble, not the trial's: what was not recorded stays pending.
            raise StoreError(f"{error}; the trial is pending again") from error
        except Exception as error:  # noqa: BLE001 - a trial that raises must not end the others
            _log.exception("%s (%d in its stack) failed", group[0].describe(), len(group))
            if len(group) > 1:
                for one in group:
                    if one.trial_id in self._open(group) & wanted:
                        self._train((one,), {one.trial_id})
            else:
                kind = "out of memory" if _is_memory(error) else type(error).__name__
                self._fail(group[0].trial_id, kind, (str(error).splitlines() or [""])[0])

    def _append(self, record: Record, wanted: set[str]) -> None:
        if record.trial_id not in wanted:
            return
        if not self._claims.holds(record.trial_id):
            _log.warning("trial %s was taken over: not recorded here", record.trial_id)
            return
        origin = record.provenance.model_copy(update={"spec_hash": self._intent.spec_hash})
        self._results.append_record(record.model_copy(update={"provenance": origin}))
        self._finished.refresh()
        _log.info("recorded %s in %.1f s", record.trial.describe(), record.cost.seconds)

    def _fail(self, trial_id: str, kind: str, message: str) -> None:
        failure = Failure(
            trial_id=trial_id,
            submission=self._submission,
            kind=kind,
            message=message,
            job=self._place.job,
            worker=self._place.worker,
            node=self._place.node,
            log=str(self._place.log or ""),
            time=now(),
        )
        self._failed.trials.add(trial_id)
        self._failures.append([failure.model_dump_json()])

    def _listen(self) -> None:
        """Take submitit's signals: its handler requeues, but only once the trainer has stopped."""
        handler = signal.getsignal(signal.SIGUSR2)
        self._requeue = handler if callable(handler) else None
        if self._place.cluster != "debug":
            for number in (signal.SIGUSR2, signal.SIGTERM):
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        _log.warning("%s: stopping at the next checkpoint", signal.Signals(number).name)
        self._signal = self._signal or number

    def _leave(self) -> NoReturn:
        """Requeue, unless the job was cancelled; the trials' checkpoints are on disk."""
        number = self._signal or signal.SIGUSR2
        place = self._place
        cancelled = number == signal.SIGTERM and not is_meant_to_run(place.cluster, place.job)
        self._reporter.end("cancelled or preempted" if cancelled else "requeued")
        if not place.leads:
            # With any other code some clusters end the whole job at once.
            raise SystemExit(0)
        if not cancelled:
            self._wait_for_checkpoints()
        if not cancelled and self._requeue is not None:
            try:
                # It writes the pickle anew from which the next attempt begins.
                with kept_from_others():
                    self._requeue(number, None)
            except UncompletedJobError as error:
                self._reporter.end(f"gave up: {error} Raise the time limit, or submit again")
                raise
        raise SystemExit(128 + number)

    def _wait_for_checkpoints(self) -> None:
        """Let the other processes of this job stop as well before the job is requeued."""
        ids = [one.trial_id for group in self._groups for one in group]
        deadline = time.monotonic() + _PATIENCE_S
        while self._place.processes > 1 and time.monotonic() < deadline:
            if not self._claims.siblings_hold(ids):
                return
            time.sleep(_LOOK_S)


def _is_memory(error: Exception) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in words or "allocate memory" in words
