"""Doctor: what rebench needs and may use, what of it is here, and how to get the rest."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import rebench
from rebench.data import data_root, is_present
from rebench.datasets import data_specs
from rebench.errors import ClusterError
from rebench.launch.slurm import ask

__all__ = ["Finding", "examine", "why_no_gpu"]

_REQUIRED = (
    *("torch", "numpy", "scipy", "pandas", "pyarrow", "pydantic", "submitit", "nats_bench"),
    *("matplotlib", "typer", "rich", "scikit-learn", "psutil"),
)
_OPTIONAL = {
    "mup": "the muP recipes' reference | scripts/setup, or pip install --no-deps mup==1.0.0",
    "duckdb": "rebench query --sql | pip install 'nas-rebench[sql]'",
    "xautodl": "network = 'xautodl' | scripts/setup, or pip install --no-deps xautodl==1.0.0",
    "tensorboard": "rebench export tensorboard | pip install 'nas-rebench[tensorboard]'",
    "nbclient": "running the notebooks | pip install 'nas-rebench[notebooks]'",
}
_PROGRAMS = {
    "sbatch": "--cluster slurm | submit from a login node",
    "squeue": "status on SLURM | submit from a login node",
    "sacct": "why an old job ended | optional: status works without accounting",
    "apptainer": "container_image | ask the cluster's administrators",
    "git": "the commit in each record | your package manager",
}
# NVIDIA, CUDA Compatibility, table 1: what runs every minor release of a major one.
_LEAST_DRIVER: Final = {"11": 450, "12": 525, "13": 580}


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
    yield from _namesake()
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


def _namesake() -> Iterator[Finding]:
    """Look for the other program called rebench, whose files lie where ours do."""
    again = f"{sys.executable} -m pip install --force-reinstall --no-deps nas-rebench"
    if (other := _version("rebench")) is not None:
        yield Finding(
            what="no other rebench",
            found=None,
            needed_for="everything",
            get=f"rebench {other} is another program with this one's module and command, and the"
            f" two cannot share an environment: pip uninstall rebench, then {again}",
            required=True,
        )
    # Removing the other one removes what it had written over.
    if "ReBench" not in getattr(rebench, "__all__", ()):
        yield Finding(
            what="import rebench",
            found=None,
            needed_for="everything",
            get=f"another program's installer replaced or removed a file of ours: {again}",
            required=True,
        )
    yield _command()


def _command() -> Finding:
    path, get = shutil.which("rebench"), ""
    if path is None:
        get = f"call nas-rebench or {sys.executable} -m rebench, or activate the environment"
    elif "rebench.cli" not in Path(path).read_text(errors="replace"):
        path, get = None, f"{path} is another program: call nas-rebench, or see to your PATH"
    return Finding(what="command rebench", found=path, needed_for="typing it", get=get)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpu() -> Finding:
    import torch

    cuda = torch.version.cuda
    found = f"{torch.cuda.get_device_name()}, CUDA {cuda}" if torch.cuda.is_available() else None
    get = "" if found else why_no_gpu(cuda, _driver())
    return Finding(what="GPU", found=found, needed_for="fast training", get=get)


def why_no_gpu(cuda: str | None, driver: str | None) -> str:
    """Return what a torch for `cuda` (None: for the CPU alone) lacks beside NVIDIA's `driver`."""
    if driver is None:
        return "a GPU with NVIDIA's driver; without one, training runs on the CPU"
    if cuda is None:
        return f"driver {driver} is here; torch is built for the CPU alone: install one for CUDA"
    least = _LEAST_DRIVER.get(cuda.partition(".")[0])
    if least is not None and int(driver.partition(".")[0]) < least:
        return (
            f"torch is built for CUDA {cuda}, which needs driver {least} or newer, and this is"
            f" {driver}: install a torch for an older CUDA"
        )
    return f"driver {driver} and torch for CUDA {cuda} are here: does this job have a GPU?"


def _driver() -> str | None:
    """Return the version of NVIDIA's driver, if it answers."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=15)  # noqa: S603 - no input
    except (OSError, subprocess.SubprocessError):
        return None
    versions = told.stdout.split()
    return versions[0] if versions and versions[0][0].isdigit() else None


def _controller() -> Finding:
    purpose, get = "--cluster slurm", "see how-to/cluster.md in `rebench docs`"
    if not shutil.which("sinfo"):
        return Finding(what="SLURM answers", found=None, needed_for=purpose, get=get)
    try:
        partitions = sorted(set(ask("sinfo", "-h", "-o", "%R", limit_s=15).split()))
    except ClusterError as error:
        return Finding(what="SLURM answers", found=None, needed_for=purpose, get=str(error))
    return Finding(
        what="SLURM answers", found=f"partitions: {', '.join(partitions)}", needed_for=purpose
    )
