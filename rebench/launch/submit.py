"""Submit: read what is known, decide what is to be sent, send it; safe to repeat by anybody.

Nothing is sent that has a record, that a live job holds, or that failed.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rebench.arguments import checked
from rebench.errors import ClusterError, InputError, UnknownNameError
from rebench.launch.decide import Decision, Order, Place, decide
from rebench.launch.expansion import expand_spec
from rebench.launch.forecast import times_for
from rebench.launch.journal import Journal, Submission
from rebench.launch.place import check_before_sending, look
from rebench.launch.send import Delivered, script, send
from rebench.launch.slurm import LARGEST_ARRAY
from rebench.launch.state import State, adopt_jobs, read_state
from rebench.runs import SweepSpec, Trial, read_spec, with_settings
from rebench.runs.folder import Run, Tell, unheard
from rebench.runs.record import source_commit

__all__ = ["Order", "Preview", "Submitted", "run_folder", "submit"]

_NO_ROOM: Final = (
    "as many jobs of this run are live as this machine has room for (GPUs, or cores /"
    " cpus_per_task, and array_parallelism)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a dry run shows of a type of device."""

    type_name: str
    trials: int
    jobs: int
    arrays: int
    device_hours: float
    times_from: str
    data_root: str | None
    script: str
    """That of the first array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What a call of `submit` did, or would do if it is a dry run."""

    run: Path
    sent: int
    jobs: tuple[str, ...]
    done: int
    held: Mapping[str, int]
    failed: int
    waiting: int
    """Trials that no job was started for: as many live as there may be."""
    limit: str
    """Why there may be no more, for the user."""
    failed_here: int = 0
    """Trials that this submission trained in this process (cluster debug), and that failed."""
    adopted: int = 0
    previews: tuple[Preview, ...] = ()


def run_folder(spec: Path, given: Path | None = None) -> Path:
    """Where the sweep of a spec runs unless told otherwise; a run is its own."""
    if given is None and (spec / "run.json").exists():
        return spec
    return given or spec.parent / "runs" / spec.stem


@checked
def submit(
    spec: str | Path,
    run: str | Path | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    tell: Tell = unheard,
    confirm: Callable[[float], None] = lambda _: None,
    **order: Any,
) -> Submitted:
    """Send every trial of a sweep that has no record, no live job and no failure; safe to repeat.

    Args:
        spec: the sweep's file; or a run, which is sent again as when it was last submitted.
        run: the run's folder; by default beside the file, as for ``rebench submit``.
        settings: what is to be other than in the file: ``{"slurm.partition": "gpu"}``.
        tell: is given one line about each thing that the user should know.
        confirm: is given the device hours before anything is sent; it may raise.
        order: the fields of `rebench.launch.submit.Order`, such as ``cluster="local"`` (or
            ``"slurm"``, or ``"debug"``, which trains in this process) and ``retry_failed=True``.
    """
    valid = [field.name for field in dataclasses.fields(Order)]
    for name in order:
        if name not in valid:
            raise UnknownNameError("option of submit", name, ["run", "settings", *valid])
    path, chosen = Path(spec), Order(**order)
    folder = run_folder(path, None if run is None else Path(run))
    if path.is_dir():
        sweep, trials, chosen = _as_before(folder, settings or {}, chosen)
    else:
        sweep = with_settings(read_spec(path), settings or {})
        trials = expand_spec(sweep).trials
    if (chosen.cluster or "slurm") == "slurm":
        for key in sweep.slurm.overridden(settings or {}):
            tell(
                f"--set {key} changes nothing: every type of [slurm.types] has its own; set"
                f" {key.replace('slurm.', 'slurm.types.NAME.')}"
            )
    sending = _Sending(folder, sweep, trials, chosen, tell)
    return sending.rehearse() if chosen.dry_run else sending.send(confirm)


