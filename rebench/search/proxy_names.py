"""Names of the proxies that need a network, and their published correlations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["NET_PROXIES", "PROXY_SOURCE", "PROXY_SPEARMAN"]

# name -> description; `rebench.nets.untrained` computes the scores.
NET_PROXIES: Final[Mapping[str, str]] = {
    "grad-norm": "norm of the loss's gradient",
    "snip": "sum of |weight x gradient of the loss|",
    "synflow": "log sum of |weight| x gradient of the output, data-free",
    "naswot": "log-determinant of the kernel of ReLU patterns",
}

# Spearman's correlation with the 200-epoch accuracy over all cells: 16 channels, 5 cells a stage,
# PyTorch's init, one batch of 64 images.
PROXY_SPEARMAN: Final[Mapping[str, Mapping[str, float]]] = {
    "cifar10": {"grad-norm": 0.594, "snip": 0.596, "synflow": 0.737},
    "cifar100": {"grad-norm": 0.637, "snip": 0.637, "synflow": 0.763},
    "ImageNet16-120": {"grad-norm": 0.578, "snip": 0.578, "synflow": 0.751},
}
PROXY_SOURCE: Final = (
    "code of Abdelfattah et al. (ICLR 2021), table in notebooks/nasbench201_correlations.ipynb of "
    "github.com/SamsungLabs/zero-cost-nas"
)
