"""Submit: read what is known, decide what is to be sent, send it; safe to repeat by anybody.

Nothing is sent that has a record, that a live job holds, or that failed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rebench.errors import ClusterError, InputError
from rebench.launch.decide import Decision, Order, Place, decide
from rebench.launch.expansion import expand_spec
from rebench.launch.files import Tell, unheard
from rebench.launch.journal import Journal, Submission
from rebench.launch.preflight import check_before_sending
from rebench.launch.run import Run, trial_ids
from rebench.launch.send import Delivered, look, script, send
from rebench.launch.slurm import LARGEST_ARRAY
from rebench.launch.state import State, adopt_jobs, read_state
from rebench.launch.times import times_for
from rebench.sweep import Expansion, SweepSpec, TimeModel, read_spec, with_settings

__all__ = ["Order", "Preview", "Submitted", "run_folder", "submit", "submit_sweep"]

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
    adopted: int
    waiting: int
    """Trials that no job was started for: as many live as there may be."""
    limit: str
    """Why there may be no more, for the user."""
    previews: tuple[Preview, ...] = ()


def run_folder(spec: Path, given: Path | None = None) -> Path:
    """Where the sweep of a spec runs unless told otherwise; a run is its own."""
    if given is None and (spec / "run.json").exists():
        return spec
    return given or spec.parent / "runs" / spec.stem


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
    path, chosen = Path(spec), Order(**order)
    folder = run_folder(path, None if run is None else Path(run))
    if path.is_dir():
        sweep, expansion, chosen = _as_before(folder, settings or {}, chosen)
    else:
        sweep = with_settings(read_spec(path), settings or {})
        expansion = expand_spec(sweep)
    return submit_sweep(folder, sweep, expansion, chosen, tell, confirm)


def submit_sweep(
    folder: Path,
    spec: SweepSpec,
    expansion: Expansion,
    order: Order,
    tell: Tell = unheard,
    confirm: Callable[[float], None] = lambda _: None,
) -> Submitted:
    """Send what is pending of a sweep that was read already; see `submit`."""
    if order.dry_run:
        return _rehearse(folder, spec, expansion, order, tell)
    place = look(order.cluster or "slurm", spec.slurm)
    mine = Journal(Run.create(folder).folder).begin(tell)
    try:
        run = Run.open(folder).settled(tell)
        _agree(run, spec, expansion, accept_change=order.accept_change, tell=tell)
        state = read_state(run, tell)
        adopted = adopt_jobs(run, state.jobs, tell)
        decision, _ = _plan(mine, run.job_prefix, spec, expansion, order, state, place)
        for note in decision.notes:
            tell(note)
        confirm(sum(decision.hours.values()))
        mine.write_intent(decision.intent)
        live = any(job.live and job.cluster == place.cluster for job in state.jobs)
        delivered = send(run.folder, mine, decision.intent, decision.turns, live=live)
    finally:
        mine.close()
    return _summary(run.folder, expansion, state, decision, delivered, adopted)


def _plan(
    mine: Submission,
    prefix: str,
    spec: SweepSpec,
    expansion: Expansion,
    order: Order,
    state: State,
    place: Place,
) -> tuple[Decision, TimeModel]:
    """What is decided, and the times that it follows from."""
    run = mine.folder.parents[1]
    times = times_for(spec, expansion.trials, run=run, past=order.past, cluster=place.cluster)
    decision = decide(
        spec,
        expansion.trials,
        order,
        state,
        place,
        times=times,
        prefix=f"{prefix}{mine.number}.",
        number=mine.number,
        now=time.time(),
    )
    if order.preflight and decision.groups:
        asked = decision.intent.options
        check_before_sending(decision.groups, asked, place.cluster, order.data_root)
    return decision, times


def _rehearse(
    folder: Path, spec: SweepSpec, expansion: Expansion, order: Order, tell: Tell
) -> Submitted:
    """What `submit` would do now; where SLURM does not answer, by the files alone."""
    run = Run.open(folder) if (folder / "run.json").exists() else None
    state = read_state(run, tell, by_files=True) if run else State()
    try:
        place = look(order.cluster or "slurm", spec.slurm)
    except ClusterError as error:
        tell(f"{error}. What it allows is not known here")
        place = Place(cluster=order.cluster or "slurm", largest=LARGEST_ARRAY)
    mine = Journal(folder.absolute()).next()
    prefix = run.job_prefix if run else "rebench-dry-run-"
    decision, times = _plan(mine, prefix, spec, expansion, order, state, place)
    intent = decision.intent
    for note in decision.notes:
        tell(note)
    previews, sent = [], set()
    for name, hours in decision.hours.items():
        numbers = [at for at, one in enumerate(intent.chunks) if one.type_name == name]
        jobs = [job for at in numbers for job in intent.chunks[at].jobs]
        ids = {trial_id for job in jobs for trial_id in trial_ids(job)}
        sent |= ids
        if numbers:
            shown = Preview(
                type_name=name,
                trials=len(ids & decision.pending),
                jobs=len(jobs),
                arrays=len(numbers),
                device_hours=hours,
                times_from=times.source,
                data_root=order.data_root,
                script=script(folder.absolute(), mine, intent, numbers[0], decision.turns),
            )
            previews.append(shown)
    summary = _summary(folder, expansion, state, decision, Delivered(trials=frozenset(sent)))
    return replace(summary, previews=tuple(previews))


def _summary(
    folder: Path,
    expansion: Expansion,
    state: State,
    decision: Decision,
    delivered: Delivered,
    adopted: int = 0,
) -> Submitted:
    ours = {one.trial_id for one in expansion.trials}
    sent = len(decision.pending & delivered.trials)
    grouped = {one.trial_id for group in decision.groups for one in group}
    return Submitted(
        run=folder,
        sent=sent,
        jobs=delivered.jobs,
        done=len(state.done.keys() & ours),
        held=Counter(job for trial_id, job in state.held.items() if trial_id not in state.done),
        failed=decision.failed,
        adopted=adopted,
        waiting=len(decision.pending & grouped) - sent,
        limit=delivered.refusal or _NO_ROOM,
    )


def _agree(
    run: Run, spec: SweepSpec, expansion: Expansion, *, accept_change: bool, tell: Tell
) -> None:
    """Store the sweep; a sweep that differs from the stored one must be meant to."""
    damaged: list[str] = []
    before, after = set(run.ids(damaged.append)), {one.trial_id for one in expansion.trials}
    for line in damaged:
        tell(line)
    # A list that is damaged may lack some.
    if before and before != after and not (damaged and before < after):
        change = (
            f"the sweep has changed since it was last submitted to {run.folder}:"
            f" {len(after - before)} trials are new, {len(before - after)} are no longer asked for"
        )
        if not accept_change:
            raise InputError(
                f"{change}. Give --accept-change to go on with the new sweep (records that exist"
                " are kept), or another --run"
            )
        tell(change)
    run.write_sweep(spec, expansion.trials)


def _as_before(
    folder: Path, settings: Mapping[str, Any], order: Order
) -> tuple[SweepSpec, Expansion, Order]:
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
            "a run is sent again with the trials that it has: keys of slurm alone can be set; to"
            " train something else, change the sweep's file and submit that"
        )
    trials = tuple(run.trials().values())
    if not trials:
        raise InputError(f"{folder}/trials.jsonl lists no trial: submit the sweep's file again")
    as_last = replace(
        order,
        cluster=order.cluster or last.cluster,
        data_root=order.data_root or last.data_root,
    )
    return sweep, Expansion(trials=trials, skipped=(), duplicates=0), as_last
