"""The columns of a table, the one list: name, type, rule, place in a record, who holds it.

A benchmark's table, a run's ``results.parquet`` and a learning-rate surface of others are the same
long table, a row per cell, data set, split, number of epochs and seed; each holds some columns that
the others have no values for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from cells import SPACE_SIZE

__all__ = [
    "BENCHMARK_COLUMNS",
    "BENCHMARK_CURVES",
    "COLUMNS",
    "MEAN_SEED",
    "REQUIRED",
    "RULES",
    "RUN_COLUMNS",
    "RUN_CURVES",
    "SPLITS",
    "SURFACE_COLUMNS",
    "Column",
    "usual_split",
]

SPLITS: Final = ("train", "x-valid", "x-test", "ori-test")


def usual_split(held: Iterable[str]) -> str:
    """The split that is meant where none is named: the most of a test set that is held."""
    known = set(map(str, held))
    ours = [split for split in SPLITS if split in known]
    return ours[-1] if ours else min(known, default=SPLITS[-1])


# What no table is without, and no row may lack.
REQUIRED: Final = ("index", "dataset", "split", "epochs", "seed", "accuracy")

# The seed of a value that is known as a mean over seeds only.
MEAN_SEED: Final = -1

Holder: TypeAlias = Literal["every", "benchmark", "run", "run, surface", "surface"]

_WHOLE: Final = pa.int32()
_REAL: Final = pa.float64()
_TEXT: Final = pa.string()
_NAME: Final = pa.dictionary(pa.int32(), pa.string())  # a text that many rows share


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a long table, and the rule that its values keep wherever they come from.

    Attributes:
        name: what it is called.
        kind: its type.
        meaning: what it says, in a line of Markdown.
        place: where in a record it stands, by dots; None where it is made of several values.
        held_by: which tables have it; a surface is of others, with settings that vary.
        least: the smallest number that makes sense.
        most: the largest.
        names: the texts that are valid, if not every one is.
    """

    name: str
    kind: pa.DataType
    meaning: str
    place: str | None = None
    held_by: Holder = "run"
    least: float = 0
    most: float = 2**31 - 1
    names: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are whole."""
        return self.kind == _WHOLE

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers."""
        return self.kind in (_WHOLE, _REAL)

    @property
    def rule(self) -> str:
        """What a value must be, for messages."""
        if self.names:
            return f"one of {', '.join(self.names)}"
        if not self.is_number:
            return "a text without spaces round it"
        kind = "a whole number" if self.is_whole else "a number"
        if math.isinf(self.most):
            return f"{kind} of at least {self.least:g}"
        unit = " percent" if self.name == "accuracy" else ""
        return f"{kind} from {self.least:.10g} to {self.most:.10g}{unit}"


