"""Makes folders in NATS-Bench's format with the real package's own classes and writer."""

from __future__ import annotations

import bz2
import collections
import functools
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from nats_bench import ArchResults, ResultsCount, pickle_save

from cells import Cell, all_cells
from rebench.data import data_spec
from rebench.spaces.nb201 import cost_model

CLASSES = {"cifar10-valid": 10, "cifar10": 10, "cifar100": 100, "ImageNet16-120": 120}
EVALUATED = {
    "cifar10-valid": ("x-valid", "ori-test"),
    "cifar10": ("ori-test",),
    "cifar100": ("ori-test", "x-valid", "x-test"),
    "ImageNet16-120": ("ori-test", "x-valid", "x-test"),
}
SEEDS = {12: {"cifar10-valid": (777, 111)}, 200: dict.fromkeys(CLASSES, (999, 777, 888))}


def make_results(index: int, *, weights: Any = None) -> dict[str, Any]:
    """Return the state of one cell's file, with random values and the irregularities of real files.

    Some cells lack a seed, a latency or times; some disagree on FLOPs between seeds; at 200 epochs
    most evaluations exist for the last epoch only; one in five has times that vary.
    """
    draw = np.random.default_rng(index)
    by_hp: dict[str, Any] = collections.OrderedDict()
    for epochs in (12, 200):
        results = ArchResults(index, str(Cell.from_index(index)))
        for dataset in CLASSES:
            seeds = list(SEEDS[epochs].get(dataset, (111,)))
            if index % 4 == 1 and len(seeds) > 1:
                del seeds[index % len(seeds)]
            for seed in seeds:
                trial = _trial(draw, index, dataset, epochs, seed)
                trial.net_state_dict = weights
                results.update(dataset, seed, trial)
        results.clear_params() if weights is None else None
        by_hp[str(epochs)] = results.state_dict()
    return by_hp


def _trial(
    draw: np.random.Generator, index: int, dataset: str, epochs: int, seed: int
) -> ResultsCount:
    known = cost_model(data_spec(dataset.removesuffix("-valid"))).of(Cell.from_index(index))
    legacy = 0.5 if index % 7 == 2 and (seed, epochs) == (777, 200) else 0.0
    config = {
        "channel": 16, "num_cells": 5, "arch_str": str(Cell.from_index(index)),
        "class_num": CLASSES[dataset],
    }  # fmt: skip
    trial = ResultsCount(
        dataset, None, None, None, np.float64(known.params_m), known.mflops + legacy, config,
        f"{seed:04d}", epochs, [np.float64(draw.uniform(0.01, 0.02))] if index % 5 != 3 else None,
    )  # fmt: skip
    curve = {
        epoch: float(value) for epoch, value in enumerate(np.sort(draw.uniform(5, 95, epochs)))
    }
    losses = {epoch: float(value) for epoch, value in enumerate(draw.uniform(0, 3, epochs))}
    trial.update_train_info(curve, None, losses, None)
    trial.reset_pseudo_train_times(float(draw.uniform(10, 90)))
    if index % 5 == 4:
        trial.train_times = {epoch: float(s) for epoch, s in enumerate(draw.uniform(9, 99, epochs))}
    names = EVALUATED[dataset]
    for name in (
        names if epochs == 200 else sorted(names, key=("x-valid", "x-test", "ori-test").index)
    ):
        whole = epochs == 12 or name == EVALUATED[dataset][0]
        places = range(epochs) if whole else [epochs - 1]
        keys = [f"{name}@{epoch}" for epoch in places]
        trial.eval_names.append(name)
        trial.eval_acc1es.update(zip(keys, draw.uniform(5, 95, len(keys)).tolist(), strict=True))
        trial.eval_losses.update(zip(keys, draw.uniform(0, 3, len(keys)).tolist(), strict=True))
        if index % 11 != 10:
            trial.reset_pseudo_eval_times(name, float(draw.uniform(0.5, 5)))
    return trial


@functools.cache
def _meta() -> bytes:
    archs = [str(cell) for cell in all_cells()]
    meta = {"meta_archs": archs, "total_archs": len(archs), "arch2infos": None}
    return bz2.compress(pickle.dumps({**meta, "evaluated_indexes": set()}, protocol=4), 1)


def make_folder(folder: Path, cells: Iterable[int], *, weights: Any = None) -> Path:
    """Write a ``-simple`` folder of these cells (or, with weights, a ``-full`` one)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.pickle.pbz2").write_bytes(_meta())
    for index in cells:
        pickle_save(make_results(index, weights=weights), folder / f"{index:06d}.pickle")
    return folder
