"""Time the trainer's switches: a step as it is by default beside one with a switch turned.

Run: ``python scripts/bench/levers.py [--device cuda] [--compile 284]``. As in ``train.py`` both are
processes that take their steps in turns, and the ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
from pathlib import Path

import torch

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))

from results_file import publish  # noqa: E402 - after the path
from train import Contender, Contest, take_turns  # noqa: E402 - after the path

from rebench.sweep import Skeleton  # noqa: E402 - after the path
from rebench.train import Speed  # noqa: E402 - after the path
from rebench.train.device import device_name  # noqa: E402 - after the path

SMALL, LARGE = Skeleton(channels=4, cells_per_stage=1), Skeleton()


def switched(plain: Contest, *, with_compile: bool) -> dict[str, Contest]:
    """Return the contest with each switch turned that means something on its device."""

    def speed(**changes: bool) -> Contest:
        return dataclasses.replace(plain, speed=dataclasses.replace(plain.speed, **changes))

    turned = {
        "channels_last off": speed(channels_last=False),
        "bf16": dataclasses.replace(plain, precision="bf16"),
    }
    if plain.device == "cpu":
        turned["keep_memory off"] = speed(keep_memory=False)
    else:
        turned["cuda_graphs on"] = speed(cuda_graphs=True)
        turned["deterministic off"] = speed(deterministic=False)
        turned["bf16, cuda_graphs on"] = dataclasses.replace(
            turned["cuda_graphs on"], precision="bf16"
        )
    if with_compile:
        turned["compile on"] = speed(compile=True)
    return turned


def compare(plain: Contest, other: Contest, copies: int, repeats: int) -> dict[str, float]:
    """Return a step's seconds of both, taken in turns, and how many times as long `plain` takes."""
    rounds, peaks = take_turns(Contender(plain, copies), Contender(other, copies), repeats=repeats)
    before, after = map(statistics.median, zip(*rounds, strict=True))
    return {
        "default_step_s": round(before, 4),
        "switched_step_s": round(after, 4),
        "gain": round(statistics.median(first / second for first, second in rounds), 2),
        "default_peak_mib": peaks[0],
        "switched_peak_mib": peaks[1],
    }


def main() -> None:
    """Turn every switch on every network, and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cells", default="11,284")
    parser.add_argument("--compile", default="", help="cells to time torch.compile on: minutes")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    rows = []
    for cell in map(int, asked.cells.split(",")):
        for dataset, skeleton, batch, copies in (
            ("digits", SMALL, 64, 3),
            ("cifar10", LARGE, 256, 1),
        ):
            plain = Contest(
                cell, dataset, skeleton, batch, asked.device, asked.threads, "float32", Speed()
            )
            for name, contest in switched(
                plain, with_compile=str(cell) in asked.compile.split(",")
            ).items():
                rows.append(
                    {
                        "cell": cell,
                        "network": f"C={skeleton.channels} N={skeleton.cells_per_stage}",
                        "stack": copies,
                        "switch": name,
                        **compare(plain, contest, copies, asked.repeats),
                    }
                )
                print(rows[-1], file=sys.stderr)
    publish(
        "levers" if asked.device == "cpu" else "levers-gpu",
        rows,
        device=device_name(torch.device(asked.device)),
        torch=torch.__version__,
        threads=asked.threads,
        repeats=asked.repeats,
    )


if __name__ == "__main__":
    main()
