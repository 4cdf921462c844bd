"""Thousands of random calls, right and mistyped: `ReBench` answers or raises as nats_bench does.

``REBENCH_QUESTIONS=50000`` asks more of them than the default.
"""

from __future__ import annotations

import copy
import os
import pickle
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats_bench.api_topology import NATStopology
from nats_bench.api_utils import pickle_load

from cells import SPACE_SIZE, Cell
from rebench.nats.api import ReBench
from rebench.tables import Table

QUESTIONS = int(os.environ.get("REBENCH_QUESTIONS", "1200"))

DATASETS = ("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120", "cifar-10", "CIFAR10", "svhn")
SPLITS = ("train", "valid", "test", "x-valid", "x-test", "ori-test", "validation", "", None)
HPS = ("12", "200", "200", 12, 200, "90", 90, "full", None, 12.0)
SEEDS = (True, False, 777, 888, 999, 111, 5, -1, None, "777")


@pytest.fixture(scope="module")
def real(folder: Path) -> NATStopology:
    """Return the package's API over all files of a folder."""
    files = sorted(folder.glob("0*.pickle.pbz2"))
    held = {int(path.name[:6]): pickle_load(path) for path in files}
    archs = pickle_load(folder / "meta.pickle.pbz2")["meta_archs"]
    content = {"meta_archs": archs, "arch2infos": held, "evaluated_indexes": set(held)}
    return NATStopology(content, fast_mode=False, verbose=False)


def questions(cells: list[int], count: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Return random calls: most about cells in the tables, by any name, some about other cells."""
    draw = random.Random(17)
    strings = [str(Cell.from_index(cell)) for cell in cells]
    others = [0, 15624, SPACE_SIZE, -1, 2.5, "|none~0|", "", None]

    def arch() -> Any:
        return draw.choice(others) if draw.random() < 0.1 else draw.choice(cells + strings)

    def index() -> Any:
        return draw.choice(others[:4]) if draw.random() < 0.1 else draw.choice(cells)

    def one_of(values: tuple[Any, ...], valid: int) -> Any:
        return draw.choice(values[:valid] if draw.random() < 0.7 else values)

    def limit() -> float | None:
        return draw.choice([None, None, 0.05, 0.2, 0.8, 20.0, 60.0, 150.0])

    kinds = {
        "get_more_info": lambda: (
            arch(), one_of(DATASETS, 4), draw.choice([None, None, 0, 3, 11, 12, 199, 200, -1]),
            one_of(HPS, 3), draw.choice(SEEDS),
        ),
        "get_cost_info": lambda: (index(), one_of(DATASETS, 4), one_of(HPS, 3)),
        "get_latency": lambda: (index(), one_of(DATASETS, 4), one_of(HPS, 3)),
        "simulate_train_eval": lambda: (
            arch(), one_of(DATASETS, 4), draw.choice([None, 5, 11]), one_of(HPS, 3),
            draw.random() < 0.5,
        ),
        "find_best": lambda: (
            one_of(DATASETS, 4), one_of(SPLITS, 6), limit(), limit(), one_of(HPS, 3),
            draw.choice([None, None, False, True]),
        ),
        "statistics": lambda: (one_of(DATASETS, 4), one_of(HPS, 3)),
        "query_info_str_by_arch": lambda: (arch(), one_of(HPS, 3)),
        "query_by_arch": lambda: (arch(), one_of(HPS, 3)),
        "query_index_by_arch": lambda: (arch(),),
        "get_net_config": lambda: (index(), one_of(DATASETS, 4)),
        "show": lambda: (draw.choice([*cells, 0, SPACE_SIZE, -1]),),
        "arch": lambda: (index(),),
        "get_unique_str": lambda: (arch(),),
    }  # fmt: skip
    weights = [6, 3, 2, 4, 6, 1, 1, 1, 1, 1, 0.3, 1, 1]
    for _ in range(count):
        (name,) = draw.choices(list(kinds), weights)
        yield name, kinds[name]()


def answers(
    api: Any, cells: list[int], count: int, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[str, Any]]:
    """Return the answers to all calls, with printed text and the type of an error."""
    for number, (name, arguments) in enumerate(questions(cells, count)):
        random.seed(number)
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                answer = getattr(api, name)(*arguments)
            answer = (as_written(answer), [str(warning.message) for warning in warned])
        except Exception as error:  # noqa: BLE001 - which one it is, is compared
            answer = type(error).__name__
        printed = capsys.readouterr().out.replace(repr(api), "the api")
        yield f"{name}{arguments}", (answer, printed, api.used_time)


def as_written(answer: Any) -> Any:
    """Return an answer in plain types: dicts as lists of pairs in order, floats of Python."""
    if isinstance(answer, dict):
        return [(key, as_written(value)) for key, value in answer.items()]
    if isinstance(answer, list | tuple):
        return [as_written(value) for value in answer]
    return float(answer) if isinstance(answer, float) else answer


def _differences(real: Any, apis: list[Any], count: int, capsys: Any) -> list[list[str]]:
    """Return the differences between each of our answers and those of the package."""
    cells = sorted(real.evaluated_indexes)
    real.reset_time()
    expected = list(answers(real, cells, count, capsys))
    told = []
    for ours in apis:
        pairs = zip(expected, answers(ours, cells, count, capsys), strict=True)
        told.append([f"{call}: {want} and {have}"
                     for (call, want), (_, have) in pairs if want != have])  # fmt: skip
    return told


def test_every_question_is_answered_as_the_package_answers(real, table, capsys):
    assert _differences(real, [ReBench(table)], QUESTIONS, capsys) == [[]]


def test_the_questionnaire_finds_a_difference(real, table, capsys):
    """The test changes the last digits of one accuracy, and removes one trial."""
    cells = sorted(real.evaluated_indexes)
    frame = table.frame()
    at = (frame["index"] == cells[0]) & (frame["dataset"] == "cifar100") & (frame["seed"] == 999)
    wrong = frame.copy()
    wrong.loc[at & (frame["split"] == "x-valid"), "accuracy"] += 1e-9
    ours = [ReBench(Table.from_frame(other)) for other in (wrong, frame[~at])]
    for found in _differences(real, ours, 600, capsys):
        assert any("cifar100" in difference for difference in found)


def test_a_copied_or_pickled_api_answers_as_before(real, table, capsys):
    ours = ReBench(table)
    cells = sorted(ours.evaluated_indexes)
    ours.simulate_train_eval(cells[0], "cifar10", hp="200")
    same = [copy.deepcopy(ours), copy.copy(ours), pickle.loads(pickle.dumps(ours))]
    for again in same:
        assert again.used_time == ours.used_time
        again.reset_time()
    assert _differences(real, same, 200, capsys) == [[], [], []]
