"""Time training: the benchmark's own loop beside ours, alone and stacked, on the same images.

Run: ``python scripts/bench/train.py [--device cuda] [--cells 11,284]``. Every contender is a
process of its own; the steps of the two that are compared alternate, so that whatever else the
machine does falls on both. The ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))

from reference_loop import reference_epochs  # noqa: E402 - after the path
from results_file import publish, shared_data  # noqa: E402 - after the path

from rebench.data import (  # noqa: E402 - after the path
    Images,
    TrainingData,
    data_spec,
    load_data,
)
from rebench.runs import Protocol, RecipeSpec, Skeleton, Trial  # noqa: E402 - after the path
from rebench.train import Sources, Speed, StackRun  # noqa: E402 - after the path
from rebench.train.device import (  # noqa: E402 - after the path
    device_name,
    numerics,
    peak_memory_mib,
    prepare_device,
)

BENCHMARK_IMAGES = 50_000


@dataclasses.dataclass(frozen=True)
class Contest:
    """One network on one data set, and how the contenders run it."""

    cell: int
    dataset: str
    skeleton: Skeleton
    batch: int
    device: str
    threads: int
    precision: str
    speed: Speed

    def trials(self, copies: int) -> list[Trial]:
        """Return as many trials of the network, by seed."""
        protocol = Protocol(batch_size=self.batch, precision=self.precision)
        return [
            Trial(
                cell=self.cell,
                dataset=self.dataset,
                recipe=RecipeSpec(name="nb201"),
                seed=seed,
                epochs=1000,
                skeleton=self.skeleton,
                protocol=protocol,
            )
            for seed in range(copies)
        ]

    def data(self) -> TrainingData:
        """CIFAR-10's images where some are at hand, otherwise noise of the same shape."""
        real = shared_data() / "cifar10-mini"
        if self.dataset == "digits":
            return load_data("digits")
        if real.is_dir():
            return load_data("cifar10", root=real)
        generator = torch.Generator().manual_seed(0)
        pixels = torch.randint(256, (5000, 3, 32, 32), dtype=torch.uint8, generator=generator)
        noise = Images(pixels, torch.arange(5000) % 10)
        return TrainingData(
            spec=data_spec("cifar10"),
            split="full",
            train=noise,
            evaluation={"ori-test": noise.select(torch.arange(1000))},
            digest="noise",
        )


def contend(contest: Contest, copies: int, line: Connection) -> None:
    """Take a step whenever asked and answer its seconds; 0 copies is the reference loop."""
    torch.set_num_threads(contest.threads)
    # The reference keeps the C library's habits.
    speed = contest.speed if copies else Speed(keep_memory=False)
    device = prepare_device(contest.device, speed)
    data = contest.data()
    began = time.perf_counter()

    def turnstile() -> bool:
        nonlocal began
        if device.type == "cuda":
            torch.cuda.synchronize()
        line.send(time.perf_counter() - began)
        go_on = line.recv()
        began = time.perf_counter()
        return not go_on

    if not copies:
        (trial,) = contest.trials(1)
        for _ in reference_epochs(trial, data, device, contest.threads, turnstile):
            pass
    else:
        with numerics(speed):
            run = StackRun(
                contest.trials(copies),
                Sources(data, device, channels_last=speed.channels_last),
                device,
                speed,
            )
            ended = False

            def stop() -> bool:
                nonlocal ended
                ended = turnstile()
                return ended

            while not ended:
                run.train_epoch(stop, lambda: False)
                if run.epoch_is_over:
                    run.epoch, run.step = run.epoch + 1, 0
    line.send(peak_memory_mib(device))


class Contender:
    """A process that trains step by step."""

    def __init__(self, contest: Contest, copies: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=contend, args=(contest, copies, theirs))
        self._process.start()
        theirs.close()
        self._line.recv()  # the first step, which also built everything

    def step(self) -> float:
        """Let it take a step; return the step's seconds."""
        self._line.send(True)
        return float(self._line.recv())

    def end(self) -> float:
        """Let it go; return the most memory it held, in MiB."""
        self._line.send(False)
        peak = float(self._line.recv())
        self._process.join()
        return peak


def take_turns(*contenders: Contender, repeats: int) -> tuple[list[list[float]], list[float]]:
    """Return the seconds of every contender's steps, round by round, and the most MiB each held."""
    for contender in contenders:
        contender.step()  # warm
    rounds = [[contender.step() for contender in contenders] for _ in range(repeats)]
    return rounds, [contender.end() for contender in contenders]


def compare(contest: Contest, copies: int, repeats: int) -> dict[str, Any]:
    """Return the figures of `copies` of ours beside the reference, step by step in turns."""
    rounds, peaks = take_turns(Contender(contest, 0), Contender(contest, copies), repeats=repeats)
    theirs_s, ours_s = map(statistics.median, zip(*rounds, strict=True))
    rate = copies * contest.batch / ours_s
    return {
        "cell": contest.cell,
        "network": f"C={contest.skeleton.channels} N={contest.skeleton.cells_per_stage}",
        "batch": contest.batch,
        "stack": copies,
        "reference_step_s": round(theirs_s, 4),
        "our_step_s": round(ours_s, 4),
        "reference_images_per_s": round(contest.batch / theirs_s),
        "our_images_per_s_per_trial": round(rate),
        "faster_per_trial": round(
            statistics.median(first * copies / second for first, second in rounds), 2
        ),
        "epoch_of_50000_s": round(BENCHMARK_IMAGES / rate, 1),
        "reference_peak_mib": peaks[0],
        "our_peak_mib": peaks[1],
    }


def main() -> None:
    """Compare for every cell and both networks, and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cells", default="0,11,284,6111")
    parser.add_argument("--stacks", default="1,3", help="of the benchmark's network")
    parser.add_argument("--small-stacks", default="1,3,6", help="of the demo's network")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--precision", default="float32", choices=["float32", "bf16"])
    parser.add_argument("--cuda-graphs", action="store_true")
    asked = parser.parse_args()
    shared = {
        "device": asked.device,
        "threads": asked.threads,
        "precision": asked.precision,
        "speed": Speed(cuda_graphs=asked.cuda_graphs),
    }
    rows: list[dict[str, Any]] = []
    for cell in map(int, asked.cells.split(",")):
        small = Contest(cell, "digits", Skeleton(channels=4, cells_per_stage=1), 64, **shared)
        large = Contest(cell, "cifar10", Skeleton(), asked.batch, **shared)
        for contest, stacks in ((small, asked.small_stacks), (large, asked.stacks)):
            for copies in map(int, filter(None, stacks.split(","))):
                rows.append(compare(contest, copies, asked.repeats))
                print(rows[-1], file=sys.stderr)
    for row in rows:
        alone = next(
            other
            for other in rows
            if (other["cell"], other["network"]) == (row["cell"], row["network"])
        )
        row["step_over_our_first"] = round(row["our_step_s"] / alone["our_step_s"], 2)
    publish(
        "train" if asked.device == "cpu" else "train-gpu",
        rows,
        device=device_name(torch.device(asked.device)),
        torch=torch.__version__,
        threads=asked.threads,
        precision=asked.precision,
        cuda_graphs=asked.cuda_graphs,
        repeats=asked.repeats,
    )


if __name__ == "__main__":
    main()
