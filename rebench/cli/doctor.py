"""``rebench doctor``: required and optional software, and how to get missing software."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from rebench.cli import options
from rebench.cli.output import print_facts, print_rows, say
from rebench.errors import ClusterError

__all__ = ["Finding", "doctor", "examine"]

# Name -> its use, and how to get it.
_OPTIONAL = {
    "mup": ("tests of the recipe mup", "scripts/setup, or pip install --no-deps mup==1.0.0"),
    "duckdb": ("rebench query --sql", "pip install 'nas-rebench[sql]'"),
    "xautodl": ("network = 'xautodl'", "scripts/setup, or pip install --no-deps xautodl==1.0.0"),
    "nbclient": ("running the notebooks", "pip install 'nas-rebench[notebooks]'"),
}
_PROGRAMS = {
    "sbatch": ("--cluster slurm", "submit from a login node"),
    "squeue": ("status on SLURM", "submit from a login node"),
    "sacct": ("why an old job ended", "optional: status works without accounting"),
    "apptainer": ("container_image", "ask the cluster's administrators"),
    "git": ("the commit in each record", "your package manager"),
}


class Finding(NamedTuple):
    """Result of one check."""

    what: str
    found: str | None
    needed_for: str
    get: str = ""
    required: bool = False


def doctor(
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also show versions, and optional software that is missing."),
    ] = False,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """Check whether this machine can train, and name missing software; exit 1 if it cannot.

    Example: rebench doctor --all
    """
    findings = list(examine(data_root))
    missing = [finding for finding in findings if not finding.found]
    if as_json:
        rows = [
            {"what": what, "found": found, "for": purpose, "how to get it": None if found else get}
            for what, found, purpose, get, _ in findings
        ]
        print_rows(rows, as_json=True)
    else:
        say(_verdict(findings))
        lacking = {
            finding.what: f"{finding.needed_for}: {finding.get}"
            for finding in missing
            if finding.required or everything
        }
        if everything:
            found = {finding.what: finding.found for finding in findings if finding.found}
            print_facts(found, title="\nfound")
        if lacking:
            print_facts(lacking, title="\nmissing")
        if not everything:
            say("`rebench doctor --all` shows versions, and optional software that is missing.")
    if any(finding.required for finding in missing):
        raise typer.Exit(1)


def _verdict(findings: Sequence[Finding]) -> str:
    """Say in a line whether this machine can train, on which device, and with which data."""
    lacking = [finding.what for finding in findings if finding.required and not finding.found]
    if lacking:
        return f"Not ready to train on this machine: {', '.join(lacking)} missing."
    by_name = {finding.what: finding.found for finding in findings}
    device = by_name["GPU"] or "the CPU"
    slurm = "SLURM answers" if by_name["SLURM answers"] else "no SLURM"
    data = [
        finding.what.removeprefix("data: ")
        for finding in findings
        if finding.what.startswith("data: ") and finding.found
    ]
    return f"Ready to train on this machine: on {device}, {slurm}, data sets {', '.join(data)}."


def examine(root: Path | None = None) -> Iterator[Finding]:
    """Check everything; `root` is the folder of the data sets."""
    from rebench.data import data_root, data_specs, is_present

    yield Finding("python", platform.python_version(), "everything", required=True)
    yield from _namesake()
    needed = importlib.metadata.requires("nas-rebench") or ()
    for name in (re.split(r"[^\w.-]", text)[0] for text in needed if ";" not in text):
        yield Finding(name, _version(name), "everything", f"pip install {name}", required=True)
    for name, purpose in _OPTIONAL.items():
        yield Finding(name, _version(name), *purpose)
    for name, purpose in _PROGRAMS.items():
        yield Finding(name, shutil.which(name), *purpose)
    yield _gpu()
    yield _controller()
    yield Finding("documentation", _pages(), "help without internet", "the folder docs of a clone")
    for name, spec in data_specs().items():
        present = "present" if is_present(spec, data_root(root)) else None
        yield Finding(f"data: {name}", present, spec.title, spec.get)


def _namesake() -> Iterator[Finding]:
    """Look for the other program called rebench, which uses the same file names."""
    again = (
        f"{sys.executable} -m pip install --force-reinstall --no-deps SOURCE (SOURCE is a clone or"
        " wheel of nas-rebench)"
    )
    if (other := _version("rebench")) is not None:
        get = (
            f"rebench {other} is another program with the same module and command names. The"
            f" two cannot share an environment: pip uninstall rebench, then {again}"
        )
        yield Finding("no other rebench", None, "everything", get, required=True)
    # Removing the other program also removes the files that it had replaced.
    if "ReBench" not in dir(sys.modules["rebench"]):
        get = f"another program's installer replaced or removed a file of rebench: {again}"
        yield Finding("import rebench", None, "everything", get, required=True)
    path, get = shutil.which("rebench"), ""
    if path is None:
        get = f"call nas-rebench or {sys.executable} -m rebench, or activate the environment"
    elif "rebench.cli" not in Path(path).read_text(errors="replace"):
        path, get = None, f"{path} is another program: call nas-rebench, or correct your PATH"
    yield Finding("command rebench", path, "typing it", get)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpu() -> Finding:
    found, get = None, "a GPU with NVIDIA's driver; without one, training runs on the CPU"
    # Loading torch takes most of a second, and without a driver it finds no GPU.
    if shutil.which("nvidia-smi") or Path("/proc/driver/nvidia").is_dir():
        import torch

        if torch.cuda.is_available():
            found = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
        elif torch.version.cuda is None:
            get = "NVIDIA's driver is here, but torch has no CUDA: install torch for CUDA"
        else:
            get = f"a driver for torch's CUDA {torch.version.cuda}, and a job that has a GPU"
    return Finding("GPU", found, "fast training", get)


def _pages() -> str | None:
    """Return the path of the documentation: in a checkout, or in the package's data folder."""
    checkout = Path(__file__).parents[2]
    roots = (sysconfig.get_path("data"), site.getuserbase(), checkout)
    pages = [Path(root, "share", "doc", "nas-rebench", "index.md") for root in roots]
    pages = [checkout / "docs" / "index.md", *pages]
    return next((str(page) for page in pages if page.is_file()), None)


def _controller() -> Finding:
    from rebench.launch.clusters.commands import partitions

    found, get = None, "see how-to/cluster.md of the documentation"
    if shutil.which("sinfo"):
        try:
            found = f"partitions: {', '.join(partitions(limit_s=15))}"
        except ClusterError as error:
            get = f"{get} ({error})"
    return Finding("SLURM answers", found, "--cluster slurm", get)
