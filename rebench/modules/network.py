"""Graph of a network, as recipes read it.

A vertex is the input, a layer, a sum, a concatenation or the output. Nested sums are one sum if
nothing else reads the inner sum. The in-degree of a sum is its number of terms; a layer that only
goes into a sum has the in-degree of that sum. A weight that is used twice has two vertices. A
readout is a layer that no other layer follows. As in the benchmark's networks, its edge counts as
an edge without a layer: depths count the layers before the readout.

A concatenation has the paths of its parts. It adds no in-degree, because the fan-in of the next
layer counts all parts. No path leads through a gate: the layers that compute a gate have vertices,
but no edge leads from them to the output. Steps that cannot reach the output are omitted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import nn

from cells.dag import LAYER, SKIP_EDGE
from rebench.errors import InputError
from rebench.modules.operations import UNARY
from rebench.modules.reading import Opaque, StepReader
from rebench.modules.steps import OtherRole, Step, Weight
from rebench.modules.tracing import TracerName, UntraceableError, trace
from rebench.recipes.graph import NetworkGraph

__all__ = ["Network", "Use", "WeightRole", "read_network"]

WeightRole: TypeAlias = Literal["stem", "hidden", "readout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One application of a weight, and its position in the graph."""

    weight: Weight
    role: WeightRole
    edge: tuple[int, int]  # (target, source) in the graph
    in_degree: int  # number of terms in the sum that its output goes into
    paths: int
    normalised: bool  # followed by normalisation, and nothing in between depends on its scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Result of a trace: the graph, the layers on its edges, and the roles of other parameters."""

    graph: NetworkGraph
    uses: tuple[Use, ...]
    roles: Mapping[str, OtherRole]
    tracer: TracerName


