"""Damaged files: a query gives an error in one line, never a wrong number or a traceback."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generated_tables import synthetic_frame
from support import PROJECT

from rebench.cli import main
from rebench.errors import RebenchError
from rebench.tables import open_table, write_table
from rebench.tables.collecting import collect
from rebench.tables.columns import BENCHMARK_CURVES
from rebench.tables.opening import read_rows
from rebench.tables.parquet import ParquetFile, write_parquet

SMALL = PROJECT / "tests" / "small_run"

CELLS = [3, 11]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of each kind that is written: a table, its curves, a run's results and curves."""
    folder = tmp_path_factory.mktemp("files")
    rows = synthetic_frame(0, cells=CELLS, datasets=["cifar10"])
    write_table(folder / "t.parquet", rows, name="t", origin="published")
    keys = rows[["index", "dataset", "split", "epochs", "seed"]].sort_values("index")
    draw = np.random.default_rng(0)
    curves = {
        name: [draw.random(epochs).tolist() for epochs in keys["epochs"]]
        for name in ("accuracy", "loss")
    }
    schema = pa.schema(BENCHMARK_CURVES)
    columns = {**keys.to_dict("list"), **curves, "seconds": [None] * len(keys)}
    parts = [pa.table(columns, schema).filter(pa.array(keys["index"] == cell)) for cell in CELLS]
    write_parquet(folder / "t.curves.parquet", parts, schema)
    shutil.copytree(SMALL, folder / "run")
    collect(folder / "run")
    shutil.rmtree(folder / "run" / "results")
    return folder


def _rows(folder: Path) -> object:
    return read_rows(folder / "t.parquet")


def _curves(folder: Path) -> object:
    table = open_table(folder / "t.parquet")
    return {cell: _plain(table.curves(cell)) for cell in CELLS}


def _results(folder: Path) -> object:
    return read_rows(folder / "run")


def _run_curves(folder: Path) -> object:
    table = open_table(f"{folder / 'run'}@topology")
    cells = table.means("digits", epochs=2).index[:2]  # both cells are in the undamaged file
    return {cell: _plain(table.curves(cell)) for cell in cells}


def _plain(curves: dict) -> dict:
    return {
        key: [None if part is None else part.tolist() for part in (one.accuracy, one.loss)]
        for key, one in curves.items()
    }


KINDS = {
    "t.parquet": _rows,
    "t.curves.parquet": _curves,
    "run/results.parquet": _results,
    "run/curves.parquet": _run_curves,
}


@pytest.mark.parametrize("flips", [40, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bit_of_a_page_is_an_error_or_changes_nothing(files, tmp_path, kind, flips):
    ask: Callable[[Path], object] = KINDS[kind]
    shutil.copytree(files, tmp_path / "copy")
    target = tmp_path / "copy" / kind
    whole, expected = target.read_bytes(), ask(tmp_path / "copy")
    footer_bytes = int.from_bytes(whole[-8:-4], "little")
    draw = random.Random(0)
    said: list[str] = []
    for _ in range(flips):
        bit = draw.randrange(8 * (len(whole) - 8 - footer_bytes))
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        target.unlink()  # the old file is mapped into memory and must not change
        target.write_bytes(damaged)
        try:
            answer = ask(tmp_path / "copy")
        except RebenchError as error:
            said.append(str(error))
        else:
            assert _same(answer, expected), f"bit {bit} of {len(whole)} bytes"
    # The header of a page has fields that nobody reads, such as statistics; how many depends on
    # pyarrow's version. A changed value is always noticed: see the test of a damaged page.
    assert said
    remedy = re.compile(rf"[^\n]*{re.escape(str(target))}[^\n]*(rebench collect|ingest)[^\n]*")
    assert not [line for line in said if not remedy.fullmatch(line)]


def _same(answer: object, expected: object) -> bool:
    if isinstance(expected, pd.DataFrame):
        return isinstance(answer, pd.DataFrame) and expected.equals(answer)
    return answer == expected


@pytest.mark.parametrize("kind", KINDS)
def test_no_truncated_file_answers(files, tmp_path, kind):
    shutil.copytree(files, tmp_path / "copy")
    target = tmp_path / "copy" / kind
    whole = target.read_bytes()
    for size in (0, 3, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        target.unlink()
        target.write_bytes(whole[:size])
        with pytest.raises(RebenchError, match=target.name):
            KINDS[kind](tmp_path / "copy")


def test_damage_is_one_line_on_the_command_line(files, tmp_path, capsys):
    shutil.copytree(files / "run", tmp_path / "run")
    target = tmp_path / "run" / "results.parquet"
    _flip_last_byte_of_a_page(target, "index")
    assert main(["query", str(tmp_path / "run"), "11", "--recipe", "topology"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"`rebench collect {tmp_path / 'run'}` writes it again" in said


def _flip_last_byte_of_a_page(path: Path, column: str) -> None:
    footer = pq.read_metadata(path)
    place = footer.schema.to_arrow_schema().get_field_index(column)
    chunk = footer.row_group(0).column(place)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(content)


def test_a_damaged_page_is_noticed_when_its_column_is_read(files, tmp_path):
    path = tmp_path / "t.parquet"
    shutil.copy(files / "t.parquet", path)
    _flip_last_byte_of_a_page(path, "accuracy")
    file = ParquetFile(path)
    assert file.read([0], ["loss"]).num_rows
    expected = (
        f"{path} is damaged .*CRC checksum verification failed.*`rebench table ingest` writes"
    )
    with pytest.raises(RebenchError, match=expected):
        file.read([0], ["accuracy"])
    with pytest.raises(RebenchError, match="CRC"):
        file.verify()


def test_a_file_without_checksums_is_read(files, tmp_path):
    path = tmp_path / "t.parquet"
    rows = pq.read_table(files / "run" / "results.parquet")
    pq.write_table(rows, path)
    assert len(read_rows(path)) == len(rows)
