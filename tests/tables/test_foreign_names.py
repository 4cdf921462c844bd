"""Tables by others with other column names are read, or the error says how to name them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cells import Cell
from rebench.cli import main
from rebench.errors import InputError, UnknownNameError
from rebench.tables import Table, open_table
from rebench.tables.foreign import Naming

CELLS = (0, 11, 1696)
SEEDS = (777, 888)


@pytest.fixture
def theirs() -> pd.DataFrame:
    rows = [
        {"arch_id": cell, "run": seed, "test_acc": 50 + cell / 100 + seed / 1000, "note": "x"}
        for cell in CELLS
        for seed in SEEDS
    ]
    return pd.DataFrame(rows)


def named(frame: pd.DataFrame, **changed: object) -> Table:
    """Return the table of a frame with column names of others."""
    words = {"index": "arch_id", "seed": "run", "accuracy": "test_acc"}
    known = words | {"dataset": "cifar10", "epochs": 200} | changed
    return Table.from_frame(frame, **known)


def expected(cell: int) -> dict[int, float]:
    return {seed: pytest.approx(50 + cell / 100 + seed / 1000) for seed in SEEDS}


NAMES = "index=arch_id,seed=run,accuracy=test_acc"


def ingest(frame: pd.DataFrame, folder: Path, *words: str) -> Path:
    file, out = folder / "theirs.csv", folder / "theirs.parquet"
    frame.to_csv(file, index=False)
    assert main(["table", "ingest", str(file), "--out", str(out), *words]) == 0
    return out


def test_a_csv_is_ingested_with_its_own_names_and_constants(theirs, tmp_path):
    words = ["--columns", NAMES, "--dataset", "cifar10", "--epochs", "200"]
    table = open_table(ingest(theirs, tmp_path, *words))
    assert table.keys == (("cifar10", "ori-test", 200),)
    assert table.origin == "given"
    for cell in CELLS:
        assert table.seeds(cell) == expected(cell)


def test_a_frame_takes_the_same_names(theirs):
    assert named(theirs).seeds(11) == expected(11)
    column = theirs.assign(data="cifar100", split_name="x-valid", n=12)
    table = named(column, dataset="data", split="split_name", epochs="n")
    assert table.keys == (("cifar100", "x-valid", 12),)


@pytest.mark.parametrize("spelt", [str, lambda index: str(Cell.from_index(index)),
                                   lambda index: Cell.from_index(index).code])  # fmt: skip
def test_index_string_or_code_names_the_cell(theirs, spelt):
    spelled = theirs.assign(arch_id=[spelt(int(cell)) for cell in theirs["arch_id"]])
    assert named(spelled).seeds(1696) == expected(1696)


def test_a_name_of_no_cell_is_refused_with_its_row_and_their_column(theirs):
    wrong = theirs.astype({"arch_id": object})
    wrong.loc[2, "arch_id"] = "best cell"
    with pytest.raises(InputError, match="row 3, column arch_id: 'best cell'"):
        named(wrong)


def test_a_column_for_each_seed_becomes_a_row_a_run(theirs, tmp_path):
    wide = theirs.pivot_table("test_acc", "arch_id", "run").add_prefix("acc_").reset_index()
    wide.loc[0, "acc_888"] = np.nan
    words = ["--columns", "index=arch_id,accuracy=acc_*", "--dataset", "cifar10"]
    table = open_table(ingest(wide, tmp_path, *words, "--epochs", "12"))
    assert table.seeds(1696) == expected(1696)
    assert list(table.seeds(0)) == [777]
    listed = named(wide, seed=None, accuracy=["acc_777", "acc_888"])
    assert listed.seeds(11) == expected(11)


def test_runs_without_seeds_are_numbered_and_not_taken_for_seeds(theirs):
    table = named(theirs.drop(columns="run"), seed=None)
    assert list(table.seeds(0)) == [-3, -2]
    assert table.seeds(0)[-2] == expected(0)[777]
    wide = pd.DataFrame({"arch_id": CELLS, "first": 50.0, "second": 51.0})
    table = named(wide, seed=None, accuracy=["first", "second"])
    assert table.seeds(0) == {-2: 50.0, -3: 51.0}


def test_a_missing_value_among_runs_without_seeds_is_named_with_its_row(theirs):
    lacking = theirs.drop(columns="run").assign(epochs=200.0)
    lacking.loc[2, "epochs"] = np.nan
    with pytest.raises(InputError, match=r"row 3, column epochs: must be .* got no value"):
        Table.from_frame(lacking, index="arch_id", accuracy="test_acc", dataset="cifar10")


def test_more_than_three_runs_without_seeds_are_refused(theirs):
    three = pd.concat([theirs, theirs.head(1), theirs[2:3], theirs[4:5]]).drop(columns="run")
    assert list(named(three, seed=None).seeds(0)) == [-4, -3, -2]
    wide = pd.DataFrame({"arch_id": CELLS, "a": 1.0, "b": 2.0, "c": 3.0})
    assert named(wide, seed=None, accuracy=list("abc")).seeds(0) == {-4: 3.0, -3: 2.0, -2: 1.0}
    many = pd.concat([theirs, theirs]).drop(columns="run")
    with pytest.raises(InputError, match="a cell has 4 rows"):
        named(many, seed=None)
    wide = pd.DataFrame({"arch_id": CELLS, "a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0})
    with pytest.raises(InputError, match=r"4 columns \(a, b, c, d\)"):
        named(wide, seed=None, accuracy=list("abcd"))


def test_recipes_by_others_become_one_table_of_recipes(theirs, tmp_path):
    both = pd.concat([theirs.assign(method=name) for name in ("adam", "sgd")])
    words = ["--columns", f"{NAMES},recipe=method", "--dataset", "cifar10", "--epochs", "200"]
    ingest(both, tmp_path, *words)
    assert open_table(f"{tmp_path / 'theirs.parquet'}@adam").seeds(11) == expected(11)


def test_the_error_for_a_table_of_means_names_the_command_that_completes_it(tmp_path, capsys):
    file = tmp_path / "means.csv"
    file.write_text("index,accuracy\n1,90\n2,91\n")
    assert main(["rank", str(file), "nb201"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    command = "rebench table ingest FILE --dataset cifar10 --epochs 200 --out OUT.parquet"
    assert f"missing: dataset, split, epochs, seed. `{command}` adds them" in error
    words = command.replace("FILE", str(file)).replace("OUT", str(tmp_path / "out")).split()
    assert main(words[1:]) == 0
    assert open_table(tmp_path / "out.parquet").accuracy(2) == 91


@pytest.mark.parametrize("asked", ["query {file} 0", "table ingest {file} --out o.parquet"])
def test_the_error_shows_how_to_name_the_columns_of_the_file(theirs, tmp_path, capsys, asked):
    file = tmp_path / "theirs.csv"
    theirs.drop(columns="note").to_csv(file, index=False)
    assert main(asked.format(file=file).split()) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "missing: index, dataset, split, epochs, seed, accuracy. " in error
    assert "other names: arch_id, run, test_acc. Say with --columns OURS=THEIRS,..." in error
    command = (
        "rebench table ingest FILE --columns index=arch_id,accuracy=test_acc "
        "--dataset cifar10 --epochs 200 --out OUT.parquet"
    )
    assert f"if arch_id is the index and test_acc is the accuracy: `{command}`" in error
    assert "from_frame(frame, index='arch_id', accuracy='test_acc', ...)" in error
    words = command.replace("FILE", str(file)).replace("OUT", str(tmp_path / "out")).split()
    assert main(words[1:]) == 0
    assert main(["query", str(tmp_path / "out.parquet"), "0"]) == 0


def test_the_error_names_ten_columns_at_most():
    wide = pd.DataFrame({f"c{number}": [1] for number in range(12)})
    with pytest.raises(InputError, match=r"other names: c0, c1, .*, c9, …\. Say"):
        Table.from_frame(wide)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ("index", InputError, "OURS=THEIRS"),
        ("index=", InputError, "OURS=THEIRS"),
        ("cell=arch_id", UnknownNameError, "'cell'"),
        ("index=arch", InputError, "has no column arch; its columns are arch_id, run, test_acc"),
        ("index=arch_id,seed=*", InputError, "seed is one column"),
        ("index=arch_id,seed=run,accuracy=*", InputError, "a column of seeds and 4 columns"),
    ],
)
def test_wrong_pairs_are_named(theirs, tmp_path, columns, error, message):
    with pytest.raises(error, match=message):
        Naming.parse(columns).rows(theirs, "theirs.csv")


def test_a_constant_beside_its_own_column_is_refused(theirs):
    with pytest.raises(InputError, match="epochs: remove epochs=12"):
        named(theirs.assign(epochs=200), epochs=12)


def test_names_are_for_files_only(tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    words = ["table", "ingest", str(tmp_path / "folder"), "--out", str(tmp_path / "o.parquet")]
    assert main([*words, "--dataset", "cifar10"]) == 2
    assert "in the benchmark's format: names of columns" in capsys.readouterr().err
