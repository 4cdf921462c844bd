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
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    # Dimensions of norms that are written as arithmetic, counted from the last.
    norms: dict[int, set[int]] = field(default_factory=dict)

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
        calls = self._calls()
        later = {call.node for call in calls}
        for call in calls:
            later.discard(call.node)
            value = self._value(call)
            self.values[call.node] = value
            if isinstance(value, int):
                self._attach(value, call.node.args, call.node.kwargs)
                self.products.note(call, self._data(call.node.args), value)
            if call.in_place and (isinstance(value, int) or self._data(call.argument(0))):
                self._rename(call, later.union(self.program.outputs))
        outputs = self._data(self.program.outputs)
        if not outputs:
            raise UntraceableError("no path leads from the inputs to an output")
        learned = self._parameters(self.program.outputs)
        if learned:
            roles = _roles(learned - self._named(range(len(self.steps))), "other")
            last = self._add(Step("unknown", roles=roles))
            self._attach(last, self.program.outputs)
            outputs.append(last)
        return outputs

    def _calls(self) -> list[Call]:
        """Return the calls of the program, with each `addcmul` as its parts."""
        calls = []
        for call in self.program.calls:
            if call.operation == "addcmul" and not call.in_place and not self._entry(call):
                calls += written_out(call)
            else:
                calls.append(call)
        return calls

    def _named(self, steps: Iterable[int]) -> set[str]:
        """Return the parameters that have a role in any of the steps."""
        names = set[str]()
        for i in steps:
            step = self.steps[i]
            names.update(step.roles)
            if step.weight:
                names.add(step.weight.name)
        return names

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
        made = sorted(self._layers(*arguments))
        if not made:
            return
        step = self.steps[i]
        roles = dict(step.roles)
        for name in self._named(made):
            roles.pop(name, None)
        self.steps[i] = replace(step, roles=roles, gates=[*step.gates, *made])

    def _value(self, call: Call) -> _Value:
        read: Any = (call.node.args, call.node.kwargs)
        if call.operation in ops.SHAPED_LIKE:  # `x.expand_as(y)` reads only the shape of y
            read = call.node.args[:1]
        names = self._parameters(read)
        data = self._data(read)
        if not data:
            return self._constant(call, names)
        if call.operation in ops.CONSTANTS or not (call.in_place or _carries(call.node)):
            return _Constant(names, layers=self._layers(read))
        if "out" in call.node.kwargs:
            return self._opaque(call, data, names)
        reader = self.readers.get(call.operation, self._unary)
        return reader(call, data, names)

    def _unary(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        if data[0] in self.stacks and call.operation in ("sum", "mean"):
            return self._total(call, data)
        kind = ops.KINDS.get(call.operation)
        first = call.operation == "where" or self._values(call.argument(0)) == data
        if kind is None or len(data) > 1 or not first or self._takes_part(call, data[0]):
            return self._opaque(call, data, names)
        if call.operation == "pad" and call.argument(3):  # with a constant
            kind = "pointwise"
        return self._add(Step(kind, data, _roles(names, "other")))

    def _constant(self, call: Call, names: frozenset[str]) -> _Constant:
        read = self._constants(call.node.args, call.node.kwargs)
        layers = self._layers(call.node.args, call.node.kwargs)
        if call.operation in ops.CONVOLUTIONS | {"linear"} and read[1].weight is not None:
            layers |= {self._add(self._weighted(call, (), read[1].weight))}
        weight = None
        if call.operation in ops.VIEWS and len(read) == 1:
            weight = read[0].weight
        return _Constant(names, weight, layers)

    def _layer(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        source, matrix, _ = ops.LAYERS[call.operation]
        shape = _shape(call.argument(matrix))
        (weight,) = self._values(call.argument(matrix))
        if self._values(call.argument(source)) != data or not isinstance(weight, _Constant):
            return self._product(call, data, names)
        if not weight.parameters:  # a fixed filter
            return self._add(Step("homogeneous", data, _roles(names, "offset")))
        if weight.weight is None or (call.operation in ops.MATMULS and len(shape) != 2):
            made = " and ".join(sorted(weight.parameters))
            raise UntraceableError(f"{call.title}: its weight is computed from {made}")
        return self._add(self._weighted(call, data, weight.weight))

    def _weighted(self, call: Call, reads: Sequence[int], name: str) -> Step:
        _, matrix, shift = ops.LAYERS[call.operation]
        biases = self._parameters(call.argument(shift))
        channels_first = call.operation in ops.CONVOLUTIONS or len(_shape(call.node)) == 2
        weight = Weight(
            name=name,
            bias=min(biases, default=None),
            operation=call.operation,
            fan_in=_fan_in(call, _shape(call.argument(matrix))),
            channels_first=channels_first,
        )
        return Step("layer", reads, _roles(biases, "bias"), weight=weight)

    def _attention(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        (value,) = self._values(call.argument(2))
        if not isinstance(value, int) or self._entry(call):
            return self._opaque(call, data, names)
        gates = self._data(call.node.args[:2], call.node.args[3:], call.node.kwargs)
        return self._add(Step("homogeneous", [value], _roles(names, "other"), gates=gates))

    def _product(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        found = self.products.read(call.operation, data)
        if found is None or (found.kind != "norm" and self._entry(call)):
            return self._opaque(call, data, names)
        roles = _roles(names, "other")
        i = self._add(Step(found.kind, [found.value], roles, gates=found.gates))
        if found.kind == "norm":
            # Dimensions are counted from the last.
            one = reversed(_shape(call.argument(0)))
            two = reversed(_shape(call.argument(1)))
            self.norms[i] = set()
            for dim, sizes in enumerate(zip(one, two, strict=False)):
                if 1 in sizes:
                    self.norms[i].add(dim)
        return i

    def _arithmetic(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        terms = call.node.args[:2]
        if len(data) == 2 and call.operation in ops.SUMS and call.node.kwargs.get("alpha") != 0:
            return self._add(Step("sum", data))
        if len(data) > 1:
            return self._product(call, data, names)
        if call.operation == "div" and self._values(terms[0]) != data:
            return self._opaque(call, data, names)
        zero = 0 in [term for term in terms if isinstance(term, int | float)]
        affine = self._behind_norm(data[0], terms)
        if call.operation in ops.SUMS:
            kind: OperationKind = "view" if zero else "pointwise"
            role: OtherRole = "shift" if affine else "offset"
            return self._add(Step(kind, data, _roles(names, role)))
        if zero:
            return _Constant()
        role = "gain" if affine else "factor"
        return self._add(Step("homogeneous", data, _roles(names, role)))

    def _behind_norm(self, i: int, terms: Sequence[Any]) -> bool:
        """Return whether a term is a parameter along the dimensions of a norm before step `i`."""
        step = self.steps[i]
        while step.kind == "view" or (step.kind == "homogeneous" and "gain" in step.roles.values()):
            i = step.reads[0]
            step = self.steps[i]
        for term in terms:
            value = self.values.get(term)
            if isinstance(value, _Constant) and value.weight is not None:
                shape = enumerate(reversed(_shape(term)))
                dims = {dim for dim, size in shape if size > 1}
                return bool(dims) and dims <= self.norms.get(i, set())
        return False

    def _join(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        parts = call.argument(0)
        shape = _shape(call.node)
        dim = call.argument(1, 0) % len(shape)
        stacked = call.operation == "stack"
        shares = [1] * len(data)
        if not stacked:
            shares = [_shape(part)[dim] for part in parts if isinstance(self.values.get(part), int)]
        alike = not stacked and len(data) == len(parts) and dim == min(len(shape) - 1, 1)
        step = Step("join", data, _roles(names, "other"), shares=shares, channelwise=alike)
        joined = self._add(step)
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
        rank, dim, size = self.joins[i]
        shape = _shape(call.node)
        return len(shape) != rank or shape[dim] != size

    def _norm(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        if len(data) > 1:
            return self._opaque(call, data, names)
        gain = ops.NORMS[call.operation]
        roles = _roles(self._parameters(call.argument(gain)), "gain")
        roles |= _roles(self._parameters(call.argument(gain + 1)), "shift")
        channelwise = call.operation in ops.CHANNELWISE
        kind: OperationKind = "norm" if not channelwise or call.argument(5) else "pointwise"
        return self._add(Step(kind, data, roles, channelwise=channelwise))

    def _entry(self, call: Call) -> str | None:
        """Return the key in `opaque` for a call, or None."""
        if self.opaque != "error":
            for key in (call.node.name, call.module, call.operation):
                if key in self.opaque:
                    return key
        return None

    def _opaque(self, call: Call, data: list[int], names: frozenset[str]) -> _Value:
        other = _roles(names, "other")
        key = self._entry(call)
        if self.opaque == "error" or key is None:
            shown: list[Polynomial] = [(1,)] * len(data)
            meaning = "for one path without a layer"
            if len(data) == 2 and call.operation in ops.PRODUCTS | ops.CONTRACTIONS:
                shown = [(1,), ()]
                meaning = "if the second value is a gate of the first"
            example = {call.node.name: shown}
            problem = (
                f"the paths through {call.title} are not known; give a polynomial for each value "
                f"that it reads, such as opaque={example} {meaning}"
            )
            if call.operation == "detach":  # passes no gradient
                data = []
            return self._add(Step("unknown", data, other, problem=problem))
        given = self.opaque[key]
        if len(given) != len(data) or any(not 0 <= n < 100 for paths in given for n in paths):
            rule = f"must give {len(data)} polynomials of counts below 100 for {call.title}"
            raise UntraceableError(f"opaque[{key!r}] {rule}, got {given}")
        reads = []
        gates = []
        through = []
        for read, paths in zip(data, given, strict=True):
            if any(paths):
                reads.append(read)
                through.append(tuple(paths))
            else:
                gates.append(read)
        return self._add(Step("opaque", reads, other, paths=through, gates=gates))

    def _rename(self, call: Call, later: set[fx.Node]) -> None:
        """Give the new value to every node that is the same tensor as the written tensor."""
        memory, part = _place(call.argument(0))
        for other in [call.argument(0), *self.values]:
            its_memory, its_part = _place(other)
            if its_memory != memory:
                continue
            if its_part == part:
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
    part = None
    if value.numel() * value.element_size() != storage.nbytes():
        part = (value.shape, value.stride(), value.storage_offset())
    return storage._cdata, part  # noqa: SLF001 - no public name exists


def _fan_in(call: Call, shape: tuple[int, ...]) -> int:
    """Return the number of inputs of one output unit."""
    if call.operation == "embedding":
        return 1
    if call.operation in ops.MATMULS:
        return shape[0]
    if not call.operation.startswith("conv_transpose"):
        return math.prod(shape[1:])
    stride = call.argument(3, [1])
    channels = shape[0] // call.argument(6, 1)
    # An output pixel of a transposed convolution uses one of every `stride` kernel positions.
    return max(channels * math.prod(shape[2:]) // math.prod(stride), 1)


def _carries(node: fx.Node) -> bool:
    """Return whether a result can carry data: it contains a tensor that is not boolean."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype != torch.bool for leaf in leaves)


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
