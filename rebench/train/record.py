"""What a trial leaves: its curves while it trains, its record when it is done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from rebench.data import DataSpec
from rebench.recipes import HyperParameters
from rebench.runs import Cost, Curve, Outcome, Record, Trial, collect_provenance
from rebench.train.device import device_name, peak_memory_mib

__all__ = ["Curves", "EpochReport", "Progress", "build_record"]

# split -> (accuracies in percent, losses), one entry an epoch
Curves = dict[str, tuple[list[float], list[float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """One finished epoch of one trial, for whoever shows progress."""

    trial: Trial
    epoch: int
    metrics: Mapping[str, tuple[float, float]]
    images_per_s: float
    stack: int
    seconds_left: float

    @property
    def line(self) -> str:
        """The report as one line of text."""
        shown = "  ".join(
            f"{split} {accuracy:.2f}% loss {loss:.4f}"
            for split, (accuracy, loss) in self.metrics.items()
        )
        return (
            f"{self.trial.describe()}  epoch {self.epoch}/{self.trial.epochs}  {shown}  "
            f"{self.images_per_s:.0f} images/s  {self.seconds_left:.0f} s left"
        )


@dataclass(slots=True, kw_only=True)
class Progress:
    """What one trial has to show so far."""

    started: str
    curves: Curves = field(default_factory=dict)
    diverged_epoch: int | None = None
    seconds: float = 0.0
    images: int = 0
    resumed: int = 0

    def add(self, metrics: Mapping[str, tuple[float, float]], epoch: int) -> None:
        """Append a finished epoch (from 1); its training loss tells whether it diverged."""
        for split, (accuracy, loss) in metrics.items():
            accuracies, losses = self.curves.setdefault(split, ([], []))
            accuracies.append(accuracy)
            losses.append(loss)
        if not math.isfinite(metrics["train"][1]):
            self.diverged_epoch = epoch


def build_record(
    trial: Trial,
    progress: Progress,
    hyper: HyperParameters,
    *,
    spec: DataSpec,
    stack: int,
    params: int,
    device: torch.device,
    data_digest: str,
) -> Record:
    """Return the record of a finished trial; a diverged one says in which epoch."""
    model = spec.cost_model(trial.skeleton.channels, trial.skeleton.cells_per_stage)
    return Record(
        trial_id=trial.trial_id,
        trial=trial,
        outcome=Outcome(
            status="done" if progress.diverged_epoch is None else "diverged",
            learning_rate=hyper.learning_rate,
            layer_multipliers=dict(hyper.layer_multipliers),
            curves={
                split: Curve(accuracy=_finite(accuracies), loss=_finite(losses))
                for split, (accuracies, losses) in progress.curves.items()
            },
            diverged_epoch=progress.diverged_epoch,
        ),
        cost=Cost(
            seconds=round(progress.seconds, 3),
            images_per_s=round(progress.images / max(progress.seconds, 1e-9), 1),
            stack=stack,
            params_m=params / 1e6,
            mflops=model.of(trial.cell).mflops,
            peak_memory_mib=peak_memory_mib(device),
            resumed=progress.resumed,
        ),
        provenance=collect_provenance(
            torch=torch.__version__,
            cuda=torch.version.cuda,
            device=device_name(device),
            started=progress.started,
            data_digest=data_digest,
        ),
    )


def _finite(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