COLUMNS: Final = (
    Column(
        "index", _WHOLE, "the benchmark's number of the cell", held_by="every", most=SPACE_SIZE - 1
    ),
    Column("dataset", _NAME, "the data set it was trained on", "trial.dataset", "every"),
    Column("split", _NAME, "the images that the accuracy is of", held_by="every", names=SPLITS),
    Column(
        "epochs",
        _WHOLE,
        "how many epochs the training ran in all",
        "trial.epochs",
        "every",
        least=1,
    ),
    Column(
        "seed",
        _WHOLE,
        "the seed of the run; -1 for a mean whose seeds are not known",
        "trial.seed",
        "every",
        least=MEAN_SEED,
    ),
    Column("accuracy", _REAL, "top-1 after the last epoch, in percent", held_by="every", most=100),
    Column(
        "loss", _REAL, "mean cross-entropy after the last epoch", held_by="every", most=math.inf
    ),
    Column(
        "recipe",
        _NAME,
        "the recipe with its parameters, such as `topology(base_lr=0.3)`",
        held_by="run, surface",
    ),
    Column("trial_id", _TEXT, "the trial's hash: equal work has equal ids", "trial_id"),
    Column(
        "status",
        _NAME,
        "`done`, or `diverged` where the loss was not finite",
        "outcome.status",
        names=("done", "diverged"),
    ),
    Column(
        "diverged_epoch",
        _WHOLE,
        "the epoch, from 1, in which the loss was not finite; else empty",
        "outcome.diverged_epoch",
        least=1,
    ),
    Column(
        "learning_rate",
        _REAL,
        "the rate that the recipe chose, before the schedule",
        "outcome.learning_rate",
        held_by="run, surface",
    ),
    Column(
        "seconds",
        _REAL,
        "what all epochs took on this split, empty where it was not measured; in a run the "
        "trial's share of its stack, all of it on `train`",
        "cost.seconds",
        held_by="every",
    ),
    Column("epoch_seconds", _REAL, "what the last epoch took on this split", held_by="benchmark"),
    Column(
        "images_per_s",
        _REAL,
        "training images in a second, over all trials of the stack",
        "cost.images_per_s",
    ),
    Column("stack", _WHOLE, "how many trials shared the network", "cost.stack", least=1),
    Column(
        "params_m",
        _REAL,
        "parameters of the network, in millions",
        "cost.params_m",
        held_by="every",
    ),
    Column(
        "mflops",
        _REAL,
        "multiply-adds for one image, in millions, as the benchmark counts them",
        "cost.mflops",
        held_by="every",
    ),
    Column(
        "latency_s",
        _REAL,
        "the mean of the latencies that were measured, in seconds",
        held_by="benchmark",
    ),
    Column("arch", _NAME, "the cell's architecture string", "trial.cell", held_by="run, surface"),
    Column(
        "train_split",
        _NAME,
        "which images it was trained on: `full`, or a split that holds some back",
        "trial.split",
        held_by="run, surface",
    ),
    Column(
        "channels",
        _WHOLE,
        "width of the first stage",
        "trial.skeleton.channels",
        held_by="run, surface",
        least=1,
    ),
    Column(
        "cells_per_stage",
        _WHOLE,
        "cells in each of the three stages",
        "trial.skeleton.cells_per_stage",
        held_by="run, surface",
        least=1,
    ),
    Column(
        "network",
        _NAME,
        "whose network: `rebench`, or `xautodl` for the benchmark's own code",
        "trial.network",
    ),
    Column("batch_size", _WHOLE, "images in a batch", held_by="surface", least=1),
    Column("weight_decay", _REAL, "weight decay", held_by="surface"),
    Column("activation", _NAME, "the activation function", held_by="surface"),
    Column(
        "augmentation",
        _NAME,
        "`standard` flips and crops, or `trivial` for TrivialAugment",
        held_by="surface",
        names=("standard", "trivial"),
    ),
    Column("resolution", _REAL, "the factor on the side of the images", held_by="surface"),
    Column(
        "trained_as",
        _WHOLE,
        "the cell that was trained in the place of all that are one function",
        held_by="surface",
        most=SPACE_SIZE - 1,
    ),
    Column("device", _NAME, "the device it ran on", "provenance.device"),
    Column("host", _NAME, "the machine it ran on", "provenance.host"),
    Column("slurm_job", _NAME, "the number of the SLURM job", "provenance.slurm_job"),
    Column("spec_hash", _NAME, "hash of what the sweep asked for", "provenance.spec_hash"),
    Column("environment", _NAME, "versions of rebench, torch and CUDA, and the commit"),
    Column("started", _TEXT, "when the training began, in UTC", "provenance.started"),
    Column("ended", _TEXT, "when the training ended, in UTC", "provenance.ended"),
)

RULES: Final = {column.name: column for column in COLUMNS}


def _held(*tables: Holder) -> dict[str, pa.DataType]:
    return {each.name: each.kind for each in COLUMNS if each.held_by in ("every", *tables)}


BENCHMARK_COLUMNS: Final = _held("benchmark")
RUN_COLUMNS: Final = _held("run", "run, surface")
SURFACE_COLUMNS: Final = _held("surface", "run, surface")

# Per-epoch curves: the benchmark's lie a row a curve, sorted by cell; a run's a row an epoch.
BENCHMARK_CURVES: Final = {
    **{name: BENCHMARK_COLUMNS[name] for name in REQUIRED[:-1]},
    **dict.fromkeys(("accuracy", "loss", "seconds"), pa.list_(_REAL)),
}
RUN_CURVES: Final = {
    "trial_id": _NAME,
    "split": _NAME,
    "epoch": _WHOLE,
    "accuracy": _REAL,
    "loss": _REAL,
}
