"""SlurmOptions: how the jobs of a sweep are asked for, the ``[slurm]`` table of its file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from rebench.sweep.trial import Plain

__all__ = ["SlurmOptions"]


class SlurmOptions(Plain):
    """How a job of the sweep is asked for, in SLURM's words."""

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
    gpus_per_task: Annotated[int, Field(ge=0)] | None = None
    """GPUs of a worker, or of the job where workers share it."""
    cpus_per_task: Annotated[int, Field(ge=1)] | None = None
    """Cores of a worker."""
    processes_per_job: Annotated[int, Field(ge=1, le=64)] = 1
    """So many workers share one job and its GPUs, and divide its trials among themselves."""
    mem_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory of a job."""
    time_min: Annotated[int, Field(ge=1)] = 240
    """Time limit of a job; trials are packed to end within it, with a margin."""
    signal_delay_s: Annotated[int, Field(ge=1)] = 120
    """How long before its end a job is told to write checkpoints."""
    array_parallelism: Annotated[int, Field(ge=1)] = 64
    """At most so many jobs of the run at once."""
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
    extra: dict[str, str | int | bool] = Field(default_factory=dict)
    """Any other option of `sbatch`, by its name."""

    @field_validator("*")
    @classmethod
    def _on_one_line(cls, value: Any) -> Any:
        # A line of the script that sbatch reads would end, and another begin.
        texts = [*value, *value.values()] if isinstance(value, dict) else value
        for text in [texts] if isinstance(texts, str) else texts if isinstance(texts, list) else []:
            if isinstance(text, str) and len(text.splitlines()) > 1:
                raise ValueError(f"an option stands on one line, got {text!r}")
        return value

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

    @field_validator("cuda_graphs")
    @classmethod
    def _on_a_gpu(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("device") == "cpu":
            raise ValueError("CUDA graphs need a GPU, and device is 'cpu'; leave one of them out")
        return value
