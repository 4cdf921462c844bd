"""Time the cell compiler over the whole space, beside a plain enumeration of paths per cell.

Run: ``python scripts/bench/cells.py``. Every repeat is a fresh process's worth of work: caches
are cleared before each call.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))  # this script's own name would hide the package

from results_file import median_seconds, publish  # noqa: E402 - after the path

from cells import (  # noqa: E402 - after the path
    EDGES,
    OP_NAMES,
    Cell,
    all_cells,
    classes,
    compile_network,
    compile_space,
    paths,
    table,
)
from rebench.datasets import data_spec  # noqa: E402 - after the path


def walk(cell: Cell) -> list[list[int]]:
    """List the paths of one cell, each as its edges."""
    found = []
    stack: list[tuple[int, list[int]]] = [(0, [])]
    while stack:
        vertex, path = stack.pop()
        if vertex == 3:
            found.append(path)
            continue
        for edge, (target, source) in enumerate(EDGES):
            if source == vertex and cell.ops[edge]:
                stack.append((target, [*path, edge]))
    return found


def plain_paths() -> list[tuple[int, float | None]]:
    """Count and weigh the paths of every cell, one cell at a time."""
    results = []
    for text in STRINGS:
        cell = Cell.parse(text)
        depths = [sum(cell.ops[edge] in (2, 3) for edge in path) for path in walk(cell)]
        total = sum((1 + depth) ** 3 for depth in depths)
        results.append((len(depths), total**-0.5 if total else None))
    return results


def plain_function(cell: Cell) -> str:
    """Return the text of what one cell computes, as the benchmark's partition spells it."""

    def term(op: int, value: str) -> str:
        if op == 0 or value == "#":
            return "#"
        return value if op == 1 else f"({value})@{OP_NAMES[op]}"

    op10, op20, op21, op30, op31, op32 = cell.ops
    vertex1 = term(op10, "0")
    vertex2 = "+".join(sorted((term(op20, "0"), term(op21, vertex1))))
    return "+".join(sorted((term(op30, "0"), term(op31, vertex1), term(op32, vertex2))))


def plain_statistics() -> list[tuple[object, ...]]:
    """Compute what `compile_space` computes, one cell at a time."""
    results = []
    classes_seen: dict[str, int] = {}
    models = [data_spec(name).cost_model() for name in ("cifar10", "cifar100", "ImageNet16-120")]
    for index, text in enumerate(STRINGS):
        cell = Cell.parse(text)
        found = walk(cell)
        depths = [sum(cell.ops[edge] in (2, 3) for edge in path) for path in found]
        total = sum((1 + depth) ** 3 for depth in depths)
        live = {edge for path in found for edge in path}
        degrees = [
            sum(t == v and op > 0 for (t, _), op in zip(EDGES, cell.ops, strict=True))
            for v in (1, 2, 3)
        ]
        live_degrees = [sum(EDGES[edge][0] == v for edge in live) for v in (1, 2, 3)]
        function = classes_seen.setdefault(plain_function(cell), index)
        costs = [model.of(cell) for model in models]
        results.append((depths, total, sorted(live), degrees, live_degrees, function, costs))
    return results


def clear() -> None:
    """Forget what a first call computes and keeps, but for the order of the cells.

    The enumeration is given the cells' strings, so the order is given to both.
    """
    classes.functional_classes.cache_clear()
    table.space_ops.cache_clear()
    paths.network_polynomial.cache_clear()


def cold_space() -> None:
    """Compile the cell level from nothing."""
    clear()
    compile_space()


def cold_network() -> None:
    """Compile the cell level and the exact network level from nothing."""
    clear()
    compile_network(compile_space())


def import_seconds() -> float:
    """Return the median time of ``import cells`` beyond a bare interpreter's start."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, cwd=PROJECT)
        return time.perf_counter() - start

    pairs = sorted(run("import cells") - run("pass") for _ in range(11))
    return pairs[len(pairs) // 2]


STRINGS = [str(cell) for cell in all_cells()]


def cold_paths() -> None:
    """Compute path counts and multipliers of all cells from nothing."""
    clear()
    depths = paths.depth_array(table.space_ops())
    cubed = depths @ (1 + np.arange(4)) ** 3
    np.power(cubed, -0.5, where=cubed > 0, out=np.full(len(cubed), np.nan))


if __name__ == "__main__":
    plain = {"paths": plain_paths, "statistics": plain_statistics}
    ours = {"paths": cold_paths, "statistics": cold_space, "network": cold_network}
    plain_ms = {name: 1e3 * median_seconds(run, 5) for name, run in plain.items()}
    ours_ms = {name: 1e3 * median_seconds(run, 21) for name, run in ours.items()}
    rows: list[dict[str, object]] = [
        {
            "what": name,
            "ours_ms": ours_ms[name],
            "plain_ms": plain_ms.get(name),
            "times_faster": plain_ms[name] / ours_ms[name] if name in plain_ms else None,
            "bar": bar,
        }
        for name, bar in (
            ("paths", "-"),
            ("statistics", "<= 30 ms and >= 50 times faster"),
            ("network", "<= 200 ms"),
        )
    ]
    rows.append({"what": "import", "ours_ms": 1e3 * import_seconds(), "bar": "< 200 ms"})
    publish("cells", rows)
