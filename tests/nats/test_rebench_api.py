"""`ReBench` next to the real nats_bench package, with two tables, and with absent values."""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from generated_tables import synthetic_frame
from nats_bench import create as nats_create
from simulated_tables import synthetic_table

from cells import Cell
from rebench.errors import InputError, MissingDataError
from rebench.nats.api import ReBench, create
from rebench.nats.choice import Choice
from rebench.nats.export import export_nats
from rebench.tables import Table

DATASETS = ("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120")


def interrogate(api: Any, cells: list[int]) -> Iterator[tuple[str, Any]]:
    """Make the calls that are not in the questionnaire of random calls."""
    for index in cells:
        for hp in ("12", "200"):
            for dataset in DATASETS:
                yield f"weights {index}", api.get_net_param(index, dataset, None, hp)
                for trial in api.query_by_index(index, dataset, hp).values():
                    yield f"trial {index} {hp} {dataset} {trial.seed}", _trial(trial)
        with pytest.raises(ValueError, match="svhn"):
            api.query_by_index(index, "svhn", "12")
    random.seed(7)
    yield "random", api.random()
    yield "lists", api.str2lists(str(Cell.from_index(0)))
    yield "matrix", api.str2matrix(str(Cell.from_index(0))).tolist()
    yield "length", len(api)
    yield "item", api[12]
    yield "iteration", [arch for arch, _ in zip(api, range(50), strict=False)]
    yield "names", (api.search_space_name, api.full_train_epochs, api.full_epochs_in_paper)
    yield "hps", sorted(api.avaliable_hps)
    yield "kind", (api.is_size, api.is_topology)
    yield "reset", (api.reset_time(), api.used_time)


def _trial(trial: Any) -> dict[str, Any]:
    held = dict(vars(trial))
    held.pop("train_acc5es")  # top-5 accuracies are not kept
    for name in ("train_acc1es", "train_losses", "train_times"):
        held[name] = dict(held[name] or {})
    return {**held, "times": trial.get_times()}


def test_every_trial_and_property_is_the_packages(folder, table):
    real = nats_create(str(folder), "tss", fast_mode=True, verbose=False)
    cells = sorted(int(path.name[:6]) for path in folder.glob("0*.pickle.pbz2"))
    assert list(interrogate(ReBench(table), cells)) == list(interrogate(real, cells))


def test_verbose_mode_prints_and_answers_the_same(folder, table, capsys):
    index = int(next(iter(sorted(folder.glob("0*.pickle.pbz2")))).name[:6])
    quiet, loud = ReBench(table), ReBench(table, verbose=True)
    assert not capsys.readouterr().out
    assert loud.get_more_info(index, "cifar10", None, "200", False) == quiet.get_more_info(
        index, "cifar10", None, "200", False
    )
    assert "Call the get_more_info function" in capsys.readouterr().out


def _sweep(cells: list[int], *, accuracy: float, datasets=("cifar10",), channels=16):
    frame = synthetic_frame(5, cells=cells, datasets=list(datasets), epochs=[200])
    return frame.assign(
        accuracy=accuracy, recipe="topology", channels=channels, cells_per_stage=5,
        train_split="full", trial_id="t",
    )  # fmt: skip


def test_the_retrained_table_answers_where_it_has_a_record():
    published = synthetic_table(0, cells=range(100), epochs=[200])
    retrained = Table.from_frame(_sweep([3, 4], accuracy=99.0))
    both = ReBench(published, retrained)
    assert both.get_more_info(3, "cifar10", hp="200")["test-accuracy"] == 99.0
    assert both.get_more_info(5, "cifar10", hp="200")["test-accuracy"] != 99.0
    assert both.source_of(5, "cifar10", "200") == "generated"
    assert both.source_of(3, "cifar100", "200") == "generated"
    assert both.find_best("cifar10", "test", hp="200") == (3, 99.0)
    assert both.source_of(str(Cell.from_index(4)), "cifar10", 200) == "retrained"
    assert len(both.evaluated_indexes) == 100


def test_a_table_of_tests_names_the_metric_that_it_lacks():
    frame = synthetic_frame(0, cells=[3], datasets=["cifar10"])
    api = ReBench(Table.from_frame(frame[frame["split"] == "ori-test"]))
    with pytest.raises(MissingDataError, match="no train-accuracy of cifar10"):
        api.get_more_info(3, "cifar10", hp="200")["train-accuracy"]
    assert api.find_best("cifar10", "test", hp="200")[0] == 3


def test_one_table_alone_answers_for_what_it_holds():
    only = ReBench(retrained=Table.from_frame(_sweep([3], accuracy=99.0)))
    assert only.source_of(3, "cifar10", 200) == "retrained"
    with pytest.raises(ValueError, match="Did not find 5"):
        only.get_more_info(5, "cifar10", hp="200")
    with pytest.raises(ValueError, match="Did not find True"):
        only.get_more_info(True, "cifar10", hp="200")
    with pytest.raises(MissingDataError, match="no table contains 5"):
        only.source_of(5, "cifar10", "200")
    with pytest.raises(InputError, match="a published table, a re-trained one, or both"):
        ReBench()


