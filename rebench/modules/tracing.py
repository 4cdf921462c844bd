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

__all__ = ["Call", "Program", "TracerName", "UntraceableError", "trace"]

TracerName: TypeAlias = Literal["export", "fx"]


class UntraceableError(InputError):
    """Graph that cannot be read, or a node with unknown paths."""


class Call:
    """One operation on nodes of the trace and plain values.

    Attributes:
        node: the node of the trace.
        operation: name in ATen without the underscore of in-place forms: ``add`` for ``add_``.
        in_place: whether the call writes its result into an argument.
        module: path of the innermost module that makes the call, if the tracer records it.
    """

    def __init__(self, node: fx.Node) -> None:
        self.node = node
        schema = getattr(node.target, "_schema", None)
        self.in_place: bool = schema is not None and schema.is_mutable
        self.operation = str(getattr(node.target, "__name__", ""))
        if schema is not None:
            self.operation = schema.name.split("::")[-1]
        if self.in_place:
            self.operation = self.operation.removesuffix("_")
        self.module = ""
        for path, _ in node.meta.get("nn_module_stack", {}).values():
            self.module = str(path)

    @property
    def title(self) -> str:
        """Name of the call in messages."""
        where = f" in module {self.module!r}" if self.module else ""
        return f"node {self.node.name!r} ({self.operation}){where}"

    def argument(self, position: int | None, default: Any = None) -> Any:
        """Return an argument by position; keyword-only arguments have no position."""
        if position is None or position >= len(self.node.args):
            return default
        return self.node.args[position]


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
        read = _exported if tracer == "export" else _dispatched
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return read(copy.deepcopy(model).train(), inputs)
            # A user's forward method can raise any exception in a tracer.
            except Exception as error:  # noqa: BLE001 - the message below lists all reasons
                line = (str(error).strip() or "no message").splitlines()[0]
                reasons.append(f"torch.{tracer}: {type(error).__name__}: {line[:200]}")
    raise UntraceableError(
        f"the graph of {type(model).__name__} cannot be read; {'; '.join(reasons)}"
    )


def _exported(model: nn.Module, inputs: tuple[Any, ...]) -> Program:
    exported = torch.export.export(model, inputs, strict=False)
    signature = exported.graph_signature
    first = {id(value): name for name, value in model.named_parameters()}
    given = []
    parameters = {}
    for node in exported.graph.nodes:
        if isinstance(node.target, HigherOrderOperator):  # for example `torch.autocast`
            raise UntraceableError(f"node {node.name!r} ({node.target}) contains another program")
        if node.name in signature.user_inputs:
            given.append(node)
        if node.name in signature.inputs_to_parameters:
            name = signature.inputs_to_parameters[node.name]
            parameters[node] = first[id(model.get_parameter(name))]  # tied weights have one name
    return _program("export", exported.graph, given, parameters)


def _dispatched(model: nn.Module, inputs: tuple[Any, ...]) -> Program:
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    own = parameters | dict(model.named_buffers())

    def run(values: Sequence[torch.Tensor], arguments: tuple[Any, ...]) -> list[Any]:
        named = dict(zip(own, values, strict=True))
        output = torch.func.functional_call(model, named, arguments)
        return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]

    traced = make_fx(run, tracing_mode="fake", pre_dispatch=True, _allow_non_fake_inputs=True)
    graph = traced(list(own.values()), inputs).graph
    given = []
    for node in graph.nodes:
        if node.name == "_set_grad_enabled":
            raise UntraceableError("gradients are switched off in a part of the network")
        if node.op == "placeholder":
            given.append(node)
    named = dict(zip(given, parameters, strict=False))
    return _program("fx", graph, given[len(own) :], named)


def _program(
    tracer: TracerName, graph: fx.Graph, given: list[fx.Node], parameters: dict[fx.Node, str]
) -> Program:
    calls = []
    for node in list(graph.nodes):  # products are inserted
        if node.op == "call_function":
            call = Call(node)
            if call.operation == "addcmul" and not call.in_place:
                calls += _written_out(node)
            else:
                calls.append(call)
    outputs = graph.output_node().all_input_nodes
    return Program(tracer=tracer, inputs=given, outputs=outputs, parameters=parameters, calls=calls)


def _written_out(total: fx.Node) -> list[Call]:
    """Turn a node of `addcmul` into a sum; return the calls of its products and the sum."""
    aten = torch.ops.aten
    arguments: Any = total.args
    first, one, two = arguments
    scale = total.kwargs.get("value", 1)
    with total.graph.inserting_before(total):
        name = f"{total.name}_product"
        product = total.graph.create_node("call_function", aten.mul.Tensor, (one, two), name=name)
        product.meta.update(total.meta, val=aten.mul(one.meta["val"], two.meta["val"]))
        calls = [Call(product)]
        if scale != 1:
            scaled = total.graph.call_function(aten.mul.Tensor, (product, scale))
            scaled.meta.update(product.meta)
            calls.append(Call(scaled))
    total.target = aten.add.Tensor
    total.args = (first, calls[-1].node)
    total.kwargs = {}
    return [*calls, Call(total)]
