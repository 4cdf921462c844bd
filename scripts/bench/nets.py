"""Time a training step: our network beside the benchmark's own, stacks beside lone networks.

Run: ``python scripts/bench/nets.py [--device cuda]``. Variants take turns, and a figure is the
median over rounds of the ratio within a round, so that a busy machine disturbs all alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

sys.path.insert(0, str(Path(__file__).parents[2]))

from results_file import publish

from cells import Cell
from rebench.nets import Stacked, TinyNet, reference_net

# The benchmark's cells 284 and 11, then three and five convolutions on six edges.
CELLS = ("284", "11", "2_20_213", "3_23_232")
DEMO = ("2_20_213", "1_04_231", "3_23_232")


def steps(
    net: torch.nn.Module, images: torch.Tensor, copies: int, *, channels_last: bool
) -> Callable[[], float]:
    """Return a function that makes one SGD step and tells its seconds for each copy."""
    device = images.device
    net = net.to(device)
    if channels_last and copies == 1:
        net = net.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.arange(images.shape[-4], device=device).remainder(10).repeat(copies)
    optimizer = torch.optim.SGD(
        net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )

    def step() -> float:
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = net(images)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels, reduction="sum")
        (loss / images.shape[-4]).backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / copies

    return step


def compare(variants: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return each variant's seconds in every round, after one that is not counted."""
    for step in variants.values():
        step()
    return {
        name: list(values)
        for name, values in zip(
            variants,
            zip(*([step() for step in variants.values()] for _ in range(rounds)), strict=True),
            strict=True,
        )
    }


def ratio(times: dict[str, list[float]], over: list[str], under: str) -> float:
    """Return how many times faster `under` is than the fastest of `over`, median over rounds."""
    rounds = zip(*(times[name] for name in over), strict=True)
    best = (min(values) for values in rounds)
    return statistics.median(a / b for a, b in zip(best, times[under], strict=True))


def single(code: str, device: torch.device) -> dict[str, object]:
    """Compare the benchmark's network with ours at the benchmark's size."""
    cell = Cell.find(code)
    images = torch.randn(64, 3, 32, 32, device=device)
    times = compare(
        {
            "reference": steps(reference_net(cell), images, 1, channels_last=False),
            "ours": steps(TinyNet(cell), images, 1, channels_last=False),
            "channels_last": steps(TinyNet(cell), images, 1, channels_last=True),
        },
        rounds=5,
    )
    return {
        "what": "one network",
        "cell": cell.code,
        "skeleton": "C=16 N=5 32x32",
        "batch": 64,
        "alone_ms": 1e3 * statistics.median(times["reference"]),
        "times_faster": ratio(times, ["reference"], "ours"),
        "channels_last": ratio(times, ["reference"], "channels_last"),
    }


def stacked(
    code: str,
    device: torch.device,
    *,
    copies: int,
    channels: int,
    blocks: int,
    side: int,
    batch: int,
) -> dict[str, object]:
    """Compare a stack with one network alone, in the faster of its two layouts."""
    cell = Cell.find(code)

    def build() -> TinyNet:
        return TinyNet(cell, channels=channels, cells_per_stage=blocks)

    images = torch.randn(copies, batch, 3, side, side, device=device)
    times = compare(
        {
            "alone": steps(build(), images[0], 1, channels_last=False),
            "alone_last": steps(build(), images[0], 1, channels_last=True),
            "stacked": steps(
                Stacked.from_nets([build() for _ in range(copies)]),
                images,
                copies,
                channels_last=True,
            ),
        },
        rounds=9 if side < 32 else 3,
    )
    return {
        "what": f"{copies} stacked",
        "cell": cell.code,
        "skeleton": f"C={channels} N={blocks} {side}x{side}",
        "batch": batch,
        "alone_ms": 1e3 * statistics.median(times["alone"]),
        "times_faster": ratio(times, ["alone", "alone_last"], "stacked"),
        "channels_last": None,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    rows = [single(code, device) for code in CELLS]
    for channels, side, batch in ((4, 8, 64), (4, 8, 128), (8, 8, 64), (4, 16, 64), (8, 16, 64)):
        rows += [
            stacked(code, device, copies=8, channels=channels, blocks=1, side=side, batch=batch)
            for code in DEMO
        ]
    rows.append(stacked("2_20_213", device, copies=4, channels=16, blocks=5, side=32, batch=32))
    publish("nets", rows, device=str(device), torch_threads=torch.get_num_threads())
