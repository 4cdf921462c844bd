"""One wrong value in any column gives one clear message, for every way of reading it."""

from __future__ import annotations

import functools
import json
import operator
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from generated_tables import synthetic_frame
from made_records import with_checksum
from support import PROJECT

from cells import Cell
from rebench.cli import main
from rebench.errors import RebenchError
from rebench.nats.ingest import ingest
from rebench.tables import Table, open_table
from rebench.tables.columns import COLUMNS, REQUIRED
from rebench.tables.opening import read_rows

NUMBERS = [column.name for column in COLUMNS if column.is_number]
WRONG: dict[str, list[object]] = {name: [-5, np.inf, "much", True] for name in NUMBERS} | {
    "dataset": ["CIFAR10", "cifar10 ", "", None],
    "split": ["test", "", None],
    "recipe": ["", " nb201"],
    "status": ["failed"],
    "arch": ["|none~0|", str(Cell.from_index(9))],
}  # fmt: skip
# The first values outside of the valid numbers.
WRONG["index"] += [-1, 1.9, 15625, 2.0**70, np.nan]
WRONG["epochs"] += [0, 2.5, 2**31]
WRONG["seed"] += [7.5, 2**31]
WRONG["accuracy"] += [-0.5, 100.5]
CASES = [(column, value) for column, values in WRONG.items() for value in values]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    frame = synthetic_frame(0, cells=[3, 5, 11], datasets=["cifar10"], epochs=[200])
    frame = frame[frame["split"].isin(["train", "ori-test"])].reset_index(drop=True)
    extra: dict[str, object] = {
        column.name: 1.0 if column.is_number else "x"
        for column in COLUMNS
        if column.name not in frame
    }
    extra |= {"recipe": "nb201", "status": "done", "trained_as": 3}
    extra |= {"arch": [str(Cell.from_index(index)) for index in frame["index"]]}
    return frame.assign(**extra)


