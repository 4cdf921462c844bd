"""The one door to a table: what a name means, and its rows as they are now.

A run is collected first if its records are no longer those of its tables, so that no two commands
answer from different records. Every module and command that is given a table by name opens it here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rebench.errors import InputError, MissingDataError, UnknownNameError
from rebench.tables.checks import check_frame, check_values
from rebench.tables.collected import are_current
from rebench.tables.collecting import collect, newest_shard_ns
from rebench.tables.curves import CurveFile, RunCurves
from rebench.tables.layout import (
    FrameSource,
    ParquetSource,
    curves_path,
    is_indexed,
)
from rebench.tables.longfile import long_rows, read_csv
from rebench.tables.parquet import INGEST_AGAIN, ParquetFile, collect_again
from rebench.tables.retrained import dataset_names, of_recipe, retrained_frame
from rebench.tables.synthetic import synthetic_frame, synthetic_table
from rebench.tables.table import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "open_recipes",
    "open_table",
    "read_curves",
    "read_rows",
    "recipes_of",
    "released_tables",
    "table_label",
]

_GENERATED: Final = re.compile(r"generated(?::(\d+))?")
_RELEASED: Final = Path(__file__).parent / "released"
_RESULTS: Final = "results.parquet"


@dataclass(frozen=True, slots=True)
class _Named:
    """What a name stands for: a file, or a generated table of some seed."""

    file: Path | None = None
    seed: int = 0
    recipe: str | None = None

    @property
    def label(self) -> str:
        if self.file is None:
            return f"synthetic-{self.seed}"
        return self.file.resolve().parent.name if self.file.name == _RESULTS else self.file.stem

    def open(self) -> ParquetFile | None:
        """Open the file, if it is one of Parquet's."""
        if self.file is None or self.file.suffix == ".csv":
            return None
        is_run = self.file.name == _RESULTS
        return ParquetFile(self.file, collect_again(self.file.parent) if is_run else INGEST_AGAIN)

    def run_curves(self, rows: pd.DataFrame) -> RunCurves | None:
        if self.file is None or "trial_id" not in rows.columns:
            return None
        of_run = self.file.name == _RESULTS
        beside = self.file.with_name("curves.parquet") if of_run else curves_path(self.file)
        return RunCurves(beside, rows) if beside.is_file() else None


def open_table(name: str | Path, *, recipe: str | None = None) -> Table:
    """Return the table that `name` means.

    Args:
        name: a run's folder (collected first if its records are newer), a Parquet or CSV file, a
            released table's name, any of them followed by ``@RECIPE``, or ``generated``
            (``generated:SEED``) for a generated table to try things out on.
        recipe: whose trials to take from a table that holds several recipes.
    """
    found = _find(str(name))
    recipe = found.recipe or recipe
    file = found.open()
    if recipe is None and file is not None and is_indexed(file):
        beside = curves_path(file.path)
        return Table(ParquetSource(file), CurveFile(beside) if beside.is_file() else None)
    if recipe is None and found.file is None:
        return synthetic_table(found.seed)
    rows = read_rows(name, recipe=recipe, categories=True)
    if "recipe" not in rows.columns:
        return Table.from_frame(rows, name=found.label, origin="given")
    return _retrained(found, rows, recipe)


def open_recipes(name: str | Path) -> dict[str | None, Table]:
    """Return a table of every recipe that `name` holds, read once; of a table of none, itself."""
    recipes = recipes_of(name)
    if not recipes:
        return {None: open_table(name)}
    found, rows = _find(str(name)), read_rows(name, categories=True)
    return {one: _retrained(found, rows, one) for one in recipes}


def _retrained(found: _Named, rows: pd.DataFrame, recipe: str | None) -> Table:
    own = retrained_frame(rows, recipe, found.label)
    source = FrameSource(own, name=found.label, origin="retrained")
    return Table(source, found.run_curves(own))


def read_rows(
    name: str | Path, *, recipe: str | None = None, categories: bool = False
) -> pd.DataFrame:
    """Return all rows of the table that `name` means, of every recipe or one, as a long frame.

    Data sets have the benchmark's names; texts are plain objects, unless as `categories`.
    """
    found = _find(str(name))
    recipe = found.recipe or recipe
    file = found.open()
    if file is not None:
        rows = file.frame()
        ours = is_indexed(file) or file.path.name == _RESULTS
        rows = rows if ours else long_rows(rows, file.path)
    elif found.file is not None:
        rows = read_csv(found.file)
    else:
        rows = synthetic_frame(found.seed)
    if "recipe" in rows.columns:
        rows = check_values(rows, found.label)
        rows = rows.assign(dataset=dataset_names(rows))
        rows = rows if recipe is None else of_recipe(rows, recipe, found.label)
    elif recipe is not None:
        raise InputError(f"{name} is not a table of recipes, got recipe={recipe!r}")
    elif file is None or not is_indexed(file):
        rows = check_frame(rows, found.label)
    if categories:
        return rows
    return rows.astype(dict.fromkeys(rows.select_dtypes("category"), object))


