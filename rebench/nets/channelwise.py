"""Fast ReLU and averages of the benchmark's network, for a CPU and the layout channels-last.

In this layout, PyTorch's pooling uses a fraction of the memory bandwidth; its bf16 gradients use a
tenth. Its gradient of a mean over pixels has another layout, which makes the preceding ReLU 20
times slower. oneDNN's depthwise convolution adds the same pixels in the same order, and so does a
mean over rows. In float32, values and gradients are equal to the last bit. In bf16, comparisons and
copies take a third of the time if the bits are read as integers.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

__all__ = [
    "average_of_four",
    "average_of_neighbours",
    "average_of_pixels",
    "in_bf16",
    "relu",
]

# Minus infinity in bf16, read as an integer. Negative numbers are smaller integers; negative NaN,
# zero, positive numbers and positive NaN are larger, in this order.
_MINUS_INFINITY = -128


def relu(values: torch.Tensor) -> torch.Tensor:
    """Return the ReLU of values: positive values and NaN stay, others become 0."""
    if not _on_processor(values) or values.dtype != torch.bfloat16:
        return values.relu()
    positive: torch.Tensor = _ReLU.apply(values)  # type: ignore[no-untyped-call]  # torch
    return positive


def average_of_neighbours(values: torch.Tensor) -> torch.Tensor:
    """Return the mean over the 3x3 pixels around each pixel; pixels outside do not count."""
    if not _channels_innermost(values):
        return F.avg_pool2d(values, 3, 1, 1, count_include_pad=False)
    averages: torch.Tensor = _AverageOfNeighbours.apply(values)  # type: ignore[no-untyped-call]  # torch
    return averages


def average_of_four(values: torch.Tensor) -> torch.Tensor:
    """Return the means of blocks of 2x2 pixels; for an odd side, the last blocks are smaller."""
    if values.shape[2] % 2 or values.shape[3] % 2 or not _channels_innermost(values):
        return F.avg_pool2d(values, 2, ceil_mode=True)
    averages: torch.Tensor = _AverageOfFour.apply(values)  # type: ignore[no-untyped-call]  # torch
    return averages


def average_of_pixels(values: torch.Tensor) -> torch.Tensor:
    """Return the mean over the pixels of each channel, shape [batch, channels]."""
    if not _channels_innermost(values):
        return values.mean((2, 3))
    return values.permute(0, 2, 3, 1).flatten(1, 2).mean(1)


def in_bf16(values: torch.Tensor) -> bool:
    """Return whether a convolution of these values runs in bf16 on a CPU."""
    return (
        _on_processor(values)
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
    )


def _channels_innermost(values: torch.Tensor) -> bool:
    return (
        _on_processor(values)
        and values.dtype in (torch.float32, torch.bfloat16)
        and values.is_contiguous(memory_format=torch.channels_last)
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch
    )


def _on_processor(values: torch.Tensor) -> bool:
    return (
        type(values) is torch.Tensor  # values of a tracer must not be cached
        and not torch.compiler.is_compiling()  # the compiler fuses torch's own operations
        and values.device.type == "cpu"
    )


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        bits = F.threshold(values.view(torch.int16), _MINUS_INFINITY, 0)
        ctx.save_for_backward(bits)
        return bits.view(torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (bits,) = ctx.saved_tensors
        passed = torch.ops.aten.threshold_backward(gradient.view(torch.int16), bits, 0)
        return passed.view(torch.bfloat16)


class _AverageOfNeighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        return _sums(values).div_(_neighbours(*values.shape[1:], values.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        # A pixel is its neighbours' neighbour.
        return _sums(gradient / _neighbours(*gradient.shape[1:], gradient.dtype))


class _AverageOfFour(torch.autograd.Function):
    @staticmethod
    @torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]  # torch
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        channels = values.shape[1]
        return F.conv2d(values, _quarters(channels, values.dtype), stride=2, groups=channels)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        quarters = (gradient / 4).permute(0, 2, 3, 1)[:, :, None, :, None]
        batch, height, _, width, _, channels = quarters.shape
        doubled = quarters.expand(batch, height, 2, width, 2, channels)
        return doubled.reshape(batch, 2 * height, 2 * width, channels).permute(0, 3, 1, 2)


@torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]  # torch
def _sums(values: torch.Tensor) -> torch.Tensor:
    """Return the sums over the 3x3 pixels around each pixel."""
    channels = values.shape[1]
    return F.conv2d(values, _ones(channels, values.dtype), padding=1, groups=channels)


@functools.lru_cache(maxsize=64)
def _ones(channels: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.ones(channels, 1, 3, 3, dtype=dtype)


@functools.lru_cache(maxsize=64)
def _quarters(channels: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.full((channels, 1, 2, 2), 0.25, dtype=dtype)


@functools.lru_cache(maxsize=64)
def _neighbours(channels: int, height: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """Return the number of image pixels in the 3x3 block around each pixel, channels-last."""
    ones = torch.ones(1, channels, height, width)
    counts = F.avg_pool2d(ones, 3, 1, 1, divisor_override=1)
    return counts.to(dtype).contiguous(memory_format=torch.channels_last)
