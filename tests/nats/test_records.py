"""Reading of one record that is written by hand: its rows and curves, and wrong values in it."""

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
from rebench.errors import InputError, UnsafeFileError
from rebench.nats.files import CellResults, decompress, file_index, read_results

NAN = math.nan
# A trial of two epochs. x-valid was evaluated after both epochs, ori-test after the last without a
# time, and x-test after the first.
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


def _read(
    change: Callable[[dict[str, Any]], object] = lambda _: None,
    around: Callable[[dict[str, Any]], object] = lambda _: None,
) -> CellResults:
    trial = copy.deepcopy(TRIAL)
    change(trial)
    record: dict[str, Any] = {
        "2": {
            "arch_index": 3,
            "arch_str": str(Cell.from_index(3)),
            "dataset_seed": {"cifar100": [777]},
            "all_results": {("cifar100", 777): trial},
        }
    }
    around(record)
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
    # Curves contain the time of each epoch only if these times differ.
    expected = [
        ["train", [40.0, 60.0], [2.0, 1.0], [5.0, 7.0]],
        ["x-valid", [30.0, 50.0], [NAN, 1.5], None],
    ]
    np.testing.assert_equal(curves, expected)
    assert {len(values) for values in into.curves.values()} == {2}


def _with_seed(seed: int) -> Callable[[dict[str, Any]], object]:
    def change(record: dict[str, Any]) -> None:
        record["2"]["dataset_seed"]["cifar100"] = [seed]
        results = record["2"]["all_results"]
        results["cifar100", seed] = results.pop(("cifar100", 777))

    return change


def test_largest_seed_is_that_of_31_bits():
    rows = _read(around=_with_seed(2**31 - 1)).rows
    assert set(rows["seed"]) == {2**31 - 1}
    with pytest.raises(InputError, match="whole numbers from 0 to 2147483647"):
        _read(around=_with_seed(2**31))


@pytest.mark.parametrize(("measured", "latency_s"), [
    (None, NAN),
    ([], NAN),
    ([-1], NAN),
    ([0.0], NAN),
    ([0.02, 0.02, 0.05], 0.03),
    ([np.float32(0.5)], 0.5),
    ([2**31 - 1], 2**31 - 1),
])  # fmt: skip
def test_latency_is_the_mean_of_what_was_measured(measured, latency_s):
    rows = _read(lambda trial: trial.update(latency=measured)).rows
    assert rows["latency_s"] == pytest.approx([latency_s] * 3, nan_ok=True)


def _set(place: str, key: Any, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda trial: trial[place].__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # The loss before this one is NaN; values after it are checked, too.
        (_set("eval_losses", "x-valid@1", -1.0), "loss .* -1"),
        (_set("eval_losses", "x-valid@1", math.inf), "loss .* inf"),
        (_set("train_acc1es", 0, 100.5), "accuracy .* 100.5"),
        (_set("train_acc1es", 1, NAN), "accuracy .* nan"),
        (_set("train_acc1es", 1, None), "None"),
        (_set("train_acc1es", 0, np.complex64(1)), "complex64"),
        (_set("train_acc1es", 0, True), "True"),
        (_set("train_times", 1, -5.0), "seconds .* -5"),
        (_set("eval_acc1es", "x-valid@1", math.inf), "accuracy .* inf"),
        (_set("eval_times", "x-valid@0", "much"), "'much'"),
        (lambda trial: trial.update(params=-5.0), "params_m .* -5"),
        (lambda trial: trial.update(params="much"), "'much'"),
        (lambda trial: trial.update(flop=math.inf), "mflops .* inf"),
        (lambda trial: trial.update(flop=True), "True"),
        (_set("eval_names", 1, 3), "eval_names"),
        (_set("eval_names", 1, "train"), "eval_names"),
        (_set("eval_names", 1, "ori-test"), "eval_names"),
        (lambda trial: trial.update(eval_names=("x-valid",)), "eval_names"),
        (lambda trial: trial.update(latency=0.5), "latency: expected a list, got 0.5"),
        (lambda trial: trial.update(latency=[1.0, "2"]), "'2'"),
        (lambda trial: trial.update(latency=[2.0**31] * 2), "latency .* 2147483648"),
        (lambda trial: trial.update(epochs=3), "3 epochs"),
        (lambda trial: trial.update(train_losses=[1.0]), "losses: expected a dict, got a list"),
    ],
)
def test_wrong_value_is_refused_by_its_rule(change, message):
    with pytest.raises(InputError, match=rf"^f: .*Error: .*{message}"):
        _read(change)


