"""Checkpoints of trials in flight: written whole or not at all, and believed only when intact.

One file a trial, also for a stack, so that a stack can be put together again from whatever is
left. The two newest are kept: when a process dies between the files of a stack, all its trials
still share the older one. A file is one line (what it is, the SHA-256 of the rest), then what
`torch.save` wrote; it is loaded with `weights_only`.
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

from rebench.recipes import HyperParameters
from rebench.runs import write_atomically
from rebench.runs.files import open_file
from rebench.train.record import Progress

__all__ = ["Checkpoint", "CheckpointStore"]

_log = logging.getLogger("rebench.train")

_MAGIC = b"rebench-checkpoint-1"
_SUFFIX = ".ckpt"
_KEPT = 2
# What the two of each `HyperParameters` are called in a file; those of `Progress` keep their names.
_RATES: Final = {
    "initial": ("learning_rate", "layer_multipliers"),
    "current": ("epoch_rate", "epoch_multipliers"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """The state of one trial after `epoch` whole epochs and `step` steps of the next.

    Attributes:
        stack: ids of the trials it was trained together with, in order, itself included.
        net: the lone network's state dict.
        momentum: by parameter name.
        partial_loss: sum of the losses of the images seen in the unfinished epoch.
        partial_correct: how many of them were right.
        progress: what the trial has to show so far.
        initial: the rates that it began with.
        current: those of this epoch, which a recipe that measures again has changed.
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
    def place(self) -> tuple[int, int]:
        """How far the trial is."""
        return self.epoch, self.step


class CheckpointStore:
    """The checkpoints below one folder: ``<trial_id>/<epoch>-<step>.ckpt``."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint whole or not at all; then drop all but the two newest."""
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

        One that is damaged, of another trial or of other data is set aside as ``*.unusable``,
        with a warning.
        """
        usable = []
        for path in self._files(trial_id):
            try:
                content, problem = _read(path, trial_id, data_digest)
            except Exception as error:  # noqa: BLE001 - damage has many forms; the trial starts anew
                content, problem = None, f"it cannot be loaded: {error}"
            if content is not None:
                usable.append(content)
            else:
                _log.warning("checkpoint %s is not used: %s", path, problem)
                # Where that is not allowed it is looked at, and not used, again.
                with contextlib.suppress(OSError):
                    path.replace(path.with_suffix(".unusable"))
        return usable

    def remove(self, trial_id: str) -> None:
        """Forget a trial whose record is safe."""
        shutil.rmtree(self.folder / trial_id, ignore_errors=True)

    def _files(self, trial_id: str) -> list[Path]:
        return sorted((self.folder / trial_id).glob(f"*{_SUFFIX}"), reverse=True)


def _read(path: Path, trial_id: str, data_digest: str) -> tuple[Checkpoint | None, str]:
    """Return the checkpoint, or None and why it cannot be used."""
    with open_file(path) as file:
        head, _, body = file.read().partition(b"\n")
    if head.split(b" ")[0] != _MAGIC:
        return None, "it is not a checkpoint of this version of rebench"
    if head.split(b" ")[1:] != [hashlib.sha256(body).hexdigest().encode()]:
        return None, "it is damaged: its checksum is wrong"
    try:
        fields: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError):
        return None, "it asks for more than tensors and numbers"
    try:
        for part, names in _RATES.items():
            rate, multipliers = (fields.pop(name) for name in names)
            fields[part] = HyperParameters(learning_rate=rate, layer_multipliers=multipliers)
        own = {each.name: fields.pop(each.name) for each in dataclasses.fields(Progress)}
        checkpoint = Checkpoint(**fields, progress=Progress(**own))
    except (KeyError, TypeError):
        return None, "it is not a checkpoint of this version of rebench"
    if checkpoint.trial_id != trial_id:
        return None, f"it belongs to trial {checkpoint.trial_id}"
    if checkpoint.data_digest != data_digest:
        return None, "it was made with other images"
    return checkpoint, ""
