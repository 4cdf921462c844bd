"""How long a step would take if memory were all there is: bytes moved over copy bandwidth.

Counted is every operation of a step by itself: what it reads and what it writes, views aside. A
step that fuses operations moves less, so this bounds the eager step, and shows a fused one its
place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["bytes_moved", "copy_bandwidth", "synchronise"]


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """Adds up the bytes of the tensors that operations take and return."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.total = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        taken = {id(one): _size(one) for one in tree_leaves((args, kwargs)) if _has_memory(one)}
        given = {id(one): _size(one) for one in tree_leaves(result) if _has_memory(one)}
        # A view moves nothing: what it returns is what it took.
        if not given or not _is_view(func):
            self.total += sum(taken.values()) + sum(given.values())
        return result


def bytes_moved(step: Callable[[], object]) -> int:
    """Return how many bytes the operations of one step read and write."""
    counter = _Counter()
    with counter:
        step()
    return counter.total


def copy_bandwidth(device: torch.device, mib: int, repeats: int = 5) -> float:
    """Return the bytes a second that a plain copy reads and writes; the fastest of some."""
    source = torch.ones(mib * 2**20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(repeats + 1):
        synchronise(device)
        began = time.perf_counter()
        target.copy_(source)
        synchronise(device)
        times.append(time.perf_counter() - began)
    return 2 * source.numel() / min(times)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _is_view(func: Any) -> bool:
    return any(
        one.alias_info is not None and not one.alias_info.is_write
        for one in func._schema.returns  # noqa: SLF001 - how an operation says it is a view
    )


def _has_memory(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 0


def _size(tensor: torch.Tensor) -> int:
    # What is stretched over a dimension is read once.
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
