"""A record: what a finished trial leaves. Its outcome is compared, its cost and origin are not."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rebench.sweep import Plain, Trial

__all__ = ["SCHEMA_VERSION", "Cost", "Curve", "Outcome", "Provenance", "Record"]

SCHEMA_VERSION = 1


class Curve(Plain):
    """Per-epoch metrics of one split; accuracy in percent. None where it was not evaluated."""

    accuracy: list[float | None]
    loss: list[float | None]


class Outcome(Plain):
    """What must be equal whenever the same trial is trained again on one machine.

    Losses that are not finite are stored as None; `diverged_epoch` says when that began.
    """

    status: Literal["done", "diverged"]
    learning_rate: float
    layer_multipliers: dict[str, float] = Field(default_factory=dict)
    curves: dict[str, Curve]
    diverged_epoch: int | None = None


class Cost(Plain):
    """What the trial took: of this run, on this machine."""

    seconds: float
    images_per_s: float
    stack: int = 1
    params_m: float
    mflops: float
    peak_memory_mib: float | None = None
    resumed: int = 0


class Provenance(Plain):
    """Where a record came from."""

    rebench: str
    commit: str | None = None
    dirty: bool | None = None
    python: str
    torch: str
    cuda: str | None = None
    device: str
    host: str
    slurm_job: str | None = None
    attempt: int = 0
    spec_hash: str | None = None
    data_digest: str | None = None
    started: str
    ended: str


class Record(Plain):
    """One finished trial."""

    schema_version: Annotated[int, Field(alias="schema")] = SCHEMA_VERSION
    trial_id: str
    trial: Trial
    outcome: Outcome
    cost: Cost
    provenance: Provenance

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, value: Any) -> Any:
        if (
            isinstance(value, dict)
            and "trial_id" not in value
            and isinstance(value["trial"], Trial)
        ):
            return {**value, "trial_id": value["trial"].trial_id}
        return value

    @model_validator(mode="after")
    def _check_id(self) -> Record:
        if self.trial_id != self.trial.trial_id:
            raise ValueError(f"trial_id {self.trial_id} is not the id of the trial it names")
        return self

    def final(self, split: str) -> tuple[float | None, float | None]:
        """Return accuracy (percent) and loss of the last epoch on `split`."""
        curve = self.outcome.curves[split]
        return curve.accuracy[-1], curve.loss[-1]

    def best_epoch(self, split: str) -> int:
        """Return the epoch (from 1) with the highest accuracy on `split`; never compared."""
        accuracy = self.outcome.curves[split].accuracy
        return max(range(len(accuracy)), key=lambda epoch: (accuracy[epoch] or 0.0, -epoch)) + 1

    def to_line(self) -> str:
        """Return the record as one line of JSON, without a newline."""
        return self.model_dump_json(by_alias=True)
