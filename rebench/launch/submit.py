"""The main functions of a submission: read the state of a run, select trials, submit them.

A user can repeat a submission at any time. Trials with a record, a live job or a failure are not
submitted.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from rebench.arguments import Between, checked
from rebench.data import DataSpec, data_spec
from rebench.errors import (
    ClusterError,
    InputError,
    MissingDataError,
    RebenchError,
    TooManyJobsError,
)
from rebench.launch.clusters import Cluster, Limits
from rebench.launch.clusters import cluster as cluster_of
from rebench.launch.decide import Decision, Order, decide, smaller
from rebench.launch.expansion import expand_spec
from rebench.launch.forecast import times_for
from rebench.launch.journal import Intent, Journal, Submission
from rebench.launch.state import State, adopt_jobs, read_state
from rebench.launch.worker import work_here
from rebench.recipes import own_package
from rebench.runs import SweepSpec, Trial, read_spec, with_settings
from rebench.runs.folder import Run, Tell, run_folder, unheard
from rebench.runs.record import code_digest, source_commit

__all__ = ["Preview", "Submitted", "submit"]

_NO_ROOM: Final = (
    "this machine runs the maximum number of jobs of this run (its GPUs, or cores / cpus_per_task;"
    " at most array_parallelism)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Preview of the jobs of a dry run."""

    trials: int
    jobs: int
    arrays: int
    device_hours: float
    times_from: str
    data_root: str | None
    script: str
    """The script of the first array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The result of a call of `submit`; of a dry run, the result that a call would have."""

    run: Path
    """The folder of the run."""
    sent: int
    """Number of submitted trials."""
    jobs: tuple[str, ...]
    """Numbers of the submitted jobs; empty for a dry run."""
    done: int
    """Number of trials that had a record before."""
    held: Mapping[str, int]
    """Live job -> number of its trials without a record. They are not submitted."""
    failed: int
    """Number of trials that failed before, and that are not submitted."""
    waiting: int
    """Number of pending and lost trials without a job, as the cluster accepts no more jobs."""
    limit: str
    """The reason why the cluster accepts no more jobs, for the user."""
    failed_here: int = 0
    """Number of trials that failed in this process (cluster debug)."""
    adopted: int = 0
    """Number of jobs that an earlier submission sent and did not record."""
    preview: Preview | None = None
    """The jobs of a dry run; None if it has no job."""


@checked
def submit(
    spec: str | Path,
    run: str | Path | None = None,
    *,
    cluster: str | None = None,
    settings: Mapping[str, Any] | None = None,
    past: str | Path | None = None,
    data_root: str | Path | None = None,
    trials: Annotated[int, Between(1)] | None = None,
    trials_per_job: Annotated[int, Between(1)] | None = None,
    retry_failed: bool = False,
    trust_folder: bool = False,
    accept_change: bool = False,
    preflight: bool = True,
    dry_run: bool = False,
    tell: Tell = unheard,
    confirm: Callable[[float], None] = lambda _: None,
) -> Submitted:
    """Submit every trial of a sweep that has no record, no live job and no failure.

    Args:
        spec: the file of the sweep; or a run, which is submitted again as it was last.
        run: the folder of the run; by default next to the file, as for ``rebench submit``.
        cluster: ``"slurm"``, ``"local"`` (this machine) or ``"debug"`` (this process, which trains
            before the call returns); by default SLURM, or for a run its last cluster.
        settings: values that replace those of the file: ``{"slurm.partition": "gpu"}``.
        past: a run from whose records the times are estimated; by default this run.
        data_root: the folder of the data sets.
        trials: the maximum number of trials to submit; by default all.
        trials_per_job: the number of trials of a job; by default, as the estimated times suggest.
        retry_failed: whether to submit failed trials too.
        trust_folder: whether to accept the stored sweep of a run that others could have written.
        accept_change: whether to continue a run with a sweep that has changed.
        preflight: whether to check data, time limit, memory and GPU first, and to leave out nodes
            on which jobs failed.
        dry_run: whether to return a preview only, and submit nothing.
        tell: receives one line about each thing that the user should know.
        confirm: receives the device hours before anything is submitted; it may raise.

    Raises:
        InputError: the sweep is invalid or has changed, or no job with its options can run.
        MissingDataError: the files of a data set are missing.
        UnsafeFileError: other users could have written the stored sweep of a run.
        ClusterError: the cluster refused a job or cannot be reached.
    """
    path = Path(spec)
    folder = run_folder(path, None if run is None else Path(run))
    order = Order(
        cluster=cluster or "slurm",
        past=None if past is None else Path(past),
        data_root=None if data_root is None else str(data_root),
        trials=trials,
        trials_per_job=trials_per_job,
        retry_failed=retry_failed,
        accept_change=accept_change,
        preflight=preflight,
    )
    if path.is_dir():
        sweep, listed, last = _stored(folder, settings or {}, trust_folder=trust_folder)
        order = replace(
            order,
            cluster=cluster or last.cluster,
            data_root=order.data_root or last.data_root,
            trials_per_job=trials_per_job or last.trials_per_job,
        )
    else:
        sweep = with_settings(read_spec(path), settings or {})
        listed = expand_spec(sweep).trials
    sending = _Sending(folder, sweep, listed, order, cluster_of(order.cluster), tell)
    return sending.rehearse() if dry_run else sending.send(confirm)


