"""Conversion of records to ``results.parquet`` (a row per trial and split) and ``curves.parquet``.

Both tables are made from the shards only, so they can be built again at any time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebench.arguments import checked
from rebench.errors import InputError, StoreError
from rebench.machine import garbage_search_paused
from rebench.runs import FinishedTrials, RecipeSpec, listed_trials
from rebench.runs.folder import Tell, unheard
from rebench.spaces import NB201, Space, space_of
from rebench.tables.changed_rules import changed_origins, changed_rules
from rebench.tables.collected import Collected, current, keep, records_state, table_paths
from rebench.tables.columns import COLUMNS, RULES, RUN_COLUMNS, RUN_CURVES
from rebench.tables.meaning import Meaning
from rebench.tables.parquet import ParquetFile, write_parquet

__all__ = ["asked_and_missing", "collect"]

# Exceptions for a value that does not fit its column.
_UNFIT: Final = (KeyError, TypeError, ValueError)


@checked
@garbage_search_paused()
def collect(run: str | Path) -> Collected:
    """Write the tables of a run from its records; return their paths and counts.

    ``results.parquet`` has a row per trial and split, ``curves.parquet`` a row per trial, split and
    epoch. Tables that are current and undamaged are not rewritten.

    Args:
        run: the folder of the run.

    Raises:
        InputError: the run has no records.
        ConflictError: two records of one trial differ.
    """
    run = Path(run)
    if not (run / "results").is_dir():
        raise InputError(
            f"{run} has no records: the folder {run / 'results'} is missing; `rebench status {run}`"
            " shows the trials of a run"
        )
    made = current(run, verify=True)
    if made is None:
        state = records_state(run)
        finished = FinishedTrials(run).refresh()
        finished.check()
        made, tables = _write(run, finished)
        keep(run, state, made, tables)
    problems = list(made.problems)
    asked, missing = asked_and_missing(run, problems.append)
    return made.model_copy(update={"problems": tuple(problems), "asked": asked, "missing": missing})


def asked_and_missing(run: Path, tell: Tell = unheard) -> tuple[int, int]:
    """Return the number of trials in a run's list, and of those without a row in its table."""
    asked = {trial_id for trial_id, _ in listed_trials(run, tell)}
    if not asked:
        return 0, 0
    rows = ParquetFile(run / "results.parquet").read(columns=["trial_id"])["trial_id"].unique()
    return len(asked), len(asked.difference(rows.to_pylist()))


def _write(run: Path, finished: FinishedTrials) -> tuple[Collected, tuple[str, str]]:
    """Write both tables and return the states of their files; rows are sorted by trial id."""
    results = [pa.schema(RUN_COLUMNS).empty_table()]
    origins: set[tuple[str, ...]] = set()
    space: Space = NB201

    def curves() -> Iterator[pa.Table]:
        nonlocal space
        for records in finished.read(sorted(finished.trials)):
            space = _space(records)
            rows, epochs = _tables(records)
            results.append(rows)
            origins.update(map(_origin, records))
            yield epochs

    paths = table_paths(run)
    try:
        of_curves = _write_table(paths["curves"], curves(), pa.schema(RUN_CURVES))
        table = pa.concat_tables(results).unify_dictionaries().combine_chunks()
        table = table.replace_schema_metadata(Meaning(space=space).metadata)
        of_results = _write_table(paths["results"], [table], table.schema)
    except _UNFIT as error:
        raise StoreError(f"the records of {run} do not fit into columns: {error}") from error
    made = Collected(
        **paths,
        trials=len(finished.trials),
        rows=table.num_rows,
        environments=tuple(sorted(table["environment"].unique().to_pylist())),
        devices=tuple(sorted(table["device"].unique().to_pylist())),
        duplicates=finished.duplicates,
        damaged=tuple(finished.damaged),
        problems=tuple(finished.problems),
        changed_rules=(*changed_rules(table, space), *changed_origins(origins)),
    )
    return made, (of_results, of_curves)


