"""Wrong arguments in Python are refused with their name, the value and the accepted values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import pytest
from generated_tables import synthetic_frame

import rebench
from cells import Cell, CellError, CostModel, DagCode, functional_classes, trainable_networks
from rebench import nats, search, tables
from rebench.arguments import Between, checked
from rebench.errors import InputError
from rebench.runs import Run, read_spec


@pytest.fixture(scope="module")
def table() -> tables.Table:
    return tables.Table.from_frame(
        synthetic_frame(0, cells=[11, 284, 6111], datasets=["cifar10"], epochs=[200])
    )


@pytest.fixture(scope="module")
def searched(table) -> search.SearchTable:
    return search.search_table(table, "cifar10")


A_WHOLE_NUMBER = "must be a whole number"
COMPARED = "mini@fixed", "mini@topology"
BUDGET = {"evaluations": 2}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: rebench.open(3), "name must be a text or a Path, got 3"),
        (lambda _: rebench.open("mini", recipe=3), "recipe must be a text or None, got 3"),
        (lambda _: tables.open_table(None), "name must be a text or a Path, got None"),
        (lambda _: rebench.collect(3), "run must be a text or a Path, got 3"),
        (lambda _: rebench.status(3), "run must be a text or a Path, got 3"),
        (lambda _: rebench.submit(3), "spec must be a text or a Path, got 3"),
        (lambda _: read_spec(3), "path must be a text or a Path, got 3"),
        (lambda _: read_spec("no.toml"), "cannot read the sweep no.toml: No such file.* give the"),
        (lambda _: Run.open(3), "folder must be a text or a Path, got 3"),
        (lambda _: Run.open("no"), "no is not a run folder: there is no such folder"),
        (lambda _: rebench.submit("x.toml", settings="a=1"), "settings must be a mapping or None"),
        (lambda _: rebench.submit("x.toml", clusters="local"), "unknown argument 'clusters'"),
        (lambda _: rebench.network(11, run=3), "run must be a text or a Path or None, got 3"),
        (lambda _: rebench.network(11, recipe=3), "spec must be a RecipeSpec or a text, got 3"),
        (
            lambda _: rebench.compare(*COMPARED, top_percent=50),
            "top_percent must be a list",
        ),
        (lambda _: rebench.compare(*COMPARED, top_percent=[]), "top_percent must have one"),
        (lambda _: rebench.compare(*COMPARED, draws=-1), "draws must be at least 0, got -1"),
        (lambda _: rebench.compare(*COMPARED, draws=10**12), "draws must be at most 100000, got"),
        (lambda _: rebench.compare(*COMPARED, seed=-1), "seed must .* at least 0, got -1"),
        (
            lambda _: rebench.compare(*COMPARED, by="x"),
            "by takes a table: unknown table 'x'",
        ),
        (lambda _: rebench.compare(*COMPARED, epochs="5"), f"epochs {A_WHOLE_NUMBER} or None"),
        (
            lambda t: rebench.compare(t, pd.DataFrame({"accuracy": [1.0]})),
            "needs the columns .*; index, dataset",
        ),
        (lambda t: t.best(3), "dataset must be a text or None, got 3"),
        (lambda t: t.best(top=-1), "top must .* at least 1, got -1"),
        (lambda t: t.best(mflops="9"), "mflops must be a number, got '9'"),
        (lambda t: t.accuracy(11, epochs="200"), f"epochs {A_WHOLE_NUMBER} or None, got '200'"),
        (lambda t: t.means(split=3), "split must be a text or None, got 3"),
        (lambda t: t.frame(dataset=3), "dataset must be a text or None, got 3"),
        (lambda _: tables.Table.from_frame(3), "frame must be a DataFrame .*, got a int: convert"),
        (
            lambda t: tables.Table.from_frame(t.frame()["accuracy"]),
            "must be a DataFrame of pandas or polars, or a table of Arrow, got a Series: ",
        ),
        (
            lambda t: search.compare([t, t.frame()]),
            "each value of tables must be .* a Table .*, got a DataFrame; rebench.Table.from_frame",
        ),
        (lambda _: tables.write_table("x", 3, name="x", origin="given"), "path must be a Path"),
        (lambda t: search.compare(t, "rea"), "algorithms must be a list, got 'rea'"),
        (lambda t: search.compare(t, budget=3), "budget must be a Budget or None, got 3"),
        (lambda t: search.compare(t, repeats=0), "repeats must .* at least 1, got 0"),
        (lambda t: search.compare(t, on_run=3), "on_run must be a function or None, got 3"),
        (lambda _: search.compare(3), "tables must be .* a SearchTable or a list"),
        (lambda _: search.Budget(evaluations="9"), "evaluations must be a number or None, got '9'"),
        (lambda _: search.Budget(second=3), "'second' of Budget; valid: seconds, evaluations$"),
        (
            lambda _: search.SearchSpace.of(index=3),
            "'index' of SearchSpace.of; valid: indices, space$",
        ),
        (lambda _: search.Budget(seconds=float("nan")), "budget must be positive, got nan"),
        (lambda _: search.search_table(3, "cifar10"), "table must be .* a Table or .*, got 3"),
        (lambda t: search.search_table(t, "cifar10", epochs=12), "epochs must be a list or None"),
        (lambda _: search.describe(3), "name must be a text, got 3"),
        (lambda _: search.replay(3, 3, 3), "algorithm must be a text, got 3"),
        (lambda _: search.rate_proxies(3), "table must be .* a Table or .*, got 3"),
        (lambda _: search.SearchSpace.of(3), "indices must be a list, got 3"),
        (lambda _: search.Fidelity(epochs="1", accuracy=[]), f"epochs {A_WHOLE_NUMBER}, got '1'"),
        (lambda _: nats.ReBench(3), "published must be a Table or a text or a Path or None, got 3"),
        (lambda _: nats.Choice(published="surface"), "published must be a Table or None"),
        (lambda _: nats.create(3), "file_path_or_dict must be a text or a Path, got 3"),
        (lambda _: nats.export_nats(3, Path("x")), "choice must be a Choice, got 3"),
        (lambda t: nats.export_pth(nats.Choice(published=t), "x"), "out must be a Path, got 'x'"),
        (lambda t: nats.export_naslib(nats.Choice(published=t), Path("x"), epochs="9"), "epochs"),
        (lambda _: rebench.lr("topology", 99999), r"index is a whole number in 0\.\.15624"),
        (lambda _: rebench.lr([11]), r"named by its index.* got \[11\]"),
        (lambda t: t.accuracy([11]), r"named by its index.* got \[11\]"),
        (lambda _: Cell.from_index("11"), r"index is a whole number in 0\.\.15624, got '11'"),
        (lambda _: Cell.find(2.5), "named by its index.* got 2.5"),
        (lambda _: Cell.parse(11), "an architecture or a code must be a text, got 11"),
        (lambda _: Cell(11), "six operations, each from 0 to 4, got 11"),
        (lambda _: Cell.from_index(11).op(0, 1), r"\(target, source\) must be one of .*\(0, 1\)"),
        (lambda _: Cell.from_index(11).network_polynomial(-1), "cells_per_stage must .* got -1"),
        (lambda _: DagCode.parse(2), "a graph code must be a text such as 2_02_002, got 2"),
        (lambda _: DagCode(2), "operations must be a tuple of tuples, got 2"),
        (lambda _: functional_classes("exactly"), "partition must be benchmark, exact or strict"),
        (lambda _: trainable_networks([-1]), r"indices must .* in 0\.\.15624, got \[-1\]"),
        (lambda _: trainable_networks("11"), r"indices must .* in 0\.\.15624, got '11'"),
        (lambda _: CostModel(image_side=32, classes="10"), "classes must .* at least 1, got '10'"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_accepted(table, call, message):
    with pytest.raises((InputError, CellError), match=message):
        call(table)


@pytest.mark.parametrize(
    ("ask", "dataset", "hp"),
    [
        (lambda api: api.get_more_info(11, "digits"), "digits", "12"),
        (lambda api: api.get_more_info(11, "digits", hp=200), "digits", 200),
        (lambda api: api.get_cost_info(11, "digits", hp="200"), "digits", "200"),
        (lambda api: api.simulate_train_eval(11, "cifar100", hp="200"), "cifar100", "200"),
        (lambda api: api.source_of(11, "cifar10", "drop"), "cifar10", "drop"),
    ],
)
def test_the_drop_in_names_its_data_sets(table, ask, dataset, hp):
    """`nats_bench` raises a KeyError without a text; `ReBench` adds what the table has."""
    message = f"for dataset {dataset!r} with hp {hp!r}; there are cifar10 with hp 12, 200"
    with pytest.raises(KeyError, match=message):
        ask(rebench.ReBench(table))


def test_numpy_numbers_and_iterators_are_accepted(table, searched):
    assert table.accuracy(np.int16(11), epochs=np.int64(200)) == table.accuracy(11)
    assert len(search.SearchSpace.of(index for index in (1, 2))) == 2
    assert len(search.SearchSpace.of(np.array([1, 2]))) == 2
    assert len(search.SearchSpace.of({1, 2})) == 2
    assert search.Budget(evaluations=np.float32(2)).limit == 2
    ranked = range(20), np.arange(1.0, 21.0)
    found = rebench.compare(*ranked, draws=0, top_percent=np.array([100, 50]))
    assert len(found.frame()) == 2  # one row per top K %
    assert search.compare(searched, ("random",), budget=search.Budget(**BUDGET), repeats=1)
    assert CostModel(image_side=8, classes=10).of(11) == CostModel(
        image_side=8, classes=np.int64(10)
    ).of(Cell.from_index(11))


@checked
def asked(
    count: Annotated[int, Between(1, 9)],
    share: float = 0.5,
    *others: int,
    words: Sequence[str] = (),
    kind: Literal["a", "b"] = "a",
    where: str | Path | None = None,
    told: Callable[[int], None] | None = None,
    pairs: Mapping[str, int] | None = None,
    flag: bool = False,
    rows: Sequence[Sequence[float]] = (),
    **more: float,
) -> int:
    return count + len(others) + len(more)


def test_checked_accepts_values_of_the_annotations():
    assert asked(3) == 3
    assert asked(count=9, share=1) == 9
    assert asked(np.int16(3), np.float32(0.5), flag=np.bool_(True), rows=np.ones((2, 2))) == 3
    assert asked(1, 0.5, 2, 3, a=1.5, b=2) == 5
    assert asked(1, words=["x"], kind="b", where=Path(), told=print, pairs={"x": 1}) == 1
    assert asked(1, rows=[[1, 2.5], (3,)]) == 1


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((0,), {}, "count must be at least 1, got 0"),
        ((10,), {}, "count must be at most 9, got 10"),
        ((True,), {}, "count must be a whole number, got True"),
        ((2.0,), {}, "count must be a whole number, got 2.0"),
        ((1, "x"), {}, "share must be a number, got 'x'"),
        ((1, 1.0, 2, "x"), {}, "others must be a whole number, got 'x'"),
        ((1,), {"a": "x"}, "a must be a number, got 'x'"),
        ((1,), {"words": "x"}, "words must be a list, got 'x'"),
        ((1,), {"words": [1]}, "each value of words must be a text, got 1"),
        ((1,), {"kind": "c"}, "kind must be 'a' or 'b', got 'c'"),
        ((1,), {"kind": ["a"]}, r"kind must be 'a' or 'b', got \('a',\)"),
        ((1,), {"where": 1}, "where must be a text or a Path or None, got 1"),
        ((1,), {"flag": "no"}, "flag must be true or false, got 'no'"),
        ((1,), {"told": 1}, "told must be a function or None, got 1"),
        ((1,), {"pairs": [1]}, r"pairs must be a mapping or None, got \(1,\)"),
        ((1,), {"rows": [["x"]]}, "each value of rows must be a number, got 'x'"),
    ],
)
def test_checked_refuses_other_values_by_name(given, named, message):
    with pytest.raises(InputError, match=f"^{message}"):
        asked(*given, **named)


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((), {}, "asked: missing required argument 'count'; valid: count, share, others, words"),
        ((1,), {"count": 1}, "asked: got multiple values for argument 'count'; valid: count"),
    ],
)
def test_checked_names_the_function_and_its_arguments(given, named, message):
    with pytest.raises(InputError, match=f"^{message}"):
        asked(*given, **named)
