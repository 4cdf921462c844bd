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
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    builder = _Builder(outputs=reader.read(), steps=reader.steps)
    graph, uses = builder.build(f"network {type(model).__name__}")
    roles: dict[str, OtherRole] = {}
    for i in builder.live:
        roles.update(reader.steps[i].roles)
    both = sorted({use.weight.name for use in uses} & set(roles))
    if both:
        raise UntraceableError(f"{both[0]} is the weight of a layer and is also used otherwise")
    return Network(graph=graph, uses=uses, roles=roles, tracer=program.tracer)


class _Builder:
    """Vertices and edges of the steps that lead to an output."""

    def __init__(self, steps: Sequence[Step], outputs: Sequence[int]) -> None:
        self.steps = steps
        self.outputs = outputs
        on_paths = self._leading(outputs)
        for i in sorted(on_paths):
            if steps[i].problem:
                raise UntraceableError(steps[i].problem)
        self.live = sorted(self._leading(outputs, gates=True))
        self.gates = set[int]()
        self.readers: dict[int, list[int]] = defaultdict(list)
        for i in self.live:
            if steps[i].kind != "norm":
                self.gates.update(steps[i].gates)
            for read in steps[i].reads:
                self.readers[read].append(i)
        # The region of a step: 0 on a path, 1 in the computation of a gate, 2 only in statistics of
        # norms.
        self.region = dict.fromkeys(self.live, 2)
        self.region.update(dict.fromkeys(self._leading(self.gates), 1))
        self.region.update(dict.fromkeys(on_paths, 0))
        layers = {
            i for i in self.live if steps[i].weight or any(any(p[1:]) for p in steps[i].paths)
        }
        self.before = set[int]()  # steps with a layer before them
        passed = set(layers)
        for i in self.live:
            if not passed.isdisjoint(steps[i].reads):
                self.before.add(i)
                passed.add(i)
        self.after = set[int]()  # steps with a layer after them
        ahead = set(layers)
        for i in reversed(self.live):
            if not ahead.isdisjoint(self._followers(i)):
                self.after.add(i)
                ahead.add(i)
        self.arcs: list[tuple[int, int, int]] = []
        self.degrees = [1]  # of the input and of each later vertex
        self.terms: dict[int, int] = {}  # number of terms of each sum, inner sums included
        self.vertices: dict[int, int] = {}  # step -> its vertex
        self.settled: dict[tuple[int, bool], bool] = {}

    def _leading(self, ends: Collection[int], *, gates: bool = False) -> set[int]:
        """Return `ends` and the steps that lead to any of them; through gates only if `gates`."""
        found = set[int]()
        waiting = list(ends)
        while waiting:
            i = waiting.pop()
            if i in found:
                continue
            found.add(i)
            waiting += self.steps[i].reads
            if gates:
                waiting += self.steps[i].gates
        return found

    def _followers(self, i: int) -> list[int]:
        """Return the steps in the same region that read this step."""
        return [reader for reader in self.readers[i] if self.region[reader] == self.region[i]]

    def build(self, title: str) -> tuple[NetworkGraph, tuple[Use, ...]]:
        for i in self.live:
            if self.steps[i].kind == "sum":
                self.terms[i] = self._count_terms(i)
        for i in self.live:
            if self.steps[i].kind == "input":
                self.vertices[i] = 0
            elif self.steps[i].kind not in UNARY:
                self.vertices[i] = self._add(i)
        self._vertex([(self._source(i), SKIP_EDGE) for i in self.outputs])
        uses = self._uses()
        hidden = {use.normalised for use in uses if use.role != "readout"}
        graph = NetworkGraph(
            title=title,
            arcs=tuple(self.arcs),
            degrees=tuple(self.degrees[1:]),
            joins=any(self.steps[i].kind == "join" for i in self.live),
            normalised=None if len(hidden) == 2 else True in hidden,
        )
        return graph, uses

    def _count_terms(self, i: int) -> int:
        """Return the number of terms of a sum; an inner sum counts with its own terms."""
        count = 0
        for read in self.steps[i].reads:
            term = self._root(read)
            if self._sum_of(term) == i:
                count += self.terms.get(term, 1)
            else:
                count += 1
        return count

    def _root(self, i: int) -> int:
        """Return the last step before this step, or this step, that is not unary."""
        while self.steps[i].kind in UNARY:
            i = self.steps[i].reads[0]
        return i

    def _source(self, i: int) -> int:
        return self.vertices[self._root(i)]

    def _vertex(self, arcs: Sequence[tuple[int, int]], degree: int = 1) -> int:
        vertex = len(self.degrees)
        self.arcs += [(vertex, source, op) for source, op in arcs]
        self.degrees.append(degree)
        return vertex

    def _add(self, i: int) -> int:
        """Make the vertex of a layer, a sum, a concatenation or an opaque step."""
        step = self.steps[i]
        sources = [self._source(read) for read in step.reads]
        if step.kind == "opaque":
            return self._vertex(list(self._given(step, sources)))
        op = SKIP_EDGE
        if step.weight and self._role(i) != "readout":
            op = LAYER
        return self._vertex([(source, op) for source in sources], self._degree(i, sources))

    def _given(self, step: Step, sources: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the arcs into an opaque step; add a vertex for each layer on its paths."""
        for source, paths in zip(sources, step.paths, strict=True):
            for depth, count in enumerate(paths):
                for _ in range(count):
                    end = source
                    for _ in range(depth):
                        end = self._vertex([(end, LAYER)])
                    yield end, SKIP_EDGE

    def _degree(self, i: int, sources: Sequence[int]) -> int:
        step = self.steps[i]
        if step.kind == "join":  # the mean over its channels
            parts = zip(step.shares, sources, strict=True)
            terms = sum(channels * self.degrees[part] for channels, part in parts)
            return max(round(terms / max(sum(step.shares), 1)), 1)
        outer = self._sum_of(i)
        while outer is not None:
            i = outer
            outer = self._sum_of(i)
        return self.terms.get(i, 1)

    def _role(self, i: int) -> WeightRole:
        """Return the role of a layer; a layer in a gate is never a readout."""
        if i not in self.after and self.region[i] == 0:
            return "readout"
        return "hidden" if i in self.before or not self.steps[i].reads else "stem"

    def _sum_of(self, i: int) -> int | None:
        """Return the step, a sum, that alone reads the output of step `i`, a layer or a sum.

        None if `i` is another kind of step, has several readers, or its reader is no sum.
        """
        kind = self.steps[i].kind
        if kind not in ("layer", "sum"):
            return None
        while i not in self.outputs:
            followers = self._followers(i)
            if len(followers) != 1:
                return None
            (i,) = followers
            reader = self.steps[i].kind
            if reader == "sum":
                return i
            if reader not in UNARY or (kind == "sum" and reader != "view"):
                return None
        return None

    def _uses(self) -> tuple[Use, ...]:
        into = [0] * len(self.degrees)
        into[0] = 1
        for target, source, _ in self.arcs:
            into[target] += into[source]
        out = [0] * len(self.degrees)
        out[-1] = 1
        for target, source, _ in reversed(self.arcs):
            out[source] += out[target]
        uses = []
        for i in reversed(self.live):  # later layers first, so that `_settles` finds their results
            step = self.steps[i]
            if not step.weight:
                continue
            target = self.vertices[i]
            source = (
                self._source(step.reads[0]) if step.reads else 0
            )  # a learned query reads nothing
            use = Use(
                weight=step.weight,
                role=self._role(i),
                edge=(target, source),
                in_degree=self.degrees[target],
                paths=into[source] * out[target],
                normalised=self._settles(i),
            )
            uses.append(use)
        return tuple(reversed(uses))

    def _settles(self, i: int, *, joined: bool = False) -> bool:
        """Return whether every reader normalises a value before anything depends on its scale.

        A bias breaks this, unless batch normalisation follows immediately. A normalisation across
        channels breaks it for the parts of a concatenation: their relative scales matter.
        """
        if (i, joined) not in self.settled:
            weight = self.steps[i].weight
            shifted = weight is not None and weight.bias is not None
            settled = i not in self.outputs and i not in self.gates
            if weight is not None and shifted and not weight.channels_first:
                settled = False
            for reader in self.readers[i]:
                settled = settled and self._settles_in(reader, shifted=shifted, joined=joined)
            self.settled[i, joined] = settled
        return self.settled[i, joined]

    def _settles_in(self, i: int, *, shifted: bool, joined: bool) -> bool:
        step = self.steps[i]
        if self.region[i] == 2:  # leads to norms that also read the value directly
            return True
        if step.kind == "norm":
            return step.channelwise or not (shifted or joined)
        if shifted or step.kind not in ("view", "homogeneous", "layer", "join"):
            return False
        if step.kind == "join":
            return step.channelwise and self._settles(i, joined=True)
        if joined and (step.weight or step.gates):
            return False  # mixes the parts of a concatenation: none can be scaled separately
        return self._settles(i, joined=joined)