def test_networks_of_another_size_are_not_mixed_with_published_ones():
    published = synthetic_table(0, cells=[3], epochs=[200])
    small = Table.from_frame(_sweep([3], accuracy=99.0, channels=8))
    with pytest.raises(InputError, match="8 channels"):
        ReBench(published, small)
    assert ReBench(retrained=small).get_net_config(3, "cifar10")["C"] == 8


def test_a_curve_that_is_not_there_is_asked_for_by_name():
    api = ReBench(synthetic_table(0, cells=[3]))
    with pytest.raises(MissingDataError, match="ingest the benchmark with curves"):
        api.get_more_info(3, "cifar10", iepoch=4, hp="200")
    with pytest.raises(ValueError, match="invalid iepoch=200"):
        api.get_more_info(3, "cifar10", iepoch=200, hp="200")
    last = api.get_more_info(3, "cifar10", iepoch=199, hp="200", is_random=False)
    assert last == api.get_more_info(3, "cifar10", hp="200", is_random=False)


def test_a_table_without_losses_or_times_answers_with_none():
    frame = synthetic_frame(0, cells=[3], datasets=["cifar10"])
    api = ReBench(Table.from_frame(frame.drop(columns=["loss", "seconds", "epoch_seconds"])))
    info = api.get_more_info(3, "cifar10", hp="200", is_random=False)
    assert math.isnan(info["test-loss"])
    assert info["train-all-time"] is None
    assert api.get_cost_info(3, "cifar10", "200")["T-train@epoch"] is None


def test_create_has_the_packages_signature(tmp_path):
    from rebench.tables import write_table

    write_table(tmp_path / "t.parquet", synthetic_frame(0, cells=[1]), name="t", origin="generated")
    api = create(str(tmp_path / "t.parquet"), "tss", fast_mode=True, verbose=False)
    assert re.match(r"ReBench\(1/15625 architectures", repr(api))
    with pytest.raises(InputError, match="'tss'"):
        create(str(tmp_path / "t.parquet"), "sss")
    with pytest.raises(InputError, match="reads no folder"):
        api.reload(str(tmp_path))


@pytest.fixture(scope="module")
def twins(tmp_path_factory) -> tuple[Any, ReBench]:
    """The package on an export of a table without curves, and `ReBench` on the table."""
    table = synthetic_table(0, cells=range(30))
    out = tmp_path_factory.mktemp("export") / "out.pickle.pbz2"
    made = export_nats(Choice(published=table), out, one_file=True)
    return nats_create(str(made.path), "tss", fast_mode=False, verbose=False), ReBench(table)


def _answer(api: Any, call: str, *arguments: Any) -> Any:
    random.seed(0)
    api.reset_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(api, call)(*arguments)
    except Exception as error:  # noqa: BLE001 - which one it is, is compared
        return type(error)


@pytest.mark.parametrize("hp", ["12", "200"])
def test_times_and_costs_are_the_packages_to_the_bit(hp, twins):
    for index in range(0, 30, 3):
        for dataset in DATASETS:
            for call, *arguments in (
                ("get_cost_info", index, dataset, hp),
                ("simulate_train_eval", index, dataset, None, hp),
                ("get_more_info", index, dataset, None, hp, False),
                ("query_info_str_by_arch", index, hp),
            ):
                expected, told = (_answer(api, call, *arguments) for api in twins)
                assert told == expected


@pytest.mark.parametrize("index", [True, False, np.int64(5), np.int64(-1), -1, 5.0])
def test_an_index_of_another_type_is_answered_as_by_the_package(index, twins):
    for call, *arguments in (
        ("get_cost_info", "cifar100", "200"),
        ("get_latency", "cifar100", "200"),
        ("get_more_info", "cifar100", None, "200", False),
        ("simulate_train_eval", "cifar100", None, "200"),
        ("get_net_config", "cifar100"),
        ("query_info_str_by_arch", "200"),
        ("arch",),
    ):
        expected, told = (_answer(api, call, index, *arguments) for api in twins)
        assert told == expected, call


@pytest.mark.parametrize("iepoch", [-1, -200, 200, 1000])
def test_an_epoch_out_of_range_is_refused_as_by_the_package(iepoch, twins):
    expected, told = (
        _answer(api, "get_more_info", 3, "cifar100", iepoch, "200", False) for api in twins
    )
    assert told is expected is ValueError


def test_a_queried_object_is_a_copy(table):
    """The package returns a copy, so that a change does not reach later answers."""
    api = ReBench(table)
    index = min(api.evaluated_indexes)
    for trial in api.query_by_index(index, "cifar100", "200").values():
        trial.train_acc1es.clear()
    for trial in api.query_by_index(index, "cifar100", "200").values():
        assert trial.train_acc1es