def bad(rows: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    """Return rows with one wrong value in `column`.

    Other columns are kept only if every table of a recipe has them.
    """
    held = dict.fromkeys([*REQUIRED, "recipe", column])
    wrong = rows[list(held)].astype({column: object})
    wrong.loc[1, column] = value
    return wrong


def said(raised: pytest.ExceptionInfo[RebenchError]) -> str:
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(("column", "value"), CASES)
def test_a_frame_a_csv_and_a_parquet_file_are_refused(rows, column, value, tmp_path):
    wrong = bad(rows, column, value)
    with pytest.raises(RebenchError) as raised:
        Table.from_frame(wrong)
    assert f"row 2, column {column}: " in said(raised)
    assert ("no value" if value is None or value != value else repr(value)) in said(raised)
    wrong.to_csv(tmp_path / "t.csv", index=False)
    if isinstance(value, str | bool):  # columns of Parquet have one type
        wrong = wrong.astype({column: str})
    wrong.to_parquet(tmp_path / "t.parquet")
    for file in ("t.csv", "t.parquet"):
        if value is True and column not in ("index", "epochs", "seed"):
            wrong[column] = True
            wrong.to_csv(tmp_path / "t.csv", index=False)
            wrong.to_parquet(tmp_path / "t.parquet")
        for ask in (read_rows, open_table):
            with pytest.raises(RebenchError) as raised:
                ask(tmp_path / file)
            assert column in said(raised)
            assert file in said(raised)


OUT: list[Callable[[str, Path], list[str]]] = [
    lambda file, _: ["query", file, "3"],
    lambda file, _: ["query", file, "--sql", "select count(*) from results"],
    lambda file, _: ["rank", file, "--published", "mini@topology"],
    lambda file, _: ["rank", file, "--across", "recipes"],
    lambda file, _: ["rank", file, "--against", "nb201"],
    lambda file, out: ["report", file, "--against", "nb201", "--out", str(out / "page")],
    lambda file, out: ["export", "table", file, "--out", str(out / "out.csv")],
    lambda file, out: ["export", "nats", file, "--out", str(out / "out")],
    lambda file, out: ["export", "nas-bench-201", file, "--out", str(out / "out.pth")],
    lambda file, out: ["export", "syne-tune", file, "--out", str(out / "out")],
    lambda file, out: ["export", "naslib", file, "--out", str(out / "out")],
]


@pytest.mark.parametrize("column", WRONG)
def test_every_way_out_says_it_and_writes_nothing(rows, column, tmp_path, capsys):
    bad(rows, column, WRONG[column][0]).to_csv(tmp_path / "t.csv", index=False)
    for way in OUT:
        assert main(way(str(tmp_path / "t.csv"), tmp_path)) in (1, 2)
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert column in line
        assert "row 2" in line
        assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def run_with(tmp_path: Path, place: str, value: object) -> tuple[Path, str, str]:
    """Return a run with one changed value in its first record, its place, and its trial."""
    run = Path(shutil.copytree(PROJECT / "tests" / "small_run", tmp_path / "run"))
    (shard,) = (run / "results").glob("*.jsonl")
    first, _, rest = shard.read_text().partition("\n")
    record = json.loads(first)
    *outer, inner = place.split(".")
    within = functools.reduce(operator.getitem, outer, record)
    within[int(inner) if isinstance(within, list) else inner] = value
    shard.write_text(f"{with_checksum(json.dumps(record))}\n{rest}")
    return run, f"results/{shard.name}:1", record["trial_id"]


RECORDED = [column.place for column in COLUMNS if column.is_number and column.place]
CURVES = [f"outcome.curves.train.{name}.{at}" for name in ("accuracy", "loss") for at in (0, -1)]


@pytest.mark.parametrize("value", [-5, True])
@pytest.mark.parametrize("place", [*RECORDED, *CURVES])
def test_a_record_of_a_run_is_refused_or_left_out(place, value, tmp_path, caplog):
    run, where, trial = run_with(tmp_path, place, value)
    kept, told = set(), ""
    try:
        kept = set(read_rows(run)["trial_id"])
    except RebenchError as error:
        told = str(error)
    assert trial not in kept
    if place.startswith("trial.") and not told:  # the id belongs to another trial
        assert where in caplog.text
    else:
        assert " must be " in told
        assert "\n" not in told
        assert any(part in told for part in place.split("."))


@pytest.mark.parametrize("place", [*RECORDED, *CURVES])
def test_a_record_that_cannot_be_read_is_said_with_its_place(place, tmp_path, caplog):
    run, where, trial = run_with(tmp_path, place, float("inf"))
    for _ in range(2):
        assert trial not in set(read_rows(run)["trial_id"])
    told = f"{run}: damaged lines are left out (1, the first {where})"
    assert [line.message.partition(": `rebench")[0] for line in caplog.records] == [told]


def test_accuracies_that_look_like_fractions_are_asked_about(rows, tmp_path):
    rows.assign(accuracy=rows["accuracy"] / 100).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(RebenchError, match=r"t\.csv: .*--fractions") as raised:
        open_table(tmp_path / "t.csv")
    said(raised)


@pytest.mark.parametrize(("best", "fits"), [(1.0, True), (1.5, False)])
def test_fractions_are_accuracies_up_to_one(rows, best, fits, tmp_path):
    accuracy = (rows["accuracy"] / 100).where(rows.index > 0, best)
    plain = rows[["index", "dataset", "split", "epochs", "seed"]].assign(accuracy=accuracy)
    plain.to_csv(tmp_path / "t.csv", index=False)
    if fits:
        ingest(tmp_path / "t.csv", tmp_path / "t.parquet", fractions=True)
        assert open_table(tmp_path / "t.parquet").frame()["accuracy"].max() == 100
    else:
        with pytest.raises(RebenchError, match=r"accuracies up to 1\.5 are not fractions"):
            ingest(tmp_path / "t.csv", tmp_path / "t.parquet", fractions=True)


@pytest.mark.parametrize("length", [198, 199])
def test_value_is_shortened_in_the_error_after_200_characters(rows, length):
    wrong = rows.assign(split="x" * length)
    with pytest.raises(RebenchError) as raised:
        Table.from_frame(wrong)
    assert str(raised.value).endswith("…") == (length > 198)


def test_a_second_column_of_one_name_and_no_rows_are_refused(rows, tmp_path):
    text = rows.to_csv(index=False)
    header, _, rest = text.partition("\n")
    (tmp_path / "t.csv").write_text(f"{header},accuracy\n{rest}")
    with pytest.raises(RebenchError, match="two columns are called accuracy"):
        open_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text(header + "\n")
    with pytest.raises(RebenchError, match=r"t\.csv: no rows"):
        open_table(tmp_path / "t.csv")
    with pytest.raises(RebenchError, match="two columns are called accuracy"):
        Table.from_frame(pd.concat([rows, rows["accuracy"]], axis=1))


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ";"), ("t.csv", "\t"), ("t.tsv", "\t")])
def test_other_separators_and_a_byte_order_mark_are_read(rows, name, separator, tmp_path):
    rows.to_csv(tmp_path / name, index=False, sep=separator, encoding="utf-8-sig")
    assert open_table(tmp_path / name).accuracy(3) == Table.from_frame(rows).accuracy(3)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf\n \n"])
def test_an_empty_file_is_called_empty(data, tmp_path):
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(RebenchError, match=r"t\.csv is empty$"):
        open_table(tmp_path / "t.csv")
