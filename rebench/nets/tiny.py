"""The NAS-Bench-201 network: three stages of one cell with residual blocks in between.

Its state dict has the keys of the benchmark's code, dead edges included. Outputs, gradients and
batch statistics are equal. Edges that cannot reach the output are not computed.

A convolution can have a source vertex that is always zero. The batch normalisation after it still
adds a trained bias. This term is computed from two zero pixels, which give the output, the
gradients and the running statistics of a whole batch of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import nn

from cells import EDGES, Cell, Graph
from cells.ops import CONV_1X1, CONV_3X3, NONE, SKIP
from rebench.errors import InputError
from rebench.nets.channelwise import average_of_neighbours, average_of_pixels, in_bf16
from rebench.nets.layers import Layer, LayeredNet, Role

__all__ = [
    "CellBlock",
    "ConvBN",
    "Projection",
    "ReductionBlock",
    "TinyNet",
    "computed_edges",
    "tiny_layers",
]

_KERNEL = {CONV_1X1: 1, CONV_3X3: 3}
_OUTPUT = 3


# Operation of the forward pass on an edge. "bias" is a convolution of zeros: only the bias of its
# batch normalisation remains.
_EdgeOp: TypeAlias = Literal["skip", "pool", "conv", "bias"]


def _plan(cell: Cell) -> dict[int, _EdgeOp]:
    """Return the edges (as positions in `EDGES`) that can change the output, in order."""
    steps: dict[int, _EdgeOp] = {}
    nonzero = {0}
    for position, ((target, source), op) in enumerate(zip(EDGES, cell.ops, strict=True)):
        if op in _KERNEL:
            steps[position] = "conv" if source in nonzero else "bias"
        elif op != NONE and source in nonzero:
            steps[position] = "skip" if op == SKIP else "pool"
        else:
            continue
        nonzero.add(target)
    useful = {_OUTPUT}
    for position in reversed(steps):
        target, source = EDGES[position]
        if target in useful:
            useful.add(source)
    return {position: step for position, step in steps.items() if EDGES[position][0] in useful}


def computed_edges(cell: Cell) -> tuple[tuple[int, int], ...]:
    """Return the (target, source) edges with an operation that the forward pass computes."""
    plan = _plan(cell)
    return tuple(EDGES[position] for position, step in plan.items() if step != "bias")


class ConvBN(nn.Module):
    """Convolution and its batch normalisation; the caller applies the ReLU before."""

    def __init__(self, in_channels: int, channels: int, kernel_size: int, stride: int = 1) -> None:
        super().__init__()
        conv = nn.Conv2d(
            in_channels, channels, kernel_size, stride, padding=kernel_size // 2, bias=False
        )
        # Position 0 is the benchmark's ReLU; here all readers of a vertex share one ReLU.
        self.op = nn.Sequential(nn.Identity(), conv, nn.BatchNorm2d(channels))

    def forward(self, activated: torch.Tensor) -> torch.Tensor:
        """Return the normalised convolution of an input after its ReLU."""
        _, conv, norm = self.op
        if norm.training or not in_bf16(activated):
            return self.op(activated)
        return _folded(conv, norm, activated)

    def of_zeros(self, like: torch.Tensor) -> torch.Tensor:
        """Return the output for a batch of zeros of the shape of `like`, as a view of one pixel."""
        pixels: torch.Tensor = self.op[2](like.new_zeros(2, like.shape[1], 1, 1))
        return pixels[:1].expand_as(like)


def _folded(conv: Any, norm: Any, values: torch.Tensor) -> torch.Tensor:
    """Return a convolution and a normalisation with fixed statistics, as a single convolution.

    Single layers and stacked layers are accepted.
    """
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    kernel = conv.weight * scale[..., None, None, None]
    bias = norm.bias - norm.running_mean * scale
    normalised: torch.Tensor = torch.func.functional_call(
        conv, {"weight": kernel, "bias": bias}, values
    )
    return normalised


class Projection(nn.Module):
    """Skip between different numbers of channels: a 1x1 convolution and its normalisation."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the normalised convolution."""
        normalised: torch.Tensor = self.bn(self.conv(value))
        return normalised


