"""The tables that come with the package equal their records, and their descriptions are true."""

from __future__ import annotations

import hashlib
import json

import pandas as pd
import pyarrow.parquet as pq
import pytest
from support import PROJECT

from experiments.published.released import FOLDER, TABLES, card, croissant, made_again
from experiments.surface.__main__ import main as surface_page
from rebench.cli import main
from rebench.tables.columns import RULES
from rebench.tables.layout import curves_path
from rebench.tables.opening import open_table, released_tables
from rebench.tables.release import release_of

EXPERIMENT = PROJECT / "experiments" / "surface"
PAGE = PROJECT / "notebooks" / "05_surface"
MOST_BYTES = 3 * 2**20


@pytest.fixture(scope="module")
def shipped():
    return released_tables()["mini"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_shipped_table_is_what_the_shards_give(name, tmp_path):
    shipped = released_tables()[name]
    made = made_again(name, tmp_path / "made.parquet")
    assert made == release_of(shipped)
    for one, other in (
        (shipped, tmp_path / "made.parquet"),
        (curves_path(shipped), curves_path(tmp_path / "made.parquet")),
    ):
        assert pq.read_table(one).equals(pq.read_table(other))


# Digests of the rows and curves at the first release, without their descriptions.
ROWS = {
    "mini-decay10x": ("2885e9e4248f59ee", "f0bc35ce2e3d92c2"),
    "mini-proxy": ("8afcfabaeb59030d", "2d35a382c2e4f5f9"),
    "mini-60ep": ("ee870ec15cbf5d86", "9e57e4e8b10d56bc"),
    "mini-proxy-upper": ("c2ed9989151d199e", "52cf0aea457f76da"),
    "mini-proxy-he": ("54fcc897929f066e", "cc055602f2a3c9e3"),
    "mini-proxy-60ep": ("688dfe136c53458d", "ba8e4513f40ab469"),
    "mini-he-parts": ("c9acc57a5878eb37", "e6a10149b4c7c023"),
    "mini-init-parts": ("5a66fc3304acb409", "dcd5814a206f6101"),
    "mini": ("2898c3c9cc07b917", "27242bf0302780be"),
    "mini-60ep-nodecay": ("834d8a98db0fd955", "23ea5ae5ca58fc4b"),
    "mini-32px": ("40b242d0525ea06a", "4ecadf1ec341238c"),
    "mini-all": ("5984c41ee54b19bf", "acadaed4995baafd"),
}


def _row_digest(path):
    rows, digest = pq.read_table(path), hashlib.sha256()
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        digest.update(f"{name} {column.to_pylist()!r}\n".encode())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name", ROWS)
def test_rows_and_curves_are_those_that_were_first_released(name):
    path = released_tables()[name]
    assert (_row_digest(path), _row_digest(curves_path(path))) == ROWS[name]


def test_a_file_alone_says_how_it_was_trained_and_how_it_may_be_used():
    for name, path in released_tables().items():
        files = [path] if name == "nb201" else [path, curves_path(path)]
        for file in files:
            about = release_of(file)
            assert about.licence.startswith("MIT")
            assert about.cite
            assert {"optimiser", "batch_size", "augmentation", "weight_decay"} <= {*about.training}
            assert about.source or about.environments
    assert release_of(released_tables()["mini-decay10x"]).training["weight_decay"] == "0.005"
    assert release_of(released_tables()["mini-60ep-nodecay"]).training["weight_decay"] == "0"


def test_columns_of_a_file_say_what_they_mean_and_their_unit():
    for path in released_tables().values():
        schema = pq.read_schema(path)
        for field in schema:
            assert field.metadata[b"meaning"].decode() == RULES[field.name].meaning
        assert schema.field("accuracy").metadata[b"unit"] == b"%"
        assert schema.field("seconds").metadata[b"unit"] == b"s"
    curves = pq.read_schema(curves_path(released_tables()["mini"]))
    assert curves.field("accuracy").metadata[b"meaning"].startswith(b"top-1 accuracy after each")
    assert curves.field("epoch").metadata[b"meaning"] == b"number of the epoch, from 1"


def test_tables_and_curves_have_folders_of_their_own_with_equal_columns():
    own = {path.parent for path in released_tables().values()}
    assert own == {FOLDER / "tables"}
    runs = [pq.read_schema(FOLDER / "tables" / f"{name}.parquet") for name in TABLES]
    curves = [pq.read_schema(path) for path in (FOLDER / "curves").glob("*.parquet")]
    assert len(curves) == len(TABLES)
    for schemas in (runs, curves):
        assert all(schema.equals(schemas[0]) for schema in schemas)


def test_card_and_croissant_are_of_the_files_that_are_there():
    assert (FOLDER / "README.md").read_text("utf-8") == card()
    assert json.loads((FOLDER / "croissant.json").read_text("utf-8")) == croissant()
    told = (FOLDER / "README.md").read_text("utf-8").split("data_files: ")[1:]
    named = {part.split()[0] for part in told}
    assert named == {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.parquet")}


def test_shipped_tables_are_small():
    for path in released_tables().values():
        files = [file for file in (path, curves_path(path)) if file.is_file()]
        assert sum(file.stat().st_size for file in files) <= MOST_BYTES


@pytest.mark.slow
def test_page_of_results_is_what_the_table_says(tmp_path):
    assert surface_page(["mini", "--out", str(tmp_path)]) == 0
    again = (tmp_path / "surface.md").read_text().replace(str(tmp_path), "notebooks/05_surface")
    assert again == (PAGE / "surface.md").read_text()
    drawn = pd.read_csv(PAGE / "figures" / "surface.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "figures" / "surface.csv"), drawn)


def test_table_answers_by_its_name(shipped, capsys):
    rows = pq.read_table(shipped).to_pandas()
    rows = rows[(rows["recipe"] == "fixed(lr=0.2)") & (rows["split"] == "ori-test")]
    cell = rows["index"].iloc[0]
    assert main(["query", "mini@fixed(lr=0.2)", str(cell), "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert told["mean"] == pytest.approx(rows[rows["index"] == cell]["accuracy"].mean())
    assert set(open_table("mini@fixed(lr=0.2)").frame()["index"]) == set(rows["index"])
