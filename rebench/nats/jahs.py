"""JAHS-Bench-201: random configurations of cells, with continuous learning rates and settings.

Bansal, Stoll, Janowski, Zela, Hutter (NeurIPS 2022). It is published as pickled frames of pandas
1.3, one file per data set, with a row per configuration and epoch. The user converts them to CSV or
Parquet with pandas (the page on import and export shows how). Its operations are Op1..Op6 on the
edges 1<-0, 2<-0, 3<-0, 2<-1, 3<-1, 3<-2 (sorted by source, unlike architecture strings), and 0..4
are skip, none, 3x3, 1x1 and pooling: the lists ``EDGE_LIST`` and ``OP_NAMES`` of its code, version
1.1.0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from cells import OP_NAMES
from cells.ops import AVG_POOL, CONV_1X1, CONV_3X3, EDGES, NONE, SKIP, index_order
from rebench.errors import InputError, MissingDataError
from rebench.nats.surface_rows import surface_rows
from rebench.tables.checks import check_column
from rebench.tables.columns import RULES, Column
from rebench.tables.longfile import read_csv
from rebench.tables.parquet import ParquetFile

__all__ = ["EDGES_BY_SOURCE", "OPERATIONS", "TASKS", "read_jahs"]

TASKS: Final = ("cifar10", "colorectal_histology", "fashion_mnist")

# (target, source) of Op1..Op6, and the operations 0..4.
EDGES_BY_SOURCE: Final = ((1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (3, 2))
OPERATIONS: Final = (SKIP, NONE, CONV_3X3, CONV_1X1, AVG_POOL)
_OP_NAMES: Final = tuple(f"Op{edge}" for edge in range(1, 7))
_ACCURACIES: Final = {"train": "train-acc", "x-valid": "valid-acc", "ori-test": "test-acc"}

# Our names of the benchmark's columns; values are checked by the rules of our columns.
_OURS: Final = {
    "epoch": "epochs", "LearningRate": "learning_rate", "WeightDecay": "weight_decay",
    "W": "channels", "N": "cells_per_stage", "Resolution": "resolution",
    "Activation": "activation",
}  # fmt: skip
_RULES: Final = {
    **{theirs: RULES[ours] for theirs, ours in _OURS.items()},
    **dict.fromkeys(_ACCURACIES.values(), RULES["accuracy"]),
    **{name: Column(name, pa.int32(), "an operation", most=4) for name in _OP_NAMES},
    "Optimizer": Column("Optimizer", pa.string(), "the optimiser", names=("SGD",)),
}


def read_jahs(source: Path) -> pd.DataFrame:
    """Return the configurations after their last epoch, a row per configuration and split.

    The seeds of a configuration's runs are unknown: the column `seed` numbers the runs from 0.

    Args:
        source: the folder with a ``TASK.parquet`` or ``TASK.csv`` for any of `TASKS`.
    """
    files = [source / f"{task}{end}" for task in TASKS for end in (".parquet", ".csv")]
    parts = [_last_epochs(file) for file in files if file.is_file()]
    if not parts:
        raise MissingDataError(
            f"{source} has none of {', '.join(f'{task}.parquet' for task in TASKS)} (or .csv); "
            f"JAHS-Bench-201 is published as pickles; the page on import and export shows how to "
            f"convert them with pandas"
        )
    told = pd.concat(parts, ignore_index=True)
    ops = np.array(OPERATIONS)[told[list(_OP_NAMES)].to_numpy(dtype=np.int64)]
    by_target = ops[:, [EDGES_BY_SOURCE.index(edge) for edge in EDGES]]
    ranks = by_target @ len(OP_NAMES) ** np.arange(5, -1, -1)
    runs = told[["dataset", *_OURS]].rename(columns=_OURS).assign(
        index=np.argsort(index_order())[ranks], train_split="jahs", batch_size=256,
        augmentation=told["TrivialAugment"].map({True: "trivial", False: "standard"}),
    )  # fmt: skip
    runs["seed"] = runs.groupby(list(runs), sort=False).cumcount()
    return surface_rows(
        runs, {split: {"accuracy": told[name]} for split, name in _ACCURACIES.items()}
    )


def _last_epochs(file: Path) -> pd.DataFrame:
    """Return the checked rows of a file's configurations after their last epoch."""
    frame = read_csv(file) if file.suffix == ".csv" else ParquetFile(file).frame()
    lacking = [name for name in (*_RULES, "TrivialAugment") if name not in frame.columns]
    if lacking:
        raise InputError(f"{file}: no column {', '.join(lacking)}")
    columns: dict[str, Any] = {
        name: check_column(frame[name], rule, str(file), complete=rule.name != "accuracy")
        for name, rule in _RULES.items()
    }
    if frame["TrivialAugment"].dtype != bool:
        raise InputError(f"{file}: column TrivialAugment must be True or False in every row")
    columns |= {"TrivialAugment": frame["TrivialAugment"], "dataset": file.stem}
    rows = pd.DataFrame(columns)
    setting = [name for name in rows if name not in ("epoch", *_ACCURACIES.values())]
    last = rows.groupby(setting, sort=False)["epoch"].transform("max")
    kept: pd.DataFrame = rows[rows["epoch"] == last]
    return kept
