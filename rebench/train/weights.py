"""Trained networks on disk: ``weights/<cell>/<trial id>.safetensors``, one file for each trial.

A file contains the trial's record, so that it can be moved, and a checksum of record and tensors.
A file with a wrong name, wrong tensors or a wrong checksum is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from rebench.arguments import checked, rule_of
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
# Prefix of a parameter's name in the name of its momentum.
_MOMENTUM: Final = "momentum."


@dataclass(frozen=True, slots=True)
class KeptNetwork:
    """Network on disk, as described in its file; `load` reads the weights."""

    path: Path
    record: Record
    """Record of the training."""
    _told: dict[str, str]

    @classmethod
    def open(cls, path: Path) -> KeptNetwork:
        """Read the description in a file; raise StoreError if the file is damaged or foreign."""
        with _opened(path) as file:
            told = file.metadata() or {}
        try:
            record = Record.model_validate_json(told["record"])
        except (KeyError, ValueError) as error:
            raise StoreError(f"{path} is foreign or damaged: it contains no record") from error
        if record.trial_id != path.stem:
            raise StoreError(f"{path} has the wrong name: it contains trial {record.trial_id}")
        return cls(path, record, told)

    @property
    def trial(self) -> Trial:
        """Trial of the training."""
        return self.record.trial

    def load(self) -> LayeredNet:
        """Return the network in evaluation mode, with weights in float32."""
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
        """Return the accuracy in percent on a split of the trial's data set, computed on the CPU.

        The images are read from the default folder of data sets (`rebench.data.data_root`).

        Args:
            change: function that changes the normalised images, [n, 3, height, width].
            split: one of the splits that the trial was evaluated on.
        """
        data = load_data(self.trial.dataset, self.trial.split)
        if split not in data.evaluation:
            raise UnknownNameError("split", split, data.evaluation)
        source = BatchSource(data.evaluation[split], data.spec, device="cpu", channels_last=True)
        net = self.load()
        right = 0
        with torch.no_grad():
            for images, labels in source.plain(Speed().eval_batch_size):
                predicted = net(change(images)).argmax(1)
                right += int((predicted == labels).sum())
        return 100 * right / len(source)

    def read(self) -> dict[str, torch.Tensor]:
        """Return the verified state dict, with ``momentum.PARAMETER`` entries if kept."""
        with torch.device("meta"):
            net = build_net(self.trial, data_spec(self.trial.dataset).classes)
        weights = {name: list(value.shape) for name, value in net.state_dict().items()}
        state = dict(weights)
        for name, value in net.named_parameters():
            state[_MOMENTUM + name] = list(value.shape)
        tensors = {}
        with _opened(self.path) as file:
            # Shapes are checked before tensors are read, so that a large file does no harm.
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 - no mapping
            if shapes not in (weights, state):
                raise StoreError(f"{self.path} does not contain the tensors of {self.describe()}")
            for name in shapes:
                tensors[name] = file.get_tensor(name)
        if self._told.get("sha256") != _checksum(self._told["record"], tensors):
            raise StoreError(f"{self.path} is damaged: its checksum is wrong")
        return tensors

    def describe(self) -> str:
        """Return one line that identifies this network."""
        start = self.trial.start
        begun = f" from {start.what} of {start.epochs}" if start else ""
        return f"{self.trial.describe()} after {self.trial.epochs} epochs{begun}"


def save_network(folder: Path, options: TrainOptions, record: Record, final: Checkpoint) -> None:
    """Write the network of a finished trial atomically; a diverged trial is skipped."""
    if options.keep == "nothing" or record.outcome.status == "diverged":
        return
    tensors = dict(final.net)
    if options.keep == "state":
        for name, value in final.momentum.items():
            tensors[_MOMENTUM + name] = value
    for name, value in tensors.items():
        # Only kernels: other tensors are small.
        if options.half and value.dim() > 1 and torch.isfinite(value.half()).all():
            value = value.half()
        tensors[name] = value.contiguous()
    about = record.model_dump_json(by_alias=True)
    told = {"record": about, "sha256": _checksum(about, tensors)}
    write_atomically(_place(folder, record.trial), save(tensors, told))


def kept_networks(run: str | Path, cell: Any = None, **fields: Any) -> list[KeptNetwork]:
    """Return the kept networks of a run, of one cell or of all cells.

    Args:
        run: folder of a run, or another folder with kept networks; can end with ``@RECIPE``.
        cell: index, architecture string or code; None for all cells.
        fields: required values of trial fields, such as ``recipe="topology"`` or ``seed=777``.
    """
    fields = {name: value for name, value in fields.items() if value is not None or name == "start"}
    if not Path(run).exists() and "@" in str(run):
        run, _, fields["recipe"] = str(run).rpartition("@")
    folder = Path(run) / _FOLDER
    if not folder.is_dir():
        raise MissingDataError(
            f"{run} has kept no networks: there is no folder {folder}. Trials keep their networks "
            'if the sweep has keep = "weights" in [train]'
        )
    wanted = _trial(0 if cell is None else cell, fields)
    place = "*" if cell is None else str(wanted.index)
    found = []
    for path in folder.glob(f"{place}/*{_SUFFIX}"):
        kept = KeptNetwork.open(path)
        if all(getattr(kept.trial, name) == getattr(wanted, name) for name in fields):
            found.append(kept)
    return sorted(found, key=lambda kept: (kept.trial.index, kept.trial.seed, kept.describe()))


@checked
def network(cell: Any, *, run: str | Path | None = None, **fields: Any) -> LayeredNet:
    """Return the network of a cell in evaluation mode: trained, or at initialisation without `run`.

    The network is on the CPU. A call with normalised images [batch, 3, height, width] returns
    logits [batch, classes].

    Args:
        cell: index, architecture string or code.
        run: folder of a run whose trials kept their networks; can end with ``@RECIPE``.
        fields: trial fields, such as ``recipe="topology"`` and ``seed=777``. With a run, they must
            select one network. Without a run, the defaults are ``nb201``, 777 and ``cifar10``.

    Raises:
        InputError: several networks match; the message lists them.
        MissingDataError: the run kept no such network.
    """
    if run is None:
        trial = _trial(cell, fields)
        return initial_net(trial, data_spec(trial.dataset).classes).eval()
    found = kept_networks(run, cell, **fields)
    if len(found) == 1:
        return found[0].load()
    asked = f"cell {cell}"
    for name, value in fields.items():
        asked += f", {name} {value}"
    if found:
        listed = "; ".join(kept.describe() for kept in found[:12])
        raise InputError(f"{len(found)} networks match {asked}; name one, such as: {listed}")
    raise MissingDataError(f"{run} has kept no network of {asked}; diverged trials keep none")


def begin_with(trial: Trial, folder: Path | None, data: TrainingData) -> Checkpoint:
    """Return the checkpoint from which a trial starts that continues a shorter trial.

    The checkpoint has the weights that the shorter trial saved; `trial.start` says which.
    """
    assert trial.start is not None
    what, epoch = trial.start.what, trial.first_epoch
    needs = f"{trial.describe()} begins with {what} of {epoch} epochs"
    if folder is None or epoch >= trial.epochs:
        raise TrainingError(f"{needs}: it needs a folder of kept networks, and more epochs")
    if not (path := _place(folder, trial.source)).exists():
        raise TrainingError(f"{needs}, which {folder} has not kept; diverged trials keep none")
    kept = KeptNetwork.open(path)
    weights = {}
    momentum = {}
    for name, value in kept.read().items():
        if name.startswith(_MOMENTUM):
            momentum[name.removeprefix(_MOMENTUM)] = value
        else:
            weights[name] = value
    if what == "weights":
        momentum = {name: torch.zeros_like(value) for name, value in weights.items()}
    if not momentum:
        raise TrainingError(f"{needs}, but {path} has only weights: set keep = 'state' there")
    if kept.record.provenance.data_digest != data.digest:
        raise TrainingError(f"{needs}, but {path} was trained on other images")
    unknown = [math.nan] * epoch
    curves = {split: (list(unknown), list(unknown)) for split in ("train", *data.evaluation)}
    own = {"learning_rate", "layer_multipliers"}
    rates = HyperParameters(**kept.record.outcome.model_dump(include=own))
    return Checkpoint(
        trial_id=trial.trial_id,
        data_digest=data.digest,
        epoch=epoch,
        net=weights,
        momentum=momentum,
        # -1, because the start does not count as a resumption.
        progress=Progress(started=now(), curves=curves, resumed=-1),
        initial=rates,
        current=rates,
    )


def copy_networks(run: str | Path, out: Path, cell: Any = None, **fields: Any) -> int:
    """Copy the results of `kept_networks`, verified by their records; return their number."""
    found = {kept.trial.trial_id: kept for kept in kept_networks(run, cell, **fields)}
    folder = next((kept.path.parents[2] for kept in found.values()), out)  # RUN/weights/CELL/FILE
    records = FinishedTrials(folder, found).refresh().records
    for trial_id, record in records.items():
        kept = found[trial_id]
        kept.read()
        if kept.record.outcome != Outcome.model_validate(record["outcome"]):
            raise StoreError(f"{kept.path} is from another training than the trial's record")
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
    return folder / _FOLDER / str(trial.index) / f"{trial.trial_id}{_SUFFIX}"


def _trial(cell: Any, fields: Mapping[str, Any]) -> Trial:
    """Return the trial with the given fields; other fields have their defaults."""
    for name in fields:
        if name not in Trial.model_fields:
            raise UnknownNameError("trial field", name, Trial.model_fields)
    given = {"dataset": "cifar10", "recipe": "nb201", "seed": 777, **fields, "cell": cell}
    recipe = given["recipe"]
    rule = make_recipe(RecipeSpec.parse(recipe) if isinstance(recipe, str) else recipe)
    try:
        return Trial.model_validate({**given, "recipe": rule.spec})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{first['loc'][0]}: {rule_of(first)}, got {first['input']!r}") from error


def _checksum(record: str, tensors: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256(record.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
