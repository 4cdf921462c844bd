"""Trace of a module as a list of calls to ATen, by `torch.export` or, if that fails, `torch.fx`.

The meaning of operations is defined in `reading`. A copy of the model is traced in training mode,
on tensors without values.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import fx, nn
from torch._ops import HigherOrderOperator
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from rebench.errors import InputError

__all__ = ["Call", "Program", "TracerName", "UntraceableError", "trace", "written_out"]

TracerName: TypeAlias = Literal["export", "fx"]


class UntraceableError(InputError):
    """Graph that cannot be read, or a node with unknown paths."""


@dataclass(frozen=True, slots=True)
class Call:
    """One operation on nodes of the trace and plain values."""

    node: fx.Node

    @property
    def operation(self) -> str:
        """Name in ATen without the underscore of in-place forms: ``add`` for ``add_``."""
        if not self._schema:
            return str(getattr(self.node.target, "__name__", ""))
        name = str(self._schema.name).split("::")[-1]
        return name.removesuffix("_") if self.in_place else name

    @property
    def in_place(self) -> bool:
        """Whether the call writes its result into an argument."""
        return bool(self._schema and self._schema.is_mutable)

    @property
    def module(self) -> str:
        """Path of the innermost module that makes the call, if the tracer records it."""
        stack = self.node.meta.get("nn_module_stack")
        if not stack:
            return ""
        path = list(stack.values())[-1][0]
        return str(path)

    @property
    def title(self) -> str:
        """Name of the call in messages."""
        where = f" in module {self.module!r}" if self.module else ""
        return f"node {self.node.name!r} ({self.operation}){where}"

    @property
    def _schema(self) -> Any:
        return getattr(self.node.target, "_schema", None)

    def argument(self, position: int | None, default: Any = None) -> Any:
        """Return an argument by position; keyword-only arguments have no position."""
        if position is None or position >= len(self.node.args):
            return default
        return self.node.args[position]


def written_out(call: Call) -> list[Call]:
    """Return a call of `addcmul` as products and a sum; the sum keeps its node."""
    total, aten = call.node, torch.ops.aten
    first, one, two = (call.argument(place) for place in range(3))
    scale = total.kwargs.get("value", 1)
    with total.graph.inserting_before(total):
        product = total.graph.create_node(
            "call_function", aten.mul.Tensor, (one, two), name=f"{total.name}_product"
        )
        product.meta.update(total.meta, val=aten.mul(one.meta["val"], two.meta["val"]))
        calls = [Call(product)]
        if scale != 1:
            product = total.graph.call_function(aten.mul.Tensor, (product, scale))
            product.meta.update(calls[0].node.meta)
            calls.append(Call(product))
    total.target, total.args, total.kwargs = aten.add.Tensor, (first, product), {}
    return [*calls, Call(total)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Calls of a network in order, with its inputs, outputs and parameters."""

    tracer: TracerName
    inputs: Sequence[fx.Node]
    outputs: Sequence[fx.Node]
    parameters: Mapping[fx.Node, str]
    calls: Sequence[Call]


def trace(
    model: nn.Module, inputs: tuple[Any, ...], tracers: Sequence[TracerName] = ("export", "fx")
) -> Program:
    """Trace `model` on `inputs` with the first tracer that works."""
    reasons = []
    for tracer in tracers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read = _exported if tracer == "export" else _dispatched
                nodes, given, parameters = read(copy.deepcopy(model).train(), inputs)
            # A user's forward method can raise any exception in a tracer.
            except Exception as error:  # noqa: BLE001 - the message below lists all reasons
                line = (str(error).strip() or "no message").splitlines()[0]
                reasons.append(f"torch.{tracer}: {type(error).__name__}: {line[:200]}")
                continue
        return Program(
            tracer=tracer,
            inputs=given,
            outputs=nodes[-1].all_input_nodes,
            parameters=parameters,
            calls=[Call(node) for node in nodes if node.op == "call_function"],
        )
    raise UntraceableError(
        f"the graph of {type(model).__name__} cannot be read; {'; '.join(reasons)}"
    )


# All nodes of a trace, its input nodes, and its parameter nodes with their names.
_Trace: TypeAlias = tuple[list[fx.Node], list[fx.Node], dict[fx.Node, str]]


def _exported(model: nn.Module, inputs: tuple[Any, ...]) -> _Trace:
    exported = torch.export.export(model, inputs, strict=False)
    signature = exported.graph_signature
    nodes = list(exported.graph.nodes)
    first = {id(value): name for name, value in model.named_parameters()}
    given = []
    parameters = {}
    for node in nodes:
        if isinstance(node.target, HigherOrderOperator):  # for example `torch.autocast`
            raise UntraceableError(f"node {node.name!r} ({node.target}) contains another program")
        if node.name in signature.user_inputs:
            given.append(node)
        if node.name in signature.inputs_to_parameters:
            name = signature.inputs_to_parameters[node.name]
            parameters[node] = first[id(model.get_parameter(name))]  # tied weights have one name
    return nodes, given, parameters


def _dispatched(model: nn.Module, inputs: tuple[Any, ...]) -> _Trace:
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    own = parameters | dict(model.named_buffers())

    def run(values: Sequence[torch.Tensor], arguments: tuple[Any, ...]) -> list[Any]:
        named = dict(zip(own, values, strict=True))
        output = torch.func.functional_call(model, named, arguments)
        return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]

    traced = make_fx(run, tracing_mode="fake", pre_dispatch=True, _allow_non_fake_inputs=True)
    nodes = list(traced(list(own.values()), inputs).graph.nodes)
    if any(node.name == "_set_grad_enabled" for node in nodes):
        raise UntraceableError("gradients are switched off in a part of the network")
    given = [node for node in nodes if node.op == "placeholder"]
    return nodes, given[len(own) :], dict(zip(given, parameters, strict=False))
