"""One record written by hand: every row and curve of it, and every wrong value in it."""

from __future__ import annotations

import bz2
import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cells import Cell
from rebench.errors import InputError
from rebench.nats.files import CellResults, read_results

NAN = math.nan
# Two epochs. Of its splits x-valid has both, ori-test the last without a time, x-test the first.
TRIAL = {
    "epochs": 2,
    "params": 0.5,
    "flop": 10.0,
    "latency": [0.01, 0.03],
    "train_acc1es": {0: 40.0, 1: 60.0},
    "train_losses": {0: 2.0, 1: 1.0},
    "train_times": {0: 5.0, 1: 7.0},
    "eval_names": ["x-test", "x-valid", "ori-test"],
    "eval_acc1es": {"x-test@0": 9.0, "x-valid@0": 30.0, "x-valid@1": 50.0, "ori-test@1": 55.0},
    "eval_losses": {"x-valid@0": NAN, "x-valid@1": 1.5, "ori-test@1": NAN},
    "eval_times": {"x-valid@0": 3.0, "x-valid@1": 3.0},
}


def _read(change: Callable[[dict[str, Any]], object] = lambda _: None) -> CellResults:
    trial = copy.deepcopy(TRIAL)
    change(trial)
    record = {
        "2": {
            "arch_index": 3,
            "arch_str": str(Cell.from_index(3)),
            "dataset_seed": {"cifar100": [777]},
            "all_results": {("cifar100", 777): trial},
        }
    }
    into = CellResults()
    read_results(bz2.compress(pickle.dumps(record)), 3, "f", into)
    return into


def test_rows_and_curves_are_those_of_the_record():
    into = _read()
    rows = pd.DataFrame(into.rows).to_dict("records")
    same = {"index": 3, "dataset": "cifar100", "epochs": 2, "seed": 777}
    same |= {"params_m": 0.5, "mflops": 10.0, "latency_s": 0.02}
    assert [{**row, **same} for row in rows] == rows
    columns = ["split", "accuracy", "loss", "seconds", "epoch_seconds"]
    expected = [
        ["train", 60.0, 1.0, 12.0, 7.0],
        ["x-valid", 50.0, 1.5, 6.0, 3.0],
        ["ori-test", 55.0, NAN, NAN, NAN],
    ]
    np.testing.assert_equal([[row[name] for name in columns] for row in rows], expected)
    curves = [[into.curves[name][at] for name in columns[:4]] for at in range(2)]
    # An epoch's time is of its own where it differs from another's.
    expected = [
        ["train", [40.0, 60.0], [2.0, 1.0], [5.0, 7.0]],
        ["x-valid", [30.0, 50.0], [NAN, 1.5], None],
    ]
    np.testing.assert_equal(curves, expected)
    assert {len(values) for values in into.curves.values()} == {2}


@pytest.mark.parametrize(
    ("measured", "latency_s"),
    [
        (None, NAN),
        ([], NAN),
        ([-1], NAN),
        ([0.0], NAN),
        ([0.02, 0.02, 0.05], 0.03),
        ([np.float32(0.5)], 0.5),
    ],
)
def test_latency_is_the_mean_of_what_was_measured(measured, latency_s):
    rows = _read(lambda trial: trial.update(latency=measured)).rows
    assert rows["latency_s"] == pytest.approx([latency_s] * 3, nan_ok=True)


def _set(place: str, key: Any, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda trial: trial[place].__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # What stands after a loss that is not a number is looked at as well.
        (_set("eval_losses", "x-valid@1", -1.0), "loss .* -1"),
        (_set("eval_losses", "x-valid@1", math.inf), "loss .* inf"),
        (_set("train_acc1es", 0, 100.5), "accuracy .* 100.5"),
        (_set("train_acc1es", 1, NAN), "accuracy .* nan"),
        (_set("train_acc1es", 1, None), "None"),
        (_set("train_acc1es", 0, True), "True"),
        (_set("train_acc1es", 0, np.complex64(1)), "complex64"),
        (_set("train_acc1es", 0, "9"), "'9'"),
        (_set("train_times", 0, -5.0), "seconds .* -5"),
        (_set("eval_names", 1, 3), "eval_names"),
        (_set("eval_names", 1, "train"), "eval_names"),
        (_set("eval_names", 1, "ori-test"), "eval_names"),
        (lambda trial: trial.update(eval_names=("x-valid",)), "eval_names"),
        (lambda trial: trial.update(flop=-1.0), "mflops .* -1"),
        (lambda trial: trial.update(params=math.inf), "params_m .* inf"),
        (lambda trial: trial.update(latency=0.5), "latency: 0.5"),
        (lambda trial: trial.update(latency=[1.0, "2"]), "'2'"),
        (lambda trial: trial.update(latency=[2.0**31] * 2), "latency .* 2147483648"),
        (lambda trial: trial.update(epochs=3), "3 epochs"),
        (lambda trial: trial.update(train_losses=[1.0]), "losses: a list"),
    ],
)
def test_wrong_value_is_refused_by_its_rule(change, message):
    with pytest.raises(InputError, match=rf"^f: .*Error: .*{message}"):
        _read(change)
