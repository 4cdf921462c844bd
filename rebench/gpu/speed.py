"""How many images a second each way of running gives, measured by rounds in turns.

What warms the device or takes its power slows all contenders of a round alike, so they compare.
"""

from __future__ import annotations

import itertools
import math
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from rebench.errors import RebenchError
from rebench.gpu.correctness import Row
from rebench.gpu.runs import Run, Setup, build_net, images
from rebench.gpu.traffic import bytes_moved, copy_bandwidth, synchronise
from rebench.train.speed import numerics

__all__ = ["compiled", "switches", "time_in_turns", "time_reference"]

_WARM_STEPS = 4
# A turn lasts about so long: many steps of a small network, a few of a large one.
_TURN_S = 0.1
_MOST_ROUNDS = 40


def switches(setup: Setup, device: torch.device, stacks: tuple[int, ...]) -> dict[str, Setup]:
    """Return every switch and the useful combinations, by name; the default comes first."""
    ways = {"default": setup, "contiguous": setup.but(channels_last=False)}
    ways["bf16"] = setup.but(bf16=True)
    if device.type == "cuda":
        graphs = setup.but(cuda_graphs=True)
        ways["free cuDNN"] = setup.but(deterministic=False)
        ways["graphs"] = graphs
        ways["graphs, free cuDNN"] = graphs.but(deterministic=False)
        ways["graphs, bf16"] = graphs.but(bf16=True)
        ways["graphs, bf16, contiguous"] = graphs.but(bf16=True, channels_last=False)
    named = list(ways.items())
    for stack, (name, way) in itertools.product(stacks, named):
        if stack > 1 and name in {"default", "graphs", "graphs, bf16"}:
            ways[f"stack {stack}" if name == "default" else f"stack {stack}, {name}"] = way.but(
                stack=stack
            )
    return ways


def compiled(setup: Setup, device: torch.device) -> dict[str, Setup]:
    """Return `torch.compile` alone and with graphs, beside what they are held against."""
    ways = {"default": setup, "compile": setup.but(compile=True)}
    if device.type == "cuda":
        graphs = setup.but(cuda_graphs=True)
        ways["graphs"] = graphs
        ways["compile, graphs"] = graphs.but(compile=True)
        ways["compile, graphs, bf16"] = graphs.but(compile=True, bf16=True)
    return ways


@dataclass(slots=True, kw_only=True)
class _Contender:
    run: Run
    steps_a_turn: int
    peak_mib: float | None
    seconds: list[float] = field(default_factory=list)  # of one step, round by round


def time_in_turns(
    ways: Mapping[str, Setup], device: torch.device, seconds: float, *, copy_mib: int
) -> list[Row]:
    """Return a row for each way of running: images a second, peak memory, and the bound.

    All are built before the rounds begin, which may last so many `seconds`.
    """
    bandwidth = copy_bandwidth(device, copy_mib)
    contenders: dict[str, _Contender] = {}
    rows: dict[str, Row] = {}
    moved: dict[tuple[int, bool, bool], int] = {}
    for name, setup in ways.items():
        alike = (setup.stack, setup.bf16, setup.speed.channels_last)
        try:
            if alike not in moved:
                moved[alike] = _traffic(setup, device)
            contenders[name] = _begin(setup, device)
        except (RuntimeError, MemoryError, RebenchError) as error:
            rows[name] = _row(name, setup, note=(str(error).splitlines() or ["failed"])[0][:200])
    ends = time.monotonic() + seconds
    for _ in range(_MOST_ROUNDS):
        for contender in contenders.values():
            contender.seconds.append(_turn(contender, device))
        if time.monotonic() >= ends:
            break
    for name, contender in contenders.items():
        setup = contender.run.setup
        step = statistics.median(contender.seconds)
        alike = (setup.stack, setup.bf16, setup.speed.channels_last)
        rows[name] = _row(
            name,
            setup,
            images_per_s=round(setup.stack * setup.batch_size / step, 1),
            bound_images_per_s=round(setup.stack * setup.batch_size * bandwidth / moved[alike], 1),
            peak_mib=contender.peak_mib,
            rounds=len(contender.seconds),
        )
    return [rows[name] for name in ways]


def time_reference(setup: Setup, device: torch.device, seconds: float) -> list[Row]:
    """Time the benchmark's own loop, past what its loaders had prepared."""
    from rebench.gpu.reference import reference_epochs  # needs PIL

    content, spec = images(setup)
    try:
        net = build_net(setup.but(network="xautodl"), 0)
        note = ""
    except RebenchError as error:
        net, note = build_net(setup, 0), f"our network in the reference's loop: {error}"
    workers = min(os.cpu_count() or 1, 8) if device.type == "cuda" else 0
    skipped = 2 * workers + _WARM_STEPS
    times: list[float] = []

    def ended() -> bool:
        synchronise(device)
        times.append(time.perf_counter())
        return len(times) > skipped + 1 and times[-1] - times[skipped] >= seconds

    for _ in reference_epochs(
        net, content, content.select(torch.arange(1)), spec,
        lr=setup.rate, epochs=10_000, batch_size=setup.batch_size, seed=0,
        device=device, workers=workers, after_step=ended,
    ):  # fmt: skip
        pass
    rate = setup.batch_size * (len(times) - 1 - skipped) / (times[-1] - times[skipped])
    return [_row("reference loop", setup, images_per_s=round(rate, 1), note=note)]


def _begin(setup: Setup, device: torch.device) -> _Contender:
    """Build and warm a contender; its peak memory is what it adds to what is held already."""
    before = 0
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    with numerics(setup.speed):
        run = Run(setup, device)
        for _ in range(_WARM_STEPS):
            run.step()
        synchronise(device)
        began = time.perf_counter()
        run.step()
        synchronise(device)
    turn = _TURN_S / max(time.perf_counter() - began, 1e-6)
    peak = None
    if device.type == "cuda":
        peak = round((torch.cuda.max_memory_allocated(device) - before) / 2**20, 1)
    return _Contender(run=run, steps_a_turn=min(max(math.ceil(turn), 1), 50), peak_mib=peak)


def _turn(contender: _Contender, device: torch.device) -> float:
    with numerics(contender.run.setup.speed):
        synchronise(device)
        began = time.perf_counter()
        for _ in range(contender.steps_a_turn):
            contender.run.step()
        synchronise(device)
    return (time.perf_counter() - began) / contender.steps_a_turn


def _traffic(setup: Setup, device: torch.device) -> int:
    run = Run(setup.but(cuda_graphs=False, compile=False), device)
    return bytes_moved(run.step)


def _row(
    way: str,
    setup: Setup,
    *,
    images_per_s: float | None = None,
    bound_images_per_s: float | None = None,
    peak_mib: float | None = None,
    rounds: int | None = None,
    note: str = "",
) -> Row:
    return {
        "cell": setup.cell,
        "way": way,
        "stack": setup.stack,
        "images_per_s": images_per_s,
        "bound_images_per_s": bound_images_per_s,
        "peak_mib": peak_mib,
        "rounds": rounds,
        "note": note,
    }
