"""Do the algorithms land where the benchmark's papers put them?

The final accuracies are the published ones; 12-epoch values are generated with one free number,
set so that random search ends where NATS-Bench's table has it. The others are then predictions.
"""

import dataclasses
import functools

import numpy as np
import pytest
from search_tables import calibrated_table, final_accuracy
from support import shared_data

from rebench.search import Budget, Run, SearchSpace, SearchTable, search_table
from rebench.search.comparison import Comparison, compare
from rebench.search.literature import NATS_BENCH, NB201, REPORTED
from rebench.tables import open_table

DATASETS = ("cifar10", "cifar100", "ImageNet16-120")
SLOW_DATASETS = [
    "cifar10",
    pytest.param("cifar100", marks=pytest.mark.slow),
    pytest.param("ImageNet16-120", marks=pytest.mark.slow),
]
# About a third of the published spread of single runs. BOHB's has room for a known difference:
# with the released code's bandwidths (see `Bohb`) it ends at 93.78 on CIFAR-10, with ours at
# 94.11; NATS-Bench's 93.94 lies between.
TOLERANCE = {"cifar10": 0.12, "cifar100": 0.35, "ImageNet16-120": 0.35}
BOHB_TOLERANCE = {"cifar10": 0.25, "cifar100": 0.5, "ImageNet16-120": 0.5}

needs_published = pytest.mark.skipif(shared_data() is None, reason="no ../shared/data")


def _published(source: str, dataset: str) -> dict[str, float]:
    return {
        entry.method: entry.accuracy(dataset)[0]
        for entry in REPORTED
        if entry.source == source and entry.kind == "replayed"
    }


@functools.cache
def _short_runs(dataset: str) -> Comparison:
    """On runs of up to 12 epochs, which is all that NATS-Bench's BOHB was given."""
    table = calibrated_table(dataset)
    short = dataclasses.replace(table, fidelities=table.fidelities[:1])
    return compare(short, list(_published(NATS_BENCH, dataset)), repeats=100)


def _mean(result: Comparison, name: str) -> float:
    return float(result.final(name).mean())


@needs_published
@pytest.mark.parametrize("dataset", SLOW_DATASETS)
def test_algorithms_land_where_nats_bench_puts_them(dataset: str):
    for name, value in _published(NATS_BENCH, dataset).items():
        within = (BOHB_TOLERANCE if name == "bohb" else TOLERANCE)[dataset]
        assert _mean(_short_runs(dataset), name) == pytest.approx(value, abs=within), name


@pytest.mark.parametrize("dataset", SLOW_DATASETS)
def test_order_is_the_papers_within_error(dataset: str):
    """Where a pair is told apart here, NATS-Bench's table has it in that order (or as equal)."""
    expected = _published(NATS_BENCH, dataset)
    result = _short_runs(dataset)
    told_apart = 0
    for pair in result.wins().itertuples():
        gap = expected[pair.first] - expected[pair.second]
        if pair.low > 0.5 or pair.high < 0.5:
            told_apart += 1
            assert (pair.wins > 0.5) == (gap > 0) or abs(gap) < TOLERANCE[dataset]
    assert told_apart >= 2
    assert _mean(result, "random") < _mean(result, "reinforce") < _mean(result, "rea")


@pytest.mark.slow
@needs_published
def test_bohb_that_must_pay_for_200_epochs_falls_behind_as_in_nas_bench_201():
    """Offered 200 epochs it ends where NAS-Bench-201's table has it: last, at 93.61 +- 0.52."""
    expected = _published(NB201, "cifar10")
    result = compare(calibrated_table("cifar10"), list(expected), repeats=100)
    assert _mean(result, "bohb") == pytest.approx(expected["bohb"], abs=0.15)
    assert min(result.algorithms, key=lambda name: _mean(result, name)) == "bohb"


def _climbs(table: SearchTable) -> list[Run]:
    return compare(table, ["local"], budget=Budget(evaluations=4000), repeats=10).runs["local"]


def test_local_search_finds_the_optimum_from_random_restarts():
    """On CIFAR-10 it is cell 6111 with 94.37 (read off the published table)."""
    final = final_accuracy("cifar10")
    table = dataclasses.replace(
        calibrated_table("cifar10"),
        fidelities=(
            dataclasses.replace(
                calibrated_table("cifar10").fidelities[1], accuracy=final[:, None], seconds=None
            ),
        ),
    )
    runs = _climbs(table)
    found = [int(run.answers[-1]) for run in runs]
    assert np.mean([position == final.argmax() for position in found]) >= 0.5


def test_the_real_table_is_searched_on_test_accuracy_and_says_so():
    folder = shared_data()
    name = str(folder / "nb201" / "nb201-200epochs-mean.csv") if folder else "generated"
    table = search_table(open_table(name), "cifar10", validation=False)
    assert "(test accuracy, so optimistic)" in table.protocol
    assert len(table.space) == 15_625
    runs = _climbs(table)
    best = {int(table.space.indices[run.answers[-1]]) for run in runs}
    if folder:
        assert 6111 in best
        assert table.best == pytest.approx(94.37, abs=0.005)
    assert table.final[SearchSpace.whole().position(next(iter(best)))] > table.best - 0.5