def read_network(
    model: nn.Module,
    inputs: torch.Tensor | Sequence[Any],
    *,
    opaque: Opaque = "error",
    tracer: TracerName | None = None,
) -> Network:
    """Read the graph of a network.

    Args:
        model: any module; a copy is traced in training mode.
        inputs: the arguments of a call of the model; only their shapes matter.
        opaque: treatment of nodes with unknown paths. ``"error"`` refuses them. A mapping from a
            node, module or operation gives a polynomial for each value that it reads:
            coefficient k is the number of paths with k layers, as in ``{"mul": [(1,), ()]}``.
        tracer: ``"export"`` or ``"fx"``; by default the first of them that works.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch module, got {type(model).__name__}")
    if not isinstance(inputs, torch.Tensor | Sequence):
        raise InputError(f"inputs must be a tensor or a tuple, got {type(inputs).__name__}")
    if not isinstance(inputs, torch.Tensor) and all(isinstance(value, int) for value in inputs):
        raise InputError("inputs must be a tensor or a tuple of tensors, got numbers")
    if opaque != "error" and not isinstance(opaque, Mapping):
        raise InputError(f"opaque must be 'error' or a mapping of nodes to paths, got {opaque!r}")
    arguments = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    program = trace(model, arguments, (tracer,) if tracer else ("export", "fx"))
    reader = StepReader(program, opaque)
    outputs = reader.read()
    builder = _Builder(reader.steps, outputs)
    graph, uses = builder.build(f"network {type(model).__name__}")
    roles: dict[str, OtherRole] = {}
    for step in builder.live:
        roles.update(step.roles)
    both = sorted({use.weight.name for use in uses} & set(roles))
    if both:
        raise UntraceableError(f"{both[0]} is the weight of a layer and is also used otherwise")
    return Network(graph=graph, uses=uses, roles=roles, tracer=program.tracer)


class _Builder:
    """Vertices and edges of the steps that lead to an output."""

    def __init__(self, steps: Sequence[Step], outputs: Sequence[Step]) -> None:
        self.outputs = outputs
        on_paths = _leading(outputs)
        for step in steps:
            if step in on_paths and step.problem:
                raise UntraceableError(step.problem)
        leading = _leading(outputs, gates=True)
        self.live = [step for step in steps if step in leading]
        self.gates = set[Step]()
        self.readers: dict[Step, list[Step]] = defaultdict(list)
        for step in self.live:
            if step.kind != "norm":
                self.gates.update(step.gates)
            for read in step.reads:
                self.readers[read].append(step)
        # The region of a step: 0 on a path, 1 in the computation of a gate, 2 only in statistics of
        # norms.
        self.region = dict.fromkeys(self.live, 2)
        self.region.update(dict.fromkeys(_leading(self.gates), 1))
        self.region.update(dict.fromkeys(on_paths, 0))
        self.before = set[Step]()  # steps with a layer before them
        self.after = set[Step]()  # steps with a layer after them
        for step in self.live:
            if any(read in self.before or _has_layer(read) for read in step.reads):
                self.before.add(step)
        for step in reversed(self.live):
            followers = self._followers(step)
            if any(reader in self.after or _has_layer(reader) for reader in followers):
                self.after.add(step)
        self.arcs: list[tuple[int, int, int]] = []
        self.degrees = [1]  # of the input and of each later vertex
        self.terms: dict[Step, int] = {}  # number of terms of each sum, inner sums included
        self.vertices: dict[Step, int] = {}
        # Whether normalisation follows a step, and whether it does for a part of a concatenation.
        self.settled: dict[tuple[Step, bool], bool] = {}

    def _followers(self, step: Step) -> list[Step]:
        """Return the steps in the same region that read this step."""
        region = self.region[step]
        return [reader for reader in self.readers[step] if self.region[reader] == region]

    def build(self, title: str) -> tuple[NetworkGraph, tuple[Use, ...]]:
        for step in self.live:
            if step.kind == "sum":
                self.terms[step] = self._count_terms(step)
        for step in self.live:
            if step.kind == "input":
                self.vertices[step] = 0
            elif step.kind not in UNARY:
                self.vertices[step] = self._add(step)
        self._vertex([self._source(step) for step in self.outputs])
        for step in reversed(self.live):
            for joined in (False, True):
                self.settled[step, joined] = self._settles(step, joined=joined)
        uses = self._uses()
        hidden = {use.normalised for use in uses if use.role != "readout"}
        graph = NetworkGraph(
            title=title,
            arcs=tuple(self.arcs),
            degrees=tuple(self.degrees[1:]),
            joins=any(step.kind == "join" for step in self.live),
            normalised=None if len(hidden) == 2 else True in hidden,
        )
        return graph, uses

    def _count_terms(self, step: Step) -> int:
        """Return the number of terms of a sum; an inner sum counts with its own terms."""
        count = 0
        for read in step.reads:
            if self._sum_of(read.root) is step:
                count += self.terms.get(read.root, 1)
            else:
                count += 1
        return count

    def _source(self, step: Step) -> int:
        return self.vertices[step.root]

    def _vertex(self, sources: Sequence[int], op: int = SKIP_EDGE, degree: int = 1) -> int:
        vertex = len(self.degrees)
        for source in sources:
            self.arcs.append((vertex, source, op))
        self.degrees.append(degree)
        return vertex

    def _add(self, step: Step) -> int:
        """Make the vertex of a layer, a sum, a concatenation or an opaque step."""
        sources = [self._source(read) for read in step.reads]
        if step.kind == "opaque":
            return self._vertex(self._given(step, sources))
        op = SKIP_EDGE
        if step.weight and self._role(step) != "readout":
            op = LAYER
        return self._vertex(sources, op, self._degree(step, sources))

    def _given(self, step: Step, sources: Sequence[int]) -> list[int]:
        """Return the ends of the paths into an opaque step; add a vertex for each layer on them."""
        ends = []
        for source, paths in zip(sources, step.paths, strict=True):
            for depth, count in enumerate(paths):
                for _ in range(count):
                    end = source
                    for _ in range(depth):
                        end = self._vertex([end], LAYER)
                    ends.append(end)
        return ends

    def _degree(self, step: Step, sources: Sequence[int]) -> int:
        if step.kind == "join":  # the mean over its channels
            terms = 0
            for channels, part in zip(step.shares, sources, strict=True):
                terms += channels * self.degrees[part]
            return max(round(terms / max(sum(step.shares), 1)), 1)
        outer: Step | None = step
        while outer is not None:
            step = outer
            outer = self._sum_of(step)
        return self.terms.get(step, 1)

    def _role(self, step: Step) -> WeightRole:
        """Return the role of a layer; a layer in a gate is never a readout."""
        if step not in self.after and self.region[step] == 0:
            return "readout"
        return "hidden" if step in self.before or not step.reads else "stem"

    def _sum_of(self, step: Step) -> Step | None:
        """Return the sum that alone reads the output of a layer or a sum.

        None if `step` is of another kind, has several readers, or its reader is no sum.
        """
        kind = step.kind
        if kind not in ("layer", "sum"):
            return None
        while step not in self.outputs:
            followers = self._followers(step)
            if len(followers) != 1:
                return None
            (step,) = followers
            if step.kind == "sum":
                return step
            if step.kind not in UNARY or (kind == "sum" and step.kind != "view"):
                return None
        return None

    def _uses(self) -> tuple[Use, ...]:
        into = [1] + [0] * (len(self.degrees) - 1)
        for target, source, _ in self.arcs:
            into[target] += into[source]
        out = [0] * (len(self.degrees) - 1) + [1]
        for target, source, _ in reversed(self.arcs):
            out[source] += out[target]
        uses = []
        for step in self.live:
            if not step.weight:
                continue
            target = self.vertices[step]
            source = 0  # a learned query reads nothing
            if step.reads:
                source = self._source(step.reads[0])
            use = Use(
                weight=step.weight,
                role=self._role(step),
                edge=(target, source),
                in_degree=self.degrees[target],
                paths=into[source] * out[target],
                normalised=self.settled[step, False],
            )
            uses.append(use)
        return tuple(uses)

    def _settles(self, step: Step, *, joined: bool) -> bool:
        """Return whether every reader normalises a value before anything depends on its scale.

        A bias breaks this, unless batch normalisation follows immediately. A normalisation across
        channels breaks it for the parts of a concatenation: their relative scales matter.
        """
        if step in self.outputs or step in self.gates:
            return False
        shifted = False
        if step.weight and step.weight.bias is not None:
            shifted = True
            if not step.weight.channels_first:
                return False
        for reader in self.readers[step]:
            if not self._settles_in(reader, shifted=shifted, joined=joined):
                return False
        return True

    def _settles_in(self, step: Step, *, shifted: bool, joined: bool) -> bool:
        if self.region[step] == 2:  # leads to norms that also read the value directly
            return True
        if step.kind == "norm":
            return step.channelwise or not (shifted or joined)
        if shifted or step.kind not in ("view", "homogeneous", "layer", "join"):
            return False
        if step.kind == "join":
            return step.channelwise and self.settled[step, True]
        if joined and (step.weight or step.gates):
            return False  # mixes the parts of a concatenation: none can be scaled separately
        return self.settled[step, joined]


def _leading(ends: Iterable[Step], *, gates: bool = False) -> set[Step]:
    """Return `ends` and the steps that lead to any of them; through gates only if `gates`."""
    found = set[Step]()
    waiting = list(ends)
    while waiting:
        step = waiting.pop()
        if step not in found:
            found.add(step)
            waiting += step.reads
            if gates:
                waiting += step.gates
    return found


def _has_layer(step: Step) -> bool:
    """Return whether a step is a layer, or the given paths through it have layers."""
    if step.weight:
        return True
    return any(any(paths[1:]) for paths in step.paths)
