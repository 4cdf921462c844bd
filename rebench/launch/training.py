"""The bridge to the trainer: which device, which data. torch is loaded late."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rebench.errors import ClusterError
from rebench.runs import Record, SlurmOptions, Trial

if TYPE_CHECKING:
    from rebench.data import TrainingData

__all__ = ["find_device", "train_group"]


def train_group(
    group: Sequence[Trial],
    *,
    checkpoints: Path,
    data_root: str | None,
    options: SlurmOptions,
    rank: int = 0,
    on_epoch: Callable[[int], None],
    on_record: Callable[[Record], None],
    stop: Callable[[], bool],
) -> None:
    """Train the trials of one group as a stack; raise Interrupted once `stop` says so."""
    from rebench.train import Speed, train

    first = group[0]
    train(
        group,
        _data(first.dataset, first.split, data_root),
        find_device(options, rank),
        checkpoints,
        stack=len(group),
        speed=Speed(compile=options.compile_net, cuda_graphs=options.cuda_graphs),
        on_epoch=lambda report: on_epoch(report.epoch),
        on_record=on_record,
        stop=stop,
        checkpoint_every_minutes=options.checkpoint_min,
    )


@functools.lru_cache(maxsize=1)
def _data(dataset: str, split: str, root: str | None) -> TrainingData:
    from rebench.data import load_data

    return load_data(dataset, split, root=root)


def find_device(options: SlurmOptions, rank: int = 0) -> str:
    """The device of a process of a job; raise ClusterError if a GPU was asked in vain."""
    import torch

    if options.device != "auto" and (torch.cuda.is_available() or options.device == "cpu"):
        return options.device
    if torch.cuda.is_available():
        # Processes of one job share its GPUs evenly.
        shared = options.processes_per_job > 1
        return f"cuda:{rank % torch.cuda.device_count()}" if shared else "cuda"
    asked = [one for one in ("gpus_per_task", "cuda_graphs") if getattr(options, one)]
    asked += [f"device = {options.device!r}"] if options.device.startswith("cuda") else []
    if asked:
        raise ClusterError(
            f"a GPU was asked for ({asked[0]}), but torch sees none here; check the node's driver"
            " and that torch was built for CUDA, or set device = 'cpu' and leave that option out"
        )
    return "cpu" if options.device == "auto" else options.device
