"""The networks of the papers' experiments: an MLP or a CNN over a graph code such as ``2_02_002``.

A stem gives vertex 0, every vertex sums its incoming edges, a readout reads the last vertex. The
position of the activation is an option, since the papers' equation and their code differ:

    before:  z_v = sum W sigma(z_u) + sum z_u      readout of sigma(z_V)     (equation 1)
    after:   h_v = sum sigma(W h_u) + sum h_u      readout of h_V            (the released code)

The released code's layers also have biases, and an activation after the stem: both are options,
off by default. Dead edges are not computed, but keep their weights and keys.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from cells import DagCode, Graph
from cells.dag import LAYER
from experiments.laws.graphs import Order
from rebench.errors import InputError
from rebench.nets.layers import Layer, LayeredNet, Role

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Activation: TypeAlias = Literal["relu", "gelu"]

ACTIVATIONS: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
}


class Options(TypedDict, total=False):
    """Options of both kinds of networks; `DagNet` has their defaults."""

    activation: Activation
    order: Order
    scale_skips: bool
    active_stem: bool


class DagNet(LayeredNet):
    """Base class of `DagMLP` and `DagCNN`: the graph between stem and readout."""

    def __init__(
        self,
        code: DagCode,
        *,
        entry: nn.Module,
        stem: nn.Module,
        layer: Callable[[], nn.Module],
        readout: nn.Module,
        activation: Activation = "relu",
        order: Order = "before",
        scale_skips: bool = False,
        active_stem: bool = False,
    ) -> None:
        super().__init__()
        self.activation, self.order = activation, order
        self.scale_skips, self.active_stem = scale_skips, active_stem
        self.entry, self.stem = entry, stem
        self._layer = layer
        self._build(code)
        self.readout = readout

    def _build(self, code: DagCode) -> None:
        keys = [_key(target, source) for target, source, op in code.edges() if op == LAYER]
        self.code = code
        self.layers = nn.ModuleDict({key: self._layer() for key in keys})

    def sibling(self, graph: Graph) -> Self:
        """Return the same network with another graph, before its init."""
        if not isinstance(graph, DagCode):
            raise InputError(f"a DAG network is built over a graph code, got the cell {graph}")
        net = copy.deepcopy(self)
        with torch.random.fork_rng(devices=[]):  # PyTorch's init changes the global state
            net._build(graph)  # noqa: SLF001 - its own class
        return net

    def vertices(self, images: torch.Tensor) -> dict[int, torch.Tensor]:
        """Return the value of every live vertex: z_v or h_v, before the readout."""
        sigma = ACTIVATIONS[self.activation]
        degrees = self.code.in_degrees(live=True)
        stem = self.stem(self.entry(images))
        values = {0: sigma(stem) if self.active_stem else stem}
        for target, source, op in self.code.edges(live=True):
            if op != LAYER:
                gain = degrees[target - 1] ** -0.5 if self.scale_skips else 1.0
                term = values[source] if gain == 1.0 else gain * values[source]
            elif self.order == "after":
                term = sigma(self.layers[_key(target, source)](values[source]))
            else:
                term = self.layers[_key(target, source)](sigma(values[source]))
            values[target] = values[target] + term if target in values else term
        return values

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits, shape [batch, classes]."""
        values = self.vertices(images)
        last = self.code.n_vertices - 1
        # Without a path the output vertex is zero.
        output = values[last] if last in values else torch.zeros_like(values[0])
        if self.order == "before":
            output = ACTIVATIONS[self.activation](output)
        if output.dim() == 4:
            output = output.mean((2, 3))
        return self.readout(output)

    def weight_layers(self) -> tuple[Layer, ...]:
        """Return the stem, the edges with a layer and the readout."""
        live = {(target, source) for target, source, _ in self.code.edges(live=True)}
        edges = {
            f"layers.{_key(target, source)}": (target, source)
            for target, source, op in self.code.edges()
            if op == LAYER
        }
        roles: dict[str, Role] = {"stem": "stem", **dict.fromkeys(edges, "edge")}
        layers = []
        for name, role in {**roles, "readout": "readout"}.items():
            module, edge = self.get_submodule(name), edges.get(name)
            layers.append(
                Layer(
                    name=name, role=role, weight=module.get_parameter("weight"),
                    bias=dict(module.named_parameters()).get("bias"), edge=edge,
                    position=None if edge is None else 0, computed=edge is None or edge in live,
                )
            )  # fmt: skip
        return tuple(layers)


def _key(target: int, source: int) -> str:
    return f"{target}_{source}"


class DagMLP(DagNet):
    """DAG of square layers; images are flattened to `inputs` numbers."""

    def __init__(
        self,
        code: DagCode,
        *,
        inputs: int,
        width: int = 64,
        classes: int = 10,
        biases: bool = False,
        **options: Unpack[Options],
    ) -> None:
        _require_positive(inputs=inputs, width=width, classes=classes)
        super().__init__(
            code,
            entry=nn.Flatten(),
            stem=nn.Linear(inputs, width, bias=biases),
            layer=functools.partial(nn.Linear, width, width, bias=biases),
            readout=nn.Linear(width, classes, bias=biases),
            **options,
        )


class DagCNN(DagNet):
    """DAG of convolutions that keep the resolution; the readout reads the mean over pixels."""

    def __init__(
        self,
        code: DagCode,
        *,
        channels: int = 16,
        kernel_size: int = 3,
        in_channels: int = 3,
        classes: int = 10,
        biases: bool = False,
        **options: Unpack[Options],
    ) -> None:
        _require_positive(
            channels=channels, in_channels=in_channels, classes=classes, kernel_size=kernel_size
        )
        if kernel_size % 2 == 0:
            raise InputError(f"kernel_size must be odd, got {kernel_size}")
        conv = functools.partial(
            nn.Conv2d,
            out_channels=channels,
            kernel_size=kernel_size,
            padding=kernel_size // 2,
            bias=biases,
        )
        super().__init__(
            code,
            entry=nn.Identity(),
            stem=conv(in_channels),
            layer=functools.partial(conv, channels),
            readout=nn.Linear(channels, classes, bias=biases),
            **options,
        )


def _require_positive(**sizes: int) -> None:
    for field, value in sizes.items():
        if value < 1:
            raise InputError(f"{field} must be at least 1, got {value}")
