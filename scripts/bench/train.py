"""Time training on the same images: the benchmark's own loop and ours, single and stacked.

Run: ``python scripts/bench/train.py [--device cuda] [--cells 11,284] [--against COMMIT]``. Every
contender is a separate process; ``--against`` adds an earlier commit of ours in float32. Steps of
the contenders alternate, so other work on the machine affects all of them. On a CPU, times are CPU
seconds of the process. Ratios are medians over the rounds. There are three networks: the demo's on
digits, the learning-rate surface's on 16x16 pixels, and the benchmark's. The surface's network is
timed on every twelfth cell of `mini.toml`, by cell and in total. ``--epochs`` times only the
surface's network, by epochs with their evaluation, like its trials.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pandas as pd
import torch

sys.path.insert(0, os.environ.get("REBENCH_TREE", str(Path(__file__).parents[2])))

from reference_loop import reference_epochs
from results_file import PROJECT, publish, trials_of, unpacked

from rebench.data import Images, TrainingData, data_spec, load_data
from rebench.runs import Protocol, Skeleton, Trial
from rebench.train import Sources, Speed, StackRun
from rebench.train.device import device_name, numerics, peak_memory_mib, prepare_device

MEASURES = ("rebench/train", "rebench/nets", "rebench/data")
FEWER = 1000
SURFACE = PROJECT / "experiments" / "surface" / "mini.toml"


@dataclasses.dataclass(frozen=True)
class Contest:
    """Network, data set and settings of the contenders."""

    cell: int
    dataset: str
    skeleton: Skeleton
    batch: int
    device: str
    threads: int
    epochs: bool = False  # time epochs with their evaluation, not steps

    def trials(self, copies: int, precision: str) -> list[Trial]:
        """Return `copies` trials of the network, by seed."""
        protocol = Protocol(batch_size=self.batch, precision=precision)
        settings = {"epochs": 1000, "skeleton": self.skeleton, "protocol": protocol}
        return trials_of(self.cell, self.dataset, range(copies), **settings)

    def data(self) -> TrainingData:
        """Return digits, or random images of the data set's shape."""
        if self.dataset == "digits":
            return load_data("digits")
        spec = data_spec(self.dataset)
        generator = torch.Generator().manual_seed(0)
        shape = (5000, 3, spec.size, spec.size)
        pixels = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        noise = Images(pixels, torch.arange(5000) % 10)
        fewer = noise.select(torch.arange(FEWER))
        return TrainingData(
            spec=spec,
            split="full",
            # Trials of the surface use equal numbers of images for training and evaluation.
            train=fewer if self.epochs else noise,
            evaluation={"ori-test": fewer},
            digest="noise",
        )


def contend(contest: Contest, copies: int, precision: str, line: Connection) -> None:
    """Run a turn at each request and send its seconds; 0 copies is the reference loop."""
    torch.set_num_threads(contest.threads)
    # The reference uses the C library's default allocation.
    speed = Speed(keep_memory=bool(copies))
    device = prepare_device(contest.device, speed)
    data = contest.data()
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    began = clock()

    def turnstile() -> bool:
        nonlocal began
        if device.type == "cuda":
            torch.cuda.synchronize()
        line.send(clock() - began)
        go_on = line.recv()
        began = clock()
        return not go_on

    if not copies:
        (trial,) = contest.trials(1, precision)
        within = (lambda: False) if contest.epochs else turnstile
        for _ in reference_epochs(trial, data, device, contest.threads, within):
            if contest.epochs and turnstile():
                break
    else:
        with numerics(speed):
            trials = contest.trials(copies, precision)
            last = speed.has_channels_last(device, trials[0])
            run = StackRun(trials, Sources(data, device, channels_last=last), device, speed)
            ended = False

            def stop() -> bool:
                nonlocal ended
                ended = turnstile()
                return ended

            # Earlier commits make two calls between steps.
            within = [(lambda: False) if contest.epochs else stop, lambda: False]
            asked = within[: len(inspect.signature(run.train_epoch).parameters)]
            while not ended:
                run.train_epoch(*asked)
                if contest.epochs:
                    run.finish_epoch()
                    stop()
                elif run.epoch_is_over:
                    run.epoch, run.step = run.epoch + 1, 0
    line.send(peak_memory_mib(device))


class Contender:
    """Process that trains turn by turn, with the rebench in `tree`."""

    def __init__(self, contest: Contest, copies: int, precision: str, tree: Path = PROJECT) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=contend, args=(contest, copies, precision, theirs))
        os.environ["REBENCH_TREE"] = str(tree)
        self._process.start()
        theirs.close()
        self._line.recv()  # the first turn, which also built everything

    def turn(self) -> float:
        """Train one step or one epoch; return the seconds."""
        self._line.send(True)
        return float(self._line.recv())

    def end(self) -> float:
        """End the process; return its peak memory in MiB."""
        self._line.send(False)
        peak = float(self._line.recv())
        self._process.join()
        return peak


