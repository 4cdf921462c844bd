"""The names of the proxies that need a network; `proxies` scores cells with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["NET_PROXIES"]

# name -> what it is; the scores themselves are `rebench.nets.untrained`'s.
NET_PROXIES: Final[Mapping[str, str]] = {
    "grad-norm": "norm of the loss's gradient",
    "snip": "sum of |weight x gradient of the loss|",
    "synflow": "log sum of |weight| x gradient of the output, data-free",
    "naswot": "log-determinant of the kernel of ReLU patterns",
}