class CellBlock(nn.Module):
    """One cell; each vertex is the sum of its incoming edges.

    The input can have another number of channels (`in_channels`) if no edge from it is a pooling.
    """

    def __init__(self, cell: Cell, channels: int, in_channels: int | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for (_, source), op in zip(EDGES, cell.ops, strict=True):
            inputs = in_channels if in_channels and source == 0 else channels
            layer: nn.Module = nn.Identity()
            if op in _KERNEL:
                layer = ConvBN(inputs, channels, _KERNEL[op])
            elif op == SKIP and inputs != channels:
                layer = Projection(inputs, channels)
            self.layers.append(layer)
        self._plan = _plan(cell)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the value of the last vertex, in the shape of `inputs`."""
        vertices = [_Vertex(inputs), _Vertex(), _Vertex(), _Vertex()]
        for position, step in self._plan.items():
            target, source = EDGES[position]
            layer = self.layers[position]
            if step == "conv":
                vertices[target].add(layer(vertices[source].activated()), owned=True)
            elif step == "pool":
                vertices[target].add(vertices[source].pooled())
            elif step == "skip":
                vertices[target].add(layer(vertices[source].value()))
            else:
                vertices[target].add(layer.of_zeros(inputs))  # type: ignore[operator]  # a ConvBN
        return vertices[_OUTPUT].value() if self._plan else torch.zeros_like(inputs)


class _Vertex:
    """Running sum of a vertex, with the ReLU and the pooling that its readers share.

    Terms are added in the benchmark's order, so that results are equal to the last bit. A sum is
    updated in place if no other code uses the tensor.
    """

    __slots__ = ("_activated", "_owned", "_pooled", "_sum")

    def __init__(self, value: torch.Tensor | None = None) -> None:
        self._sum = value
        self._owned = False
        self._activated: torch.Tensor | None = None
        self._pooled: torch.Tensor | None = None

    def add(self, term: torch.Tensor, *, owned: bool = False) -> None:
        """Add a term; an `owned` term may be overwritten."""
        if self._sum is None:
            self._sum, self._owned = term, owned
            return
        if self._owned:
            self._sum.add_(term)
        else:
            self._sum = term.add_(self._sum) if owned else self._sum + term
            self._owned = True

    def value(self) -> torch.Tensor:
        assert self._sum is not None, "no edge is planned from a vertex without a value"
        return self._sum

    def activated(self) -> torch.Tensor:
        if self._activated is None:
            self._activated = torch.relu(self.value())
        return self._activated

    def pooled(self) -> torch.Tensor:
        if self._pooled is None:
            self._pooled = average_of_neighbours(self.value())
        return self._pooled


class ReductionBlock(nn.Module):
    """Residual block between stages, with half the resolution and twice the channels."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv_a = ConvBN(in_channels, channels, 3, stride=2)
        self.conv_b = ConvBN(channels, channels, 3)
        # The benchmark's pooling, which without `ceil_mode` fails for images with an odd side.
        pool = nn.AvgPool2d(2, ceil_mode=True)
        self.downsample = nn.Sequential(pool, nn.Conv2d(in_channels, channels, 1, bias=False))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the sum of the branch and the shortcut."""
        branch = self.conv_b(torch.relu(self.conv_a(torch.relu(inputs))))
        return branch.add_(self.downsample(inputs))


class TinyNet(LayeredNet):
    """NAS-Bench-201 network of one cell, with PyTorch's default init as in the benchmark."""

    def __init__(
        self,
        cell: Cell | int | str,
        *,
        channels: int = 16,
        cells_per_stage: int = 5,
        classes: int = 10,
    ) -> None:
        super().__init__()
        sizes = {"channels": channels, "cells_per_stage": cells_per_stage, "classes": classes}
        for field, value in sizes.items():
            if value < 1:
                raise InputError(f"{field} must be at least 1, got {value}")
        self.cell = cell = Cell.find(cell)
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        )
        self.cells = nn.ModuleList()
        for stage in range(3):
            width = channels * 2**stage
            if stage:
                self.cells.append(ReductionBlock(width // 2, width))
            for _ in range(cells_per_stage):
                self.cells.append(CellBlock(cell, width))
        self.lastact = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.classifier = nn.Linear(width, classes)

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """Return the input of the classifier, shape [batch, 4 channels]."""
        value = self._stemmed(images)
        for block in self.cells:
            value = block(value)
        return average_of_pixels(self.lastact(value))

    def _stemmed(self, images: torch.Tensor) -> torch.Tensor:
        conv, norm = self.stem
        if not in_bf16(images):
            return self.stem(images)
        if not norm.training:
            return _folded(conv, norm, images)
        with torch.autocast("cpu", enabled=False):  # for 3 channels the float32 gradient is faster
            return self.stem(images).bfloat16()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits [batch, classes] for images [batch, 3, height, width]."""
        return self.classifier(self.features(images))

    def extra_repr(self) -> str:
        """Return the cell's code for `repr`."""
        return f"cell={self.cell.code}"

    def weight_layers(self) -> tuple[Layer, ...]:
        """Return every convolution and the classifier, in the order of the state dict."""
        return tiny_layers(self, self.cell)

    def sibling(self, graph: Graph) -> TinyNet:
        """Return the same network for another cell; its weights must still be initialised."""
        if not isinstance(graph, Cell):
            raise InputError(f"a TinyNet needs a cell, got the graph {graph}")
        with torch.random.fork_rng(devices=[]):  # PyTorch's init changes the global state
            return TinyNet(
                graph,
                channels=self.classifier.in_features // 4,
                cells_per_stage=len(self.cells) // 3,
                classes=self.classifier.out_features,
            )


def tiny_layers(net: nn.Module, cell: Cell) -> tuple[Layer, ...]:
    """Return the layers of a network with the module names of `TinyNet`."""
    computed = computed_edges(cell)
    return tuple(
        _layer(name, module, computed)
        for name, module in net.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
    )


def _layer(name: str, module: nn.Conv2d | nn.Linear, computed: Sequence[tuple[int, int]]) -> Layer:
    edge: tuple[int, int] | None = None
    match name.split("."):
        case ["stem", _]:
            role: Role = "stem"
        case ["cells", _, "layers", position, *_]:
            role, edge = "edge", EDGES[int(position)]
        case ["cells", _, "downsample", _]:
            role = "shortcut"
        case ["cells", *_]:
            role = "reduction"
        case _:
            role = "readout"
    return Layer(
        name=name,
        role=role,
        weight=module.weight,
        bias=module.bias,
        edge=edge,
        position=int(name.split(".")[1]) if name.startswith("cells.") else None,
        followed_by_norm=role in {"stem", "edge", "reduction"},
        computed=edge is None or edge in computed,
    )
