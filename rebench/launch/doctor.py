"""Doctor: what rebench needs and may use, what of it is here, and how to get the rest."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rebench.data import data_root, is_present
from rebench.datasets import data_specs
from rebench.errors import ClusterError
from rebench.launch.slurm import ask

__all__ = ["Finding", "examine"]

_REQUIRED = (
    *("torch", "numpy", "scipy", "pandas", "pyarrow", "pydantic", "submitit", "nats_bench"),
    *("matplotlib", "typer", "rich", "scikit-learn", "psutil"),
)
_OPTIONAL = {
    "mup": "the muP recipes' reference | scripts/setup, or pip install --no-deps mup==1.0.0",
    "duckdb": "rebench query --sql | pip install 'nas-rebench[sql]'",
    "xautodl": "network = 'xautodl' | scripts/setup, or pip install --no-deps xautodl==1.0.0",
    "nbclient": "running the notebooks | pip install 'nas-rebench[notebooks]'",
}
_PROGRAMS = {
    "sbatch": "--cluster slurm | submit from a login node",
    "squeue": "status on SLURM | submit from a login node",
    "sacct": "why an old job ended | optional: status works without accounting",
    "apptainer": "container_image | ask the cluster's administrators",
    "git": "the commit in each record | your package manager",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked for."""

    what: str
    found: str | None
    needed_for: str
    get: str = ""
    required: bool = False


def examine(root: Path | None = None) -> Iterator[Finding]:
    """Look for everything; `root` is where data sets are expected."""
    yield Finding(
        what="python",
        found=platform.python_version() if sys.version_info >= (3, 10) else None,
        needed_for="everything",
        get="Python 3.10 or newer",
        required=True,
    )
    if (other := _version("rebench")) is not None:
        yield Finding(
            what="no other rebench",
            found=None,
            needed_for="everything",
            get=f"pip uninstall rebench: its {other} has this program's name; ours is nas-rebench",
            required=True,
        )
    for name in _REQUIRED:
        yield Finding(
            what=name,
            found=_version(name),
            needed_for="everything",
            get=f"pip install {name}",
            required=True,
        )
    for name, text in _OPTIONAL.items():
        purpose, get = text.split(" | ")
        yield Finding(what=name, found=_version(name), needed_for=purpose, get=get)
    for name, text in _PROGRAMS.items():
        purpose, get = text.split(" | ")
        yield Finding(what=name, found=shutil.which(name), needed_for=purpose, get=get)
    yield _gpu()
    yield _controller()
    for name, spec in data_specs().items():
        present = is_present(spec, data_root(root))
        yield Finding(
            what=f"data: {name}",
            found="present" if present else None,
            needed_for=spec.title,
            get="" if present else spec.get,
        )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpu() -> Finding:
    import torch

    found = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    get = "a CUDA build of torch and NVIDIA's driver; without one, training runs on the CPU"
    return Finding(what="GPU", found=found, needed_for="fast training", get=get)


def _controller() -> Finding:
    purpose, get = "--cluster slurm", "see slurm/README.md"
    if not shutil.which("sinfo"):
        return Finding(what="SLURM answers", found=None, needed_for=purpose, get=get)
    try:
        partitions = sorted(set(ask("sinfo", "-h", "-o", "%R", limit_s=15).split()))
    except ClusterError as error:
        return Finding(what="SLURM answers", found=None, needed_for=purpose, get=str(error))
    return Finding(
        what="SLURM answers", found=f"partitions: {', '.join(partitions)}", needed_for=purpose
    )
