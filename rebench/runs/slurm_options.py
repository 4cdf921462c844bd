"""SlurmOptions: how the jobs of a sweep are asked for, the ``[slurm]`` table of its file.

A sweep may use several types of device: which one trains a trial follows from the trial alone.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, TypeAlias

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from cells import Cell
from rebench.printable import CONTROL
from rebench.runs.trial import Plain, Trial, rule_of

__all__ = ["JobOptions", "SlurmOptions", "TypeOptions", "slurm_minutes"]

_LARGEST: Final = 2**31 - 1


class JobOptions(Plain):
    """How a job is asked for, in SLURM's words, and how it works."""

    partition: str | None = None
    """The partition."""
    account: str | None = None
    """The account that is charged."""
    qos: str | None = None
    """The quality of service."""
    constraint: str | None = None
    """Features that a node must have."""
    exclude: str | None = None
    """Nodes that get no job."""
    nodelist: str | None = None
    """Nodes that the jobs ask for."""
    clusters: str | None = None
    """The cluster among several that one SLURM knows."""
    gpus_per_task: (
        Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^[\w.-]+:\d{1,9}$")] | None
    ) = None
    """GPUs of a worker, or of the job where workers share it: a number, or `a100:2`."""
    gres: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    """Or what a job is given, as the cluster names it: `gpu:a100:1`, `gpu:1g.10gb:1`."""
    cpus_per_task: Annotated[int, Field(ge=1)] | None = None
    """Cores of a worker, and threads of torch; by default one thread."""
    processes_per_job: Annotated[int, Field(ge=1, le=64)] = 1
    """So many workers share one job and its GPUs, and divide its trials among themselves."""
    mem_gb: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Memory of a job."""
    mem_per_cpu: Annotated[str, Field(pattern=r"^\d{1,9}[KMGT]?$")] | None = None
    """Or memory of each core, in SLURM's words: `4G`."""
    time_min: Annotated[int, Field(ge=1)] = 240
    """Time limit of a job in minutes, or as `time = "1-00:00"`; trials are packed to fit."""
    signal_delay_s: Annotated[int, Field(ge=1)] = 120
    """How long before its end a job is told to write checkpoints."""
    array_parallelism: Annotated[int, Field(ge=1)] = 64
    """At most so many jobs of the run at once; with types of device, of each type."""
    max_requeues: Annotated[int, Field(ge=0)] = 20
    """After so many time-outs a job gives up."""
    checkpoint_min: Annotated[float, Field(gt=0)] = 10.0
    """Minutes between checkpoints: what a killed job loses at most."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    """What trials are trained on; `auto` takes a GPU where there is one."""
    compile_net: bool = False
    """Compile every network with `torch.compile`."""
    cuda_graphs: bool = False
    """Replay steps on a GPU, as small networks are mostly launches."""
    setup: list[str] = Field(default_factory=list)
    """Lines of shell before `python`, such as `module load cuda`."""
    container_image: str | None = None
    """An Apptainer image that workers run in."""
    container_binds: list[str] = Field(default_factory=list)
    """Folders of the host that the container sees: `SOURCE[:TARGET[:ro]]`."""
    comment: str | None = None
    """SLURM's comment on a job."""
    mail_user: str | None = None
    """Whom SLURM writes to."""
    mail_type: str | None = None
    """When: `END,FAIL`."""
    extra: dict[Annotated[str, Field(pattern=r"^[A-Za-z][\w-]*$")], str | int | bool] = Field(
        default_factory=dict
    )
    """Any other option of `sbatch`, by its name."""

    @model_validator(mode="before")
    @classmethod
    def _spelt_otherwise(cls, given: Any) -> Any:
        if isinstance(given, dict) and "time" in given:
            return {key: value for key, value in given.items() if key != "time"} | {
                "time_min": given["time"]
            }
        return given

    @field_validator("time_min", mode="before")
    @classmethod
    def _in_minutes(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if math.isinf(minutes := slurm_minutes(value)):
            raise ValueError(f"a time is minutes or as in '1-00:00', '8:00:00', got {value!r}")
        return math.ceil(minutes)

    @field_validator("setup", mode="before")
    @classmethod
    def _lines(cls, value: Any) -> Any:
        lines = value.splitlines() if isinstance(value, str) else value
        if not isinstance(lines, list):
            return value
        return [one.removesuffix("\n") if isinstance(one, str) else one for one in lines]

    @field_validator("*")
    @classmethod
    def _on_one_line(cls, value: Any, info: ValidationInfo) -> Any:
        # Lines of shell are indented by tabs.
        allowed = "\t" if info.field_name == "setup" else ""
        if isinstance(value, int) and value > _LARGEST:
            raise ValueError(f"must be at most {_LARGEST}")
        for text in _texts(value):
            if any(one not in allowed for one in CONTROL.findall(text)):
                raise ValueError(f"must be one line without control characters, got {text!r}")
        return value


class TypeOptions(JobOptions):
    """What differs from `[slurm]` for jobs on one type of device: any key of it, and these two."""

    speed: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    """How many times as fast as the times that jobs are packed by."""
    share: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    """How much of the sweep it trains, beside the shares of the other types."""

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if key in self.model_fields_set}


