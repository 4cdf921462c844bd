"""Progress of a trial during training: its curves, and a report for every epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rebench.recipes import HyperParameters
from rebench.runs import Curve, Outcome, Trial

__all__ = ["Curves", "EpochReport", "Progress"]

# split -> (accuracies in percent, losses), one entry for each epoch
Curves = dict[str, tuple[list[float], list[float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """One finished epoch of one trial, for a display of progress."""

    trial: Trial
    epoch: int
    metrics: Mapping[str, tuple[float, float]]
    images_per_s: float
    stack: int
    seconds_left: float

    @property
    def line(self) -> str:
        """The report as one line of text."""
        shown = ""
        for split, (accuracy, loss) in self.metrics.items():
            shown += f"{split} {accuracy:.2f}% loss {loss:.4f}  "
        return (
            f"{self.trial.describe()}  epoch {self.epoch}/{self.trial.epochs}  {shown}"
            f"{self.images_per_s:.0f} images/s  {self.seconds_left:.0f} s left"
        )


@dataclass(slots=True, kw_only=True)
class Progress:
    """Curves, time and resumptions of one trial so far."""

    started: str
    curves: Curves = field(default_factory=dict)
    diverged_epoch: int | None = None
    seconds: float = 0.0
    images: int = 0
    resumed: int = 0

    def add(self, metrics: Mapping[str, tuple[float, float]], epoch: int) -> None:
        """Append a finished epoch (from 1); a training loss that is not finite means divergence."""
        for split, (accuracy, loss) in metrics.items():
            accuracies, losses = self.curves.setdefault(split, ([], []))
            accuracies.append(accuracy)
            losses.append(loss)
        if not math.isfinite(metrics["train"][1]):
            self.diverged_epoch = epoch

    def outcome(self, hyper: HyperParameters) -> Outcome:
        """Return the outcome for a record; a diverged trial includes the epoch of divergence."""
        curves = {}
        for split, (accuracies, losses) in self.curves.items():
            curves[split] = Curve(accuracy=_finite(accuracies), loss=_finite(losses))
        return Outcome(
            status="done" if self.diverged_epoch is None else "diverged",
            learning_rate=hyper.learning_rate,
            layer_multipliers=dict(hyper.layer_multipliers),
            curves=curves,
            diverged_epoch=self.diverged_epoch,
        )

    @property
    def images_per_s(self) -> float:
        """Training images per second; the time includes evaluations, the images do not."""
        return self.images / max(self.seconds, 1e-9)


def _finite(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
