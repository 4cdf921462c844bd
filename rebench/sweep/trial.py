"""A trial: one training run, as plain data. Its id is a hash of exactly what decides its result."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from cells import Cell

__all__ = ["Plain", "Protocol", "RecipeSpec", "Skeleton", "Trial"]

Scalar: TypeAlias = bool | int | float | str | None


class Plain(BaseModel):
    """Frozen plain data that refuses unknown keys; the base of everything that is serialised."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Skeleton(Plain):
    """The network around the cells: width of the first stage and cells in each of three stages."""

    channels: Annotated[int, Field(ge=1, le=1024)] = 16
    cells_per_stage: Annotated[int, Field(ge=1, le=100)] = 5


class RecipeSpec(Plain):
    """A recipe as data: its registered name and the parameters that differ from the defaults."""

    name: str
    parameters: dict[str, Scalar] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name with its parameters, such as ``topology(degree=target)``."""
        if not self.parameters:
            return self.name
        inner = ",".join(f"{key}={value}" for key, value in sorted(self.parameters.items()))
        return f"{self.name}({inner})"

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.parameters.items()))))


class Protocol(Plain):
    """How a trial is trained; the defaults are the benchmark's (DESIGN, "Facts")."""

    batch_size: Annotated[int, Field(ge=1, le=65536)] = 256
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = True
    weight_decay: Annotated[float, Field(ge=0)] = 5e-4
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_epochs: Annotated[int, Field(ge=0)] = 0
    augment: bool = True
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    precision: Literal["float32", "bf16"] = "float32"


class Trial(Plain):
    """One training run: what is trained, on what, how, and from which seed."""

    cell: str
    dataset: str
    split: str = "full"
    recipe: RecipeSpec
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 200
    skeleton: Skeleton = Skeleton()
    protocol: Protocol = Protocol()
    network: Literal["rebench", "xautodl"] = "rebench"

    @field_validator("cell", mode="before")
    @classmethod
    def _canonical_cell(cls, value: Any) -> str:
        return str(Cell.find(value))

    @functools.cached_property
    def trial_id(self) -> str:
        """The same work has the same id everywhere: 16 hex digits of SHA-256 over the content."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @functools.cached_property
    def parsed_cell(self) -> Cell:
        """The cell, parsed."""
        return Cell.parse(self.cell)

    def describe(self) -> str:
        """Return one short line that tells this trial from its neighbours."""
        index = self.parsed_cell.index
        return f"cell {index} {self.dataset} {self.recipe.label} seed {self.seed}"
