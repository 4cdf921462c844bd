"""Functions that open a table by its name.

A run is collected first if its records changed since its tables were made. So all commands use the
same records. Every module and command that takes the name of a table opens the table here.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import logging
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rebench.arguments import checked
from rebench.errors import InputError, MissingDataError, UnknownNameError
from rebench.tables.checks import check_once, check_values
from rebench.tables.curves import CurveFile, RunCurves
from rebench.tables.layout import FrameSource, ParquetSource, curves_path, is_indexed
from rebench.tables.longfile import TEXTS, read_long_file
from rebench.tables.meaning import Meaning
from rebench.tables.parquet import INGEST_AGAIN, ParquetFile, collect_again
from rebench.tables.retrained import in_words_of_benchmark, of_recipe, retrained_frame
from rebench.tables.table import Recipes, Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "file_of",
    "open_any",
    "open_recipes",
    "open_table",
    "read_curves",
    "read_rows",
    "recipes_of",
    "released_tables",
    "table_label",
    "trials_with_a_record",
    "with_settings",
]

_log = logging.getLogger("rebench.tables")
# Published tables that `rebench.nats` can download.
_DOWNLOADS: Final = ("analog-nasbench", "fcnet", "macro", "mlp")

_RELEASED: Final = Path(__file__).parent / "released" / "tables"
_RESULTS: Final = "results.parquet"
_FORMATS: Final = f"a table is a .parquet, {' or '.join(TEXTS)} file"


@dataclass(frozen=True, kw_only=True)
class _Named:
    """File that a name refers to, with all recipes or one recipe."""

    name: str
    file: Path
    recipe: str | None = None
    asked: str = ""
    """Settings in the name, such as ``batch_size=32,schedule=cosine``."""

    @property
    def label(self) -> str:
        own = self.file.resolve().parent.name if self.file.name == _RESULTS else self.file.stem
        told = ",".join(f"{column}={value}" for column, value in self.settings.items())
        return f"{own}:{told}" if told else own

    @functools.cached_property
    def _described(self) -> Meaning:
        """The meaning in the metadata of the file."""
        file = self.parquet
        return Meaning() if file is None else Meaning.of_file(file.metadata, file.path)

    @functools.cached_property
    def settings(self) -> dict[str, str]:
        """The values that select rows: those in the name, and the usual ones of other columns."""
        usual = self._described.settings
        settings = dict(usual)
        for pair in filter(None, self.asked.split(",")):
            column, _, value = pair.partition("=")
            if column.strip() not in usual:
                raise UnknownNameError(f"setting of {self.name}", column.strip(), usual)
            settings[column.strip()] = value.strip()
        return settings

    @functools.cached_property
    def parquet(self) -> ParquetFile | None:
        """The file, if it is a Parquet file."""
        if self.file.suffix in TEXTS:
            return None
        remedy = INGEST_AGAIN if self.file.suffix == ".parquet" else _FORMATS
        is_run = self.file.name == _RESULTS
        return ParquetFile(self.file, collect_again(self.file.parent) if is_run else remedy)

    @functools.cached_property
    def _content(self) -> tuple[Meaning, pd.DataFrame]:
        """The meaning of the table, and the checked rows of all recipes."""
        file = self.parquet
        indexed = file is not None and is_indexed(file)
        ours = indexed or self.file.name == _RESULTS or self._described != Meaning()
        rows = file.frame() if file is not None and ours else read_long_file(self.file)
        for column, value in self.settings.items():
            values = rows[column].astype(str)
            if value not in set(values):
                known = values.unique().tolist()
                raise UnknownNameError(f"{column} of {self.name}", value, known)
            rows = rows[values == value]
        if indexed:
            return self._described, in_words_of_benchmark(rows)
        meaning, rows = self._described.of_rows(rows)
        rows = check_values(rows, str(self.file), meaning)
        return meaning, in_words_of_benchmark(rows)

    @property
    def meaning(self) -> Meaning:
        """The space and the measure of the table."""
        return self._content[0]

    @property
    def every_row(self) -> pd.DataFrame:
        """The checked rows of all recipes."""
        return self._content[1]

    @property
    def rows(self) -> pd.DataFrame:
        """The rows of the named recipe, or all rows."""
        if self.recipe is None:
            return self.every_row
        if "recipe" not in self.every_row.columns:
            raise InputError(
                f"{self.name} is not a table of recipes, got recipe={self.recipe!r}: leave it out"
            )
        return of_recipe(self.every_row, self.recipe, self.label)

    @property
    def recipes(self) -> list[str]:
        """The named recipe, or all recipes; empty without a column of recipes."""
        if self.recipe is not None:
            return [self.recipe]
        if self.parquet is not None and "recipe" not in self.parquet.schema.names:
            return []  # without reading any row
        rows = self.every_row
        return list(map(str, rows["recipe"].unique())) if "recipe" in rows.columns else []

    def table(self) -> Table:
        file = self.parquet
        if self.recipe is None and file is not None and is_indexed(file):
            beside = curves_path(file.path)
            return Table(ParquetSource(file), CurveFile(beside) if beside.is_file() else None)
        rows = self.rows
        if "recipe" in rows.columns:
            return self._retrained(rows)
        rows = check_once(rows, self.label)
        return Table(self._source(rows, "given"))

    def tables(self) -> dict[str | None, Table]:
        """Return a table per recipe, read once; without recipes, the whole table."""
        if not self.recipes:
            return {None: self.table()}
        parts = self.rows.groupby("recipe", observed=True, sort=False)
        return {str(recipe): self._retrained(part) for recipe, part in parts}

    def _retrained(self, rows: pd.DataFrame) -> Table:
        own = check_once(retrained_frame(rows, self.name), self.label)
        return Table(self._source(own, "retrained"), self.run_curves(own))

    def _source(self, rows: pd.DataFrame, origin: str) -> FrameSource:
        return FrameSource(rows, name=self.label, origin=origin, meaning=self.meaning)

    def run_curves(self, rows: pd.DataFrame) -> RunCurves | None:
        if "trial_id" not in rows.columns:
            return None
        of_run = self.file.name == _RESULTS
        beside = self.file.with_name("curves.parquet") if of_run else curves_path(self.file)
        return RunCurves(beside, rows) if beside.is_file() else None


@checked
def open_table(name: str | Path, *, recipe: str | None = None) -> Table:
    """Open a table of one recipe.

    Args:
        name: a run's folder (collected first if its records are newer), a Parquet or CSV file, a
            released table's name, or a Parquet file's name without its suffix. ``@RECIPE`` may
            follow.
        recipe: the recipe to take from a table of several recipes.

    Raises:
        InputError: there is no such table, or it has several recipes and none is named.
    """
    return _find(name, recipe).table()


@checked
def open_any(name: str | Path, *, recipe: str | None = None) -> Table | Recipes:
    """Open a table; of several recipes, open a table for each.

    Args:
        name: a run's folder (collected first if its records are newer), a Parquet or CSV file, a
            released table's name, or a Parquet file's name without its suffix. ``@RECIPE`` may
            follow.
        recipe: the recipe to take from a table of several recipes.

    Returns:
        A `Table`; for several recipes, a mapping from the name of each recipe to its `Table`.

    Raises:
        InputError: there is no such table; the message lists the released tables.
    """
    named = _find(name, recipe)
    if len(named.recipes) < 2:
        return named.table()
    return Recipes(named.name, {str(label): table for label, table in named.tables().items()})


@checked
def open_recipes(name: str | Path) -> dict[str | None, Table]:
    """Return a table per recipe of `name`, read once; without recipes, the whole table."""
    return _find(name).tables()


@checked
def read_rows(name: str | Path, *, recipe: str | None = None) -> pd.DataFrame:
    """Return the rows of the table `name`, of one or all recipes, as a long frame.

    Data sets have the benchmark's names; texts are plain objects.
    """
    named = _find(name, recipe)
    rows = named.rows
    texts = rows.astype(dict.fromkeys(rows.select_dtypes("category"), object))
    return named.meaning.on(texts)


def read_curves(name: str | Path, *, recipe: str | None = None) -> Iterator[pd.DataFrame]:
    """Yield the curves of every trial as long rows, some trials at a time.

    Columns: trial_id, index, dataset, recipe, seed, split, epoch, what (accuracy in percent, or
    loss), value. An epoch without an evaluation has no row.
    """
    named = _find(name, recipe)
    rows = named.rows
    curves = named.run_curves(rows)
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
    """Return the recipes of a table's rows; empty without a column of recipes."""
    return _find(name).recipes