def take_turns(*contenders: Contender, repeats: int) -> tuple[list[list[float]], list[float]]:
    """Return the seconds of every contender's steps by round, and the peak MiB of each."""
    for contender in contenders:
        contender.turn()  # warm
    rounds = [[contender.turn() for contender in contenders] for _ in range(repeats)]
    return rounds, [contender.end() for contender in contenders]


def compare(
    contest: Contest, copies: int, entries: Sequence[tuple[str, Path]], repeats: int
) -> list[dict[str, Any]]:
    """Compare `copies` of ours with the reference; return a row per precision and tree."""
    rounds, peaks = take_turns(
        Contender(contest, 0, "float32"),
        *(Contender(contest, copies, *entry) for entry in entries),
        repeats=repeats,
    )
    theirs, *all_ours = (list(times) for times in zip(*rounds, strict=True))
    rows = []
    for (precision, tree), ours, peak in zip(entries, all_ours, peaks[1:], strict=True):
        images = FEWER if contest.epochs else contest.batch
        rate = copies * images / statistics.median(ours)
        rows.append(
            {
                "cell": contest.cell,
                "dataset": contest.dataset,
                "network": f"C={contest.skeleton.channels} N={contest.skeleton.cells_per_stage}",
                "batch": contest.batch,
                "stack": copies,
                "precision": precision,
                "code": "now" if tree == PROJECT else tree.name,
                "reference_s": round(statistics.median(theirs), 4),
                "our_s": round(statistics.median(ours), 4),
                "our_images_per_s_per_trial": round(rate),
                "faster_per_trial": _median_ratio(theirs, ours, copies),
                "faster_than_our_first": _median_ratio(all_ours[0], ours),
                "reference_peak_mib": peaks[0],
                "our_peak_mib": peak,
            }
        )
    return rows


def _median_ratio(slower: Sequence[float], faster: Sequence[float], copies: int = 1) -> float:
    ratios = (first * copies / second for first, second in zip(slower, faster, strict=True))
    return round(statistics.median(ratios), 2)


def over_cells(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum the steps of a network over its cells; return a row per precision and tree."""
    steps = ["reference_s", "our_s"]
    sums = pd.DataFrame(rows).groupby(["precision", "code"], sort=False)[steps].sum().round(4)
    first = sums["our_s"].iloc[0]
    faster = (first / sums["our_s"]).round(2)
    shared = {name: rows[0][name] for name in ("dataset", "network", "batch", "stack")}
    told = sums.assign(faster_than_our_first=faster).reset_index().to_dict("records")
    return [{"cell": "all", **shared, **row} for row in told]


def numbers(listed: str) -> list[int]:
    """Return the numbers of a list with commas."""
    return [int(number) for number in listed.split(",") if number]


def main() -> None:
    """Compare for every cell and all networks, and publish."""
    # Not imported at the top, because contenders of earlier commits import this module, too.
    from rebench.runs import read_spec

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cells", default="0,11,284,6111")
    parser.add_argument("--stacks", default="1,3", help="of the benchmark's network")
    parser.add_argument("--small-stacks", default="1,3,6", help="of the demo's network")
    parser.add_argument("--surface-stacks", default="3,6,12", help="of the surface's network")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precisions", default="float32,bf16")
    parser.add_argument("--epochs", action="store_true", help="time only the surface's network")
    parser.add_argument("--against", help="an earlier commit to compare with, in float32")
    asked = parser.parse_args()
    shared = {"device": asked.device, "threads": asked.threads}
    entries = [(precision, PROJECT) for precision in asked.precisions.split(",")]
    if asked.against:
        entries.insert(0, ("float32", unpacked(asked.against)))
    small = Contest(0, "digits", Skeleton(channels=4, cells_per_stage=1), 64, **shared)
    surface = dataclasses.replace(
        small,
        dataset="cifar10-jpeg16",
        skeleton=Skeleton(channels=8, cells_per_stage=1),
        epochs=asked.epochs,
    )
    large = Contest(0, "cifar10", Skeleton(), asked.batch, **shared)
    cells = numbers(asked.cells)
    rows: list[dict[str, Any]] = []
    first = (surface, read_spec(SURFACE).cells.indices[::12], asked.surface_stacks)
    others = [(small, cells, asked.small_stacks), (large, cells, asked.stacks)]
    for contest, among, stacks in [first, *([] if asked.epochs else others)]:
        for copies in numbers(stacks):
            own = []
            for cell in among:
                one = dataclasses.replace(contest, cell=cell)
                own += compare(one, copies, entries, asked.repeats)
                print(own[-len(entries) :], file=sys.stderr)
            rows += own + over_cells(own)
    publish(
        "train" + "-epochs" * asked.epochs + "-gpu" * (asked.device != "cpu"),
        rows,
        device=device_name(torch.device(asked.device)),
        torch=torch.__version__,
        threads=asked.threads,
        repeats=asked.repeats,
    )


if __name__ == "__main__":
    main()
