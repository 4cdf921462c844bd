"""The training loop of one stack: epochs, evaluation, checkpoints at any step, divergence.

Metrics stay on the device until an epoch ends; nothing in a step waits for the device. What is
random in an epoch depends on the trial's seed and the epoch alone, so a run that is taken up at
any step goes on with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from rebench.data import BatchSource, TrainingData
from rebench.errors import TrainingError
from rebench.recipes import HyperParameters
from rebench.store import Record, now
from rebench.sweep import Trial
from rebench.train.checkpoint import Checkpoint
from rebench.train.copies import Copies
from rebench.train.protocol import rate_factor
from rebench.train.record import EpochReport, Progress, build_record
from rebench.train.speed import Speed, graphed

__all__ = ["Interrupted", "Sources", "StackRun"]


class Interrupted(TrainingError):  # noqa: N818 - a request, not a failure
    """Training stopped on request; the checkpoints hold everything up to here."""


class Sources:
    """One data set on one device: the training images and those of every evaluation split."""

    def __init__(self, data: TrainingData, device: torch.device, *, channels_last: bool) -> None:
        def source(images: object) -> BatchSource:
            return BatchSource(images, data.spec, device=device, channels_last=channels_last)  # type: ignore[arg-type]

        self.data = data
        self.train = source(data.train)
        self.evaluation = {name: source(images) for name, images in data.evaluation.items()}


class StackRun:
    """Trials of one cell, trained side by side from the first epoch, or from checkpoints."""

    def __init__(
        self,
        trials: Sequence[Trial],
        sources: Sources,
        device: torch.device,
        speed: Speed,
        checkpoints: Sequence[Checkpoint] = (),
    ) -> None:
        self.trials = tuple(trials)
        self.epoch = 0  # finished ones
        self.step = 0  # of the epoch that is under way
        self._sources = sources
        self._device = device
        self._speed = speed
        self._copies = Copies(trials, sources.data.spec, device, speed)
        self._progress = [Progress(started=now()) for _ in trials]
        self._loss = torch.zeros(len(trials), dtype=torch.float64, device=device)
        self._correct = torch.zeros(len(trials), dtype=torch.int64, device=device)
        self._step_function: Callable[[torch.Tensor, torch.Tensor], None] | None = None
        if checkpoints:
            self._restore(checkpoints)

    @property
    def done(self) -> bool:
        """Whether nothing is left to train."""
        return self.epoch >= self.trials[0].epochs or all(
            progress.diverged_epoch is not None for progress in self._progress
        )

    def train_epoch(self, stop: Callable[[], bool], pause: Callable[[], bool]) -> None:
        """Train to the end of the epoch, or until `stop` or `pause` asks between two steps."""
        copies, protocol = self._copies, self._copies.protocol
        if not self.step:
            copies.measure(self._sources.train, self.epoch)
        copies.set_rates(rate_factor(protocol, self.trials[0].epochs, self.epoch))
        seeds = [trial.seed for trial in self.trials]
        began = time.perf_counter()
        first_step = self.step
        batches = self._sources.train.epoch(
            seeds, self.epoch, protocol.batch_size, augment=protocol.augment, first_step=first_step
        )
        for images, labels in batches:
            self._step_on(images, labels)
            self.step += 1
            if stop() or pause():
                break
        self._synchronise()
        seconds = time.perf_counter() - began
        seen = min(self.step * protocol.batch_size, len(self._sources.train))
        for progress in self._progress:
            progress.seconds += seconds / len(copies)
            progress.images += seen - first_step * protocol.batch_size

    @property
    def epoch_is_over(self) -> bool:
        """Whether every batch of the epoch was used."""
        size = self._copies.protocol.batch_size
        return self.step * size >= len(self._sources.train)

    def finish_epoch(self) -> list[EpochReport]:
        """Evaluate, append to the curves, and report the trials that are still in the race."""
        began = time.perf_counter()
        n = len(self._sources.train)
        metrics = [
            {"train": (100 * correct / n, loss / n)}
            for correct, loss in zip(self._correct.tolist(), self._loss.tolist(), strict=True)
        ]
        for split, source in self._sources.evaluation.items():
            for own, result in zip(metrics, self._evaluate(source), strict=True):
                own[split] = result
        self._loss.zero_()
        self._correct.zero_()
        self.epoch, self.step = self.epoch + 1, 0
        share = (time.perf_counter() - began) / len(self.trials)
        racing = [place for place, own in enumerate(self._progress) if own.diverged_epoch is None]
        for place in racing:
            self._progress[place].add(metrics[place], self.epoch)
        for progress in self._progress:
            progress.seconds += share
        return [self._report(place, metrics[place]) for place in racing]

    def checkpoints(self, data_digest: str) -> list[Checkpoint]:
        """Return the state of every trial, from which the run can be taken up at this step."""
        states, momenta = self._copies.states(), self._copies.momenta()
        loss, correct = self._loss.tolist(), self._correct.tolist()
        return [
            Checkpoint(
                trial_id=trial.trial_id,
                data_digest=data_digest,
                stack=[member.trial_id for member in self.trials],
                epoch=self.epoch,
                step=self.step,
                net=states[place],
                momentum=momenta[place],
                curves=self._progress[place].curves,
                partial_loss=loss[place],
                partial_correct=correct[place],
                learning_rate=self._copies.initial[place].learning_rate,
                layer_multipliers=dict(self._copies.initial[place].layer_multipliers),
                epoch_rate=self._copies.current[place].learning_rate,
                epoch_multipliers=dict(self._copies.current[place].layer_multipliers),
                diverged_epoch=self._progress[place].diverged_epoch,
                seconds=self._progress[place].seconds,
                images=self._progress[place].images,
                resumed=self._progress[place].resumed,
                started=self._progress[place].started,
            )
            for place, trial in enumerate(self.trials)
        ]

    def records(self, spec_hash: str | None = None) -> list[Record]:
        """Return the trials' records."""
        return [
            build_record(
                trial,
                progress,
                hyper,
                spec=self._sources.data.spec,
                stack=len(self.trials),
                params=self._copies.params,
                device=self._device,
                data_digest=self._sources.data.digest,
                spec_hash=spec_hash,
            )
            for trial, progress, hyper in zip(
                self.trials, self._progress, self._copies.initial, strict=True
            )
        ]

    def _step_on(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        if self._speed.cuda_graphs and labels.shape[1] == self._copies.protocol.batch_size:
            if self._step_function is None:
                self._step_function = self._capture(images, labels)
            self._step_function(images, labels)
        else:
            self._train_step(images, labels)

    def _train_step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        logits = self._copies.logits(images)
        losses = F.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            reduction="none",
            label_smoothing=self._copies.protocol.label_smoothing,
        ).view(labels.shape)
        losses.mean(1).sum().backward()  # type: ignore[no-untyped-call]  # torch
        self._copies.sgd.step()
        with torch.no_grad():
            self._loss += losses.sum(1)
            self._correct += (logits.argmax(2) == labels).sum(1)

    def _capture(
        self, images: torch.Tensor, labels: torch.Tensor
    ) -> Callable[[torch.Tensor, torch.Tensor], None]:
        """Capture a step as a CUDA graph, undoing what the captured rehearsals changed."""
        states, momenta = self._copies.states(), self._copies.momenta()
        loss, correct = self._loss.clone(), self._correct.clone()
        replay = graphed(self._train_step, images, labels)
        self._copies.load(states, momenta, self._copies.current)
        self._loss.copy_(loss)
        self._correct.copy_(correct)
        return replay

    @torch.no_grad()
    def _evaluate(self, source: BatchSource) -> list[tuple[float, float]]:
        """Return every copy's top-1 accuracy over all classes, in percent, and its mean loss."""
        copies = self._copies
        correct, loss = torch.zeros_like(self._correct), torch.zeros_like(self._loss)
        copies.net.eval()
        for images, labels in source.plain(self._speed.eval_batch_size):
            logits = copies.logits(images)
            both = labels.expand(len(copies), -1)
            losses = F.cross_entropy(logits.flatten(0, 1), both.flatten(), reduction="none")
            loss += losses.view(both.shape).sum(1)
            correct += (logits.argmax(2) == both).sum(1)
        copies.net.train()
        n = len(source)
        return [
            (100 * right / n, total / n)
            for right, total in zip(correct.tolist(), loss.tolist(), strict=True)
        ]

    def _report(self, place: int, metrics: Mapping[str, tuple[float, float]]) -> EpochReport:
        progress, trial = self._progress[place], self.trials[place]
        stack = len(self.trials)
        return EpochReport(
            trial=trial,
            epoch=self.epoch,
            metrics=metrics,
            images_per_s=progress.images / max(progress.seconds, 1e-9),
            stack=stack,
            seconds_left=progress.seconds * stack * (trial.epochs / self.epoch - 1),
        )

    def _restore(self, checkpoints: Sequence[Checkpoint]) -> None:
        self.epoch, self.step = checkpoints[0].place
        self._copies.load(
            [saved.net for saved in checkpoints],
            [saved.momentum for saved in checkpoints],
            [
                HyperParameters(
                    learning_rate=saved.epoch_rate, layer_multipliers=saved.epoch_multipliers
                )
                for saved in checkpoints
            ],
        )
        for place, saved in enumerate(checkpoints):
            self._copies.initial[place] = HyperParameters(
                learning_rate=saved.learning_rate, layer_multipliers=saved.layer_multipliers
            )
            self._progress[place] = Progress(
                started=saved.started,
                curves={split: (list(a), list(b)) for split, (a, b) in saved.curves.items()},
                diverged_epoch=saved.diverged_epoch,
                seconds=saved.seconds,
                images=saved.images,
                resumed=saved.resumed + 1,
            )
            self._loss[place] = saved.partial_loss
            self._correct[place] = saved.partial_correct

    def _synchronise(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