TypeName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]


class SlurmOptions(JobOptions):
    """How a job of the sweep is asked for, in SLURM's words."""

    types: dict[TypeName, TypeOptions] = Field(default_factory=dict)
    """Types of device, such as partitions: all runs of a cell on a data set are of one type."""

    @field_validator("container_binds")
    @classmethod
    def _of_a_container(cls, binds: list[str], info: ValidationInfo) -> list[str]:
        if binds and not info.data.get("container_image"):
            raise ValueError("binds are of a container, and there is no container_image")
        for bind in binds:
            places = bind.split(":")
            if not all(places) or len(places) > 3 or "," in bind:
                raise ValueError(f"a bind is SOURCE[:TARGET[:OPTION]], got {bind!r}")
        return binds

    @model_validator(mode="after")
    def _one_way(self) -> SlurmOptions:
        for one, other in (("gres", "gpus_per_task"), ("mem_gb", "mem_per_cpu")):
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"give one of {one} and {other}")
        return self

    @property
    def gpus(self) -> int:
        """How many GPUs a worker asks for by their number."""
        return int(str(self.gpus_per_task or 0).rpartition(":")[2])

    @property
    def gpu_setting(self) -> str:
        """The setting without which a machine with no GPU would do; empty if there is none."""
        if self.gpus:
            return f"gpus_per_task = {self.gpus_per_task}"
        on_gpu = self.device.startswith("cuda")
        return "cuda_graphs = true" if self.cuda_graphs else f"device = {self.device!r}" * on_gpu

    @field_validator("cuda_graphs")
    @classmethod
    def _on_a_gpu(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("device") == "cpu":
            raise ValueError("CUDA graphs need a GPU, and device is 'cpu'; leave one of them out")
        return value

    @model_validator(mode="after")
    def _valid_for_every_type(self) -> SlurmOptions:
        name = ""
        try:
            for name in self.types:
                self.of(name)
        except ValidationError as error:
            raise ValueError(f"types.{name}: {rule_of(error.errors()[0])}") from error
        return self

    @property
    def by_type(self) -> dict[str, SlurmOptions]:
        """The options of every type by its name; of a sweep without types its own, by no name."""
        return {name: self.of(name) for name in self.types} or {"": self}

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """What decides who trains what: the names of the types, and the share of each."""
        return tuple((name, one.share) for name, one in sorted(self.types.items()))

    def of(self, type_name: str) -> SlurmOptions:
        """The options of jobs on a type; under no name, those that all types share."""
        own = self.types[type_name].model_dump(exclude={"speed", "share"}) if type_name else {}
        return SlurmOptions.model_validate(self.model_dump(exclude={"types"}) | own)

    def overridden(self, keys: Iterable[str]) -> list[str]:
        """Those of some dotted keys that no job heeds: every type has a value of its own."""
        own = [one.model_fields_set for one in self.types.values()]
        both = set.intersection(*own) if own else set()
        if "time_min" in both:
            both.add("time")
        return [key for key in keys if key.startswith("slurm.") and key.split(".")[1] in both]

    def speed_of(self, type_name: str) -> float:
        """The speed of a type, in multiples of what the times say."""
        return self.types[type_name].speed if type_name else 1.0

    def type_of(self, trial: Trial) -> str:
        """The type that a trial is trained on, the same for all of its cell and data set."""
        if not self.types:
            return ""
        return _drawn(trial.cell, trial.dataset, self.shares)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in the value of an option."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _texts(part)


def slurm_minutes(text: str) -> float:
    """Minutes of a time in SLURM's forms, ``minutes`` to ``days-hours:minutes:seconds``.

    Infinite if it is none.
    """
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text.strip())
    if match is None:
        return math.inf
    given = [int(part) for part in match.groups()[1:] if part is not None]
    # A lone number counts minutes, and hours where days stand before it.
    if match[1] is None and len(given) < 3:
        given = [0, *given]
    hours, minutes, seconds = [*given, 0, 0][:3]
    return (int(match[1] or 0) * 24 + hours) * 60 + minutes + seconds / 60


# Trials of one cell stand together.
@functools.lru_cache(maxsize=1024)
def _drawn(cell: Cell, dataset: str, shares: tuple[tuple[str, float], ...]) -> str:
    """A name with the probability of its share (weighted rendezvous hashing).

    A name that is added or removed moves nothing between the others.
    """

    def lateness(name: str, share: float) -> float:
        digest = hashlib.sha256(f"{name}|{cell}|{dataset}".encode()).digest()
        return -math.log((int.from_bytes(digest[:6], "big") + 0.5) / 2**48) / share

    return min(shares, key=lambda one: lateness(*one))[0]