def read_curves(name: str | Path, *, recipe: str | None = None) -> Iterator[pd.DataFrame]:
    """Yield the curves of every trial as long rows, some trials at a time.

    Columns: trial_id, index, dataset, recipe, seed, split, epoch, what (accuracy in percent, or
    loss), value. What was not evaluated after an epoch has no row.
    """
    rows = read_rows(name, recipe=recipe, categories=True)
    curves = _find(str(name)).run_curves(rows)
    if curves is None:
        raise MissingDataError(
            f"{name} has no curves of trials; give a run's folder, or a released table"
        )
    about = ["trial_id", "index", "dataset", "recipe", "seed"]
    trials = rows[about].astype({"trial_id": object}).drop_duplicates("trial_id")
    for piece in curves.pieces():
        known = piece.astype({"trial_id": object}).merge(trials, on="trial_id")
        each = known.melt(
            [*about, "split", "epoch"], ["accuracy", "loss"], "what", ignore_index=False
        )
        yield each.dropna(subset="value").sort_index(kind="stable")


def recipes_of(name: str | Path) -> list[str]:
    """Return the recipes of a table's rows; empty where no row says by which it was trained."""
    found = _find(str(name))
    if found.recipe is not None:
        return [found.recipe]
    file = found.open()
    if file is None:
        rows = read_rows(name)
        return list(map(str, rows["recipe"].unique())) if "recipe" in rows.columns else []
    if "recipe" not in file.schema.names:
        return []
    return list(map(str, file.read(columns=["recipe"])["recipe"].unique().to_pylist()))


def released_tables() -> dict[str, Path]:
    """Return the tables that come with this package: name -> file."""
    files = sorted(_RELEASED.glob("*.parquet"))
    return {path.stem: path for path in files if not path.stem.endswith(".curves")}


def table_label(name: str, others: Collection[str] = ()) -> str:
    """Return what tables and figures call the table `name`, unlike the labels of the others."""
    label = Path(name).name.removesuffix(".parquet").removesuffix(".csv")
    number = 2
    unique = label
    while unique in others:
        unique, number = f"{label} ({number})", number + 1
    return unique


def _find(name: str) -> _Named:
    path = Path(name)
    if path.exists():
        return _Named(_file_of(path))
    if match := _GENERATED.fullmatch(name):
        return _Named(seed=int(match[1] or 0))
    before, at, recipe = name.rpartition("@")
    if at:
        found = _find(before)
        return _Named(found.file, found.seed, recipe)
    if name in (released := released_tables()):
        return _Named(released[name])
    if path.name == name and not path.suffix:
        raise UnknownNameError("table", name, [*released, "generated", "generated:SEED"])
    raise MissingDataError(
        f"no table at {name}; give a run's folder, a Parquet or CSV file, a released table "
        f"({', '.join(released) or 'there is none'}) or `generated` for a generated "
        f"table. `rebench benchmark ingest SRC {name}` makes one of the benchmark's files"
    )


def _file_of(path: Path) -> Path:
    """Return the file that a path means: of a run its results, collected from its records."""
    if path.is_file():
        # Results beside the records that they were collected from are those of the run.
        beside_records = path.name == _RESULTS and (path.parent / "results").is_dir()
        return _fresh_results(path.parent) if beside_records else path
    return _fresh_results(path)


def _fresh_results(run: Path) -> Path:
    """Return ``results.parquet`` of a run, collected if its records are not those it is of."""
    built = run / _RESULTS
    newest_ns = newest_shard_ns(run)
    if newest_ns is None and not built.is_file():
        inside = f"; its run is {run / 'run'}" if (run / "run" / "run.json").is_file() else ""
        raise InputError(f"{run} is not a run: it has neither records nor {_RESULTS}{inside}")
    if newest_ns is None or are_current(run):
        return built
    # Who may only read can still see that no record is newer.
    as_new = built.is_file() and built.stat().st_mtime_ns >= newest_ns
    if not (as_new and not os.access(run, os.W_OK)):
        collect(run)
    return built