def _seeds(seeds: object) -> Callable[[dict[str, Any]], object]:
    def change(record: dict[str, Any]) -> None:
        record["2"]["dataset_seed"] = {"cifar100": seeds}

    return change


@pytest.mark.parametrize(("around", "message"), [
    (lambda record: record.update({"02": record["2"]}), "2 epochs occur twice"),
    (lambda record: record.update({2: record.pop("2")}), "2 instead of a number of epochs"),
    (lambda record: record.update({"0": record.pop("2")}), "'0' instead of a number"),
    (lambda record: record.update({"100000": record.pop("2")}), "'100000' instead of a num"),
    (lambda record: record.update({"٢": record.pop("2")}), "'٢' instead of a number"),
    (lambda record: record.update({"2": [1]}), "results: expected a dict, got a list"),
    (lambda record: record["2"].pop("arch_str"), "KeyError"),
    (lambda record: record["2"].update(arch_index=4), "it contains cell 4"),
    (lambda record: record["2"].update(arch_str="x"), "it contains cell 3, 'x'"),
    (lambda record: record["2"].update(dataset_seed={"digits": [1]}), "data set 'digits'"),
    (_seeds([777, 777]), "a seed occurs twice among 2"),
    (_seeds((777,)), "seeds must be a list of whole numbers"),
    (_seeds([-1]), "seeds must be a list of whole numbers"),
    (_seeds([2**31]), "seeds must be a list of whole numbers"),
    (_seeds([True]), "seeds must be a list of whole numbers"),
    (_seeds([888]), "KeyError"),
    (lambda record: record["2"].update(all_results=[]), "all_results: expected a dict"),
])  # fmt: skip
def test_wrong_frame_of_a_record_is_refused(around, message):
    with pytest.raises(InputError, match=message):
        _read(around=around)


@pytest.mark.parametrize(("epochs", "taken"), [(50_000, True), (50_001, False)])
def test_record_of_more_epochs_than_any_has_is_refused_unread(epochs, taken):
    """The trials claim many epochs, but contain no values of them."""
    trial = {**TRIAL, "epochs": 12_500, "train_acc1es": {}, "eval_acc1es": {}}
    names = ["cifar10-valid", "cifar10", "cifar100", "ImageNet16-120"]
    rest = epochs - 50_000

    def change(record: dict[str, Any]) -> None:
        results = record.pop("2")
        results["dataset_seed"] = {name: [777] for name in names}
        results["all_results"] = {(name, 777): trial for name in names}
        record["12500"] = results
        if rest:
            last = {**results, "dataset_seed": {"cifar10": [777]}}
            record[f"{rest}"] = last | {"all_results": {("cifar10", 777): trial | {"epochs": rest}}}

    if taken:
        assert not _read(around=change).rows["index"]
    else:
        with pytest.raises(InputError, match="more than 50000 epochs together"):
            _read(around=change)


@pytest.mark.parametrize(("size", "taken"), [(2**21, True), (2**21 + 1, False)])
def test_small_file_may_unpack_to_two_mebibytes(size, taken):
    data = bz2.compress(bytes(size))
    if taken:
        assert len(decompress(data, "f")) == size
    else:
        with pytest.raises(UnsafeFileError, match=f"f: unpacks to more than {2**21} bytes"):
            decompress(data, "f")


def test_large_file_may_unpack_to_eight_times_its_size():
    noise = np.random.default_rng(0).bytes(2**19)
    data = bz2.compress(noise)
    whole = data + bz2.compress(bytes(8 * len(data) - 2**19))
    limit = 8 * len(whole)
    assert decompress(whole, "f") == noise + bytes(8 * len(data) - 2**19)
    longer = data + bz2.compress(bytes(limit + 10_000 - 2**19))
    with pytest.raises(UnsafeFileError, match=f"f: unpacks to more than {8 * len(longer)} bytes"):
        decompress(longer, "f")


@pytest.mark.parametrize(("name", "index"), [
    ("000011.pickle.pbz2", 11),
    ("7.pickle.bz2", 7),
    ("0000011.pickle.pbz2", None),
    ("11.pickle", None),
    ("x11.pickle.pbz2", None),
])  # fmt: skip
def test_name_of_a_file_tells_its_cell(name, index):
    assert file_index(name) == index
