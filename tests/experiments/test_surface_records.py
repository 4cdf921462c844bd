"""Packed records of sweeps: no record is lost, and no file is written twice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from support import PROJECT, python, tomllib

from cells import compile_space, functional_classes
from rebench.runs.spec import read_spec

FOLDER = PROJECT / "experiments" / "surface"


def shards(action: str, run: Path, packed: Path) -> subprocess.CompletedProcess[str]:
    return python(FOLDER / "shards.py", action, run, packed)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    results = tmp_path / "run" / "results"
    results.mkdir(parents=True)
    (results / "one.0.jsonl").write_bytes(b'{"a":1}\n{"b":2}\n{"torn')
    (results / "two.0.jsonl").write_bytes(b'{"c":3}\n')
    return tmp_path / "run"


def contents(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "results").glob("*.jsonl")}


def test_packed_records_come_back_without_a_torn_line(run: Path, tmp_path: Path):
    assert shards("pack", run, tmp_path / "packed").stdout == "packed 3 records\n"
    back = tmp_path / "elsewhere"
    assert shards("unpack", back, tmp_path / "packed").stdout == "unpacked 3 records\n"
    assert contents(back) == {"one.0.jsonl": b'{"a":1}\n{"b":2}\n', "two.0.jsonl": b'{"c":3}\n'}


def test_packing_again_writes_what_is_new_and_leaves_the_rest(run: Path, tmp_path: Path):
    packed = tmp_path / "packed"
    shards("pack", run, packed)
    before = {path.name: path.read_bytes() for path in packed.iterdir()}
    (run / "results" / "two.0.jsonl").write_bytes(b'{"c":3}\n{"d":4}\n')
    assert shards("pack", run, packed).stdout == "packed 1 records\n"
    assert shards("pack", run, packed).stdout == "packed 0 records\n"
    after = {path.name: path.read_bytes() for path in packed.iterdir()}
    assert after.keys() - before.keys() == {"two.0.000001.jsonl.xz"}
    assert before.items() <= after.items()
    shards("unpack", tmp_path / "elsewhere", packed)
    assert contents(tmp_path / "elsewhere")["two.0.jsonl"] == b'{"c":3}\n{"d":4}\n'


def test_unpacking_beside_a_run_that_went_on_takes_nothing_back(run: Path, tmp_path: Path):
    shards("pack", run, tmp_path / "packed")
    (run / "results" / "two.0.jsonl").write_bytes(b'{"c":3}\n{"d":4}\n')
    before = contents(run)
    assert shards("unpack", run, tmp_path / "packed").stdout == "unpacked 0 records\n"
    assert contents(run) == before


def test_other_records_under_a_packed_name_are_refused(run: Path, tmp_path: Path):
    packed = tmp_path / "packed"
    shards("pack", run, packed)
    (run / "results" / "two.0.jsonl").write_bytes(b'{"x":9}\n')
    for action in ("pack", "unpack"):
        done = shards(action, run, packed)
        assert done.returncode == 1
        assert "not the shard that was packed" in done.stderr
    assert contents(run)["two.0.jsonl"] == b'{"x":9}\n'


def test_missing_part_of_a_shard_is_refused(run: Path, tmp_path: Path):
    packed = tmp_path / "packed"
    shards("pack", run, packed)
    with (run / "results" / "two.0.jsonl").open("ab") as shard:
        shard.write(b'{"d":4}\n')
    shards("pack", run, packed)
    (packed / "two.0.000000.jsonl.xz").unlink()
    assert "a file is missing" in shards("unpack", tmp_path / "elsewhere", packed).stderr


def test_cells_of_the_sweep_are_of_different_functions_with_paths():
    cells = read_spec(FOLDER / "mini.toml").cells.indices
    assert len(cells) == 60
    for partition in ("benchmark", "exact", "strict"):
        assert len(set(functional_classes(partition)[cells])) == 60
    assert (compile_space().n_paths[cells] > 0).all()


def drawn(published: Path, spec: Path) -> list[int]:
    """The cells that `draw.py` writes into a sweep's file."""
    spec.write_text("[cells]\nindices = []\n")
    done = python(FOLDER / "draw.py", published, spec)
    assert done.returncode == 0, done.stderr
    return tomllib.loads(spec.read_text())["cells"]["indices"]


def test_draw_gives_the_cells_of_the_sweep(real_data: Path, tmp_path: Path):
    published = real_data / "nb201" / "nb201-200epochs-mean.csv"
    listed = tomllib.loads((FOLDER / "mini.toml").read_text())["cells"]["indices"]
    assert drawn(published, tmp_path / "mini.toml") == listed


@pytest.mark.slow
def test_draw_takes_ten_cells_of_each_stratum_of_any_table(tmp_path: Path):
    """The accuracy of a cell is its index, so the strata are known: parts of the order by index."""
    published = tmp_path / "means.csv"
    rows = (f"{index},{index / 200}" for index in range(15_625))
    published.write_text("\n".join(["index,cifar10_ori_test", *rows]))
    cells = np.array(drawn(published, tmp_path / "mini.toml"))
    classes = functional_classes("exact")
    known = np.flatnonzero((classes == np.arange(15_625)) & (compile_space().n_paths > 0))
    shares = np.searchsorted(known, cells) / len(known)
    assert np.isin(cells, known).all()
    counts = np.histogram(shares, bins=(0, 0.1, 0.3, 0.5, 0.7, 0.9, 1))[0]
    assert counts.tolist() == [10] * 6
