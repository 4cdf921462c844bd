"""A module as a list of calls: by `torch.export` first, by `torch.fx` where that fails.

Nothing here knows what an operation means; `steps` does. The model is traced in training mode,
since that is how it will be trained, as a copy.
"""

from __future__ import annotations

import copy
import inspect
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.utils import _pytree as pytree

from rebench.errors import InputError
from rebench.modules.operations import canonical

__all__ = ["Call", "Named", "Program", "TracerName", "UntraceableError", "trace"]

TracerName: TypeAlias = Literal["export", "fx"]

_IN_PLACE = {"iadd", "isub", "imul", "itruediv", "setitem"}


class UntraceableError(InputError):
    """A graph that cannot be read, or a node of it whose paths are not known."""


class Named(str):
    """The name of a parameter among the arguments of a call."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation. Its arguments are nodes of the trace, `Named` parameters and plain values."""

    node: fx.Node
    operation: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    in_place: bool

    @property
    def module(self) -> str:
        """The path of the innermost module that makes the call."""
        stack = self.node.meta.get("nn_module_stack") or {}
        entries = [entry[0] if isinstance(entry, tuple) else key for key, entry in stack.items()]
        return str(entries[-1]) if entries else ""

    @property
    def title(self) -> str:
        """The call, as messages name it."""
        where = f" in module {self.module!r}" if self.module else ""
        return f"node {self.node.name!r} ({self.operation}){where}"

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument, whether it was given by position or by name."""
        if len(self.args) > position:
            return self.args[position]
        return self.kwargs.get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The calls of a network in order, and where data come in and go out."""

    tracer: TracerName
    inputs: Sequence[fx.Node]
    outputs: Sequence[fx.Node]
    parameters: Mapping[fx.Node, str]
    calls: Sequence[Call]


def trace(
    model: nn.Module, inputs: tuple[Any, ...], tracers: Sequence[TracerName] = ("export", "fx")
) -> Program:
    """Trace `model` on `inputs` by the first of the tracers that can."""
    # Tracing leaves constants behind, and the run that gives shapes running statistics: in a copy.
    model = copy.deepcopy(model).train()
    first = {id(value): name for name, value in model.named_parameters()}
    everything = model.named_parameters(remove_duplicate=False)
    names = {name: first[id(value)] for name, value in everything}
    reasons = []
    for tracer in tracers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return (_exported if tracer == "export" else _symbolic)(model, inputs, names)
            # What a user's forward raises under a tracer can be anything.
            except Exception as error:  # noqa: BLE001 - the reasons are all given below
                line = (str(error).strip() or "no message").splitlines()[0]
                reasons.append(f"torch.{tracer}: {type(error).__name__}: {line[:200]}")
    raise UntraceableError(
        f"the graph of {type(model).__name__} cannot be read; {'; '.join(reasons)}"
    )


def _exported(model: nn.Module, inputs: tuple[Any, ...], names: Mapping[str, str]) -> Program:
    exported = torch.export.export(model, inputs, strict=False)
    signature, nodes = exported.graph_signature, list(exported.graph.nodes)
    owned = signature.inputs_to_parameters
    return Program(
        tracer="export",
        inputs=[node for node in nodes if node.name in signature.user_inputs],
        outputs=[node for node in nodes if node.name in signature.user_outputs],
        parameters={node: names[owned[node.name]] for node in nodes if node.name in owned},
        calls=[_call(node, model, names) for node in nodes if node.op == "call_function"],
    )


class _Proxy(fx.Proxy):
    """A traced value whose ``+=`` is one; torch's own becomes a sum, which other names miss."""


for _function in (operator.iadd, operator.isub, operator.imul, operator.itruediv):

    def _write(self: fx.Proxy, other: Any, function: Callable[..., Any] = _function) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    setattr(_Proxy, f"__{_function.__name__}__", _write)


class _Tracer(fx.Tracer):
    """Looks into all modules but normalisations, which ask for the size of a batch."""

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002 - torch's
        return isinstance(m, _NormBase)


class _Shapes(fx.Interpreter):
    """Runs a graph and notes the shape and type of every result, as `torch.export` does."""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        n.meta["val"] = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().to("meta"), result)
        return result


def _symbolic(model: nn.Module, inputs: tuple[Any, ...], names: Mapping[str, str]) -> Program:
    asked = list(inspect.signature(model.forward).parameters.values())[len(inputs) :]
    left_out = {each.name: each.default for each in asked if each.default is not each.empty}
    module = fx.GraphModule(model, _Tracer().trace(model, left_out))
    with torch.random.fork_rng(), torch.no_grad():
        _Shapes(module).run(*inputs)
    nodes = list(module.graph.nodes)
    called = ("call_module", "call_function", "call_method")
    return Program(
        tracer="fx",
        inputs=[node for node in nodes if node.op == "placeholder"],
        outputs=nodes[-1].all_input_nodes,
        parameters={n: names[n.target] for n in nodes if n.op == "get_attr" and n.target in names},
        calls=[_call(node, model, names) for node in nodes if node.op in called],
    )


def _call(node: fx.Node, model: nn.Module, names: Mapping[str, str]) -> Call:
    kwargs: dict[str, Any] = dict(node.kwargs)
    name = str(node.target if node.op == "call_method" else getattr(node.target, "__name__", ""))
    if schema := getattr(node.target, "_schema", None):
        name = schema.name.split("::")[-1]
    elif node.op == "call_module":  # a normalisation, as the function of this name has it
        module = model.get_submodule(str(node.target))
        name = "instance_norm" if isinstance(module, _InstanceNorm) else "batch_norm"
        kwargs["training"] = module.training or getattr(module, "running_mean", None) is None
        kwargs |= {
            own: Named(names[f"{node.target}.{own}"]) for own, _ in module.named_parameters()
        }
    elif name == "getattr":  # an attribute is an operation, too: `T` or `shape`
        name = str(node.args[1])
    written = name.endswith("_") and not name.endswith("__")
    return Call(
        node=node,
        operation=canonical(name),
        args=node.args,
        kwargs=kwargs,
        in_place=written or name in _IN_PLACE or kwargs.get("inplace") is True,
    )