@dataclass(frozen=True, slots=True)
class _Sending:
    """A sweep on its way into a run."""

    folder: Path
    spec: SweepSpec
    trials: tuple[Trial, ...]
    order: Order
    tell: Tell

    def send(self, confirm: Callable[[float], None]) -> Submitted:
        place = look(self.order.cluster or "slurm", self.spec.slurm)
        mine = Journal(Run.create(self.folder).folder).begin(self.tell)
        try:
            run = Run.open(self.folder).settled(self.tell)
            self._agree(run)
            state = read_state(run, self.tell)
            adopted = adopt_jobs(run, state.jobs, self.tell)
            decision = self._decide(mine, run.job_prefix, state, place)
            confirm(sum(decision.hours.values()))
            commit, dirty = source_commit()
            intent = decision.intent.model_copy(update={"commit": commit, "dirty": dirty})
            mine.write_intent(intent)
            live = any(job.live and job.cluster == place.cluster for job in state.jobs)
            delivered = send(mine, intent, decision.turns, live=live)
        finally:
            mine.close()
        failures = run.failures().values() if place.cluster == "debug" else ()
        failed_here = sum(one.submission == mine.number for one in failures)
        more = {"adopted": adopted, "failed_here": failed_here}
        return self._summary(state, decision, delivered, **more)

    def rehearse(self) -> Submitted:
        """What `send` would do now; where SLURM does not answer, by the files alone."""
        run = Run.open(self.folder) if (self.folder / "run.json").exists() else None
        state = read_state(run, self.tell, by_files=True) if run else State()
        cluster = self.order.cluster or "slurm"
        try:
            place = look(cluster, self.spec.slurm)
        except ClusterError as error:
            self.tell(f"{error}. What it allows is not known here")
            place = Place(cluster=cluster, largest=LARGEST_ARRAY)
        mine = Journal(self.folder.absolute()).next()
        decision = self._decide(mine, run.job_prefix if run else "rebench-dry-run-", state, place)
        intent = decision.intent
        numbers: dict[str, list[int]] = {}
        for at, chunk in enumerate(intent.chunks):
            numbers.setdefault(chunk.type_name, []).append(at)
        previews = [
            Preview(
                type_name=name,
                trials=len(
                    decision.pending & {key for at in own for key in intent.chunks[at].trials}
                ),
                jobs=sum(len(intent.chunks[at].jobs) for at in own),
                arrays=len(own),
                device_hours=decision.hours[name],
                times_from=decision.times_from,
                data_root=self.order.data_root,
                script=script(mine, intent, own[0], decision.turns),
            )
            for name, own in numbers.items()
        ]
        taken = Delivered(trials=frozenset(key for one in intent.chunks for key in one.trials))
        return self._summary(state, decision, taken, previews=tuple(previews))

    def _decide(self, mine: Submission, prefix: str, state: State, place: Place) -> Decision:
        order, run, cluster = self.order, mine.run, place.cluster
        decision = decide(
            self.spec,
            self.trials,
            order,
            state,
            place,
            times=times_for(self.spec, run=run, past=order.past, cluster=cluster),
            prefix=f"{prefix}{mine.number}.",
            number=mine.number,
            now=time.time(),
        )
        if order.preflight and decision.groups:
            options = decision.intent.options
            check_before_sending(decision.groups, options, cluster, order.data_root)
        for note in decision.notes:
            self.tell(note)
        return decision

    def _summary(
        self, state: State, decision: Decision, delivered: Delivered, **more: Any
    ) -> Submitted:
        sent = len(decision.pending & delivered.trials)
        grouped = {one.trial_id for group in decision.groups for one in group}
        return Submitted(
            run=self.folder,
            sent=sent,
            jobs=delivered.jobs,
            done=sum(one.trial_id in state.done for one in self.trials),
            held=Counter(job for key, job in state.held.items() if key not in state.done),
            failed=decision.failed,
            waiting=len(decision.pending & grouped) - sent,
            limit=delivered.refusal or _NO_ROOM,
            **more,
        )

    def _agree(self, run: Run) -> None:
        """Store the sweep; a sweep that differs from the stored one must be meant to."""
        damaged: list[str] = []
        before = set(run.ids(damaged.append))
        after = {trial.trial_id for trial in self.trials}
        for line in damaged:
            self.tell(line)
        # A list that is damaged may lack some.
        if before and before != after and not (damaged and before < after):
            change = (
                f"the sweep has changed since it was last submitted to {run.folder}:"
                f" {len(after - before)} trials are new, {len(before - after)} are no longer"
                " asked for"
            )
            if not self.order.accept_change:
                raise InputError(
                    f"{change}. Give --accept-change to go on with the new sweep (records that"
                    " exist are kept), or another --run"
                )
            self.tell(change)
        run.write_sweep(self.spec, self.trials)


def _as_before(
    folder: Path, settings: Mapping[str, Any], order: Order
) -> tuple[SweepSpec, tuple[Trial, ...], Order]:
    """What a run holds, to be sent as when it was last submitted, but for what is given."""
    run = Run.open(folder)
    last = Journal(run.folder).last()
    stored = run.spec(trust_folder=order.trust_folder)
    if last is None or stored is None:
        raise InputError(
            f"nothing was ever submitted to {folder}: use `rebench submit` with the sweep's file"
        )
    sweep = with_settings(stored, settings)
    if sweep.digest != stored.digest:
        raise InputError(
            "a run is sent again with the trials that it has: keys of slurm and train can be set;"
            " to train something else, change the sweep's file and submit that"
        )
    trials = tuple(run.trials().values())
    if not trials:
        raise InputError(f"{folder}/trials.jsonl lists no trial: submit the sweep's file again")
    as_last = replace(
        order,
        cluster=order.cluster or last.cluster,
        data_root=order.data_root or last.data_root,
        trials_per_job=order.trials_per_job or last.trials_per_job,
    )
    return sweep, trials, as_last
