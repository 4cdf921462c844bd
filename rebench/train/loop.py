"""Training loop of one stack: epochs, evaluation, checkpoints at any step, divergence.

Metrics stay on the device until the end of an epoch, so no step waits for the device. The
randomness of an epoch depends only on the trial's seed and the epoch. A run that resumes at any
step therefore computes the same bits.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rebench.data import BatchSource, Images, TrainingData, data_spec
from rebench.recipes import own_package
from rebench.runs import Cost, Protocol, RecipeSpec, Record, Trial, collect_provenance, now
from rebench.runs.record import code_origin
from rebench.spaces import space_of
from rebench.train.checkpoint import Checkpoint
from rebench.train.device import Speed, device_name, peak_memory_mib, reset_peak_memory
from rebench.train.record import EpochReport, Progress
from rebench.train.stack import Stack

__all__ = ["Sources", "StackRun", "rate_factor", "step_seconds"]

# Number of timed steps, of which the fastest counts. The first also allocates memory.
_TIMED_STEPS = 3


class Sources:
    """One data set on one device: the images for training and for every evaluation split."""

    def __init__(self, data: TrainingData, device: torch.device, *, channels_last: bool) -> None:
        def source(images: Any) -> BatchSource:
            return BatchSource(images, data.spec, device=device, channels_last=channels_last)

        self.data = data
        self.channels_last = channels_last
        self.train = source(data.train)
        self.evaluation = {name: source(images) for name, images in data.evaluation.items()}


class StackRun:
    """Training of trials of one cell in one stack, from the first epoch or from checkpoints."""

    def __init__(
        self,
        trials: Sequence[Trial],
        sources: Sources,
        device: torch.device,
        speed: Speed,
        checkpoints: Sequence[Checkpoint] = (),
    ) -> None:
        self.trials = tuple(trials)
        self.epoch = 0  # number of finished epochs
        self.step = 0  # number of finished steps in the current epoch
        reset_peak_memory(device)
        self._sources = sources
        self._device = device
        self._speed = speed
        self._stack = Stack(trials, sources.data.spec, device, speed)
        self._progress = [Progress(started=now()) for _ in trials]
        for trial in trials:
            # Now, because the files of the package can change during the training.
            code_origin(own_package(trial.recipe.name))
        if checkpoints:
            self.epoch, self.step = checkpoints[0].reached
            self._stack.load(checkpoints)
            for copy, saved in enumerate(checkpoints):
                resumed = saved.progress.resumed + 1
                self._progress[copy] = dataclasses.replace(saved.progress, resumed=resumed)

    @property
    def done(self) -> bool:
        """Whether all trials have finished or diverged."""
        if self.epoch >= self.trials[0].epochs:
            return True
        return all(progress.diverged_epoch is not None for progress in self._progress)

    def train_epoch(self, pause: Callable[[], bool]) -> None:
        """Train to the end of the epoch, or until `pause` returns True between two steps."""
        stack = self._stack
        protocol = stack.protocol
        source = self._sources.train
        if not self.step:
            stack.measure(source, self.epoch)
        first = self.trials[0].first_epoch
        epochs = self.trials[0].epochs - first
        stack.set_rates(rate_factor(protocol, epochs, self.epoch - first))
        began = time.perf_counter()
        seen_before = self.step * protocol.batch_size
        batches = source.epoch(
            [trial.seed for trial in self.trials],
            self.epoch,
            protocol.batch_size,
            augment=protocol.augment,
            first_step=self.step,
        )
        for images, labels in batches:
            stack.train(images, labels)
            self.step += 1
            if pause():
                break
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        seconds = time.perf_counter() - began
        seen = min(self.step * protocol.batch_size, len(source))
        for progress in self._progress:
            progress.seconds += seconds / len(stack)
            progress.images += seen - seen_before

    @property
    def epoch_is_over(self) -> bool:
        """Whether all batches of the epoch are done."""
        size = self._stack.protocol.batch_size
        return self.step * size >= len(self._sources.train)

    def finish_epoch(self) -> list[EpochReport]:
        """Evaluate, extend the curves, and return reports of the trials that have not diverged."""
        began = time.perf_counter()
        stack = self._stack
        n = len(self._sources.train)
        losses = stack.loss.tolist()
        correct = stack.correct.tolist()
        evaluated = {}
        for split, source in self._sources.evaluation.items():
            evaluated[split] = stack.evaluate(source.plain(self._speed.eval_batch_size))
        stack.clear()
        self.epoch += 1
        self.step = 0
        seconds = time.perf_counter() - began
        reports = []
        for copy, (trial, progress) in enumerate(zip(self.trials, self._progress, strict=True)):
            progress.seconds += seconds / len(stack)
            if progress.diverged_epoch is not None:
                continue
            metrics = {"train": (100 * correct[copy] / n, losses[copy] / n)}
            for split, results in evaluated.items():
                metrics[split] = results[copy]
            progress.add(metrics, self.epoch)
            epoch_s = progress.seconds * len(stack) / (self.epoch - trial.first_epoch)
            report = EpochReport(
                trial=trial,
                epoch=self.epoch,
                metrics=metrics,
                images_per_s=progress.images_per_s,
                stack=len(stack),
                seconds_left=epoch_s * (trial.epochs - self.epoch),
            )
            reports.append(report)
        return reports

    def checkpoints(self) -> list[Checkpoint]:
        """Return checkpoints of every trial, from which the run can resume at this step."""
        stack = self._stack
        states = stack.states()
        momenta = stack.momenta()
        losses = stack.loss.tolist()
        correct = stack.correct.tolist()
        ids = [trial.trial_id for trial in self.trials]
        checkpoints = []
        for copy, trial_id in enumerate(ids):
            checkpoint = Checkpoint(
                trial_id=trial_id,
                data_digest=self._sources.data.digest,
                stack=ids,
                epoch=self.epoch,
                step=self.step,
                net=states[copy],
                momentum=momenta[copy],
                partial_loss=losses[copy],
                partial_correct=correct[copy],
                progress=self._progress[copy],
                initial=stack.initial[copy],
                current=stack.current[copy],
            )
            checkpoints.append(checkpoint)
        return checkpoints

    def records(self) -> list[Record]:
        """Return the records of the trials."""
        data = self._sources.data
        records = []
        for copy, (trial, progress) in enumerate(zip(self.trials, self._progress, strict=True)):
            skeleton = trial.skeleton
            size = (skeleton.channels, skeleton.cells_per_stage)
            mflops, _ = space_of(trial.space).work(trial.index, data.spec, size)
            cost = Cost(
                seconds=round(progress.seconds, 3),
                images_per_s=round(progress.images_per_s, 1),
                stack=len(self.trials),
                params_m=self._stack.params / 1e6,
                mflops=mflops,
                peak_memory_mib=peak_memory_mib(self._device),
                resumed=progress.resumed,
            )
            provenance = collect_provenance(
                torch=torch.__version__,
                cuda=torch.version.cuda,
                device=device_name(self._device),
                started=progress.started,
                package=own_package(trial.recipe.name),
                data_digest=data.digest,
                switches=self._speed.switches(self._device, trial),
            )
            record = Record(
                trial_id=trial.trial_id,
                trial=trial,
                outcome=progress.outcome(self._stack.initial[copy]),
                cost=cost,
                provenance=provenance,
            )
            records.append(record)
        return records


def rate_factor(protocol: Protocol, epochs: int, epoch: int) -> float:
    """Return the factor on the learning rate in `epoch`, counted from 0.

    A cosine falls from 1 in the first epoch and would reach 0 in the epoch after the last. A
    warm-up of w epochs rises in equal steps from 1/(w+1) to w/(w+1); the schedule covers the rest.
    """
    warm_up = protocol.warmup_epochs
    if epoch < warm_up:
        return (epoch + 1) / (warm_up + 1)
    if protocol.schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (epoch - warm_up) / (epochs - warm_up))) / 2


def step_seconds(trial: Trial, copies: int) -> float:
    """Return the seconds of a training step of a stack of copies of this trial, on the CPU.

    The images are random, and the recipe is that of the benchmark. The time is CPU time per thread,
    on which other processes of the machine have little influence.
    """
    plain = {"recipe": RecipeSpec(name="nb201"), "network": "rebench", "start": None}
    trial = trial.model_copy(update=plain)
    spec, device, speed = data_spec(trial.dataset), torch.device("cpu"), Speed()
    count = _TIMED_STEPS * min(trial.protocol.batch_size, spec.train_images)
    draw = torch.Generator()
    shape = (count, 3, spec.size, spec.size)
    pixels = torch.randint(256, shape, dtype=torch.uint8, generator=draw)
    labels = torch.randint(spec.classes, (count,), generator=draw)
    images = Images(pixels, labels)
    data = TrainingData(spec=spec, split=trial.split, train=images, evaluation={}, digest="")
    sources = Sources(data, device, channels_last=speed.has_channels_last(device, trial))
    run = StackRun([trial] * copies, sources, device, speed)
    taken = []
    for _ in range(_TIMED_STEPS):
        began = time.process_time()
        run.train_epoch(lambda: True)
        taken.append(time.process_time() - began)
    return min(taken) / torch.get_num_threads()
