"""Folders in the format of NAS-HPO-Bench-II: dicts of dicts with made-up values."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import numpy as np

from cells import Cell, all_cells, compile_space
from cells.ops import AVG_POOL, CONV_1X1, CONV_3X3, NONE, SKIP

RATES = (0.003125, 0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)
BATCH_SIZES = (16, 32, 64, 128, 256, 512)
SEEDS = (222, 555, 888)
DIGITS = {CONV_3X3: "0", AVG_POOL: "1", SKIP: "2", NONE: "3"}


def code(cell: Cell) -> str:
    """Return the benchmark's code of a cell, by the figure in its README: (A)|(B)(C)|(D)(E)(F)."""
    a, b, c, d, e, f = (DIGITS[op] for op in cell.ops)
    return f"{a}|{b}{c}|{d}{e}{f}"


def codes(n: int | None = None, seed: int = 0) -> dict[str, str]:
    """Return code -> hash; cells of one functional class share a hash. Take n classes, or all."""
    classes = compile_space().functional_class
    held = [cell for cell in all_cells() if CONV_1X1 not in cell.ops]
    kinds = sorted({int(classes[cell.index]) for cell in held})
    if n is not None:
        kinds = np.random.default_rng(seed).permutation(kinds)[:n].tolist()
    chosen = set(kinds)
    return {
        code(cell): f"{int(classes[cell.index]):032x}"
        for cell in held
        if int(classes[cell.index]) in chosen
    }


def bench12(hashes: dict[str, str], best_rate: float = 0.1, batch_sizes=BATCH_SIZES, seed: int = 0):
    """Return metrics by (hash, rate, batch size, seed); accuracy is highest at one rate."""
    rng = np.random.default_rng(seed)
    kinds = sorted(set(hashes.values()))
    keys = list(itertools.product(kinds, RATES, batch_sizes, SEEDS))
    tops = dict(zip(kinds, 60 + 5 * rng.standard_normal(len(kinds)), strict=True))
    clean = np.array([tops[k] - 2 * np.log2(rate / best_rate) ** 2 for k, rate, _, _ in keys])
    columns: dict[str, list] = {
        "lr": [key[1] for key in keys],
        "batch_size": [key[2] for key in keys],
        "seed": [key[3] for key in keys],
    }
    for split in ("train", "valid", "test"):
        for epoch in range(12):
            noise = rng.standard_normal(len(keys))
            columns[f"{split}_acc_{epoch}"] = np.clip(clean - 11 + epoch + noise, 0, 100).tolist()
            columns[f"{split}_time_{epoch}"] = rng.uniform(1, 9, len(keys)).tolist()
    times = {
        split: np.sum([columns[f"{split}_time_{epoch}"] for epoch in range(12)], axis=0)
        for split in ("train", "valid", "test")
    }
    columns["total_train_time"] = times["train"].tolist()
    columns["total_trainval_time"] = (times["train"] + times["valid"]).tolist()
    columns["total_test_time"] = times["test"].tolist()
    return {name: dict(zip(keys, values, strict=True)) for name, values in columns.items()}


def write_nas_hpo_bench(
    folder: Path, hashes: dict[str, str], bench: dict, protocol: int = 4
) -> Path:
    """Write the three files of the benchmark."""
    folder.mkdir(parents=True, exist_ok=True)
    averages = {key[:3]: value for key, value in bench["test_acc_11"].items()}
    for name, content in (
        ("bench12", bench),
        ("cellinfo", {"hash": hashes}),
        ("avgaccs200", {"avg_acc": averages}),
    ):
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(content, protocol))
    return folder
