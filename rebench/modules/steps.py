"""From the calls of a program to steps: what carries data from the input, and what it does to it.

A value is a step's result, if data reach it, or else a constant, which may be made of parameters.
Writing in place renames: whoever reads a tensor after it was written reads the new value. Where a
tensor and a part of it are both read after one of them was written, the node is refused; so is one
that takes a part of a concatenation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from cells.paths import Polynomial
from rebench.modules import operations as ops
from rebench.modules.operations import UNARY, Kind
from rebench.modules.tracing import Call, Program, UntraceableError

__all__ = ["Opaque", "Role", "Step", "StepReader", "Weight"]

Opaque: TypeAlias = Literal["error"] | Mapping[str, Sequence[Sequence[int]]]
"""What to do with a node whose paths are not known: refuse it, or take the paths given for it."""

Role: TypeAlias = Literal["bias", "gain", "shift", "factor", "offset", "other"]
"""What a parameter is that is no layer's weight; gain and shift are a normalisation's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A parameter as one layer uses it."""

    name: str
    bias: str | None
    operation: str
    fan_in: int
    channels_first: bool  # so that batch normalisation of its output takes a bias off


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on data; `reads` are the positions of the steps that it reads."""

    kind: Kind
    reads: Sequence[int] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)  # of parameters but a layer's weight
    weight: Weight | None = None  # of a layer
    shares: Sequence[int] = ()  # of a join: how many channels each part has
    channelwise: bool = False  # of a norm, or of a join along the channels
    paths: Sequence[Polynomial] = ()  # of an opaque step: through it, for each that it reads


@dataclass(frozen=True, slots=True)
class _Constant:
    """A value without data; `weight` if it is one parameter as it is, or a view of it."""

    parameters: frozenset[str] = frozenset()
    weight: str | None = None


_Value: TypeAlias = "int | _Constant"


