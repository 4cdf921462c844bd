"""`train`: turns trials into records, in stacks, and resumes from checkpoints."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from rebench.data import TrainingData, load_data
from rebench.errors import InputError, Interrupted, TrainingError
from rebench.runs import Record, Trial
from rebench.train.checkpoint import Checkpoint, CheckpointStore
from rebench.train.device import Speed, numerics, prepare_device
from rebench.train.loop import Sources, StackRun
from rebench.train.record import EpochReport
from rebench.train.weights import begin_with

__all__ = ["Interrupted", "train"]

# The first checkpoint of an attempt is early, so that short attempts also make progress.
_FIRST_SAVE_S = 60.0
# Messages of PyTorch's allocator and of oneDNN when the CPU memory is exhausted.
_NO_MEMORY = ("not enough memory", "can't allocate memory", "could not create a ")
_log = logging.getLogger("rebench.train")


def train(
    trials: Sequence[Trial],
    data: TrainingData | None = None,
    device: str = "cpu",
    checkpoint_dir: Path | str | None = None,
    *,
    data_root: Path | str | None = None,
    stack: int = 1,
    speed: Speed | None = None,
    on_epoch: Callable[[EpochReport], None] = lambda _: None,
    on_record: Callable[[Record], object] | None = None,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_every_minutes: float = 10.0,
    on_network: Callable[[Record, Checkpoint], None] | None = None,
    start_from: Path | None = None,
) -> list[Record]:
    """Train trials and return their records, in the order of `trials`.

    Trials that differ only in recipe and seed can run as one stacked network. After an
    interruption, a call with the same `checkpoint_dir` resumes. The records are then the same as
    without the interruption, bit for bit on one machine.

    Args:
        trials: the trials; a repeated trial is an error.
        data: the images; by default they are read for each trial's data set and split.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        checkpoint_dir: folder for checkpoints of unfinished trials; None stores no checkpoints.
        data_root: folder of data sets, used without `data`.
        stack: largest number of trials in one stacked network.
        speed: switches for speed.
        on_epoch: called after every epoch of every trial that has not diverged before.
        on_record: called with every finished record; then the trial's checkpoints are removed,
            unless it returns False. Without this function, checkpoints are removed at the end.
        stop: called between steps; if it returns True, a checkpoint is written and `Interrupted`
            is raised.
        checkpoint_every_minutes: time between checkpoints, also within an epoch; the first
            checkpoint is written after at most one minute.
        on_network: called with every record and its final state, before `on_record`.
        start_from: folder of kept networks, for trials with a `start`.

    Raises:
        InputError: a trial is given twice, or `data` does not fit a trial.
        TrainingError: the device is not available, or its memory is too small.
        Interrupted: `stop` returned True before the end.
        MissingDataError: files of the images are missing.
    """
    if len({trial.trial_id for trial in trials}) != len(trials):
        raise InputError("trials must differ; a trial is given twice")
    if stack < 1:
        raise InputError(f"stack must be at least 1, got {stack}")
    speed = speed or Speed()
    session = _Session(
        data=data,
        data_root=data_root,
        device=prepare_device(device, speed),
        store=CheckpointStore(checkpoint_dir) if checkpoint_dir is not None else None,
        stack=stack,
        speed=speed,
        on_epoch=on_epoch,
        stop=stop,
        every_s=checkpoint_every_minutes * 60,
        on_network=on_network,
        start_from=start_from,
    )
    records: dict[str, Record] = {}
    with numerics(speed):
        for record in session.run(trials):
            records[record.trial_id] = record
            is_stored = on_record is not None and on_record(record) is not False
            if is_stored and session.store is not None:
                session.store.remove(record.trial_id)
    if on_record is None and session.store is not None:
        for trial_id in records:
            session.store.remove(trial_id)
    return [records[trial.trial_id] for trial in trials]


@dataclass(kw_only=True)
class _Session:
    """One call of `train`."""

    data: TrainingData | None
    data_root: Path | str | None
    device: torch.device
    store: CheckpointStore | None
    stack: int
    speed: Speed
    on_epoch: Callable[[EpochReport], None]
    stop: Callable[[], bool]
    every_s: float
    on_network: Callable[[Record, Checkpoint], None] | None
    start_from: Path | None
    _sources: Sources | None = None
    _save_at_s: float = 0.0

    def run(self, trials: Sequence[Trial]) -> Iterator[Record]:
        alike: dict[tuple[object, ...], list[Trial]] = {}
        for trial in trials:
            alike.setdefault(trial.stack_key, []).append(trial)
        for stackable in alike.values():
            sources = self._sources_for(stackable[0])
            for members, checkpoints in self._stacks(stackable, sources):
                try:
                    records = self._train_together(members, checkpoints, sources)
                except (MemoryError, RuntimeError) as error:
                    if not _out_of_memory(error):
                        raise
                    raise TrainingError(
                        f"{members[0].describe()}: out of memory on {self.device} with batches of"
                        f" {members[0].protocol.batch_size} and {len(members)} trials in its stack;"
                        " make the stack or the batches smaller"
                    ) from error
                yield from records

    def _sources_for(self, trial: Trial) -> Sources:
        wanted = (trial.dataset, trial.split)
        last = self.speed.has_channels_last(self.device, trial)
        held = self._sources
        data = held.data if held is not None else None
        if data is None or (data.spec.name, data.split) != wanted:
            data = self.data or load_data(trial.dataset, trial.split, root=self.data_root)
            if (data.spec.name, data.split) != wanted:
                raise InputError(
                    f"{trial.describe()} needs data of {'/'.join(wanted)}, "
                    f"got {data.spec.name}/{data.split}"
                )
            for note in data.notes:
                _log.warning("%s: %s", data.spec.name, note)
            held = None
        if held is None or held.channels_last != last:
            held = Sources(data, self.device, channels_last=last)
        self._sources = held
        return held

    def _stacks(
        self, trials: Sequence[Trial], sources: Sources
    ) -> Iterator[tuple[list[Trial], list[Checkpoint]]]:
        """Yield stacks: first interrupted stacks with their former trials, then new stacks."""
        fresh = {trial.trial_id: trial for trial in trials}
        if self.store is not None:
            for members, checkpoints in _resumable(fresh, self.store, sources.data.digest):
                _log.info("resuming %s trials at epoch %s", len(members), checkpoints[0].epoch)
                yield members, checkpoints
        waiting = list(fresh.values())
        for start in range(0, len(waiting), self.stack):
            members = waiting[start : start + self.stack]
            begun = members if members[0].start else []
            yield members, [begin_with(one, self.start_from, sources.data) for one in begun]

    def _train_together(
        self, trials: Sequence[Trial], checkpoints: Sequence[Checkpoint], sources: Sources
    ) -> list[Record]:
        run = StackRun(trials, sources, self.device, self.speed, checkpoints)
        self._save_at_s = time.monotonic() + min(self.every_s, _FIRST_SAVE_S)
        while not run.done:
            run.train_epoch(lambda: self.stop() or self._save_is_due())
            if run.epoch_is_over:
                for report in run.finish_epoch():
                    self.on_epoch(report)
            stopping = self.stop()
            # Within an epoch, the training pauses only for one of these reasons.
            if stopping or run.step or run.done or self._save_is_due():
                self._save(run)
            if stopping and not run.done:
                kept = "checkpointed" if self.store else "nothing was kept: no checkpoint_dir"
                raise Interrupted(
                    f"stopped on request in epoch {run.epoch + 1} of {trials[0].epochs}; {kept}"
                )
        records = run.records()
        if self.on_network is not None:
            for record, final in zip(records, run.checkpoints(), strict=True):
                self.on_network(record, final)
        return records

    def _save_is_due(self) -> bool:
        return self.store is not None and time.monotonic() >= self._save_at_s

    def _save(self, run: StackRun) -> None:
        if self.store is not None:
            for checkpoint in run.checkpoints():
                self.store.save(checkpoint)
        self._save_at_s = time.monotonic() + self.every_s


def _resumable(
    fresh: dict[str, Trial], store: CheckpointStore, data_digest: str
) -> Iterator[tuple[list[Trial], list[Checkpoint]]]:
    """Remove from `fresh` the trials that can resume, and yield them in their former stacks.

    A stack resumes from the newest checkpoint that all its remaining trials share. If a process
    died between the first files of a stack, no checkpoint is shared. The trials then start again
    together, because results of a smaller stack can differ in the last digit.
    """
    saved = {}
    for trial_id in fresh:
        found = store.load(trial_id, data_digest)
        if found:
            saved[trial_id] = {checkpoint.reached: checkpoint for checkpoint in found}
    for trial_id, own in saved.items():
        if trial_id not in fresh:
            continue  # already in the stack of another trial
        stack = own[max(own)].stack
        members = [member for member in stack if member in fresh]
        shared = set(own)
        for member in members:
            shared &= saved.get(member, {}).keys()
        if not shared:
            continue
        place = max(shared)
        trials = [fresh.pop(member) for member in members]
        yield trials, [saved[member][place] for member in members]


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or any(
        said in str(error) for said in _NO_MEMORY
    )
