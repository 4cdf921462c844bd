"""A step of a network: one operation on data, and the weight that a layer uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cells.paths import Polynomial
from rebench.modules.operations import OperationKind

__all__ = ["OtherRole", "Step", "Weight"]

OtherRole: TypeAlias = Literal["bias", "gain", "shift", "factor", "offset", "other"]
"""Role of a parameter that is not the weight of a layer; a normalisation has gain and shift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """Weight of a layer, as one call uses it."""

    name: str
    bias: str | None
    operation: str
    fan_in: int
    channels_first: bool  # then batch normalisation of its output removes a bias


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on data; `reads` contains the positions of its input steps."""

    kind: OperationKind
    reads: Sequence[int] = ()
    # Roles of parameters except layer weights.
    roles: Mapping[str, OtherRole] = field(default_factory=dict)
    weight: Weight | None = None  # only for a layer
    shares: Sequence[int] = ()  # for a join: number of channels of each part
    channelwise: bool = False  # for a norm, or for a join along the channels
    paths: Sequence[Polynomial] = ()  # for an opaque step: one polynomial for each input step
    gates: Sequence[int] = ()  # inputs without a path: gates, or statistics of a norm
    problem: str = ""  # only for an unknown step
