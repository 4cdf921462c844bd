"""Several processes on one GPU, with and without NVIDIA's MPS: do they fill it better than one?"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import torch

from rebench.gpu.correctness import Row
from rebench.gpu.runs import Run, Setup
from rebench.gpu.traffic import synchronise
from rebench.train.speed import numerics

__all__ = ["share"]

_START_S = 120.0
_WARM_STEPS = 4
# The clock is read, and the device waited for, after so many steps.
_STEPS_TOGETHER = 5


def share(setup: Setup, device: torch.device, counts: tuple[int, ...], seconds: float) -> list[Row]:
    """Return the images a second of so many processes together, each for `seconds`."""
    daemon = shutil.which("nvidia-cuda-mps-control") if device.type == "cuda" else None
    rows = [_row(setup, count, device, seconds, mps=False) for count in counts]
    if daemon is None:
        return rows
    try:
        with _mps(daemon):
            rows += [_row(setup, count, device, seconds, mps=True) for count in counts if count > 1]
    except (OSError, subprocess.SubprocessError) as error:
        rows.append({**rows[0], "mps": True, "images_per_s": None, "note": f"no MPS: {error}"})
    return rows


def _row(setup: Setup, count: int, device: torch.device, seconds: float, *, mps: bool) -> Row:
    context = multiprocessing.get_context("spawn")
    answers, ready = context.SimpleQueue(), context.Barrier(count)
    workers = [
        context.Process(target=_work, args=(setup, str(device), seconds, ready, answers))
        for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(2 * _START_S + seconds)
    rates = []
    while not answers.empty():
        rates.append(answers.get())
    whole = len(rates) == count and all(worker.exitcode == 0 for worker in workers)
    for worker in workers:
        if worker.is_alive():
            worker.kill()
    return {
        "cell": setup.cell,
        "processes": count,
        "mps": mps,
        "images_per_s": round(sum(rates), 1) if whole else None,
        "note": "" if whole else "not every process came to its end",
    }


def _work(setup: Setup, device_name: str, seconds: float, ready: Barrier, answers: Any) -> None:
    """Train for a while at the same time as the others; answer images a second."""
    torch.set_num_threads(1)
    device = torch.device(device_name)
    with numerics(setup.speed):
        run = Run(setup, device)
        for _ in range(_WARM_STEPS):
            run.step()
        synchronise(device)
        ready.wait(_START_S)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            for _ in range(_STEPS_TOGETHER):
                run.step()
            synchronise(device)
            steps += _STEPS_TOGETHER
        spent = time.perf_counter() - began
    answers.put(steps * setup.stack * setup.batch_size / spent)


@contextlib.contextmanager
def _mps(daemon: str) -> Iterator[None]:
    """Run an MPS daemon of our own, which processes started inside use."""
    names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
    before = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            os.environ[name] = str(Path(folder, name.split("_")[2].lower()))
            Path(os.environ[name]).mkdir()
        try:
            subprocess.run([daemon, "-d"], check=True, capture_output=True, timeout=30)  # noqa: S603
            yield
        finally:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(  # noqa: S603 - the daemon that was started above
                    [daemon], input=b"quit\n", check=False, capture_output=True, timeout=30
                )
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
