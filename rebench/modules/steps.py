"""From the calls of a program to steps: what carries data from the input, and what it does to it.

A value is a step's result, if data reach it, or else a constant, which may be made of parameters.
Writing in place renames: whoever reads a tensor after it was written reads the new value. Where a
tensor and a part of it are both read after one of them was written, the node is refused; so is one
that takes a part of a concatenation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import fx

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation on data; `reads` are the positions of the steps that it reads."""

    kind: Kind
    reads: tuple[int, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)  # of parameters that it uses besides
    weight: Weight | None = None  # of a layer
    shares: tuple[int, ...] = ()  # of a join: how many channels each part has
    channelwise: bool = False  # of a norm, or of a join along the channels
    paths: tuple[Polynomial, ...] = ()  # of an opaque step: through it, for each that it reads


@dataclass(frozen=True, slots=True)
class _Constant:
    """A value without data; `weight` if it is one parameter as it is, or a view of it."""

    parameters: frozenset[str] = frozenset()
    weight: str | None = None
    shape: tuple[int, ...] = ()


_Value: TypeAlias = "int | _Constant"


@dataclass
class StepReader:
    """Reads a program into `steps`."""

    program: Program
    shapes: Mapping[str, tuple[int, ...]]
    opaque: Opaque
    steps: list[Step] = field(default_factory=list)
    values: dict[fx.Node, _Value] = field(default_factory=dict)
    joins: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # rank, dimension, size

    def read(self) -> tuple[int, ...]:
        """Read all calls; return the steps that are outputs."""
        for node, name in self.program.parameters.items():
            self.values[node] = _Constant(frozenset((name,)), name, self.shapes[name])
        for node in self.program.inputs:
            if _carries(node.meta.get("val")):
                self.values[node] = self._add("input", ())
        order = {call.node: position for position, call in enumerate(self.program.calls)}
        for call in self.program.calls:
            self.values[call.node] = self._value(call)
            if call.in_place:
                self._write(call, order)
        values = [self.values.get(node) for node in self.program.outputs]
        outputs = tuple(value for value in values if isinstance(value, int))
        if not outputs:
            raise UntraceableError("no path leads from the inputs to an output")
        return outputs

    def _add(
        self,
        kind: Kind,
        reads: Sequence[int],
        names: Iterable[str] = (),
        role: Role = "other",
        **facts: Any,
    ) -> int:
        roles = facts.pop("roles", dict.fromkeys(names, role))
        self.steps.append(Step(kind=kind, reads=tuple(reads), roles=roles, **facts))
        return len(self.steps) - 1

    def _values(self, arguments: Any) -> list[_Value]:
        """Return the value of every node among arguments, in order."""
        if isinstance(arguments, fx.Node):
            return [self.values.get(arguments, _Constant())]
        if not isinstance(arguments, list | tuple):
            return []
        return [value for argument in arguments for value in self._values(argument)]

    def _one(self, argument: Any) -> _Value | None:
        return next(iter(self._values((argument,))), None)

    def _value(self, call: Call) -> _Value:
        # `x.expand_as(y)` reads the shape of y and nothing else.
        shaped, args = call.operation in ops.SHAPED_LIKE, call.node.args
        values = self._values(args[:1] if shaped else (args, list(call.node.kwargs.values())))
        data = [value for value in values if isinstance(value, int)]
        constants = [value for value in values if isinstance(value, _Constant)]
        names = frozenset[str]().union(*(value.parameters for value in constants))
        if not data:
            view = call.operation in ops.VIEWS and len(constants) == 1
            weight = constants[0].weight if view else None
            return _Constant(names, weight, _shape(call.node))
        carries = call.in_place or _carries(call.node.meta.get("val"))
        if call.operation in ops.CONSTANTS or not carries:
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
        kind = ops.unary_kind(call.operation)
        first = call.operation == "where" or self._one(call.argument(0)) == data[0]
        if kind is None or len(data) > 1 or not first or self._takes_part(call, data[0]):
            return self._opaque(call, data, names)
        filled = call.operation == "pad" and call.argument(3)
        return self._add("pointwise" if filled else kind, data, names)

    def _layer(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        places = ops.LAYERS[call.operation]
        source, weight, bias = (self._one(call.argument(place)) for place in places)
        if len(data) > 1 or not isinstance(source, int) or not isinstance(weight, _Constant):
            return self._opaque(call, data, names)
        if not weight.parameters:  # a fixed filter
            return self._add("homogeneous", data, names, "offset")
        if weight.weight is None or (call.operation in ops.MATMULS and len(weight.shape) != 2):
            made = " and ".join(sorted(weight.parameters))
            raise UntraceableError(f"{call.title}: its weight is computed from {made}")
        used = Weight(
            name=weight.weight,
            bias=bias.weight if isinstance(bias, _Constant) else None,
            operation=call.operation,
            fan_in=_fan_in(call, weight.shape),
            channels_first=call.operation in ops.CONVOLUTIONS or len(_shape(call.node)) == 2,
        )
        return self._add("layer", data, names - weight.parameters, "bias", weight=used)

    def _arithmetic(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        terms = (call.argument(0), call.argument(1))
        if len(data) == 2 and call.operation in ops.SUMS and call.node.kwargs.get("alpha", 1) != 0:
            return self._add("sum", data)
        if len(data) > 1 or (call.operation == "div" and self._one(terms[0]) != data[0]):
            return self._opaque(call, data, names)
        zero = any(isinstance(term, int | float) and term == 0 for term in terms)
        if call.operation in ops.PRODUCTS:
            return _Constant() if zero else self._add("homogeneous", data, names, "factor")
        return self._add("view" if zero else "pointwise", data, names, "offset")

    def _join(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        parts, shape = call.argument(0), _shape(call.node)
        dim = call.argument(1, 0) % len(shape)
        shares = tuple(_shape(part)[dim] for part in parts if isinstance(self._one(part), int))
        channelwise = len(data) == len(parts) and dim == min(len(shape) - 1, 1)
        joined = self._add("join", data, names, shares=shares, channelwise=channelwise)
        self.joins[joined] = (len(shape), dim, shape[dim])
        return joined

    def _takes_part(self, call: Call, i: int) -> bool:
        """Whether a call takes some of what a concatenation joined, so perhaps not of all parts."""
        while self.steps[i].kind in UNARY:
            i = self.steps[i].reads[0]
        if call.operation not in ops.PARTS or i not in self.joins:
            return False
        (rank, dim, size), shape = self.joins[i], _shape(call.node)
        return len(shape) != rank or shape[dim] != size

    def _norm(self, call: Call, data: list[int]) -> _Value:
        gain = ops.NORMS[call.operation]
        roles: dict[str, Role] = {}
        for place, role in ((gain, "gain"), (gain + 1, "shift")):
            if isinstance(value := self._one(call.argument(place)), _Constant):
                roles |= dict.fromkeys(value.parameters, role)  # type: ignore[arg-type]  # as above
        channelwise = call.operation in ops.CHANNELWISE
        frozen = channelwise and not call.argument(5)
        kind: Kind = "pointwise" if frozen else "norm"
        return self._add(kind, data, roles=roles, channelwise=channelwise)

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
        reads, through = [read for read, _ in used], tuple(paths for _, paths in used)
        return self._add("opaque", reads, names, paths=through)

    def _write(self, call: Call, order: Mapping[fx.Node, int]) -> None:
        """Give the new value to every node that is the tensor just written."""
        written = call.argument(0)
        if not isinstance(written, fx.Node):
            return
        self.values[written], target = self.values[call.node], written.meta.get("val")
        for other in self.values:
            value = other.meta.get("val")
            if not isinstance(target, torch.Tensor) or not isinstance(value, torch.Tensor):
                continue
            if _storage(value) != _storage(target):
                continue
            if value.numel() == target.numel() and (_is_whole(target) or _same(value, target)):
                self.values[other] = self.values[call.node]
            elif any(order.get(user, len(order)) > order[call.node] for user in other.users):
                raise UntraceableError(
                    f"{call.title} writes in place what {other.name!r} shares a part of and is "
                    "read later: write it out of place"
                )


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata  # noqa: SLF001 - the only name that it has


def _is_whole(tensor: torch.Tensor) -> bool:
    return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two views of one storage are the same elements in the same order."""
    places = [(view.shape, view.stride(), view.storage_offset()) for view in (one, other)]
    return places[0] == places[1]


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


def _carries(value: Any) -> bool:
    """Whether a result can carry data: it is no size, no truth value and not nothing."""
    if isinstance(value, list | tuple):
        return any(_carries(part) for part in value)
    plain = (int, float, str, torch.SymInt, torch.dtype, torch.device, type(None))
    return not isinstance(value, plain) and getattr(value, "dtype", None) != torch.bool


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
