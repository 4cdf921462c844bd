"""Checkpoints of unfinished trials, written atomically and verified by a checksum.

Every trial has separate files, also in a stack, so that the remaining trials of a stack can resume.
The two newest checkpoints are kept: if a process dies between the files of a stack, all its trials
still share the older checkpoint. The first line of a file contains a marker and the SHA-256 of the
rest. The rest is the output of `torch.save` and is loaded with `weights_only`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import logging
import pickle
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from rebench.errors import StoreError
from rebench.recipes import HyperParameters
from rebench.runs import write_atomically
from rebench.runs.files import open_file
from rebench.train.record import Progress

__all__ = ["Checkpoint", "CheckpointStore"]

_log = logging.getLogger("rebench.train")

_MAGIC = b"rebench-checkpoint-1"
_SUFFIX = ".ckpt"
_KEPT = 2
# Names in a file of the two fields of each `HyperParameters`; fields of `Progress` keep theirs.
_RATES: Final = {
    "initial": ("learning_rate", "layer_multipliers"),
    "current": ("epoch_rate", "epoch_multipliers"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """State of one trial after `epoch` complete epochs and `step` steps of the next epoch.

    Attributes:
        stack: ids of all trials in its stack, in order, this trial included.
        net: the state dict of the trial's network.
        momentum: momentum by parameter name.
        partial_loss: sum of the losses over the images of the unfinished epoch.
        partial_correct: number of correct predictions among these images.
        progress: curves and accounts so far.
        initial: rates at the start of the trial.
        current: rates of this epoch, which differ if the recipe measures every epoch.
    """

    trial_id: str
    data_digest: str
    stack: list[str] = field(default_factory=list)
    epoch: int
    step: int = 0
    net: dict[str, torch.Tensor]
    momentum: dict[str, torch.Tensor]
    partial_loss: float = 0.0
    partial_correct: int = 0
    progress: Progress
    initial: HyperParameters
    current: HyperParameters

    @property
    def reached(self) -> tuple[int, int]:
        """Number of complete epochs, and of steps in the next epoch."""
        return self.epoch, self.step


class CheckpointStore:
    """Checkpoints in one folder: ``<trial_id>/<epoch>-<step>.ckpt``."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint atomically, then remove all but the two newest."""
        content = io.BytesIO()
        fields = {one.name: getattr(checkpoint, one.name) for one in dataclasses.fields(checkpoint)}
        fields |= dataclasses.asdict(fields.pop("progress"))
        for part, (rate, multipliers) in _RATES.items():
            own = fields.pop(part)
            fields |= {rate: own.learning_rate, multipliers: dict(own.layer_multipliers)}
        torch.save(fields, content)
        body = content.getvalue()
        head = b"%s %s\n" % (_MAGIC, hashlib.sha256(body).hexdigest().encode())
        name = f"{checkpoint.epoch:06d}-{checkpoint.step:06d}{_SUFFIX}"
        write_atomically(self.folder / checkpoint.trial_id / name, head + body)
        for old in self._files(checkpoint.trial_id)[_KEPT:]:
            old.unlink(missing_ok=True)

    def load(self, trial_id: str, data_digest: str) -> list[Checkpoint]:
        """Return the usable checkpoints of a trial, newest first.

        A checkpoint that is damaged, of another trial or of other images is renamed to
        ``*.unusable``, with a warning.
        """
        usable = []
        for path in self._files(trial_id):
            try:
                checkpoint = _read(path)
                if checkpoint.trial_id != trial_id:
                    raise StoreError(f"it belongs to trial {checkpoint.trial_id}")
                if checkpoint.data_digest != data_digest:
                    raise StoreError("it was made with other images")
                usable.append(checkpoint)
            except Exception as error:  # noqa: BLE001, PERF203 - damage has many forms; the trial starts again
                _log.warning("checkpoint %s is not used: %s", path, error)
                # Without permission to rename, the file is refused again next time.
                with contextlib.suppress(OSError):
                    path.replace(path.with_suffix(".unusable"))
        return usable

    def remove(self, trial_id: str) -> None:
        """Remove the checkpoints of a trial after its record is stored."""
        shutil.rmtree(self.folder / trial_id, ignore_errors=True)

    def _files(self, trial_id: str) -> list[Path]:
        return sorted((self.folder / trial_id).glob(f"*{_SUFFIX}"), reverse=True)


def _read(path: Path) -> Checkpoint:
    """Return the checkpoint in a file; raise StoreError if it is damaged or foreign."""
    foreign = "it is not a checkpoint of this version of rebench"
    with open_file(path) as file:
        head, _, body = file.read().partition(b"\n")
    marker, _, checksum = head.partition(b" ")
    if marker != _MAGIC:
        raise StoreError(foreign)
    if checksum != hashlib.sha256(body).hexdigest().encode():
        raise StoreError("it is damaged: its checksum is wrong")
    try:
        fields: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise StoreError("it contains more than tensors and numbers") from error
    try:
        for part, (rate, multipliers) in _RATES.items():
            own = (fields.pop(rate), fields.pop(multipliers))
            fields[part] = HyperParameters(learning_rate=own[0], layer_multipliers=own[1])
        progress = {each.name: fields.pop(each.name) for each in dataclasses.fields(Progress)}
        return Checkpoint(**fields, progress=Progress(**progress))
    except (KeyError, TypeError) as error:
        raise StoreError(foreign) from error