def with_settings(name: str) -> str:
    """Return the name of a table with all settings that select its rows, if it has settings."""
    named = _find(name)
    if not named.settings:
        return name
    return f"{named.label}@{named.recipe}" if named.recipe else named.label


def file_of(name: str | Path) -> Path:
    """Return the file that contains the rows of a table."""
    return _find(name).file


def trials_with_a_record(name: str | Path) -> str:
    """Return how many trials of an unfinished run have a record; empty for all other tables."""
    file = _find(name).file
    if file.name != _RESULTS:
        return ""
    from rebench.tables.collecting import asked_and_missing  # loads pydantic

    asked, missing = asked_and_missing(file.parent)
    return f"{asked - missing} of {asked} trials have a record" if missing else ""


def released_tables() -> dict[str, Path]:
    """Return the tables in this package: name -> file."""
    files = sorted(_RELEASED.glob("*.parquet"), key=lambda path: path.stem)
    return {path.stem: path for path in files if not path.stem.endswith(".curves")}


def table_label(name: str, others: Collection[str] = ()) -> str:
    """Return a label for the table `name`, different from the labels in `others`."""
    label = re.sub(r"\.(parquet|csv|tsv)(?=@|$)", "", Path(name).name)
    number = 2
    unique = label
    while unique in others:
        unique, number = f"{label} ({number})", number + 1
    return unique


