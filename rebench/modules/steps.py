"""A step of a network: one operation on data, the weight that a layer uses, and its scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cells.paths import Polynomial
from rebench.modules.operations import UNARY, OperationKind

__all__ = ["Join", "OtherRole", "Scale", "Step", "Weight"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Concatenation or stack: its number of dimensions, and its size along the joined one."""

    rank: int
    dim: int
    size: int
    stacked: bool  # along a new dimension


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """Power of a step that multiplies a value, if the step `root` is multiplied."""

    root: Step
    power: float = 1.0
    means: int = 0  # number of nested statistics: 1 for the mean of the root


@dataclass(slots=True, eq=False)
class Step:
    """One operation on data, with the steps that it reads.

    `rebench.modules.products` sets what is known of the value: its scale, its origin, and whether
    it can be a gate.
    """

    kind: OperationKind
    reads: Sequence[Step] = ()
    # Roles of parameters except layer weights.
    roles: dict[str, OtherRole] = field(default_factory=dict)
    weight: Weight | None = None  # only for a layer
    gates: Sequence[Step] = ()  # inputs without a path: gates, or statistics of a norm
    join: Join | None = None
    shares: Sequence[int] = ()  # for a join: number of channels of each part
    channelwise: bool = False  # for a norm, or for a join along the channels
    paths: Sequence[Polynomial] = ()  # for an opaque step: one polynomial for each input step
    problem: str = ""  # only for an unknown step
    # Dimensions of a norm that is written as arithmetic, counted from the last.
    dims: frozenset[int] = frozenset()

    operation: str = field(default="", init=False)
    root: Step = field(init=False)  # this step, or the last one before it that is not unary
    origin: Step = field(init=False)  # the only step that unary steps and sums depend on
    scale: Scale = field(init=False)
    centred: Step | None = field(default=None, init=False)  # of x - mean(x): x
    level: int = field(default=0, init=False)  # 1 for an activation, 2 if between 0 and 1
    is_softmax: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.root = self.reads[0].root if self.kind in UNARY else self
        self.origin = self
        self.scale = Scale(self)
