"""Tables of other search spaces: HPOLib, HPOBench, NAS-Bench-Macro; and tables of names."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import json_of, refusal_of

from rebench.errors import InputError, MissingDataError, UnknownNameError, UnsafeFileError
from rebench.nats import hpo_tables, macro
from rebench.nats.catalogue import PUBLISHED
from rebench.spaces import space_of
from rebench.tables import Table, open_table
from rebench.tables.checks import check_values
from rebench.tables.layout import write_rows
from rebench.tables.meaning import Meaning, Measure
from rebench.tables.opening import open_recipes


@pytest.fixture(scope="module")
def fcnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A table of `fcnet` with made values of one data set, and the values."""
    values = hpo_tables.hpo_values("fcnet")
    shape = [len(each) for each in values.values()]
    array = np.random.default_rng(0).random((*shape, 4))
    table = hpo_tables._TABLES["fcnet"]
    measure = Measure(name="loss", unit="MSE", lower_is_better=True)
    meaning = Meaning(space=space_of("fcnet"), measure=measure, settings=table["settings"])
    rows = hpo_tables.hpo_rows("fcnet", "protein_structure", array)
    path = tmp_path_factory.mktemp("fcnet") / "fcnet.parquet"
    write_rows(path, check_values(rows, "fcnet", meaning), meaning.metadata)
    return path, array


def test_a_value_is_that_of_its_network_rate_seed_and_settings(fcnet):
    """By hand: relu, tanh, batch 8, dropout 0.3 and 0, rate 0.005, const, 64 and 16 units."""
    path, array = fcnet
    table = open_table(f"{path}:batch_size=8,schedule=const@fixed(lr=0.005)")
    expected = array[0, 1, 0, 1, 0, 2, 1, 2, 0]
    assert table.seeds("relu-tanh-0.3-0.0-64-16") == dict(enumerate(expected.tolist()))


def test_settings_have_usual_values_and_are_in_the_name(fcnet):
    path, _ = fcnet
    tables = open_recipes(path)
    assert len(tables) == 6
    one = tables["fixed(lr=0.1)"]
    assert one.name == "fcnet:batch_size=32,schedule=cosine"
    assert (one.space.name, one.measure.lower_is_better) == ("fcnet", True)
    assert open_table(f"{path}:batch_size=64@fixed(lr=0.1)").name.startswith("fcnet:batch_size=64,")


def test_the_best_network_has_the_lowest_loss(fcnet):
    path, _ = fcnet
    table = open_table(f"{path}@fixed(lr=0.1)")
    means = table.means()
    best = table.best(top=1)
    assert best["mean"].iloc[0] == pytest.approx(means.min(), abs=1e-9)
    assert best.index[0] == space_of("fcnet").label(int(means.to_numpy().argmin()))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [("size=8", "unknown setting 'size' of .*batch_size, schedule"),
     ("batch_size=9", "unknown batch_size '9' of .*16, 32, 64, 8")],
)  # fmt: skip
def test_a_wrong_setting_lists_the_right_ones(fcnet, settings: str, problem: str):
    path, _ = fcnet
    with pytest.raises(UnknownNameError, match=problem):
        open_table(f"{path}:{settings}@fixed(lr=0.1)")


def test_algorithms_search_for_low_losses(fcnet):
    path, _ = fcnet
    words = ("search", "compare", f"{path}@fixed(lr=0.1)", "--repeats", "5", "--evaluations", "40")
    found = json_of(*words, "--algorithm", "random", "--algorithm", "rea")
    assert "a lower loss is better" in json.dumps(found)
    losses = pd.DataFrame(found["final_validation_loss"])
    assert (losses["mean"] > 0).all()
    assert (losses["low"] <= losses["high"]).all()
    assert losses["mean"].is_monotonic_increasing, "the best first"
    least = losses["mean"] - losses["regret"]
    assert least.to_numpy() == pytest.approx(least[0]), "regret is the distance to the least loss"


def _published(path: Path, *, wrong: int = 0) -> None:
    """Write a file like that of NAS-Bench-Macro; the accuracy is the number of the network."""
    held = {}
    for number, digits in enumerate(itertools.product("012", repeat=8)):
        runs = [number / 100, number / 100 + 0.1, number / 100 + 0.2][: 3 - wrong]
        held["".join(digits)] = {"test_acc": runs, "params": 1_000_000, "flops": 2_000_000}
    path.write_text(json.dumps(held))


def test_macro_is_downloaded_checked_and_read(tmp_path: Path, served, monkeypatch):
    folder, url = served
    _published(folder / "macro.json")
    digest = hashlib.sha256((folder / "macro.json").read_bytes()).hexdigest()
    known = dataclasses.replace(PUBLISHED["macro"], url=f"{url}/macro.json", sha256=digest)
    with pytest.raises(MissingDataError, match="could not be fetched"):
        macro.fetch_macro(tmp_path, known.url)
    monkeypatch.setitem(PUBLISHED, "macro", known)
    monkeypatch.chdir(tmp_path)
    (row,) = json_of("table", "fetch", "macro")
    assert (row["cells"], row["missing"], row["rows"]) == (6561, 0, 3 * 6561)
    table = open_table("macro")
    assert table.seeds("00000012") == pytest.approx({-2: 0.05, -3: 0.15, -4: 0.25})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["macro.parquet", "served"]


def test_a_network_of_macro_without_three_runs_is_refused(tmp_path: Path):
    _published(tmp_path / "macro.json", wrong=1)
    with pytest.raises(UnsafeFileError, match="00000000: expected three accuracies"):
        macro.read_macro(tmp_path / "macro.json")


def test_equal_networks_of_macro_have_equal_published_values(real_data: Path):
    rows = macro.read_macro(real_data / "macro" / "nas-bench-macro_cifar10.json")
    wide = rows.pivot_table(index="index", columns="seed", values="accuracy")
    numbers = space_of("macro").equal_networks(wide.index.to_numpy())
    assert (wide.groupby(numbers).agg(np.ptp) == 0).all(axis=None)


def _named(seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    names = [f"net {number}" for number in range(20)]
    frame = pd.DataFrame({"model": names * 2, "run": [1] * 20 + [2] * 20})
    return frame.assign(score=np.tile(np.arange(20.0), 2) + draw.normal(size=40))


def test_a_frame_of_names_is_a_table():
    table = Table.from_frame(_named(0), item="model", accuracy="score", seed="run", unit="points")
    assert table.query("net 19").rank == 1
    lower = Table.from_frame(_named(0), item="model", accuracy="score", lower_is_better=True)
    assert lower.query("net 0").rank == 1
    with pytest.raises(InputError, match=r"no item is called 'net 20': .* did you mean net"):
        table.query("net 20")


def test_a_file_of_names_is_opened_by_its_columns(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = _named(1).rename(columns={"model": "item", "score": "accuracy", "run": "seed"})
    frame.to_csv("named.csv", index=False)
    table = open_table("named.csv")
    assert (table.space.name, len(table.means())) == ("list", 20)
    assert refusal_of("query", "named.csv", "nett 3").startswith("rebench: no item is called")
