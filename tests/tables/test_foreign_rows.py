"""Rows by others are refused, with row and column, or land on the right cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generated_tables import synthetic_frame

from cells import Cell
from rebench.cli import main
from rebench.errors import InputError
from rebench.nats.ingest import ingest
from rebench.tables import Table, open_table, write_table
from rebench.tables.columns import REQUIRED
from rebench.tables.parquet import ParquetFile, check_names


@pytest.fixture
def rows() -> pd.DataFrame:
    frame = synthetic_frame(0, cells=[3, 5], datasets=["cifar10"], epochs=[200])
    return frame[frame["split"] == "ori-test"].reset_index(drop=True)


def test_only_a_row_of_train_may_lack_its_accuracy(rows):
    lacking = rows.astype({"accuracy": object})
    lacking.loc[1, "accuracy"] = np.nan
    with pytest.raises(InputError, match=r"row 2, column accuracy: .* got no value"):
        Table.from_frame(lacking)
    lacking["split"] = ["ori-test", *["train"] * (len(rows) - 1)]
    table = Table.from_frame(lacking)
    assert not np.isfinite(table.group("cifar10", "train", 200).column("accuracy")).all()


def test_runs_of_unknown_seeds_are_named_and_come_after_seeds(rows, tmp_path, capsys):
    few = rows[rows["index"] == rows["index"].iloc[0]].head(3).assign(seed=[-2, 7, -3])
    few.to_csv(tmp_path / "few.csv", index=False)
    assert main(["query", str(tmp_path / "few.csv"), str(few["index"].iloc[0])]) == 0
    heading = capsys.readouterr().out.splitlines()[1]
    assert heading.split()[:6] == ["table", "7", "run", "1", "run", "2"]


def test_whole_numbers_may_be_written_as_reals(rows):
    table = Table.from_frame(rows.astype({"index": float, "seed": float, "epochs": float}))
    assert table.seeds(5, "cifar10") == Table.from_frame(rows).seeds(5, "cifar10")


def test_text_in_another_encoding_is_one_line(tmp_path: Path, capsys):
    path = tmp_path / "t.csv"
    path.write_bytes("index,dataset\n1,cifár10\n".encode("latin1"))
    assert main(["query", str(path), "1"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "not a valid CSV file in UTF-8" in said


def test_means_after_any_epochs_are_ingested(tmp_path):
    """Columns as others name them: the architecture as the index, `-` between words."""
    archs = [str(Cell.from_index(index)) for index in (3, 5)]
    frame = pd.DataFrame(
        {"cifar10-valid": [70, 71], "cifar10-test": [80, 81], "cifar100-test": [50, None]},
        index=pd.Index(archs, name="arch"),
    )
    frame.to_csv(tmp_path / "means.csv")
    table = open_table(ingest(tmp_path / "means.csv", tmp_path / "t.parquet", epochs=12).path)
    assert table.seeds(5, "cifar10", epochs=12) == {-1: 81.0}
    assert np.isnan(table.query(5, "cifar10", epochs=12).std)
    assert table.accuracy(5, "cifar10-valid", "x-valid", epochs=12) == 71.0
    assert table.means("cifar100", "x-test", 12).to_dict() == {3: 50.0}
    assert open_table(tmp_path / "means.csv").accuracy(5, "cifar10") == 81.0


def test_epochs_of_a_long_table_are_its_own(rows, tmp_path):
    rows.to_csv(tmp_path / "long.csv", index=False)
    with pytest.raises(InputError, match="has a column epochs: remove --epochs"):
        ingest(tmp_path / "long.csv", tmp_path / "t.parquet", epochs=12)


def test_epochs_of_all_rows_replace_a_missing_column(rows, tmp_path):
    rows.drop(columns="epochs").to_csv(tmp_path / "long.csv", index=False)
    words = ["table", "ingest", str(tmp_path / "long.csv"), "--out", str(tmp_path / "t.parquet")]
    assert main([*words, "--epochs", "12"]) == 0
    assert set(open_table(tmp_path / "t.parquet").frame()["epochs"]) == {12}


def test_wide_file_is_read_in_work_that_grows_with_its_columns():
    """Counting each of 20,000 names among all would take 400 million comparisons."""
    with pytest.raises(InputError, match=r"two columns are called c1, c2$"):
        check_names(["c1", "c2", "c2", "c1", *(f"d{n}" for n in range(40_000))], "t")
    with pytest.raises(InputError, match="t has 50001 columns; at most 50000"):
        check_names(_CountedNames(map(str, range(50_001))), "t")
    names = _CountedNames(map(str, range(20_000)))
    check_names(names, "t")
    assert names.looked == 1


def test_file_of_more_rows_or_values_than_any_table_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    size = "at most 20,000,000 rows and 600,000,000 values are accepted: split the file"
    monkeypatch.setattr(ParquetFile, "read", lambda *_: pytest.fail("read"))
    none = pa.nulls(20_000_001)
    pq.write_table(pa.table({"index": none}), path)
    with pytest.raises(InputError, match=f"t.parquet has 20,000,001 rows and 1 columns; {size}"):
        open_table(path)
    wide = {f"c{number}": none[:-1] for number in range(31)}
    pq.write_table(pa.table(wide, metadata={"rebench.benchmark": "{}"}), path)
    with pytest.raises(InputError, match=f"t.parquet has 20,000,000 rows and 31 columns; {size}"):
        open_table(path)


@pytest.mark.parametrize(
    "metadata",
    [
        b"{",
        b"\xff",
        b"{}",
        b'{"columns": [], "index_columns": ["absent"]}',
        b'{"columns": [], "index_columns": ["seed"]}',
        b'{"columns": [], "index_columns": [{"kind": "range", "start": "a"}]}',
        b'{"columns": [{}], "index_columns": [], "column_indexes": [{}]}',
    ],
)
@pytest.mark.parametrize("kind", ["rows", "table"])
def test_metadata_for_pandas_in_a_parquet_file_is_not_obeyed(rows, tmp_path, metadata, kind):
    path = tmp_path / "t.parquet"
    if kind == "table":
        write_table(path, rows, name="t", origin="published")
    else:
        rows.to_parquet(path)
    read = pq.read_table(path)
    own = {**(read.schema.metadata or {}), b"pandas": metadata}
    own.pop(b"rebench.digests", None)
    pq.write_table(read.replace_schema_metadata(own), path)
    given = rows[list(REQUIRED)].sort_values(["index", "seed"], ignore_index=True)
    found = open_table(path).frame()[list(REQUIRED)].sort_values(["index", "seed"])
    assert found.to_numpy(object).tolist() == given.to_numpy(object).tolist()


def test_columns_that_pandas_takes_as_index_are_columns(rows, tmp_path):
    by_cell = rows.set_index("index")
    by_cell.to_parquet(tmp_path / "t.parquet")
    assert open_table(tmp_path / "t.parquet").seeds(5) == Table.from_frame(rows).seeds(5)
    rows[rows["index"] == 5].to_parquet(tmp_path / "some.parquet")
    assert set(open_table(tmp_path / "some.parquet").frame()) == set(rows)


class _CountedNames(list):
    """List of names that counts how often it is iterated."""

    looked = 0

    def __iter__(self):
        self.looked += 1
        return super().__iter__()

    def count(self, name):
        self.looked += 1
        return super().count(name)
