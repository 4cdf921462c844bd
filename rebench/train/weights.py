"""Trained networks on disk: ``weights/<cell>/<trial id>.safetensors``, a file a trial.

Each holds the trial's record, so that it can be moved, and a checksum of that and of the tensors.
One whose name, tensors or checksum say something else is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from cells import Cell
from rebench.arguments import checked
from rebench.data import BatchSource, TrainingData, data_spec, load_data
from rebench.errors import InputError, MissingDataError, StoreError, TrainingError, UnknownNameError
from rebench.nets import LayeredNet
from rebench.recipes import HyperParameters, make_recipe
from rebench.runs import (
    FinishedTrials,
    Outcome,
    RecipeSpec,
    Record,
    TrainOptions,
    Trial,
    now,
    rule_of,
    write_atomically,
)
from rebench.runs.files import status_of
from rebench.train.checkpoint import Checkpoint
from rebench.train.device import Speed
from rebench.train.record import Progress
from rebench.train.stack import build_net, initial_net, lay_out

__all__ = ["KeptNetwork", "begin_with", "copy_networks", "kept_networks", "network", "save_network"]

_FOLDER: Final = "weights"
_SUFFIX: Final = ".safetensors"
# What a momentum's name begins with, before that of its parameter.
_MOMENTUM: Final = "momentum."


@dataclass(frozen=True, slots=True)
class KeptNetwork:
    """A network on disk, as its file describes it; no weight is read yet."""

    path: Path
    record: Record
    """Of its training."""
    _told: dict[str, str]

    @classmethod
    def open(cls, path: Path) -> KeptNetwork:
        """Read what a file says of itself; raise StoreError if it is damaged, or no such file."""
        with _opened(path) as file:
            told = file.metadata() or {}
        try:
            record = Record.model_validate_json(told["record"])
        except (KeyError, ValueError) as error:
            raise StoreError(f"{path} is foreign or damaged: no record says what it is") from error
        if record.trial_id != path.stem:
            raise StoreError(f"{path} has another's name: it holds trial {record.trial_id}")
        return cls(path, record, told)

    @property
    def trial(self) -> Trial:
        """What was trained."""
        return self.record.trial

    def load(self) -> LayeredNet:
        """The network in evaluation mode, its weights in float32."""
        net = build_net(self.trial, data_spec(self.trial.dataset).classes)
        tensors = self.read()
        net.load_state_dict({name: tensors[name] for name in net.state_dict()})
        lay_out(net)
        return net.eval()

    def evaluate(
        self,
        change: Callable[[torch.Tensor], torch.Tensor] = lambda images: images,
        split: str = "ori-test",
    ) -> float:
        """Its accuracy in percent on a split of its data set, the images changed before or not.

        Args:
            change: is given the normalised images, [n, 3, height, width].
            split: among those that the trial was evaluated on.
        """
        data = load_data(self.trial.dataset, self.trial.split)
        if split not in data.evaluation:
            raise UnknownNameError("split", split, data.evaluation)
        source = BatchSource(data.evaluation[split], data.spec, device="cpu", channels_last=True)
        net, right = self.load(), 0
        with torch.no_grad():
            for images, labels in source.plain(Speed().eval_batch_size):
                right += int((net(change(images)).argmax(1) == labels).sum())
        return 100 * right / len(source)

    def read(self) -> dict[str, torch.Tensor]:
        """Its state dict, and every ``momentum.PARAMETER`` if that was kept; all is checked."""
        with torch.device("meta"):
            net = build_net(self.trial, data_spec(self.trial.dataset).classes)
        weights = {name: list(value.shape) for name, value in net.state_dict().items()}
        momenta = {_MOMENTUM + name: list(value.shape) for name, value in net.named_parameters()}
        with _opened(self.path) as file:
            # Before anything is read: what is no larger than the network is no trap.
            held = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 - no mapping
            if held not in (weights, weights | momenta):
                raise StoreError(f"{self.path} does not hold the tensors of {self.describe()}")
            tensors = {name: file.get_tensor(name) for name in held}
        if self._told.get("sha256") != _checksum(self._told["record"], tensors):
            raise StoreError(f"{self.path} is damaged: its checksum is wrong")
        return tensors

    def describe(self) -> str:
        """One line that tells this network from its neighbours."""
        start = self.trial.start
        begun = f" from {start.what} of {start.epochs}" if start else ""
        return f"{self.trial.describe()} after {self.trial.epochs} epochs{begun}"


def save_network(folder: Path, options: TrainOptions, record: Record, final: Checkpoint) -> None:
    """Write the network of a finished trial, whole or not at all; of one that diverged none."""
    if options.keep == "nothing" or record.outcome.status == "diverged":
        return
    tensors = dict(final.net)
    if options.keep == "state":
        tensors |= {_MOMENTUM + name: value for name, value in final.momentum.items()}
    if options.half:
        tensors = {name: _half(value) for name, value in tensors.items()}
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    about = record.model_dump_json(by_alias=True)
    told = {"record": about, "sha256": _checksum(about, tensors)}
    write_atomically(_place(folder, record.trial), save(tensors, told))


def kept_networks(
    run: str | Path, cell: Cell | int | str | None = None, **fields: Any
) -> list[KeptNetwork]:
    """The networks that a run has kept, of one cell or of all.

    Args:
        run: a run's folder, or another that networks were kept in; perhaps followed by ``@RECIPE``.
        cell: its index, architecture string or code; None for all.
        fields: what their trials must have, such as ``recipe="topology"`` or ``seed=777``.
    """
    fields = {name: value for name, value in fields.items() if value is not None or name == "start"}
    if not Path(run).exists() and "@" in str(run):
        run, _, fields["recipe"] = str(run).rpartition("@")
    folder = Path(run) / _FOLDER
    if not folder.is_dir():
        raise MissingDataError(f"{run} has kept no networks: there is no folder {folder}")
    wanted = _trial(0 if cell is None else cell, fields)
    files = folder.glob(f"{'*' if cell is None else wanted.cell.index}/*{_SUFFIX}")
    found = [
        kept
        for kept in map(KeptNetwork.open, files)
        if all(getattr(kept.trial, name) == getattr(wanted, name) for name in fields)
    ]
    return sorted(found, key=lambda kept: (kept.trial.cell.index, kept.trial.seed, kept.describe()))


@checked
def network(cell: Cell | int | str, *, run: str | Path | None = None, **fields: Any) -> LayeredNet:
    """The network of a cell in evaluation mode: trained, or without `run` as a trial would begin.

    Args:
        cell: its index, architecture string or code.
        run: as of `kept_networks`.
        fields: of the trial, such as ``recipe="topology"`` and ``seed=777``; with a run as many as
            leave one network, without one ``nb201``, 777 and ``cifar10`` unless they are given.
    """
    if run is None:
        trial = _trial(cell, fields)
        return initial_net(trial, data_spec(trial.dataset).classes).eval()
    found = kept_networks(run, cell, **fields)
    if len(found) == 1:
        return found[0].load()
    asked = ", ".join([f"cell {cell}", *(f"{name} {value}" for name, value in fields.items())])
    if found:
        listed = "; ".join(kept.describe() for kept in found[:12])
        raise InputError(f"{len(found)} networks are of {asked}; name one, such as: {listed}")
    raise MissingDataError(f"{run} has kept no network of {asked}; one that diverged leaves none")


def begin_with(trial: Trial, folder: Path | None, data: TrainingData) -> Checkpoint:
    """The state that a longer trial begins with: what was kept of its source, as a checkpoint."""
    assert trial.start is not None
    what, epoch = trial.start.what, trial.first_epoch
    needs = f"{trial.describe()} begins with {what} of {epoch} epochs"
    if folder is None or epoch >= trial.epochs:
        raise TrainingError(f"{needs}: it needs a folder of kept networks, and more epochs")
    if not (path := _place(folder, trial.source)).exists():
        raise TrainingError(f"{needs}, which {folder} has not kept; one that diverged leaves none")
    kept = KeptNetwork.open(path)
    tensors = kept.read()
    momenta = [name for name in tensors if name.startswith(_MOMENTUM)]
    weights = {name: tensors[name] for name in tensors if name not in momenta}
    momentum = {name: torch.zeros_like(value) for name, value in weights.items()}
    if what == "state":
        momentum = {name.removeprefix(_MOMENTUM): tensors[name] for name in momenta}
    if not momentum:
        raise TrainingError(f"{needs}, and {path} holds weights alone: keep = 'state' there")
    if kept.record.provenance.data_digest != data.digest:
        raise TrainingError(f"{needs}, and {path} was trained on other images")
    unknown = [float("nan")] * epoch
    curves = {split: (list(unknown), list(unknown)) for split in ("train", *data.evaluation)}
    own = {"learning_rate", "layer_multipliers"}
    rates = HyperParameters(**kept.record.outcome.model_dump(include=own))
    return Checkpoint(
        trial_id=trial.trial_id,
        data_digest=data.digest,
        epoch=epoch,
        net=weights,
        momentum=momentum,
        # To begin is not to resume.
        progress=Progress(started=now(), curves=curves, resumed=-1),
        initial=rates,
        current=rates,
    )


def copy_networks(
    run: str | Path, out: Path, cell: Cell | int | str | None = None, **fields: Any
) -> int:
    """Copy what `kept_networks` finds, each checked against its record; return how many."""
    found = {kept.trial.trial_id: kept for kept in kept_networks(run, cell, **fields)}
    folder = next((kept.path.parents[2] for kept in found.values()), out)  # RUN/weights/CELL/FILE
    records = FinishedTrials(folder, found).refresh().records
    for trial_id, record in records.items():
        kept = found[trial_id]
        kept.read()
        if kept.record.outcome != Outcome.model_validate(record["outcome"]):
            raise StoreError(f"{kept.path} is of another training than the record")
        write_atomically(_place(out, kept.trial), kept.path.read_bytes())
    return len(records)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        status_of(path)
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError as error:
        raise MissingDataError(f"there is no trained network {path}") from error
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error


def _place(folder: Path, trial: Trial) -> Path:
    return folder / _FOLDER / str(trial.cell.index) / f"{trial.trial_id}{_SUFFIX}"


def _trial(cell: Cell | int | str, fields: Mapping[str, Any]) -> Trial:
    """The trial that some of its fields describe; the others are usual."""
    given = {"dataset": "cifar10", "recipe": "nb201", "seed": 777, **fields, "cell": cell}
    recipe = given["recipe"]
    rule = make_recipe(RecipeSpec.parse(recipe) if isinstance(recipe, str) else recipe)
    try:
        return Trial.model_validate({**given, "recipe": rule.spec})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{first['loc'][0]}: {rule_of(first)}, got {first['input']!r}") from error


def _half(value: torch.Tensor) -> torch.Tensor:
    """A kernel in half precision, unless it does not fit; what else there is, is small."""
    narrow = value.half() if value.dim() > 1 else value
    return narrow if torch.isfinite(narrow).all() else value


def _checksum(record: str, tensors: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256(record.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
