"""Training loop of one stack: epochs, evaluation, checkpoints at any step, divergence.

Metrics stay on the device until the end of an epoch, so no step waits for the device. The
randomness of an epoch depends only on the trial's seed and the epoch. A run that resumes at any
step therefore computes the same bits.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from rebench.data import BatchSource, Images, TrainingData, data_spec
from rebench.recipes import HyperParameters, own_package
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
        def source(images: object) -> BatchSource:
            return BatchSource(images, data.spec, device=device, channels_last=channels_last)  # type: ignore[arg-type]

        self.data, self.channels_last = data, channels_last
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
        self._steps = self._stack.steps
        self._progress = [Progress(started=now()) for _ in trials]
        self._packages = [own_package(trial.recipe.name) for trial in trials]
        for package in self._packages:
            code_origin(package)  # now, because the files can change during the training
        if checkpoints:
            self._restore(checkpoints)

    @property
    def done(self) -> bool:
        """Whether all trials have finished or diverged."""
        return self.epoch >= self.trials[0].epochs or all(
            progress.diverged_epoch is not None for progress in self._progress
        )

    def train_epoch(self, pause: Callable[[], bool]) -> None:
        """Train to the end of the epoch, or until `pause` returns True between two steps."""
        stack, protocol = self._stack, self._stack.protocol
        if not self.step:
            stack.measure(self._sources.train, self.epoch)
        first, epochs = self.trials[0].first_epoch, self.trials[0].epochs
        stack.set_rates(rate_factor(protocol, epochs - first, self.epoch - first))
        seeds = [trial.seed for trial in self.trials]
        began = time.perf_counter()
        first_step = self.step
        batches = self._sources.train.epoch(
            seeds, self.epoch, protocol.batch_size, augment=protocol.augment, first_step=first_step
        )
        for images, labels in batches:
            self._steps.train(images, labels)
            self.step += 1
            if pause():
                break
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        seconds = time.perf_counter() - began
        seen = min(self.step * protocol.batch_size, len(self._sources.train))
        for progress in self._progress:
            progress.seconds += seconds / len(stack)
            progress.images += seen - first_step * protocol.batch_size

    @property
    def epoch_is_over(self) -> bool:
        """Whether all batches of the epoch are done."""
        size = self._stack.protocol.batch_size
        return self.step * size >= len(self._sources.train)

    def finish_epoch(self) -> list[EpochReport]:
        """Evaluate, extend the curves, and return reports of the trials that have not diverged."""
        began = time.perf_counter()
        n = len(self._sources.train)
        metrics = [
            {"train": (100 * correct / n, loss / n)}
            for correct, loss in zip(
                self._steps.correct.tolist(), self._steps.loss.tolist(), strict=True
            )
        ]
        for split, source in self._sources.evaluation.items():
            batches = source.plain(self._speed.eval_batch_size)
            for own, result in zip(metrics, self._steps.evaluate(batches), strict=True):
                own[split] = result
        self._steps.clear()
        self.epoch, self.step = self.epoch + 1, 0
        share = (time.perf_counter() - began) / len(self.trials)
        racing = [copy for copy, own in enumerate(self._progress) if own.diverged_epoch is None]
        for copy in racing:
            self._progress[copy].add(metrics[copy], self.epoch)
        for progress in self._progress:
            progress.seconds += share
        return [self._report(copy, metrics[copy]) for copy in racing]

    def checkpoints(self) -> list[Checkpoint]:
        """Return checkpoints of every trial, from which the run can resume at this step."""
        states, momenta = self._stack.states(), self._stack.momenta()
        loss, correct = self._steps.loss.tolist(), self._steps.correct.tolist()
        return [
            Checkpoint(
                trial_id=trial.trial_id,
                data_digest=self._sources.data.digest,
                stack=[member.trial_id for member in self.trials],
                epoch=self.epoch,
                step=self.step,
                net=states[copy],
                momentum=momenta[copy],
                partial_loss=loss[copy],
                partial_correct=correct[copy],
                progress=self._progress[copy],
                initial=initial,
                current=current,
            )
            for copy, (trial, initial, current) in enumerate(
                zip(self.trials, self._stack.initial, self._stack.current, strict=True)
            )
        ]

    def records(self) -> list[Record]:
        """Return the records of the trials."""
        own = zip(self.trials, self._progress, self._stack.initial, self._packages, strict=True)
        return [self._record(*one) for one in own]

    def _record(
        self, trial: Trial, progress: Progress, hyper: HyperParameters, package: str
    ) -> Record:
        data, skeleton = self._sources.data, trial.skeleton
        size = (skeleton.channels, skeleton.cells_per_stage)
        mflops, _ = space_of(trial.space).work(trial.index, data.spec, size)
        return Record(
            trial_id=trial.trial_id,
            trial=trial,
            outcome=progress.outcome(hyper),
            cost=Cost(
                seconds=round(progress.seconds, 3),
                images_per_s=round(progress.images_per_s, 1),
                stack=len(self.trials),
                params_m=self._stack.params / 1e6,
                mflops=mflops,
                peak_memory_mib=peak_memory_mib(self._device),
                resumed=progress.resumed,
            ),
            provenance=collect_provenance(
                torch=torch.__version__,
                cuda=torch.version.cuda,
                device=device_name(self._device),
                started=progress.started,
                package=package,
                data_digest=data.digest,
                switches=self._speed.switches(self._device, trial),
            ),
        )

    def _report(self, copy: int, metrics: Mapping[str, tuple[float, float]]) -> EpochReport:
        progress, trial = self._progress[copy], self.trials[copy]
        stack, left = len(self.trials), trial.epochs - self.epoch
        return EpochReport(
            trial=trial,
            epoch=self.epoch,
            metrics=metrics,
            images_per_s=progress.images_per_s,
            stack=stack,
            seconds_left=progress.seconds * stack * left / (self.epoch - trial.first_epoch),
        )

    def _restore(self, checkpoints: Sequence[Checkpoint]) -> None:
        self.epoch, self.step = checkpoints[0].reached
        self._stack.load(checkpoints)
        for copy, saved in enumerate(checkpoints):
            self._progress[copy] = dataclasses.replace(
                saved.progress, resumed=saved.progress.resumed + 1
            )
            self._steps.loss[copy] = saved.partial_loss
            self._steps.correct[copy] = saved.partial_correct


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
