"""Reader that turns the calls of a program into steps: the operations on data from the input.

A value is the result of a step if it depends on the input; otherwise it is a constant, possibly
computed from parameters. Reading a tensor after a write in place gives the new value. A write in
place is refused if other nodes share a part of the tensor and are read later. A stack is a
concatenation along a new dimension; its sum or mean over this dimension is the sum of its parts. A
node that takes a part of a concatenation, or a node with unknown paths, becomes an unknown step. An
unknown step on a path is refused; in a gate it is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from cells.paths import Polynomial
from rebench.modules import operations as ops
from rebench.modules.operations import UNARY, OperationKind
from rebench.modules.products import Products
from rebench.modules.steps import OtherRole, Step, Weight
from rebench.modules.tracing import Call, Program, UntraceableError, written_out

__all__ = ["Opaque", "StepReader"]

Opaque: TypeAlias = Literal["error"] | Mapping[str, Sequence[Sequence[int]]]
"""Treatment of nodes with unknown paths: an error, or the paths given in a mapping."""


@dataclass(frozen=True, slots=True)
class _Constant:
    """Value that does not depend on the input; `weight` if it is a parameter or a view of one."""

    parameters: frozenset[str] = frozenset()
    weight: str | None = None
    layers: frozenset[int] = frozenset()  # steps that compute it, for a learned query


_Value: TypeAlias = "int | _Constant"


@dataclass
class StepReader:
    """Reader of a program; fills `steps`."""

    program: Program
    opaque: Opaque
    steps: list[Step] = field(default_factory=list)
    values: dict[fx.Node, _Value] = field(default_factory=dict)
    joins: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # rank, dimension, size
    stacks: set[int] = field(default_factory=set)  # joins along a new dimension
    norms: dict[int, set[int]] = field(default_factory=dict)  # dimensions of norms as arithmetic

    def __post_init__(self) -> None:
        self.products = Products(self.steps)
        self.readers: dict[str, Callable[[Call, list[int], frozenset[str]], _Value]] = {
            **dict.fromkeys(ops.CONTRACTIONS, self._product),
            **dict.fromkeys(ops.LAYERS, self._layer),
            **dict.fromkeys(ops.SUMS | ops.PRODUCTS, self._arithmetic),
            **dict.fromkeys(ops.NORMS, self._norm),
            "scaled_dot_product_attention": self._attention,
            "cat": self._join,
            "stack": self._join,
        }

    def read(self) -> list[int]:
        """Read all calls; return the output steps."""
        for node, name in self.program.parameters.items():
            self.values[node] = _Constant(frozenset((name,)), name)
        for node in self.program.inputs:
            if _carries(node):
                self.values[node] = self._add(Step("input"))
        calls: list[Call] = []
        for call in self.program.calls:
            given = call.operation != "addcmul" or call.in_place or self._entry(call)
            calls += [call] if given else written_out(call)
        for position, call in enumerate(calls):
            self.values[call.node] = value = self._value(call)
            if isinstance(value, int):
                self._attach(value, call.node.args, call.node.kwargs)
                self.products.note(call, self._data(call.node.args), value)
            if call.in_place and int in map(type, [value, *self._values(call.argument(0))]):
                later = {following.node for following in calls[position + 1 :]}
                self._rename(call, later | set(self.program.outputs))
        values = [self.values.get(node) for node in self.program.outputs]
        outputs = [value for value in values if isinstance(value, int)]
        if not outputs:
            raise UntraceableError("no path leads from the inputs to an output")
        if learned := self._parameters(self.program.outputs):
            known = {step.weight.name for step in self.steps if step.weight}
            known |= {name for step in self.steps for name in step.roles}
            outputs.append(self._add(Step("unknown", roles=_roles(learned - known, "other"))))
            self._attach(outputs[-1], self.program.outputs)
        return outputs

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _values(self, *arguments: Any) -> list[_Value]:
        """Return the values of all nodes among the arguments, in order."""
        found: list[_Value] = []
        fx.node.map_arg(arguments, lambda node: found.append(self.values.get(node, _Constant())))
        return found

    def _data(self, *arguments: Any) -> list[int]:
        return [value for value in self._values(*arguments) if isinstance(value, int)]

    def _constants(self, *arguments: Any) -> list[_Constant]:
        return [value for value in self._values(*arguments) if isinstance(value, _Constant)]

    def _parameters(self, *arguments: Any) -> frozenset[str]:
        """Return the parameters that the constants among the arguments are computed from."""
        return frozenset[str]().union(*(one.parameters for one in self._constants(*arguments)))

    def _layers(self, *arguments: Any) -> frozenset[int]:
        """Return the layers that compute the constants among the arguments."""
        return frozenset[int]().union(*(one.layers for one in self._constants(*arguments)))

    def _attach(self, i: int, *arguments: Any) -> None:
        """Add the layers that compute the constants among the arguments to the gates of a step."""
        if made := self._layers(*arguments):
            step, layers = self.steps[i], [self.steps[layer] for layer in sorted(made)]
            owned = {layer.weight.name for layer in layers if layer.weight}.union(
                *(layer.roles for layer in layers)
            )
            roles = {name: role for name, role in step.roles.items() if name not in owned}
            self.steps[i] = replace(step, roles=roles, gates=[*step.gates, *sorted(made)])

    def _value(self, call: Call) -> _Value:
        # `x.expand_as(y)` reads only the shape of y.
        shaped, args = call.operation in ops.SHAPED_LIKE, call.node.args
        read = args[:1] if shaped else (args, call.node.kwargs)
        names, data = self._parameters(read), self._data(read)
        if not data:
            return self._constant(call, names)
        if call.operation in ops.CONSTANTS or not (call.in_place or _carries(call.node)):
            return _Constant(names, layers=self._layers(read))
        if "out" in call.node.kwargs:
            return self._opaque(call, data, names)
        return self.readers.get(call.operation, self._unary)(call, data, names)

    def _unary(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        if data[0] in self.stacks and call.operation in ("sum", "mean"):
            return self._total(call, data)
        kind = ops.KINDS.get(call.operation)
        first = call.operation == "where" or self._values(call.argument(0)) == data
        if kind is None or len(data) > 1 or not first or self._takes_part(call, data[0]):
            return self._opaque(call, data, names)
        filled = call.operation == "pad" and call.argument(3)
        return self._add(Step("pointwise" if filled else kind, data, _roles(names, "other")))

    def _constant(self, call: Call, names: frozenset[str]) -> _Constant:
        read = self._constants(call.node.args, call.node.kwargs)
        layers = self._layers(call.node.args, call.node.kwargs)
        if call.operation in ops.CONVOLUTIONS | {"linear"} and read[1].weight is not None:
            layers |= {self._add(self._weighted(call, (), read[1].weight))}
        viewed = call.operation in ops.VIEWS and len(read) == 1
        return _Constant(names, read[0].weight if viewed else None, layers)

    def _layer(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        source, matrix = (call.argument(place) for place in ops.LAYERS[call.operation][:2])
        (weight,) = self._values(matrix)
        if self._values(source) != data or not isinstance(weight, _Constant):
            return self._product(call, data, names)
        if not weight.parameters:  # a fixed filter
            return self._add(Step("homogeneous", data, _roles(names, "offset")))
        if weight.weight is None or (call.operation in ops.MATMULS and len(_shape(matrix)) != 2):
            made = " and ".join(sorted(weight.parameters))
            raise UntraceableError(f"{call.title}: its weight is computed from {made}")
        return self._add(self._weighted(call, data, weight.weight))

    def _weighted(self, call: Call, reads: Sequence[int], name: str) -> Step:
        _, matrix, shift = ops.LAYERS[call.operation]
        biases, shape = self._parameters(call.argument(shift)), _shape(call.argument(matrix))
        weight = Weight(
            name=name,
            bias=min(biases, default=None),
            operation=call.operation,
            fan_in=_fan_in(call, shape),
            channels_first=call.operation in ops.CONVOLUTIONS or len(_shape(call.node)) == 2,
        )
        return Step("layer", reads, _roles(biases, "bias"), weight=weight)

    def _attention(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        (value,), place = self._values(call.argument(2)), len(self._data(call.node.args[:2]))
        if not isinstance(value, int) or self._entry(call):
            return self._opaque(call, data, names)
        gates = data[:place] + data[place + 1 :]  # queries, keys and a mask
        return self._add(Step("homogeneous", [value], _roles(names, "other"), gates=gates))

    def _product(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        found = self.products.read(call.operation, data)
        if found is None or (found.kind != "norm" and self._entry(call)):
            return self._opaque(call, data, names)
        i = self._add(Step(found.kind, [found.value], _roles(names, "other"), gates=found.gates))
        if found.kind == "norm":
            shapes = [_shape(argument)[::-1] for argument in call.node.args[:2]]
            pairs = enumerate(zip(*shapes, strict=False))
            self.norms[i] = {~dim for dim, sizes in pairs if 1 in sizes}
        return i

    def _arithmetic(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        terms = call.node.args[:2]
        if len(data) == 2 and call.operation in ops.SUMS and call.node.kwargs.get("alpha") != 0:
            return self._add(Step("sum", data))
        if len(data) > 1:
            return self._product(call, data, names)
        if call.operation == "div" and self._values(terms[0]) != data:
            return self._opaque(call, data, names)
        zero = any(isinstance(term, int | float) and term == 0 for term in terms)
        affine = self._behind_norm(data[0], terms)
        if call.operation in ops.SUMS:
            kind: OperationKind = "view" if zero else "pointwise"
            return self._add(Step(kind, data, _roles(names, "shift" if affine else "offset")))
        if zero:
            return _Constant()
        return self._add(Step("homogeneous", data, _roles(names, "gain" if affine else "factor")))

    def _behind_norm(self, i: int, terms: Sequence[Any]) -> bool:
        """Return whether a term is a parameter along the dimensions of a norm before step `i`."""
        while (kind := self.steps[i].kind) == "view" or (
            kind == "homogeneous" and "gain" in self.steps[i].roles.values()
        ):
            i = self.steps[i].reads[0]
        for term in terms:
            value, shape = self.values.get(term), _shape(term)[::-1]
            if isinstance(value, _Constant) and value.weight is not None:
                dims = {~dim for dim, size in enumerate(shape) if size > 1}
                return bool(dims) and dims <= self.norms.get(i, set())
        return False

    def _join(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        parts, shape = call.argument(0), _shape(call.node)
        dim = call.argument(1, 0) % len(shape)
        stacked = call.operation == "stack"
        shares = [1] * len(data)
        if not stacked:
            shares = [_shape(part)[dim] for part in parts if isinstance(self.values.get(part), int)]
        alike = not stacked and len(data) == len(parts) and dim == min(len(shape) - 1, 1)
        other = _roles(names, "other")
        joined = self._add(Step("join", data, other, shares=shares, channelwise=alike))
        self.joins[joined] = (len(shape), dim, shape[dim])
        if stacked:
            self.stacks.add(joined)
        return joined

    def _total(self, call: Call, data: list[int]) -> _Value:
        """Read the sum or mean of a stack; over the stack's dimension, it adds the parts."""
        rank, dim, size = self.joins[data[0]]
        dims = {given % rank for given in call.argument(1) or range(rank)}
        if dim not in dims:
            return self._add(Step("homogeneous", data))
        parts = self.steps[data[0]].reads
        if len(parts) != size:  # some parts are constants
            return self._opaque(call, data, frozenset())
        total = self._add(Step("sum", parts))
        plain = call.operation == "sum" and len(dims) == 1
        return self._add(Step("view" if plain else "homogeneous", [total]))

    def _takes_part(self, call: Call, i: int) -> bool:
        """Return whether a call takes a part of a concatenation, or combines parts of a stack."""
        while self.steps[i].kind in UNARY:
            (i,) = self.steps[i].reads
        combines = i in self.stacks and call.operation in ops.STATISTICS.keys() | {"max"}
        takes = i in self.joins and call.operation in ops.PARTS | {"glu"}
        if not takes and not combines:
            return False
        (rank, dim, size), shape = self.joins[i], _shape(call.node)
        return len(shape) != rank or shape[dim] != size

    def _norm(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        if len(data) > 1:
            return self._opaque(call, data, names)
        gain = ops.NORMS[call.operation]
        gains, shifts = (self._parameters(call.argument(place)) for place in (gain, gain + 1))
        roles = _roles(gains, "gain") | _roles(shifts, "shift")
        channelwise = call.operation in ops.CHANNELWISE
        kind: OperationKind = "norm" if not channelwise or call.argument(5) else "pointwise"
        return self._add(Step(kind, data, roles, channelwise=channelwise))

    def _entry(self, call: Call) -> str | None:
        """Return the key in `opaque` for a call, or None."""
        keys = (call.node.name, call.module, call.operation)
        return next((key for key in keys if self.opaque != "error" and key in self.opaque), None)

    def _opaque(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        other, key = _roles(names, "other"), self._entry(call)
        if self.opaque == "error" or key is None:
            paths: list[Polynomial] = [(1,)] * len(data)
            meaning = "for one path without a layer"
            if len(data) == 2 and call.operation in ops.PRODUCTS | ops.CONTRACTIONS:
                paths = [(1,), ()]
                meaning = "if the second value is a gate of the first"
            example = {call.node.name: paths}
            problem = (
                f"the paths through {call.title} are not known; give a polynomial for each value "
                f"that it reads, such as opaque={example} {meaning}"
            )
            # A detached value passes no gradient.
            reads = () if call.operation == "detach" else data
            return self._add(Step("unknown", reads, other, problem=problem))
        given = self.opaque[key]
        if len(given) != len(data) or any(not 0 <= n < 100 for paths in given for n in paths):
            rule = f"must give {len(data)} polynomials of counts below 100 for {call.title}"
            raise UntraceableError(f"opaque[{key!r}] {rule}, got {given}")
        used = [(read, tuple(paths)) for read, paths in zip(data, given, strict=True) if any(paths)]
        reads, through = [read for read, _ in used], [paths for _, paths in used]
        gates = [read for read, paths in zip(data, given, strict=True) if not any(paths)]
        return self._add(Step("opaque", reads, other, paths=through, gates=gates))

    def _rename(self, call: Call, later: set[fx.Node]) -> None:
        """Give the new value to every node that is the same tensor as the written tensor."""
        memory, part = _place(call.argument(0))
        for other in [call.argument(0), *self.values]:
            if _place(other)[0] != memory:
                continue
            if _place(other)[1] == part:
                self.values[other] = self.values[call.node]
            elif other in later or not later.isdisjoint(other.users):
                raise UntraceableError(
                    f"{call.title} writes in place into memory that {other.name!r} shares in part "
                    "and that is read later; use an operation that is not in place"
                )


def _roles(names: frozenset[str], role: OtherRole) -> dict[str, OtherRole]:
    return dict.fromkeys(names, role)


def _place(node: fx.Node) -> tuple[Any, Any]:
    """Return the memory of a tensor, and its part of that memory (None for all)."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return node, None
    storage = value.untyped_storage()
    whole = value.numel() * value.element_size() == storage.nbytes()
    part = None if whole else (value.shape, value.stride(), value.storage_offset())
    return storage._cdata, part  # noqa: SLF001 - no public name exists


def _fan_in(call: Call, shape: tuple[int, ...]) -> int:
    """Return the number of inputs of one output unit."""
    if call.operation == "embedding":
        return 1
    if call.operation in ops.MATMULS:
        return shape[0]
    if not call.operation.startswith("conv_transpose"):
        return math.prod(shape[1:])
    stride, groups = call.argument(3, [1]), call.argument(6, 1)
    # An output pixel of a transposed convolution uses one of every `stride` kernel positions.
    return max(shape[0] // groups * math.prod(shape[2:]) // math.prod(stride), 1)


def _carries(node: fx.Node) -> bool:
    """Return whether a result can carry data: it contains a tensor that is not boolean."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype != torch.bool for leaf in leaves)


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