def _find(given: str | Path, recipe: str | None = None) -> _Named:
    """Return the file and the recipe of a name; a recipe in the name overrides `recipe`."""
    name, released = str(given), released_tables()
    before, at, own = name.rpartition("@")
    for place, wanted in ((name, recipe), *(((before, own or recipe),) if at else ())):
        if Path(place).exists():
            return _Named(name=place, file=_file_of(Path(place)), recipe=wanted)
        if place in released:
            return _Named(name=place, file=released[place], recipe=wanted)
        written = Path(f"{place}.parquet")
        if not Path(place).suffix and written.is_file():
            return _Named(name=place, file=written, recipe=wanted)
    place = before if at else name
    table, colon, settings = place.partition(":")
    if colon and "=" in settings:
        found = _find(f"{table}@{own}" if at else table, recipe)
        return dataclasses.replace(found, name=place, asked=settings)
    if "@" in place:
        raise InputError(f"no table at {place}; write a table and one recipe as NAME@RECIPE")
    if Path(place).name == place and not Path(place).suffix:
        hint = f"; `rebench table fetch NAME` downloads {', '.join(_DOWNLOADS)}"
        raise UnknownNameError("table", place, released, hint)
    beside = [path.name for path in Path(place).parent.glob("*")]
    near = difflib.get_close_matches(Path(place).name, beside, n=1)
    meant = "".join(f"; did you mean {Path(place).with_name(name)}?" for name in near)
    raise InputError(
        f"no table at {place}{meant or ';'} give a run's folder, a Parquet or CSV file or a "
        f"released table ({', '.join(released) or 'none is installed'})"
    )


def _file_of(path: Path) -> Path:
    """Return the file of a path: for a run its results, collected from its records."""
    if path.suffix == ".toml" and path.is_file():
        from rebench.runs.folder import run_folder  # loads pydantic

        raise InputError(
            f"{path} is a sweep file, not a table; its run folder is {run_folder(path)}"
        )
    if path.is_file():
        # Results next to a folder of records belong to a run.
        beside_records = path.name == _RESULTS and (path.parent / "results").is_dir()
        return _fresh_results(path.parent) if beside_records else path
    return _fresh_results(path)


def _fresh_results(run: Path) -> Path:
    """Return ``results.parquet`` of a run, collected first if the records changed."""
    # Imported here: a table without records needs neither pydantic nor the code for records.
    from rebench.tables.collected import current, newest_shard_ns
    from rebench.tables.collecting import collect

    built = run / _RESULTS
    newest_ns = newest_shard_ns(run)
    if newest_ns is None and not built.is_file():
        if (run / "run.json").is_file():
            raise InputError(f"{run} has no records yet: `rebench status {run}` shows its trials")
        inside = (run / "run" / "run.json").is_file()
        hint = (
            f"its run is {run / 'run'}" if inside else "give a run's folder or the file of a table"
        )
        raise InputError(f"{run} is not a run: it has neither records nor {_RESULTS}; {hint}")
    if newest_ns is None:
        if (run / "run.json").is_file():
            told = f"no records are left in {run / 'results'}: an earlier {_RESULTS} is read"
            _warn(run, (), (told,))
        return built
    # Without write permission, the times of the files show whether a record is newer.
    as_new = built.is_file() and built.stat().st_mtime_ns >= newest_ns
    made = current(run)
    if made is None and not (as_new and not os.access(run, os.W_OK)):
        made = collect(run)
    if made is not None:
        _warn(run, made.damaged, made.changed_rules)
    return built


@functools.cache  # each warning once
def _warn(run: Path, damaged: tuple[str, ...], changed_rules: tuple[str, ...]) -> None:
    if damaged:
        _log.warning(
            "%s: damaged lines are left out (%d, the first %s): `rebench collect %s` gives details",
            run, len(damaged), damaged[0], run,
        )  # fmt: skip
    for line in changed_rules:
        _log.warning("%s: %s", run, line)
