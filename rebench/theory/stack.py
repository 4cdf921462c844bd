"""Deep dense networks with a mark behind every layer: plain, or residual with a branch scale."""

from __future__ import annotations

import math

import torch
from torch import nn

__all__ = ["Stack"]


class Stack(nn.Module):
    """A ReLU MLP of `depth` matrices, or with `branch_scale` a residual one: z + s W relu(z)."""

    def __init__(
        self,
        width: int,
        depth: int,
        branch_scale: float | None,
        generator: torch.Generator,
        *,
        in_features: int | None = None,
        classes: int = 1,
    ) -> None:
        super().__init__()
        self.branch_scale = branch_scale
        sizes = [in_features or width] + [width] * (depth - 1)
        self.layers = nn.ModuleList(nn.Linear(size, width, bias=False) for size in sizes)
        self.marks = nn.ModuleList(nn.Identity() for _ in sizes)  # what a feature hook names
        self.readout = nn.Linear(width, classes, bias=False)
        with torch.no_grad():
            for size, layer in zip(sizes, self.layers, strict=True):
                layer.weight.normal_(0.0, math.sqrt(2 / size), generator=generator)  # type: ignore[operator]
            self.readout.weight.normal_(0.0, 1 / width, generator=generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the readout of the last layer's ReLU."""
        z = self.marks[0](self.layers[0](x))
        for layer, mark in zip(self.layers[1:], self.marks[1:], strict=True):
            branch = layer(z.relu())
            z = mark(branch if self.branch_scale is None else z + self.branch_scale * branch)
        return self.readout(z.relu())  # type: ignore[no-any-return]

    @property
    def hidden(self) -> list[str]:
        """The names of all parameters but the readout's."""
        return [name for name, _ in self.named_parameters() if name.startswith("layers")]
