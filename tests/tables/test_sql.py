"""SQL queries read only the given tables: no files, no settings; every error is one line."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from generated_tables import synthetic_frame
from support import PROJECT

from rebench.cli import main
from rebench.errors import InputError
from rebench.tables import sql, write_table
from rebench.tables.sql import query_sql

pytest.importorskip("duckdb")

TABLES = {"results": pd.DataFrame({"index": [0, 11], "accuracy": [90.0, 80.0]})}


def test_a_table_is_known_by_its_name():
    (row,) = query_sql("select max(accuracy) as best, count(*) as n from results", TABLES)
    assert row == {"best": 90.0, "n": 2}


READS_OR_WRITES = [
    "copy results to '{folder}/out.csv'",
    "copy results to '{folder}/out.parquet' (format parquet)",
    "create temp table t (a int); copy t from '{folder}/secret.csv'; select * from t",
    "select * from '{folder}/secret.csv'",
    "summarize '{folder}/secret.csv'",
    "select * from read_csv('{folder}/secret.csv')",
    "select * from sniff_csv('{folder}/secret.csv')",
    "select * from read_text('{folder}/secret.csv')",
    "select * from read_blob('{folder}/secret.csv')",
    "select * from read_json('{folder}/secret.csv')",
    "select * from read_parquet('{folder}/secret.csv')",
    "select * from parquet_metadata('{folder}/secret.csv')",
    "select * from glob('{folder}/*')",
    "select * from query_table('{folder}/secret.csv')",
    "select * from query('select * from read_text(''{folder}/secret.csv'')')",
    "create view v as select * from read_csv('{folder}/secret.csv'); select * from v",
    "prepare p as select * from read_text($1); execute p('{folder}/secret.csv')",
    "create macro m(f) as table from read_text(f); select * from m('{folder}/secret.csv')",
    "attach '{folder}/other.db'",
    "export database '{folder}/all'",
    "import database '{folder}/all'",
    "load '{folder}/x.duckdb_extension'",
    "install httpfs from '{folder}'",
    "set profiling_output = '{folder}/out'",
    "call enable_logging(storage = 'file', storage_path = '{folder}/out')",
]


@pytest.mark.parametrize("folder", ["absolute", ".tmp"])
@pytest.mark.parametrize("text", READS_OR_WRITES)
def test_files_are_out_of_reach(tmp_path: Path, monkeypatch, text: str, folder: str):
    """DuckDB itself may use `.tmp` in the current folder, which can be a link to any folder."""
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "target"
    target.mkdir()
    (target / "secret.csv").write_text("a\n1\n")
    (tmp_path / ".tmp").symlink_to(target)
    place = target if folder == "absolute" else folder
    with pytest.raises(InputError, match=r"disabled|locked") as caught:
        query_sql(text.format(folder=place), TABLES)
    assert "\n" not in str(caught.value)
    assert [path.name for path in target.iterdir()] == ["secret.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tmp", "target"]


@pytest.mark.parametrize(
    "text",
    [
        "install httpfs",
        "load httpfs",
        "create persistent secret s (type s3)",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "set memory_limit = '100GB'",
        "set temp_directory = '/'",
        "set global allowed_directories = ['/']",
        "reset temp_directory",
        "pragma temp_directory = '/'",
    ],
)
def test_extensions_secrets_and_settings_are_out_of_reach(text: str):
    # DuckDB before 2.0 says that the type of a secret is in an extension, which is not loaded.
    with pytest.raises(InputError, match=r"disabled|locked|exists in the httpfs extension"):
        query_sql(text, TABLES)


@pytest.mark.parametrize("text", ["", "   ", ";", "-- nothing"])
def test_a_query_of_nothing_names_the_tables(text: str):
    with pytest.raises(InputError, match=r"results \(index, accuracy\)"):
        query_sql(text, TABLES)


def test_a_mistake_is_one_line_with_the_columns():
    with pytest.raises(InputError, match=r"^[^\n]*accuracie[^\n]*results \(index, accuracy\)\)$"):
        query_sql("select accuracie from results", TABLES)


def test_a_query_without_end_is_stopped():
    endless = "select count(*) from range(1000000000) a, range(1000000000) b where a.range % 7 = 3"
    with pytest.raises(InputError, match=r"the limit of 0\.5 s"):
        query_sql(endless, TABLES, time_limit_s=0.5)


def test_an_answer_without_end_is_refused():
    with pytest.raises(InputError, match="the limit of 1000000 rows"):
        query_sql("select * from range(2000000)", TABLES)


def test_variables_of_the_caller_are_no_tables():
    with pytest.raises(InputError, match="name rows does not exist"):
        query_sql("select * from rows", TABLES)


def test_the_name_of_a_table_is_no_pattern(tmp_path: Path, capsys):
    """The name `a[12].parquet` means this file, not `a1.parquet`."""
    for name, seed in (("a1", 1), ("a[12]", 2)):
        rows = synthetic_frame(seed, cells=[11], datasets=["cifar10"])
        write_table(tmp_path / f"{name}.parquet", rows, name=name, origin="published")
    expected = synthetic_frame(2, cells=[11], datasets=["cifar10"])["accuracy"].sum()
    asked = ["--sql", "select sum(accuracy) as total from results", "--json"]
    assert main(["query", str(tmp_path / "a[12].parquet"), *asked]) == 0
    assert json.loads(capsys.readouterr().out) == [{"total": pytest.approx(expected)}]


@pytest.mark.parametrize("name", ["missing.parquet", "bad.parquet"])
def test_a_table_that_cannot_be_read_is_one_line(tmp_path: Path, capsys, name: str):
    (tmp_path / "bad.parquet").write_bytes(b"hello")
    assert main(["query", str(tmp_path / name), "--sql", "select 1"]) in (1, 2)
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited only on Linux")
@pytest.mark.parametrize(
    "text", ["select range(1000000000)", "select range(1000000000) from results"]
)
def test_a_value_without_end_is_refused_for_its_memory(text: str):
    with pytest.raises(InputError, match="the limit of 3 GB"):
        query_sql(text, TABLES)


@pytest.mark.parametrize(
    "text",
    [
        "select repeat('x', 1001)",
        "select repeat('x', 101) from range(10)",
        "select range(1000)",
        "select {'a': range(1000)} as a",
        "select null as n, repeat('x', 600) as a, repeat('x', 600) as b",
    ],
)
def test_an_answer_is_measured_before_it_is_read(monkeypatch, text: str):
    monkeypatch.setattr(sql, "_MOST_CHARACTERS", 1000)
    with pytest.raises(InputError, match=r"has \d+ characters; the limit is 1000"):
        query_sql(text, TABLES)
    # Numbers are bounded by their rows.
    assert len(query_sql("select range::double as a from range(1001)", TABLES)) == 1001


def test_an_answer_may_be_as_large_as_it_says(monkeypatch):
    monkeypatch.setattr(sql, "_MOST_CHARACTERS", 1000)
    monkeypatch.setattr(sql, "_MOST_ROWS", 3)
    assert query_sql("select repeat('x', 1000) as a", TABLES) == [{"a": "x" * 1000}]
    assert len(query_sql("select range as a from range(3)", TABLES)) == 3
    with pytest.raises(InputError, match="exceeded the limit of 3 rows"):
        query_sql("select range as a from range(4)", TABLES)


def test_values_are_those_of_python():
    values = "sum(i) as a, 1.5::decimal(3, 1) as b, [1, 2] as c, null as d, 'x' as x, 2 as x"
    (row,) = query_sql(f"select {values} from range(3) t(i)", TABLES)
    assert row == {"a": 3, "b": Decimal("1.5"), "c": [1, 2], "d": None, "x": 2}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("describe results", 2),
        ("show tables", 1),
        ("values (1), (2)", 2),
        ("select 1; select 2 union select 3;", 2),
        ("with a as (select 3) from a -- end", 1),
        ("select range from range(3) order by 1 desc", 3),
    ],
)
def test_other_ways_to_ask_are_answered(text: str, rows: int):
    found = query_sql(text, TABLES)
    assert len(found) == rows
    if "desc" in text.split():
        assert [row["range"] for row in found] == [2, 1, 0]


_ENDLESS = """
from rebench.errors import InputError
from rebench.tables.sql import query_sql

try:
    query_sql("select levenshtein(repeat('x', 300000), repeat('y', 300000))", {}, time_limit_s=0.5)
except InputError as error:
    print(error)
"""


def test_a_function_that_cannot_be_interrupted_is_not_waited_for():
    """The query would take minutes, but the process ends at once."""
    done = subprocess.run(
        [sys.executable, "-c", _ENDLESS], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("the query exceeded the limit of 0.5 s")
