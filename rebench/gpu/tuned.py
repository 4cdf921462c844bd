"""What the measured speeds ask of a sweep: the lines of its file that this GPU wants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rebench.gpu.correctness import Row

__all__ = ["tuned_lines"]

# A way that is not this much faster than a simpler one is not worth having.
_WORTH_IT = 1.05


def tuned_lines(parts: Mapping[str, Sequence[Row]], device: str, torch_version: str) -> str:
    """Return a part of a sweep's TOML file, with a comment on what it was chosen by.

    Only what leaves a trial's id and the promise of equal bits alone is chosen: bf16 is another
    trial, and free cuDNN algorithms do not give the same bits again.
    """
    speeds = [_rates(rows) for name, rows in parts.items() if name.startswith("speed")]
    lines = [f"# From `rebench gpu check` on {device}, torch {torch_version}."]
    if not speeds:
        return "\n".join([*lines, "# No speed has been measured yet: run the check again.", ""])
    gain = {
        way: math.prod(one[way] / one["default"] for one in speeds) ** (1 / len(speeds))
        for way in speeds[0]
        if all(way in one and "default" in one for one in speeds)
    }
    best, stack, graphs = "default", 1, False
    stacks = {str(row["way"]): int(row["stack"] or 1) for row in _first_speed(parts)}
    for way in sorted(gain, key=lambda way: (stacks[way], "graphs" in way)):
        allowed = not {"bf16", "free cuDNN", "contiguous"} & set(_switches(way))
        if allowed and gain[way] > gain[best] * _WORTH_IT:
            best, stack, graphs = way, stacks[way], "graphs" in way
    compiling = _compile_gain(parts, graphs=graphs)
    processes = _processes(parts)
    lines.append(f"# {best}: {gain[best]:.2f} times the images a second of the default.")
    halved = f"{best}, bf16" if graphs else "bf16"
    if halved in gain:
        lines.append(f"# With [protocol] precision = 'bf16': {gain[halved]:.2f} times.")
    lines += [f"stack = {stack}  # no more than a cell has seeds and recipes", "", "[slurm]"]
    if "graphs" in gain:
        lines += ["gpus_per_task = 1", f"cuda_graphs = {str(graphs).lower()}"]
    if compiling:
        lines.append(f"compile_net = {str(compiling > _WORTH_IT).lower()}")
    if processes > 1:
        lines.append(f"processes_per_job = {processes}")
    return "\n".join([*lines, ""])


def _switches(way: str) -> list[str]:
    return [piece.strip() for piece in way.split(",")]


def _rates(rows: Sequence[Row]) -> dict[str, float]:
    rates = {str(row["way"]): row["images_per_s"] for row in rows}
    return {way: float(rate) for way, rate in rates.items() if isinstance(rate, int | float)}


def _first_speed(parts: Mapping[str, Sequence[Row]]) -> Sequence[Row]:
    return next(rows for name, rows in parts.items() if name.startswith("speed"))


def _compile_gain(parts: Mapping[str, Sequence[Row]], *, graphs: bool) -> float:
    """Return how many times faster `torch.compile` is, at its worst over the cells; 0 unknown."""
    pair = ("compile, graphs", "graphs") if graphs else ("compile", "default")
    gains = []
    for name, rows in parts.items():
        rates = _rates(rows) if name.startswith("compile") else {}
        if rates.keys() >= set(pair):
            gains.append(rates[pair[0]] / rates[pair[1]])
    return min(gains, default=0.0)


def _processes(parts: Mapping[str, Sequence[Row]]) -> int:
    """Return how many processes without MPS fill the device best, where they clearly do."""
    rates = {
        int(row["processes"] or 1): float(row["images_per_s"] or 0)
        for row in parts.get("sharing", ())
        if not row["mps"]
    }
    best = max(rates, key=rates.__getitem__, default=1)
    return best if rates and rates[best] > 1.2 * (rates.get(1) or math.inf) else 1