@dataclass(frozen=True, slots=True)
class _Sending:
    """A sweep that is submitted into a run."""

    folder: Path
    spec: SweepSpec
    trials: tuple[Trial, ...]
    order: Order
    cluster: Cluster
    tell: Tell

    def send(self, confirm: Callable[[float], None]) -> Submitted:
        """Submit the pending and lost trials."""
        limits = self.cluster.limits(self.spec.slurm)
        mine = Journal(Run.create(self.folder).folder).begin(self.tell)
        jobs: list[str] = []
        trials: set[str] = set()
        refusal = _NO_ROOM
        number = 0
        try:
            run = Run.open(self.folder).settled(self.tell)
            self._agree(run)
            state = read_state(run, self.tell)
            adopted = adopt_jobs(state.jobs, self.tell)
            decision = self._decide(mine, run.job_prefix, state, limits)
            confirm(decision.hours)
            # A submission that was refused or declined leaves the stored sweep as it is.
            run.write_sweep(self.spec, self.trials)
            # The finished trials of a stack keep their checkpoints until the stack is finished.
            run.remove_leftovers(state.done.keys() - state.held.keys() - decision.unfinished)
            intent = self._with_code(decision.intent, run)
            mine.write_intent(intent)
            live = any(job.live and job.cluster == self.order.cluster for job in state.jobs)
            while number < len(intent.chunks):
                planned = mine.planned(intent, number)
                after = decision.throttle.before(len(planned))
                mine.touch()
                try:
                    sent = self.cluster.submit(planned, work_here, after=after)
                except RebenchError as error:
                    intent = self._after_refusal(error, mine, intent, number, live=live)
                    refusal = f"SLURM takes no more jobs now ({error})"
                    continue
                mine.write_sent(number, sent)
                decision.throttle.sent(sent.jobs[0].partition("_")[0], len(planned))
                jobs += sent.jobs
                trials.update(*(job.trials for job in planned))
                number += 1
        finally:
            mine.close()
        failed_here = 0
        if self.cluster.waits:
            failures = run.failures().values()
            failed_here = sum(one.submission == mine.number for one in failures)
        return replace(
            self._summary(state, decision, trials, refusal),
            jobs=tuple(jobs),
            adopted=adopted,
            failed_here=failed_here,
        )

    def _with_code(self, intent: Intent, run: Run) -> Intent:
        """Return the intent with the run and the code that its jobs need."""
        packages = {own_package(trial.recipe.name) for trial in self.trials} - {""}
        own = sorted(packages)
        # Before the commit: a change in between makes the digests differ from those of a job.
        code = {package: code_digest(package) for package in ("rebench", "cells", *own)}
        commit, dirty = source_commit(*own)
        known = {"code": code, "commit": commit, "dirty": dirty, "run": run.folder}
        return intent.model_copy(update=known)

    def _after_refusal(
        self,
        error: RebenchError,
        mine: Submission,
        intent: Intent,
        number: int,
        *,
        live: bool,
    ) -> Intent:
        """Return the intent after a refusal of chunk `number`.

        Arrays that are too large are halved. Any other refusal raises, and so does a refusal of a
        single job if no job of the run is `live`.
        """
        fewer = smaller(intent, number)
        if isinstance(error, TooManyJobsError) and (fewer.chunks or live):
            mine.write_intent(fewer)
            return fewer
        if not self.cluster.has_queue:
            raise error
        before = ""
        if number:
            sent = sum(len(chunk.jobs) for chunk in intent.chunks[:number])
            before = f"{sent} jobs were submitted before. "
        left = 0
        for later in range(number, len(intent.chunks)):
            left += sum(len(job.trials) for job in mine.planned(intent, later))
        raise type(error)(
            f"{error} | {before}It is unknown whether the cluster accepted this job:"
            " remove the cause (--set slurm.KEY=VALUE), then submit again. This finds"
            f" accepted jobs of the {left} trials, and sends the other trials"
        ) from error

    def rehearse(self) -> Submitted:
        """Return the result that `send` would have now; from files only, if SLURM is silent."""
        state = State()
        prefix = "rebench-dry-run-"
        if (self.folder / "run.json").exists():
            run = Run.open(self.folder)
            self._agree(run)
            state = read_state(run, self.tell, by_files=True)
            prefix = run.job_prefix
        try:
            limits = self.cluster.limits(self.spec.slurm)
        except ClusterError as error:
            self.tell(f"{error}. The limits of SLURM are unknown, so they are not checked")
            limits = Limits()
        mine = Journal(self.folder.absolute()).next()
        decision = self._decide(mine, prefix, state, limits, rehearsal=True)
        intent = decision.intent
        planned = [mine.planned(intent, number) for number in range(len(intent.chunks))]
        jobs = list(itertools.chain.from_iterable(planned))
        trials = {key for job in jobs for key in job.trials}
        told = self._summary(state, decision, trials)
        if not jobs:
            return told
        after = decision.throttle.before(len(planned[0]))
        first = self.cluster.submit(planned[0], work_here, after=after, dry_run=True)
        preview = Preview(
            trials=told.sent,
            jobs=len(jobs),
            arrays=len(planned),
            device_hours=decision.hours,
            times_from=decision.times_from,
            data_root=self.order.data_root,
            script=first.script,
        )
        return replace(told, preview=preview)

    def _decide(
        self,
        mine: Submission,
        prefix: str,
        state: State,
        limits: Limits,
        *,
        rehearsal: bool = False,
    ) -> Decision:
        order, here = self.order, not self.cluster.has_queue
        decision = decide(
            self.spec,
            self.trials,
            order,
            state,
            limits,
            # Only a preview shows the times, so only a preview takes the time to measure.
            times=times_for(
                self.spec,
                self.trials if rehearsal else (),
                run=mine.run,
                past=order.past,
                here=here,
            ),
            prefix=f"{prefix}{mine.number}.",
            number=mine.number,
            now=time.time(),
        )
        if order.preflight and decision.groups:
            for name in sorted({group[0].dataset for group in decision.groups}):
                missing = _missing_data(data_spec(name), order.data_root)
                if missing and not rehearsal:
                    raise MissingDataError(missing)
                if missing:
                    self.tell(f"a submission would be refused: {missing}")
            if limits.refusal is not None:
                raise limits.refusal
        for note in decision.notes:
            self.tell(note)
        return decision

    def _summary(
        self, state: State, decision: Decision, trials: set[str], limit: str = _NO_ROOM
    ) -> Submitted:
        submitted = len(decision.pending & trials)
        grouped = {one.trial_id for group in decision.groups for one in group}
        return Submitted(
            run=self.folder,
            sent=submitted,
            jobs=(),
            done=sum(one.trial_id in state.done for one in self.trials),
            held=Counter(job for key, job in state.held.items() if key not in state.done),
            failed=decision.failed,
            waiting=len(decision.pending & grouped) - submitted,
            limit=limit,
        )

    def _agree(self, run: Run) -> None:
        """Raise if the stored sweep differs and the user has not accepted it."""
        damaged: list[str] = []
        before = set(run.ids(self.tell))
        after = {trial.trial_id for trial in self.trials}
        if before and before != after:
            # Some damaged lines begin and end like sound lines, so read them whole.
            before = set(run.trials(tell=damaged.append))
        # A damaged list may lack trials.
        if before and before != after and not (damaged and before < after):
            change = (
                f"the sweep has changed since it was last submitted to {run.folder}:"
                f" {len(after - before)} trials are new, {len(before - after)} are no longer"
                " asked for"
            )
            if not self.order.accept_change:
                raise InputError(
                    f"{change}. Give --accept-change to continue with the new sweep (existing"
                    " records are kept), or another folder with --run"
                )
            self.tell(change)


