"""Shared parts of the benchmarks: repeated timings, a printed table, a JSON file of results.

The file contains the machine, the date and the commit. The constant `MEASURES` of a benchmark
names the files or packages that it measures; `stale.py` lists results older than that code.

REBENCH_BENCH_SCALE=0.01 in the environment reduces cells or draws to a hundredth, to test that a
benchmark runs. Nothing is written then, since such times have no meaning.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

if TYPE_CHECKING:
    from rebench.runs import Trial

PROJECT = Path(__file__).parents[2]
# Benchmarks import this checkout and the helpers of its tests, after this file.
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]
RESULTS = PROJECT / "scripts" / "bench" / "results"
CHECKS = PROJECT / "experiments" / "checks" / "results"
SCALE = float(os.environ.get("REBENCH_BENCH_SCALE", "1"))


def _measured_at() -> dict[str, object]:
    """Return the commit of this clone, and whether files other than results differ from it."""
    others = [f":!{folder.relative_to(PROJECT)}" for folder in (RESULTS, CHECKS)]
    told: list[str] = []
    with contextlib.suppress(OSError, subprocess.CalledProcessError):  # no git, or no clone
        asked = ["git", "status", "--porcelain=v2", "--branch", "--", ".", *others]
        told = subprocess.check_output(
            asked, cwd=PROJECT, text=True, stderr=subprocess.DEVNULL
        ).splitlines()
    commit = next((line.split()[-1] for line in told if line.startswith("# branch.oid")), None)
    changed = any(not line.startswith("#") for line in told) if commit else None
    return {"commit": commit, "uncommitted_changes": changed}


# Read when a benchmark starts: the files can change while it runs.
MEASURED_AT = _measured_at()


def shared_data() -> Path:
    """Return the folder that REBENCH_SHARED_DATA names; if unset, a path that does not exist."""
    named = os.environ.get("REBENCH_SHARED_DATA", "REBENCH_SHARED_DATA is not set")
    return PROJECT / named


def scaled(size: int, least: int = 1) -> int:
    """Return `size` times the scale of the benchmark, at least `least`."""
    return max(least, round(size * SCALE))


def median_seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """Return the median wall time of `function` over `repeats` calls after one warm-up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def trials_of(
    cell: int, dataset: str, seeds: Iterable[int], *, recipe: str = "nb201", **settings: Any
) -> list[Trial]:
    """Return trials of a cell that differ only in their seed; `settings` are fields of `Trial`."""
    from rebench.runs import RecipeSpec, Trial

    shared = {"cell": cell, "dataset": dataset, "recipe": RecipeSpec(name=recipe), **settings}
    return [Trial(seed=seed, **shared) for seed in seeds]


class Ran(NamedTuple):
    """Output, time and memory of a command."""

    printed: str
    seconds: float
    cpu_s: float
    peak_gb: float


def run_rebench(*arguments: str) -> Ran:
    """Run a rebench command in a separate process, from start to exit."""
    return run_python("-m", "rebench", *arguments)


def run_python(*arguments: str) -> Ran:
    """Run Python on this project's packages, from start to exit."""
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], stdout=out, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if status:
            raise SystemExit(f"{' '.join(arguments)} failed")
        out.seek(0)
        cpu_s, peak_gb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9
        return Ran(out.read(), seconds, cpu_s, peak_gb)


def unpacked(commit: str) -> Path:
    """Unpack a commit into a folder of its name, which is removed at exit."""
    folder = Path(tempfile.mkdtemp(), commit)
    atexit.register(shutil.rmtree, folder.parent)
    folder.mkdir()
    packed = subprocess.run(
        ["git", "archive", commit, "rebench", "cells"], cwd=PROJECT, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return folder


@contextlib.contextmanager
def private_slurm(folder: Path) -> Iterator[None]:
    """Run a private cluster in `folder`, which every command uses until the end."""
    script = PROJECT / "slurm" / "cluster"
    subprocess.run([script, "start", folder], check=True)
    os.environ["SLURM_CONF"] = f"{folder}/slurm.conf"
    try:
        yield
    finally:
        subprocess.run([script, "stop", folder], check=True)
        del os.environ["SLURM_CONF"]


def machine(device: str = "cpu") -> dict[str, object]:
    """Return a description of the machine and its software."""
    from rebench.machine import processor

    return {
        "device": device,
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def publish(
    name: str,
    rows: Sequence[Mapping[str, object]],
    *,
    folder: Path | None = None,
    device: str = "cpu",
    **facts: object,
) -> None:
    """Print `rows` as a table; write them, with commit and machine, to ``folder/NAME.json``."""
    folder = folder or RESULTS
    print(pd.DataFrame(rows).to_string(index=False, na_rep="-", float_format="{:.4g}".format))
    if SCALE != 1:
        print(f"nothing is written: measured at a scale of {SCALE:g}")
        return
    when = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    measured = {"name": name, "when": when, **MEASURED_AT, "machine": machine(device)}
    content = {**measured, **facts, "rows": list(rows)}
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {folder / f'{name}.json'}")


def kept(
    name: str, facts: Mapping[str, object], folder: Path | None = None
) -> list[dict[str, Any]]:
    """Return the rows of ``NAME.json`` in `folder`, with their commit, if the facts agree."""
    path = (folder or RESULTS) / f"{name}.json"
    content = json.loads(path.read_text()) if path.is_file() else {}
    same = all(content.get(key) == value for key, value in facts.items())
    rows = content["rows"] if content and same else []
    return [{"commit": content.get("commit"), **row} for row in rows]
