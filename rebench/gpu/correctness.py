"""Whether the device computes what the CPU computes, and the same again after an interruption."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

import torch

from rebench.gpu.runs import Run, Setup

__all__ = ["FLOAT32_LIMIT", "Row", "compare_with_cpu", "graphs_equal_eager", "resumes"]

Row = dict[str, str | int | float | bool | None]

FLOAT32_LIMIT = 1e-4
_BF16_LIMIT = 2e-2
_STEPS = 10


def compare_with_cpu(setup: Setup, device: torch.device) -> list[Row]:
    """Hold the losses of ten steps on the device against those on the CPU, without TF32."""
    rows = []
    for network in ("rebench", "xautodl"):
        if network == "xautodl" and importlib.util.find_spec("xautodl") is None:
            rows.append(_row("xautodl's network", None, None, note="xautodl is not installed"))
            continue
        for stack in (1, 3) if network == "rebench" else (1,):
            for bf16, limit in ((False, FLOAT32_LIMIT), (True, _BF16_LIMIT)):
                asked = setup.but(network=network, stack=stack, bf16=bf16)
                with _exact():
                    ours = _losses(asked, device)
                    expected = _losses(asked, torch.device("cpu"))
                precision = "bf16" if bf16 else "float32"
                name = f"{network}, stack {stack}, {precision}: losses on the CPU"
                rows.append(_row(name, _apart(ours, expected), limit))
    return rows


def graphs_equal_eager(setup: Setup, device: torch.device) -> list[Row]:
    """Hold steps and evaluations replayed as CUDA graphs against the same ones one by one."""
    rows = []
    for stack in (1, 3):
        for bf16 in (False, True):
            eager = setup.but(stack=stack, bf16=bf16)
            with _exact():
                plain = _judged_losses(eager, device)
                replayed = _judged_losses(eager.but(cuda_graphs=True), device)
            name = f"stack {stack}, {'bf16' if bf16 else 'float32'}: CUDA graphs as eager"
            # cuDNN may choose another algorithm under capture; the bits are reported either way.
            limit = _BF16_LIMIT if bf16 else FLOAT32_LIMIT
            rows.append(_row(name, _apart(replayed, plain), limit, same_bits=replayed == plain))
    return rows


def resumes(setup: Setup, device: torch.device) -> list[Row]:
    """Stop in the middle, take up in a new network, and ask for the same bits."""
    rows = []
    variants = {"eager": setup, "stack 3": setup.but(stack=3)}
    if device.type == "cuda":
        variants["CUDA graphs"] = setup.but(cuda_graphs=True)
    for name, asked in variants.items():
        with _exact():
            whole = _losses(asked, device)
            first = Run(asked, device)
            begun = first.losses(_STEPS // 2)
            second = Run(asked, device)
            second.load(first.state())
            taken_up = begun + second.losses(_STEPS - len(begun))
        same = taken_up == whole
        rows.append(_row(f"resumed as undisturbed, {name}", _apart(taken_up, whole), 0.0, same))
    return rows


def _losses(setup: Setup, device: torch.device) -> list[list[float]]:
    return Run(setup, device).losses(_STEPS)


def _judged_losses(setup: Setup, device: torch.device) -> list[list[float]]:
    """Return the losses of steps, and of evaluations before, between and after them."""
    run = Run(setup, device)
    found = [run.judged()]
    for _ in range(2):
        found += run.losses(_STEPS // 2)
        found.append(run.judged())
    return found


def _apart(ours: list[list[float]], expected: list[list[float]]) -> float:
    """Return the largest relative difference; infinite when a loss is not finite."""
    first, second = torch.tensor(ours), torch.tensor(expected)
    if not first.isfinite().all() or not second.isfinite().all():
        return float("inf")
    return float(((first - second).abs() / second.abs()).max())


def _row(
    what: str,
    apart: float | None,
    limit: float | None,
    same_bits: bool | None = None,
    note: str = "",
) -> Row:
    passed = None if apart is None or limit is None else apart <= limit
    return {
        "what": what,
        "apart": apart,
        "limit": limit,
        "same_bits": apart == 0 if same_bits is None and apart is not None else same_bits,
        "passed": passed,
        "note": note,
    }


@contextlib.contextmanager
def _exact() -> Iterator[None]:
    """Compute in whole float32, with algorithms that give the same bits every time."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
