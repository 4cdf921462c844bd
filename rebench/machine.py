"""What this machine lends to a process."""

from __future__ import annotations

import psutil

__all__ = ["cores"]


def cores() -> int:
    """Return how many cores this process may use, which under SLURM is not what there are."""
    affinity = getattr(psutil.Process(), "cpu_affinity", None)  # macOS has none
    return len(affinity()) if affinity else psutil.cpu_count() or 1
