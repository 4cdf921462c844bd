"""Averages of the benchmark's network, for the layout channels-last.

On a CPU, in this layout, bf16 and few channels, PyTorch's pooling takes two to five times as long
as oneDNN's depthwise convolution, which adds the same pixels in the same order. PyTorch's gradient
of a mean over pixels has another layout, which makes earlier steps slower; a mean over rows keeps
the layout. In float32, values and gradients are equal to the last bit.

On a GPU, PyTorch's gradient of an average with padding is wrong in this layout: each pixel gets the
gradients of the wrong windows (PyTorch's issue 188344, reported in June 2026; torch 2.11 has the
error). The values are right, so our gradient is a sum of values.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

__all__ = ["average_of_neighbours", "average_of_pixels", "in_bf16"]


def average_of_neighbours(values: torch.Tensor) -> torch.Tensor:
    """Return the mean over the 3x3 pixels around each pixel; pixels outside do not count."""
    if _channels_innermost(values):
        average = _AverageOfNeighbours
    elif _is_on("cuda", values):
        average = _AverageOnGPU
    else:
        return F.avg_pool2d(values, 3, 1, 1, count_include_pad=False)
    averages: torch.Tensor = average.apply(values)  # type: ignore[no-untyped-call]  # torch
    return averages


def average_of_pixels(values: torch.Tensor) -> torch.Tensor:
    """Return the mean over the pixels of each channel, shape [batch, channels]."""
    if not _channels_innermost(values):
        return values.mean((2, 3))
    return values.permute(0, 2, 3, 1).flatten(1, 2).mean(1)


def in_bf16(values: torch.Tensor) -> bool:
    """Return whether a convolution of these values runs in bf16 on a CPU."""
    return (
        _is_on("cpu", values)
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
    )


def _channels_innermost(values: torch.Tensor) -> bool:
    return (
        _is_on("cpu", values)
        and values.dtype in (torch.float32, torch.bfloat16)
        and values.is_contiguous(memory_format=torch.channels_last)
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch
    )


def _is_on(device_type: str, values: torch.Tensor) -> bool:
    return (
        type(values) is torch.Tensor  # values of a tracer must not be cached
        and not torch.compiler.is_compiling()  # the compiler fuses torch's own operations
        and values.device.type == device_type
    )


class _AverageOfNeighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        return _sums(values).div_(_neighbours(values))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        # Each pixel is a neighbour of its neighbours, so the gradient is a sum over the same
        # pixels.
        return _sums(gradient / _neighbours(gradient))


class _AverageOnGPU(_AverageOfNeighbours):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        return F.avg_pool2d(values, 3, 1, 1, count_include_pad=False)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        return F.avg_pool2d(gradient / _neighbours(gradient), 3, 1, 1, divisor_override=1)


@torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]  # torch
def _sums(values: torch.Tensor) -> torch.Tensor:
    """Return the sums over the 3x3 pixels around each pixel."""
    channels = values.shape[1]
    return F.conv2d(values, _ones(channels, values.dtype), padding=1, groups=channels)


@functools.lru_cache(maxsize=64)
def _ones(channels: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.ones(channels, 1, 3, 3, dtype=dtype)


def _neighbours(values: torch.Tensor) -> torch.Tensor:
    """Return the number of image pixels in the 3x3 block around each pixel, channels-last."""
    return _counts(*values.shape[1:], values.dtype, values.device)


@functools.lru_cache(maxsize=64)
def _counts(
    channels: int, height: int, width: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    ones = torch.ones(1, channels, height, width)
    counts = F.avg_pool2d(ones, 3, 1, 1, divisor_override=1)
    return counts.to(device, dtype).contiguous(memory_format=torch.channels_last)
