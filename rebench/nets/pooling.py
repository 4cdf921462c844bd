"""The averages of the benchmark's network, for a processor and channels that lie innermost.

PyTorch pools such images at a fraction of the speed of its memory, bf16 gradients at a tenth, and
the gradient of a mean of pixels comes in another layout, in which the ReLU before it takes twenty
times as long. oneDNN's depthwise convolution adds the same pixels in the same order; so does a mean
of rows. In float32 values and gradients are the same to the last bit.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

__all__ = ["average_of_neighbours", "average_of_pixels"]


def average_of_neighbours(values: torch.Tensor) -> torch.Tensor:
    """The mean of each pixel and its neighbours, those that the image has."""
    if not _channels_innermost(values):
        return F.avg_pool2d(values, 3, 1, 1, count_include_pad=False)
    averages: torch.Tensor = _AverageOfNeighbours.apply(values)  # type: ignore[no-untyped-call]  # torch
    return averages


def average_of_pixels(values: torch.Tensor) -> torch.Tensor:
    """The mean of each channel's pixels, shape [batch, channels]."""
    if not _channels_innermost(values):
        return values.mean((2, 3))
    return values.permute(0, 2, 3, 1).flatten(1, 2).mean(1)


def _channels_innermost(values: torch.Tensor) -> bool:
    return (
        type(values) is torch.Tensor  # a tracer's has no numbers, which must not be kept
        and not torch.compiler.is_compiling()  # the compiler fuses torch's own pooling
        and values.device.type == "cpu"
        and values.dtype in (torch.float32, torch.bfloat16)
        and values.is_contiguous(memory_format=torch.channels_last)
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch
    )


class _AverageOfNeighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch gives it
        return _sums(values).div_(_neighbours(*values.shape[2:], values.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch gives it
        # A pixel is its neighbours' neighbour.
        return _sums(gradient / _neighbours(*gradient.shape[2:], gradient.dtype))


@torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]  # torch
def _sums(values: torch.Tensor) -> torch.Tensor:
    """Sums over the 3x3 pixels around each."""
    channels = values.shape[1]
    return F.conv2d(values, _ones(channels, values.dtype), padding=1, groups=channels)


@functools.lru_cache(maxsize=64)
def _ones(channels: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.ones(channels, 1, 3, 3, dtype=dtype)


@functools.lru_cache(maxsize=64)
def _neighbours(height: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """How many pixels of an image are in the 3x3 around each."""
    return F.avg_pool2d(torch.ones(1, 1, height, width), 3, 1, 1, divisor_override=1).to(dtype)
