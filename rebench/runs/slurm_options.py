"""SlurmOptions: settings of the jobs of a sweep, the ``[slurm]`` table of its file."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rebench.printable import CONTROL
from rebench.runs.trial import Plain

__all__ = ["SlurmOptions", "slurm_minutes"]

_LARGEST: Final = 2**31 - 1


def slurm_minutes(text: str) -> float:
    """Return the minutes of a time such as ``30`` or ``1-00:00:00``; infinite for other texts."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text.strip())
    if match is None:
        return math.inf
    given = [int(part) for part in match.groups()[1:] if part is not None]
    # A single number counts minutes, or hours after days.
    if match[1] is None and len(given) < 3:
        given = [0, *given]
    hours, minutes, seconds = [*given, 0, 0][:3]
    return (int(match[1] or 0) * 24 + hours) * 60 + minutes + seconds / 60


def _in_minutes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    minutes = slurm_minutes(value)
    if math.isinf(minutes):
        raise ValueError(f"a time is minutes or as in '1-00:00', '8:00:00', got {value!r}")
    return math.ceil(minutes)


def _lines(value: Any) -> Any:
    if isinstance(value, str):
        return value.splitlines()
    if not isinstance(value, list):
        return value
    return [one.removesuffix("\n") if isinstance(one, str) else one for one in value]


class SlurmOptions(Plain, strict=True):
    """Settings of all jobs of a sweep: options of SLURM, and how workers train."""

    partition: str | None = None
    """Partition."""
    account: str | None = None
    """Account that pays for the jobs."""
    qos: str | None = None
    """Quality of service."""
    constraint: str | None = None
    """Required features of the nodes."""
    exclude: str | None = None
    """Excluded nodes."""
    nodelist: str | None = None
    """Requested nodes."""
    clusters: str | None = None
    """Name of the cluster, if SLURM manages several."""
    gpus_per_task: (
        Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^[\w.-]+:\d{1,9}$")] | None
    ) = None
    """GPUs of a job, which its workers share: a number, or type and number such as `a100:2`."""
    gres: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    """Alternative: generic resources of a job, such as `gpu:a100:1` or `gpu:1g.10gb:1`."""
    cpus_per_task: Annotated[int, Field(ge=1)] | None = None
    """Cores of a worker, and threads of torch (default: one thread)."""
    processes_per_job: Annotated[int, Field(ge=1, le=64)] = 1
    """Workers of a job; they share its GPUs and divide its trials."""
    mem_gb: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Memory of a job."""
    mem_per_cpu: Annotated[str, Field(pattern=r"^\d{1,9}[KMGT]?$")] | None = None
    """Alternative: memory of each core, such as `4G`."""
    time_min: Annotated[int, Field(ge=1)] = 240
    """Time limit of a job in minutes, or as `time = "1-00:00"`. Trials are packed to fit."""
    signal_delay_s: Annotated[int, Field(ge=1)] = 120
    """Seconds from the signal to write checkpoints to the end of a job; at most half its time."""
    array_parallelism: Annotated[int, Field(ge=1)] = 64
    """Maximum number of simultaneous jobs of the run in this partition."""
    max_requeues: Annotated[int, Field(ge=0)] = 20
    """Maximum number of requeues of a job after time-outs."""
    checkpoint_min: Annotated[float, Field(gt=0)] = 10.0
    """Minutes between checkpoints; a killed job loses at most the work of this time."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    """Device of the training; `auto` uses a GPU if the node has one."""
    compile_net: bool = False
    """Compile every network with `torch.compile`."""
    cuda_graphs: bool = False
    """Replay training steps as CUDA graphs, which is faster for small networks."""
    setup: list[str] = Field(default_factory=list)
    """Shell commands before `python`, such as `module load cuda`."""
    container_image: str | None = None
    """Apptainer image in which workers run."""
    container_binds: list[str] = Field(default_factory=list)
    """Folders of the host in the container: `SOURCE[:TARGET[:ro]]`."""
    comment: str | None = None
    """Comment on a job."""
    mail_user: str | None = None
    """Recipient of e-mails from SLURM."""
    mail_type: str | None = None
    """Events with an e-mail: `END,FAIL`."""
    extra: dict[Annotated[str, Field(pattern=r"^[A-Za-z][\w-]*$")], str | int | bool] = Field(
        default_factory=dict
    )
    """Other options of `sbatch`, by name."""

    @model_validator(mode="before")
    @classmethod
    def _spelt_otherwise(cls, given: Any) -> Any:
        if isinstance(given, dict) and "time" in given:
            given = dict(given)
            given["time_min"] = given.pop("time")
        return given

    _minutes = field_validator("time_min", mode="before")(_in_minutes)
    _shell = field_validator("setup", mode="before")(_lines)

    @field_validator("*")
    @classmethod
    def _on_one_line(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, int) and value > _LARGEST:
            raise ValueError(f"must be at most {_LARGEST}")
        # `setup` contains lines of shell, in which tabs are allowed.
        allowed = "\t" if info.field_name == "setup" else ""
        texts = [value]
        if isinstance(value, list):
            texts = value
        elif isinstance(value, dict):
            texts = list(value.values())
        for text in texts:
            if isinstance(text, str) and set(CONTROL.findall(text)) - set(allowed):
                raise ValueError(f"must be one line without control characters, got {text!r}")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> SlurmOptions:
        for one, other in (("gres", "gpus_per_task"), ("mem_gb", "mem_per_cpu")):
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"give either {one} or {other}, not both")
        if self.cuda_graphs and self.device == "cpu":
            raise ValueError("CUDA graphs need a GPU, and device is 'cpu'; leave one of them out")
        if self.container_binds and not self.container_image:
            raise ValueError("container_binds need a container_image")
        for bind in self.container_binds:
            places = bind.split(":")
            if not all(places) or len(places) > 3 or "," in bind:
                raise ValueError(f"a bind is SOURCE[:TARGET[:OPTION]], got {bind!r}")
        return self

    @property
    def gpus(self) -> int:
        """Number of GPUs of a job by `gpus_per_task`."""
        return int(str(self.gpus_per_task or 0).rpartition(":")[2])

    @property
    def gpu_setting(self) -> str:
        """Setting that needs a GPU; empty without one."""
        if self.gpus:
            return f"gpus_per_task = {self.gpus_per_task}"
        if self.cuda_graphs:
            return "cuda_graphs = true"
        if self.device.startswith("cuda"):
            return f"device = {self.device!r}"
        return ""