def _write_table(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> str:
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return write_parquet(path, tables, schema, use_dictionary=texts)


def _tables(records: Sequence[dict[str, Any]]) -> tuple[pa.Table, pa.Table]:
    """Return a row per trial and split (its last epoch), and a row per epoch (from 1)."""
    of_each = [record["outcome"]["curves"] for record in records]
    names = sorted(
        {name for of in of_each for name in of}, key=lambda name: (name != "train", name)
    )
    curves = [
        (at, split, of[split]) for at, of in enumerate(of_each) for split in names if split in of
    ]
    owners = np.array([at for at, _, _ in curves], dtype=np.int32)
    splits = pa.array([split for _, split, _ in curves], pa.string()).dictionary_encode()
    values = {name: [curve[name] for _, _, curve in curves] for name in ("accuracy", "loss")}
    trials = _trial_columns(records)
    columns = {name: column.take(pa.array(owners)) for name, column in trials.items()}
    columns["split"] = splits
    # A trial has one time, evaluations included. It is stored in the row of `train`.
    training = pc.equal(splits, "train")
    columns["seconds"] = pc.if_else(training, columns["seconds"], None)
    columns |= {name: _column(name, [of[-1] for of in lists]) for name, lists in values.items()}
    results = pa.table({name: columns[name] for name in RUN_COLUMNS}).cast(pa.schema(RUN_COLUMNS))
    lengths = np.array([len(of) for of in values["accuracy"]], dtype=np.int64)
    ends = np.cumsum(lengths)
    epochs = {
        "trial_id": pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(owners, lengths)), trials["trial_id"]
        ),
        "split": splits.take(pa.array(np.repeat(np.arange(len(curves)), lengths))),
        "epoch": np.arange(1, lengths.sum() + 1) - np.repeat(ends - lengths, lengths),
        **{
            name: _column(name, list(itertools.chain.from_iterable(of)))
            for name, of in values.items()
        },
    }
    curves_of_all = pa.table(epochs, pa.schema(RUN_CURVES))
    _check_curves(curves_of_all)
    return results, curves_of_all


def _check_curves(epochs: pa.Table) -> None:
    """Check the values of every epoch; final values are checked when a table is opened."""
    for name in ("accuracy", "loss"):
        numbers, rule = epochs[name].to_numpy(), RULES[name]
        wrong = np.flatnonzero((numbers < rule.least) | (numbers > rule.most))
        if len(wrong):
            row = epochs.slice(int(wrong[0]), 1).to_pylist()[0]
            raise ValueError(
                f"trial {row['trial_id']}, {row['split']}, epoch {row['epoch']}: {name} must be "
                f"{rule.rule}, got {row[name]}"
            )


def _trial_columns(records: Sequence[dict[str, Any]]) -> dict[str, pa.Array]:
    """Return the columns that all splits of a trial share, one entry a trial."""
    columns = {}
    for column in COLUMNS:
        if column.place:
            first, *inner = column.place.split(".")
            values = [record[first] for record in records]
            for name in inner:
                values = [value.get(name) for value in values]
            columns[column.name] = values
    space = _space(records)
    indices = {label: space.find(label) for label in set(columns["arch"])}
    columns["index"] = [indices[cell] for cell in columns["arch"]]
    # Recipes are grouped by their text: equal numbers may be spelt in two ways.
    spelt = [str(record["trial"]["recipe"]) for record in records]
    recipes = dict(zip(spelt, records, strict=True))
    labels = {key: RecipeSpec(**one["trial"]["recipe"]).label for key, one in recipes.items()}
    columns["recipe"] = [labels[key] for key in spelt]
    columns["environment"] = [_environment(record["provenance"]) for record in records]
    return {name: _column(name, values) for name, values in columns.items()}


def _space(records: Sequence[dict[str, Any]]) -> Space:
    """Return the space of the records of one run."""
    [name] = {record["trial"].get("space", NB201.name) for record in records}
    return space_of(name)


def _column(name: str, values: list[Any]) -> pa.Array:
    if RULES[name].is_number and bool in set(map(type, values)):
        raise TypeError(f"{name} must be {RULES[name].rule}, got True or False")
    if pa.types.is_dictionary(RUN_COLUMNS[name]):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, RUN_COLUMNS[name])


def _origin(record: dict[str, Any]) -> tuple[str, ...]:
    """Return recipe, digest of its code, data set, split and digest of its images."""
    trial, origin = record["trial"], record["provenance"]
    code, images = origin.get("recipe_code") or "", origin.get("data_digest") or ""
    return trial["recipe"]["name"], code, trial["dataset"], trial["split"], images


def _environment(origin: dict[str, Any]) -> str:
    told = f"rebench {origin['rebench']}"
    if origin.get("commit"):
        told += f" ({origin['commit'][:12]}{'+' if origin.get('dirty') else ''})"
    told += f", torch {origin['torch']}"
    if origin.get("cuda"):
        told += f", CUDA {origin['cuda']}"
    if origin["switches"].get("compile"):
        told += ", compiled"
    return told