@dataclass
class StepReader:
    """Reads a program into `steps`."""

    program: Program
    opaque: Opaque
    steps: list[Step] = field(default_factory=list)
    values: dict[fx.Node, _Value] = field(default_factory=dict)
    joins: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # rank, dimension, size

    def read(self) -> list[int]:
        """Read all calls; return the steps that are outputs."""
        for node, name in self.program.parameters.items():
            self.values[node] = _Constant(frozenset((name,)), name)
        for node in self.program.inputs:
            if _carries(node):
                self.values[node] = self._add(Step("input"))
        for position, call in enumerate(self.program.calls):
            self.values[call.node] = value = self._value(call)
            if call.in_place and int in map(type, [value, *self._values(call.argument(0))]):
                later = {following.node for following in self.program.calls[position + 1 :]}
                self._rename(call, later | set(self.program.outputs))
        values = [self.values.get(node) for node in self.program.outputs]
        outputs = [value for value in values if isinstance(value, int)]
        if not outputs:
            raise UntraceableError("no path leads from the inputs to an output")
        return outputs

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _values(self, *arguments: Any) -> list[_Value]:
        """Return the value of every node among arguments, in order."""
        found: list[_Value] = []
        fx.node.map_arg(arguments, lambda node: found.append(self.values.get(node, _Constant())))
        return found

    def _parameters(self, *arguments: Any) -> frozenset[str]:
        """Return the parameters that constants among arguments are made of."""
        constants = [one for one in self._values(*arguments) if isinstance(one, _Constant)]
        return frozenset[str]().union(*(constant.parameters for constant in constants))

    def _value(self, call: Call) -> _Value:
        # `x.expand_as(y)` reads the shape of y and nothing else.
        shaped, args = call.operation in ops.SHAPED_LIKE, call.node.args
        read = args[:1] if shaped else (args, call.node.kwargs)
        values, names = self._values(read), self._parameters(read)
        data = [value for value in values if isinstance(value, int)]
        if not data:
            viewed = values[0] if call.operation in ops.VIEWS and len(values) == 1 else None
            return _Constant(names, viewed.weight if isinstance(viewed, _Constant) else None)
        if call.operation in ops.CONSTANTS or not (call.in_place or _carries(call.node)):
            return _Constant(names)
        if "out" in call.node.kwargs:
            return self._opaque(call, data, names)
        if call.operation in ops.LAYERS:
            return self._layer(call, data, names)
        if call.operation in ops.SUMS | ops.PRODUCTS:
            return self._arithmetic(call, data, names)
        if call.operation == "cat":
            return self._join(call, data, names)
        if call.operation in ops.NORMS and len(data) == 1:
            return self._norm(call, data)
        kind = ops.KINDS.get(call.operation)
        first = call.operation == "where" or self._values(call.argument(0)) == data
        if kind is None or len(data) > 1 or not first or self._takes_part(call, data[0]):
            return self._opaque(call, data, names)
        filled = call.operation == "pad" and call.argument(3)
        return self._add(Step("pointwise" if filled else kind, data, _roles(names, "other")))

    def _layer(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        source, matrix, shift = (call.argument(place) for place in ops.LAYERS[call.operation])
        (weight,) = self._values(matrix)
        if self._values(source) != data or not isinstance(weight, _Constant):
            return self._opaque(call, data, names)
        if not weight.parameters:  # a fixed filter
            return self._add(Step("homogeneous", data, _roles(names, "offset")))
        if weight.weight is None or (call.operation in ops.MATMULS and len(_shape(matrix)) != 2):
            made = " and ".join(sorted(weight.parameters))
            raise UntraceableError(f"{call.title}: its weight is computed from {made}")
        used = Weight(
            name=weight.weight,
            bias=min(self._parameters(shift), default=None),
            operation=call.operation,
            fan_in=_fan_in(call, _shape(matrix)),
            channels_first=call.operation in ops.CONVOLUTIONS or len(_shape(call.node)) == 2,
        )
        biases = _roles(names - weight.parameters, "bias")
        return self._add(Step("layer", data, biases, weight=used))

    def _arithmetic(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        terms = call.node.args[:2]
        if len(data) == 2 and call.operation in ops.SUMS and call.node.kwargs.get("alpha") != 0:
            return self._add(Step("sum", data))
        if len(data) > 1 or (call.operation == "div" and self._values(terms[0]) != data):
            return self._opaque(call, data, names)
        zero = any(isinstance(term, int | float) and term == 0 for term in terms)
        if call.operation in ops.SUMS:
            kind: Kind = "view" if zero else "pointwise"
            return self._add(Step(kind, data, _roles(names, "offset")))
        if zero:
            return _Constant()
        return self._add(Step("homogeneous", data, _roles(names, "factor")))

    def _join(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        parts, shape = call.argument(0), _shape(call.node)
        dim = call.argument(1, 0) % len(shape)
        shares = [_shape(part)[dim] for part in parts if isinstance(self.values.get(part), int)]
        alike = len(data) == len(parts) and dim == min(len(shape) - 1, 1)
        other = _roles(names, "other")
        joined = self._add(Step("join", data, other, shares=shares, channelwise=alike))
        self.joins[joined] = (len(shape), dim, shape[dim])
        return joined

    def _takes_part(self, call: Call, i: int) -> bool:
        """Whether a call takes some of what a concatenation joined, so perhaps not of all parts."""
        while self.steps[i].kind in UNARY:
            (i,) = self.steps[i].reads
        if call.operation not in ops.PARTS or i not in self.joins:
            return False
        (rank, dim, size), shape = self.joins[i], _shape(call.node)
        return len(shape) != rank or shape[dim] != size

    def _norm(self, call: Call, data: list[int]) -> _Value:
        gain = ops.NORMS[call.operation]
        gains, shifts = (self._parameters(call.argument(place)) for place in (gain, gain + 1))
        roles = _roles(gains, "gain") | _roles(shifts, "shift")
        channelwise = call.operation in ops.CHANNELWISE
        kind: Kind = "norm" if not channelwise or call.argument(5) else "pointwise"
        return self._add(Step(kind, data, roles, channelwise=channelwise))

    def _opaque(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        table = {} if self.opaque == "error" else self.opaque
        keys = (call.node.name, call.module, call.operation)
        key = next((key for key in keys if key in table), None)
        if key is None:
            example = {call.node.name: [(1,)] * len(data)}
            raise UntraceableError(
                f"the paths through {call.title} are not known; give a polynomial for each value "
                f"that it reads, as opaque={example} does for one path without a layer"
            )
        given = table[key]
        if len(given) != len(data) or any(not 0 <= n < 100 for paths in given for n in paths):
            rule = f"must give {len(data)} polynomials of counts below 100 for {call.title}"
            raise UntraceableError(f"opaque[{key!r}] {rule}, got {given}")
        used = [(read, tuple(paths)) for read, paths in zip(data, given, strict=True) if any(paths)]
        reads, through = [read for read, _ in used], [paths for _, paths in used]
        return self._add(Step("opaque", reads, _roles(names, "other"), paths=through))

    def _rename(self, call: Call, later: set[fx.Node]) -> None:
        """Give the new value to every node that is the tensor just written."""
        memory, part = _place(call.argument(0))
        for other in [call.argument(0), *self.values]:
            if _place(other)[0] != memory:
                continue
            if _place(other)[1] == part:
                self.values[other] = self.values[call.node]
            elif other in later or not later.isdisjoint(other.users):
                raise UntraceableError(
                    f"{call.title} writes in place what {other.name!r} shares a part of and is "
                    "read later: write it out of place"
                )


def _roles(names: frozenset[str], role: Role) -> dict[str, Role]:
    return dict.fromkeys(names, role)


def _place(node: fx.Node) -> tuple[Any, Any]:
    """Return which memory a tensor stands in, and which part of it: None is all."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return node, None
    storage = value.untyped_storage()
    whole = value.numel() * value.element_size() == storage.nbytes()
    part = None if whole else (value.shape, value.stride(), value.storage_offset())
    return storage._cdata, part  # noqa: SLF001 - the only name that it has


def _fan_in(call: Call, shape: tuple[int, ...]) -> int:
    """Return the inputs to one output unit."""
    if call.operation == "embedding":
        return 1
    if call.operation in ops.MATMULS:
        return shape[0]
    if not call.operation.startswith("conv_transpose"):
        return math.prod(shape[1:])
    stride, groups = call.argument(3, [1]), call.argument(6, 1)
    # Each output pixel of a transposed convolution sees one kernel position in every `stride`.
    return max(shape[0] // groups * math.prod(shape[2:]) // math.prod(stride), 1)


def _carries(node: fx.Node) -> bool:
    """Whether a result can carry data: it is or holds a tensor, and not of truth values."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype != torch.bool for leaf in leaves)


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