def _stored(
    folder: Path, settings: Mapping[str, Any], *, trust_folder: bool
) -> tuple[SweepSpec, tuple[Trial, ...], Intent]:
    """Return the sweep of a run with new settings, its trials, and its last submission."""
    run = Run.open(folder)
    last = Journal(run.folder).last()
    stored = run.spec(trust_folder=trust_folder)
    if last is None or stored is None:
        raise InputError(
            f"nothing was ever submitted to {folder}: use `rebench submit SWEEP.toml --run"
            f" {folder}`"
        )
    sweep = with_settings(stored, settings)
    if sweep.digest != stored.digest:
        raise InputError(
            "a run folder is submitted again with the same trials: only keys of slurm and train can"
            " be set; to train other trials, change the sweep file and submit that"
        )
    trials = tuple(run.trials(tell=_refuse).values())
    if not trials:
        raise InputError(f"{folder}/trials.jsonl lists no trial: submit the sweep's file again")
    return sweep, trials, last


def _refuse(line: str) -> None:
    """Refuse a damaged list: without some of its trials, it would replace the whole list."""
    raise InputError(line)


def _missing_data(spec: DataSpec, root: str | None) -> str:
    """Return what to do if the files of a data set are missing; empty if they are there."""
    if not spec.files:
        return ""
    from rebench.data import data_root, is_present  # loads torch

    folder = data_root(root)
    if is_present(spec, folder):
        return ""
    return (
        f"{spec.name} is not in {folder} (--data-root names another folder). To get it:"
        f" {spec.get}. If only the nodes have the data: --no-preflight skips this check"
    )
