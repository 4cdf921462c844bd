"""Reader that turns the calls of a program into steps: the operations on data from the input.

A value is the result of a step if it depends on the input; otherwise it is a constant, possibly
computed from parameters. Reading a tensor after a write in place gives the new value. A write in
place is refused if other nodes share a part of the tensor and are read later. A stack is a
concatenation along a new dimension; its sum or mean over this dimension is the sum of its parts. A
node that takes a part of a concatenation, or a node with unknown paths, becomes an unknown step. An
unknown step on a path is refused; in a gate it is allowed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from cells.paths import Polynomial
from rebench.modules import operations as ops
from rebench.modules.operations import OperationKind
from rebench.modules.products import note, product
from rebench.modules.steps import Join, OtherRole, Step, Weight
from rebench.modules.tracing import Call, Program, UntraceableError

__all__ = ["Opaque", "StepReader"]

Opaque: TypeAlias = Literal["error"] | Mapping[str, Sequence[Sequence[int]]]
"""Treatment of nodes with unknown paths: an error, or the paths given in a mapping."""


@dataclass(frozen=True, slots=True)
class _Constant:
    """Value that does not depend on the input; `weight` if it is a parameter or a view of one."""

    parameters: frozenset[str] = frozenset()
    weight: str | None = None
    layers: tuple[Step, ...] = ()  # steps that compute it, for a learned query


_NO_PARAMETER = _Constant()


class StepReader:
    """Reader of a program; fills `steps`."""

    def __init__(self, program: Program, opaque: Opaque) -> None:
        self.program = program
        self.opaque: Mapping[str, Sequence[Sequence[int]]] = {}
        if opaque != "error":
            self.opaque = opaque
        self.steps: list[Step] = []
        self.values: dict[fx.Node, Step | _Constant] = {}
        self.readers: dict[str, Callable[[Call, list[Step]], Step | None]] = {
            **dict.fromkeys(ops.CONTRACTIONS, self._product),
            **dict.fromkeys(ops.LAYERS, self._layer),
            **dict.fromkeys(ops.SUMS | ops.PRODUCTS, self._arithmetic),
            **dict.fromkeys(ops.NORMS, self._norm),
            "scaled_dot_product_attention": self._attention,
            "cat": self._join,
            "stack": self._join,
        }

    def read(self) -> list[Step]:
        """Read all calls; return the output steps."""
        for node, name in self.program.parameters.items():
            self.values[node] = _Constant(frozenset((name,)), name)
        for node in self.program.inputs:
            if _carries(node):
                self.values[node] = self._add(Step("input"))
        later = {call.node for call in self.program.calls}
        for call in self.program.calls:
            later.discard(call.node)
            value = self._value(call)
            self.values[call.node] = value
            if call.in_place and (isinstance(value, Step) or self._read(call.argument(0))[0]):
                self._rename(call, later.union(self.program.outputs))
        outputs, rest = self._read(self.program.outputs)
        if not outputs:
            raise UntraceableError("no path leads from the inputs to an output")
        if rest.parameters or rest.layers:
            unused = rest.parameters - _named(self.steps)
            last = Step("unknown", roles=dict.fromkeys(unused, "other"), gates=rest.layers)
            outputs.append(self._add(last))
        return outputs

    def _add(self, step: Step) -> Step:
        self.steps.append(step)
        return step

    def _read(self, *arguments: Any) -> tuple[list[Step], _Constant]:
        """Return the steps among the values of the arguments, and all constants as one."""
        steps: list[Step] = []
        constants: list[_Constant] = []

        def sort(node: fx.Node) -> None:
            value = self.values.get(node, _NO_PARAMETER)
            if isinstance(value, Step):
                steps.append(value)
            else:
                constants.append(value)

        fx.node.map_arg(arguments, sort)
        if len(constants) == 1:
            return steps, constants[0]
        parameters = set[str]()
        layers: dict[Step, None] = {}
        for constant in constants:
            parameters.update(constant.parameters)
            layers.update(dict.fromkeys(constant.layers))
        return steps, _Constant(frozenset(parameters), layers=tuple(layers))

    def _roles(self, argument: Any, role: OtherRole) -> dict[str, OtherRole]:
        """Return a role for the parameters that the constants in an argument are computed from."""
        return dict.fromkeys(self._read(argument)[1].parameters, role)

    def _value(self, call: Call) -> Step | _Constant:
        """Return the value of a call; a step that constants of layers enter has them as gates."""
        arguments: Any = (call.node.args, call.node.kwargs)
        if call.operation in ops.SHAPED_LIKE:  # `x.expand_as(y)` reads only the shape of y
            arguments = call.node.args[:1]
        data, rest = self._read(arguments)
        if not data:
            return self._constant(call, rest)
        zero = call.operation == "mul" and 0 in call.node.args and len(data) == 1
        if zero or call.operation in ops.CONSTANTS or not (call.in_place or _carries(call.node)):
            return _Constant(rest.parameters, layers=rest.layers)
        step = None
        if "out" not in call.node.kwargs:
            reader = self.readers.get(call.operation, self._unary)
            step = reader(call, data)
        if step is None:
            step = self._opaque(call, data)
        self.steps.append(step)
        if not step.weight:
            for name in rest.parameters:
                step.roles.setdefault(name, "other")
        step.gates = [*step.gates, *rest.layers]
        note(call, data, step)
        return step

    def _constant(self, call: Call, rest: _Constant) -> _Constant:
        """Return the value of a call that reads no data; a learned query can pass layers."""
        if call.operation in ops.CONVOLUTIONS | {"linear"}:
            name = self._read(call.argument(1))[1].weight
            if name is not None:
                layer = self._add(self._weighted(call, (), name))
                return _Constant(rest.parameters - _named([layer]), layers=(*rest.layers, layer))
        if call.operation in ops.VIEWS:
            return rest
        return _Constant(rest.parameters, layers=rest.layers)

    def _unary(self, call: Call, data: list[Step]) -> Step | None:
        join = data[0].join
        if join and join.stacked and call.operation in ("sum", "mean"):
            return self._total(call, data, join)
        kind = ops.KINDS.get(call.operation)
        first = call.operation == "where" or self._read(call.argument(0))[0] == data
        if kind is None or len(data) > 1 or not first or _takes_part(call, data[0]):
            return None
        if call.operation == "pad" and call.argument(3):  # with a constant
            kind = "pointwise"
        return Step(kind, data)

    def _layer(self, call: Call, data: list[Step]) -> Step | None:
        source, matrix, _ = ops.LAYERS[call.operation]
        weights, weight = self._read(call.argument(matrix))
        if weights or self._read(call.argument(source))[0] != data:
            return self._product(call, data)
        made_from = weight.parameters | _named(weight.layers)
        if not made_from:  # a fixed filter
            return Step("homogeneous", data, self._roles(call.node.args, "offset"))
        is_vector = call.operation in ops.MATMULS and len(_shape(call.argument(matrix))) != 2
        if weight.weight is None or is_vector:
            made = " and ".join(sorted(made_from))
            raise UntraceableError(f"{call.title}: its weight is computed from {made}")
        return self._weighted(call, data, weight.weight)

    def _weighted(self, call: Call, reads: Sequence[Step], name: str) -> Step:
        _, matrix, shift = ops.LAYERS[call.operation]
        biases = self._roles(call.argument(shift), "bias")
        weight = Weight(
            name=name,
            bias=min(biases, default=None),
            operation=call.operation,
            fan_in=_fan_in(call, _shape(call.argument(matrix))),
            channels_first=call.operation in ops.CONVOLUTIONS or len(_shape(call.node)) == 2,
        )
        return Step("layer", reads, biases, weight)

    def _attention(self, call: Call, data: list[Step]) -> Step | None:  # noqa: ARG002 - a reader
        values, _ = self._read(call.argument(2))
        if not values or self._entry(call):
            return None
        query, key, _, *rest = call.node.args
        gates, _ = self._read(query, key, rest, call.node.kwargs)
        return Step("homogeneous", values, gates=gates)

    def _product(self, call: Call, data: list[Step]) -> Step | None:
        step = product(call.operation, data)
        if step is None or (step.kind != "norm" and self._entry(call)):
            return None
        if step.kind == "norm":
            one = reversed(_shape(call.argument(0)))
            two = reversed(_shape(call.argument(1)))
            sizes = enumerate(zip(one, two, strict=False))
            step.dims = frozenset(dim for dim, pair in sizes if 1 in pair)
        return step

    def _arithmetic(self, call: Call, data: list[Step]) -> Step | None:
        is_sum = call.operation in ops.SUMS
        if len(data) == 2 and is_sum and call.node.kwargs.get("alpha") != 0:
            return Step("sum", data)
        if len(data) > 1:
            return self._product(call, data)
        if call.operation == "div" and not self._read(call.argument(0))[0]:
            return None
        affine = self._behind_norm(data[0], call)
        role: OtherRole
        if not is_sum:
            kind: OperationKind = "homogeneous"
            role = "gain" if affine else "factor"
        else:
            kind = "view" if 0 in call.node.args else "pointwise"
            role = "shift" if affine else "offset"
        return Step(kind, data, self._roles(call.node.args, role))

    def _behind_norm(self, step: Step, call: Call) -> bool:
        """Return whether a term is a parameter along the dimensions of a norm before `step`."""
        while step.kind == "view" or (step.kind == "homogeneous" and "gain" in step.roles.values()):
            step = step.reads[0]
        for term in call.node.all_input_nodes:
            value = self.values.get(term)
            if isinstance(value, _Constant) and value.weight is not None:
                shape = enumerate(reversed(_shape(term)))
                dims = {dim for dim, size in shape if size > 1}
                return bool(dims) and dims <= step.dims
        return False

    def _join(self, call: Call, data: list[Step]) -> Step | None:
        parts = call.argument(0)
        shape = _shape(call.node)
        rank = len(shape)
        dim = call.argument(1, 0) % rank
        stacked = call.operation == "stack"
        join = Join(rank=rank, dim=dim, size=shape[dim], stacked=stacked)
        step = Step("join", data, join=join)
        if stacked:
            step.shares = [1] * len(data)
        else:
            step.shares = [_shape(part)[dim] for part in parts if self._read(part)[0]]
            step.channelwise = len(data) == len(parts) and dim == min(rank - 1, 1)
        return step

    def _total(self, call: Call, data: list[Step], stack: Join) -> Step | None:
        """Read the sum or mean of a stack; over the stack's dimension, it adds the parts."""
        dims = {given % stack.rank for given in call.argument(1) or range(stack.rank)}
        if stack.dim not in dims:
            return Step("homogeneous", data)
        parts = data[0].reads
        if len(parts) != stack.size:  # some parts are constants
            return None
        total = self._add(Step("sum", parts))
        plain = call.operation == "sum" and len(dims) == 1
        return Step("view" if plain else "homogeneous", [total])

    def _norm(self, call: Call, data: list[Step]) -> Step | None:
        if len(data) > 1:
            return None
        gain = ops.NORMS[call.operation]
        roles = self._roles(call.argument(gain), "gain")
        roles |= self._roles(call.argument(gain + 1), "shift")
        channelwise = call.operation in ops.CHANNELWISE
        if channelwise and not call.argument(5):  # with fixed statistics
            return Step("pointwise", data, roles)
        return Step("norm", data, roles, channelwise=channelwise)

    def _entry(self, call: Call) -> str | None:
        """Return the key in `opaque` for a call, or None."""
        for key in (call.node.name, call.module, call.operation):
            if key in self.opaque:
                return key
        return None

    def _opaque(self, call: Call, data: list[Step]) -> Step:
        key = self._entry(call)
        if key is None:
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
            return Step("unknown", data, problem=problem)
        given = self.opaque[key]
        counts = itertools.chain(*given)
        if len(given) != len(data) or not all(0 <= count < 100 for count in counts):
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
        return Step("opaque", reads, gates=gates, paths=through)

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


def _named(steps: Iterable[Step]) -> set[str]:
    """Return the parameters that have a role in any of the steps."""
    names = set[str]()
    for step in steps:
        names.update(step.roles)
        if step.weight:
            names.add(step.weight.name)
    return names


def _takes_part(call: Call, step: Step) -> bool:
    """Return whether a call takes a part of a concatenation, or combines parts of a stack."""
    join = step.root.join
    if join is None:
        return False
    combines = join.stacked and (call.operation in ops.STATISTICS or call.operation == "max")
    if not combines and call.operation not in ops.PARTS | {"glu"}:
        return False
    shape = _shape(call.node)
    return len(shape) != join.rank or shape[join.dim] != join.size


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
