"""SlurmOptions: how the jobs of a sweep are asked for, the ``[slurm]`` table of its file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from rebench.sweep.trial import Plain

__all__ = ["SlurmOptions"]


class SlurmOptions(Plain):
    """How a job of the sweep is asked for, in SLURM's words."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    nodelist: str | None = None
    gpus_per_task: Annotated[int, Field(ge=0)] | None = None
    cpus_per_task: Annotated[int, Field(ge=1)] | None = None
    # So many workers share one job and its GPUs, and divide its trials among themselves.
    processes_per_job: Annotated[int, Field(ge=1, le=64)] = 1
    mem_gb: Annotated[float, Field(gt=0)] | None = None
    time_min: Annotated[int, Field(ge=1)] = 240
    signal_delay_s: Annotated[int, Field(ge=1)] = 120
    array_parallelism: Annotated[int, Field(ge=1)] = 64
    max_requeues: Annotated[int, Field(ge=0)] = 20
    checkpoint_min: Annotated[float, Field(gt=0)] = 10.0
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    # Switches of the trainer, which have to suit the device; rebench/train/README.md.
    compile_net: bool = False
    cuda_graphs: bool = False
    setup: list[str] = Field(default_factory=list)
    container_image: str | None = None
    # Folders of the host that the container sees: SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro.
    container_binds: list[str] = Field(default_factory=list)
    comment: str | None = None
    extra: dict[str, str | int | bool] = Field(default_factory=dict)

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
