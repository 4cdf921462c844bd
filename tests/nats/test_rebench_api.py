"""One script over the real nats_bench package and over ReBench: every answer must be the same."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from generated_tables import synthetic_frame
from nats_bench import create as nats_create
from simulated_tables import synthetic_table

from cells import Cell
from rebench.errors import InputError, MissingDataError
from rebench.nats.api import ReBench, create
from rebench.tables import Table

DATASETS = ("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120")


def interrogate(api: Any, cells: list[int]) -> Iterator[tuple[str, Any]]:  # noqa: C901 - a list
    """Ask everything that code on the benchmark asks; an error's type is an answer too."""

    def ask(name: str, *arguments: Any, **options: Any) -> tuple[str, Any]:
        random.seed(7)
        try:
            answer = getattr(api, name)(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - which one it is, is compared
            answer = type(error).__name__
        return f"{name}{arguments}{options}", answer

    for index in cells:
        arch = str(Cell.from_index(index))
        yield ask("query_index_by_arch", arch)
        yield ask("arch", index)
        yield ask("get_unique_str", index)
        for hp in ("12", "200"):
            for dataset in DATASETS:
                for chosen in (True, False, 777, 888, 111, 5):
                    yield ask("get_more_info", index, dataset, hp=hp, is_random=chosen)
                yield ask("get_more_info", arch, dataset, None, hp, False)
                for epoch in (0, 5, int(hp) - 1, int(hp), -1):
                    yield ask("get_more_info", index, dataset, iepoch=epoch, hp=hp, is_random=False)
                yield ask("get_more_info", index, dataset, iepoch=3, hp=hp)
                yield ask("get_cost_info", index, dataset, hp)
                yield ask("get_latency", index, dataset, hp)
                yield ask("get_net_config", index, dataset)
                yield ask("get_net_param", index, dataset, None, hp)
                for trial in api.query_by_index(index, dataset, hp).values():
                    yield f"trial {index} {hp} {dataset} {trial.seed}", _trial(trial)
                yield ask("simulate_train_eval", arch, dataset, None, hp)
                yield ask("simulate_train_eval", index, dataset, 5, hp, False)
                yield f"used {index}", api.used_time
            yield ask("query_info_str_by_arch", arch, hp)
            yield ask("query_by_arch", index, hp)
        yield ask("get_more_info", index, "cifar10", hp="90")
        yield ask("get_more_info", index, "svhn", hp="12")
        yield ask("get_cost_info", index, "svhn", "12")
        yield ask("get_cost_info", index, "cifar10", "90")
        yield ask("query_by_index", index, "svhn", "12")
        yield ask("simulate_train_eval", index, "svhn")
    yield ask("query_index_by_arch", "|none~0|")
    yield ask("query_index_by_arch", 15625)
    yield ask("query_index_by_arch", 2.5)
    yield ask("arch", 15625)
    yield ask("random")
    yield ask("str2lists", str(Cell.from_index(0)))
    yield "matrix", api.str2matrix(str(Cell.from_index(0))).tolist()
    yield "length", len(api)
    yield "item", api[12]
    yield "iteration", [arch for arch, _ in zip(api, range(50), strict=False)]
    yield "names", (api.search_space_name, api.full_train_epochs, api.full_epochs_in_paper)
    yield "hps", sorted(api.avaliable_hps)
    yield "kind", (api.is_size, api.is_topology)
    for dataset in DATASETS:
        for hp in ("12", "200"):
            yield ask("statistics", dataset, hp)
            for split in ("train", "valid", "test", "x-valid", "ori-test"):
                yield ask("find_best", dataset, split, hp=hp, enforce_all=False)
                yield ask("find_best", dataset, split, 60.0, 0.4, hp, False)
            yield ask("find_best", dataset, "train", 0.1, None, hp, False)
    yield "reset", (api.reset_time(), api.used_time)


def _trial(trial: Any) -> dict[str, Any]:
    held = dict(vars(trial))
    held.pop("train_acc5es")  # top-5 accuracies are not kept
    for name in ("train_acc1es", "train_losses", "train_times"):
        held[name] = dict(held[name] or {})
    return {**held, "times": trial.get_times()}


def _plain(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {key: _plain(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_plain(value) for value in answer]
    return float(answer) if isinstance(answer, float) else answer


def test_every_answer_is_the_packages(folder, table):
    real = nats_create(str(folder), "tss", fast_mode=True, verbose=False)
    ours = ReBench(table)
    cells = sorted(int(path.name[:6]) for path in folder.glob("0*.pickle.pbz2"))
    compared = 0
    for (call, expected), (same, got) in zip(
        interrogate(real, cells), interrogate(ours, cells), strict=True
    ):
        assert call == same
        assert _plain(got) == _plain(expected), call
        compared += not (isinstance(expected, str) and expected.endswith("Error"))
    assert compared > 150 * len(cells)


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
    with pytest.raises(MissingDataError, match="no table holds 5"):
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
