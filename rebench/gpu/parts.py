"""The check of a GPU: its parts in order of value, each written as it ends, and taken up later."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from rebench.errors import InputError
from rebench.gpu.correctness import Row, compare_with_cpu, graphs_equal_eager, resumes
from rebench.gpu.marked_tests import run_marked_tests
from rebench.gpu.runs import Setup
from rebench.gpu.sharing import share
from rebench.gpu.speed import compiled, switches, time_in_turns, time_reference
from rebench.gpu.streams import side_by_side
from rebench.gpu.tuned import tuned_lines
from rebench.train.device import device_name, prepare_device
from rebench.train.speed import Speed

__all__ = ["Report", "check", "missing_packages"]

# package -> what the check, or rebench, does without it.
_OPTIONAL = {
    "PIL": "the reference loop is not timed",
    "xautodl": "the benchmark's own network is not compared",
    "pydantic": "the tests marked gpu are not run; trials, sweeps and records need it",
    "pytest": "the tests marked gpu are not run",
    "submitit": "nothing here; `rebench submit` needs it",
    "nats_bench": "nothing here; `rebench benchmark ingest` and exports need it",
}
_TUNED = "tuned.toml"
# Cells of different graphs, the one that is timed alone first.
_SIDE_BY_SIDE = (284, 1049, 5266, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the check has found so far.

    Attributes:
        parts: the rows of every part that has run, by name.
        errors: why a part did not come to its end; it is tried again by the next call.
        left: the parts for which there was no time.
        tuned: the lines of a sweep's file that this GPU wants.
        missing: packages that are not installed, and what goes without them.
    """

    parts: Mapping[str, list[Row]]
    errors: Mapping[str, str]
    left: tuple[str, ...]
    tuned: str
    missing: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether nothing that was compared was wrong, and no part broke off."""
        rows = [row for rows in self.parts.values() for row in rows]
        return not self.errors and all(row.get("passed") is not False for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One part: the seconds that it needs at least, and what it does with those it is given."""

    least_s: float
    run: Callable[[float], list[Row]]


def missing_packages() -> dict[str, str]:
    """Return the packages that are not installed, and what goes without each."""
    return {
        name: without
        for name, without in _OPTIONAL.items()
        if importlib.util.find_spec(name) is None
    }


def check(
    folder: Path,
    *,
    device: str = "cuda",
    minutes: float = 9.0,
    small: bool = False,
    on_part: Callable[[str, str], None] = lambda _name, _state: None,
) -> Report:
    """Run the parts that `folder` lacks, as far as the time goes.

    Args:
        folder: where each part leaves its JSON; the same folder again goes on where it stopped.
        device: ``cuda``, ``cuda:N`` or ``cpu``.
        minutes: when the last part should have ended.
        small: a tiny network and a moment for each part, to see that all of it runs.
        on_part: called with a part's name and what becomes of it.
    """
    ends = time.monotonic() + 60 * minutes
    place = prepare_device(device, Speed())
    about: Row = {"device": device_name(place), "torch": torch.__version__, "small": small}
    _claim(folder, about)
    found: dict[str, list[Row]] = {}
    errors: dict[str, str] = {}
    left: list[str] = []
    for name, part in _parts(place, small=small).items():
        path = folder / f"{name}.json"
        if path.is_file():
            found[name] = json.loads(path.read_text())["rows"]
            on_part(name, "done before")
            continue
        remaining = ends - time.monotonic()
        if part.least_s > max(remaining, 0):
            left.append(name)
            on_part(name, "no time left")
            continue
        on_part(name, "running")
        began = time.monotonic()
        try:
            found[name] = part.run(remaining)
        except Exception as error:  # noqa: BLE001 - the other parts are worth having
            errors[name] = f"{type(error).__name__}: {error}"
            on_part(name, f"failed: {errors[name]}")
            continue
        seconds = round(time.monotonic() - began, 1)
        _write(path, {**about, "part": name, "seconds": seconds, "rows": found[name]})
        on_part(name, f"done in {seconds} s")
        if place.type == "cuda":
            torch.cuda.empty_cache()
    tuned = tuned_lines(found, str(about["device"]), str(about["torch"]))
    (folder / _TUNED).write_text(tuned)
    return Report(
        parts=found, errors=errors, left=tuple(left), tuned=tuned, missing=missing_packages()
    )


def _parts(device: torch.device, *, small: bool) -> dict[str, _Part]:
    """Return the parts in order of value."""
    setup = Setup(cell=11)
    compared = setup.but(cells_per_stage=1, batch_size=64, n_images=640, rate=0.01)
    stacks: tuple[int, ...] = (1, 3, 6, 12)
    counts: tuple[int, ...] = (1, 2, 4)
    rounds_s = 40.0
    if small:
        setup = Setup(
            cell=11, channels=2, cells_per_stage=1, batch_size=8, n_images=32, dataset="digits"
        )
        compared, stacks, rounds_s, counts = setup.but(rate=0.01), (1, 2), 0.2, (1, 2)
    on_gpu = device.type == "cuda"
    copy_mib = 8 if small else 2048 if on_gpu else 256

    def speed(cell: int) -> Callable[[float], list[Row]]:
        ways = switches(setup.but(cell=cell), device, stacks)
        return lambda left: time_in_turns(ways, device, min(rounds_s, left), copy_mib=copy_mib)

    def compiling(cell: int) -> Callable[[float], list[Row]]:
        ways = compiled(setup.but(cell=cell), device)
        return lambda left: time_in_turns(ways, device, min(rounds_s / 4, left), copy_mib=copy_mib)

    def reference(cell: int) -> _Part | None:
        if importlib.util.find_spec("PIL") is None:
            return None
        seconds = rounds_s / 4
        return _Part(
            least_s=seconds,
            run=lambda _: time_reference(setup.but(cell=cell), device, seconds),
        )

    graphs = setup.but(cell=284, cuda_graphs=on_gpu)
    parts: dict[str, _Part | None] = {
        "cpu": _Part(least_s=0, run=lambda _: compare_with_cpu(compared, device)),
        "graphs": _Part(least_s=0, run=lambda _: graphs_equal_eager(compared, device))
        if on_gpu
        else None,
        "resume": _Part(least_s=0, run=lambda _: resumes(compared, device)),
        "tests": _Part(least_s=0 if small else 20, run=run_marked_tests) if on_gpu else None,
        "speed-11": _Part(least_s=rounds_s, run=speed(11)),
        "reference-11": reference(11),
        "speed-284": _Part(least_s=rounds_s, run=speed(284)),
        "reference-284": reference(284),
        "sharing": _Part(
            least_s=rounds_s, run=lambda _: share(graphs, device, counts, rounds_s / 8)
        ),
        "streams": _Part(
            least_s=rounds_s,
            run=lambda _: side_by_side(graphs, _SIDE_BY_SIDE, device, rounds_s / 8),
        ),
        # Minutes of compiling: worth them only when all else is known.
        "compile-284": None if small else _Part(least_s=120, run=compiling(284)),
        "compile-11": None if small else _Part(least_s=120, run=compiling(11)),
    }
    return {name: part for name, part in parts.items() if part is not None}


def _claim(folder: Path, about: Row) -> None:
    """Make the folder, or see that what it holds is of the same device, torch and size."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "about.json"
    if path.is_file():
        held = json.loads(path.read_text())
        if held != about:
            raise InputError(
                f"{folder} holds the check of {held}, and this is {about}: give another folder"
            )
    _write(path, about)


def _write(path: Path, content: object) -> None:
    """Write JSON whole or not at all."""
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    unfinished.replace(path)
