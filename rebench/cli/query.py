"""``rebench query``: one cell under every recipe, or in two tables; or SQL over both tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rebench.cli import completion
from rebench.cli.output import AsJson, Value, print_rows
from rebench.cli.study_options import Run, Split
from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.tables import Key, Table
    from rebench.tables.compare import Comparison, Side

__all__ = ["app"]

app = typer.Typer()

# More seeds than these are a text of their own: as columns they would not fit a screen.
_SEEDS_ON_SCREEN: Final = 6


@app.command()
def query(
    context: typer.Context,
    run: Run,
    cell: Annotated[
        str | None,
        typer.Argument(
            help="An index, an architecture string or a code.", autocompletion=completion.cells_of
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Trained on what (default: the only one, or cifar10).",
            autocompletion=completion.datasets_of,
        ),
    ] = None,
    split: Split = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="After how many epochs (default: the most).")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Whose trials, where the run holds several recipes.",
            autocompletion=completion.recipes_of,
        ),
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(envvar="REBENCH_BENCHMARK", help="The table to compare with."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            help="A query instead of a cell: tables `results` (all recipes) and `published`, a row "
            "per cell, data set, split, epochs and seed, with accuracy (percent), loss, seconds, "
            "and of a run recipe, status, learning_rate and more. It sees no files."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a cell's accuracy per seed under every recipe, or its difference between two tables.

    Intervals are 95 %: of a mean by Student's t, of the difference by Welch's.
    """
    from rebench.tables import cell_index, open_table
    from rebench.tables.compare import compare, side_of
    from rebench.tables.opening import open_recipes, read_rows
    from rebench.tables.sql import query_sql

    if sql is not None:
        tables = {"results": read_rows(run)}
        if published is not None:
            tables["published"] = read_rows(published)
        print_rows(query_sql(sql, tables), as_json=as_json)
        return
    if cell is None:
        raise InputError("name a CELL (an index, a code or an architecture string) or give --sql")
    index = cell_index(cell)
    by_recipe: Mapping[str | None, Table] = (
        {recipe: open_table(run, recipe=recipe)} if recipe else open_recipes(run)
    )
    table = next(iter(by_recipe.values()))
    key = table.usual_key(dataset, split, epochs)
    title = f"cell {index}, {key[0]} {key[1]}, {key[2]} epochs"
    benchmark = open_table(published) if published is not None else None
    source = context.get_parameter_source("published")
    implied = source is not None and source.name == "ENVIRONMENT"
    if benchmark is not None and implied and not benchmark.holds(index, *key):
        typer.echo(
            f"{benchmark.name} (REBENCH_BENCHMARK) has no cell {index} for {key}: not compared",
            err=True,
        )
        benchmark = None
    if len(by_recipe) > 1:
        rows = _by_recipe(by_recipe, index, key)
        if benchmark is not None:
            label = _label(str(published), benchmark)
            rows.append(_of_recipe(label, side_of(benchmark, index, key)))
    elif benchmark is None:
        rows = [_row(side_of(table, index, key), _label(run, table))]
    else:
        found = compare(benchmark, table, index, *key)
        labels = _label(str(published), benchmark), _label(run, table)
        rows = [
            _row(found.published, labels[0]),
            _row(found.retrained, labels[1]),
            _difference(found, labels),
        ]
    print_rows(rows if as_json else _on_screen(rows), as_json=as_json, title=title)


def _label(typed: str, table: Table) -> str:
    """Return what a table is called: its recipe is told where it was typed."""
    _, at, recipe = typed.rpartition("@")
    return f"{table.name}{at}{recipe}" if at else table.name


def _on_screen(rows: list[dict[str, Value]]) -> list[dict[str, Value]]:
    """Return rows with a column for each seed, where these are few, and none that is empty."""
    of_row = [row["per seed"] for row in rows]
    per_seed = [seeds if isinstance(seeds, Mapping) else {} for seeds in of_row]
    seeds = sorted({seed for one in per_seed for seed in one} - {"mean"}, key=int)
    shown: list[dict[str, Value]] = []
    for row, values in zip(rows, per_seed, strict=True):
        line: dict[str, Value] = {}
        for name, value in row.items():
            if name != "per seed" or len(seeds) > _SEEDS_ON_SCREEN:
                line[name] = value
            else:
                line |= {seed: values.get(seed) for seed in seeds}
        shown.append(
            line | {"table": "difference"} if row.get("accuracy") == "difference" else line
        )
    if all(line["rank"] in (None, line.get("rank in common")) for line in shown):
        # Every cell is common: one rank says it all, and how far the cell moved.
        merged = ("rank in common", "common cells")
        shown = [line | {"rank": line[merged[0]]} | dict.fromkeys(merged) for line in shown]
    empty = {name for name in shown[0] if all(line[name] is None for line in shown)}
    return [
        {name: line[name] for name in line if name not in {"accuracy", *empty}} for line in shown
    ]


def _by_recipe(tables: Mapping[str | None, Table], index: int, key: Key) -> list[dict[str, Value]]:
    """Return the cell under every recipe that it was trained with, the best first."""
    from rebench.tables.compare import side_of

    sides = {
        label: side_of(table, index, key)
        for label, table in tables.items()
        if table.holds(index, *key)
    }
    if not sides:
        table = next(iter(tables.values()))
        raise table.group(*key).lacking(index, table.name)
    best_first = sorted(sides.items(), key=lambda one: -one[1].mean)
    return [_of_recipe(label, side) for label, side in best_first]


def _of_recipe(recipe: str | None, side: Side) -> dict[str, Value]:
    hidden = ("accuracy", "table", "rank in common", "common cells")
    row = _row(side, side.name)
    return {"recipe": recipe, **{name: row[name] for name in row if name not in hidden}}


def _row(side: Side, label: str) -> dict[str, Value]:
    from rebench.tables.columns import MEAN_SEED

    return {
        "accuracy": side.origin,
        "table": label,
        "per seed": {
            "mean" if seed == MEAN_SEED else str(seed): value for seed, value in side.seeds.items()
        },
        "mean": side.mean,
        "low": side.low,
        "high": side.high,
        "rank": side.rank,
        "of": side.of,
        "rank in common": side.rank_common,
        "common cells": side.of_common,
    }


def _difference(found: Comparison, labels: tuple[str, str]) -> dict[str, Value]:
    moved = None
    if found.retrained.rank_common is not None and found.published.rank_common is not None:
        moved = found.retrained.rank_common - found.published.rank_common
    return {
        "accuracy": "difference",
        "table": f"{labels[1]} minus {labels[0]}",
        "per seed": None,
        "mean": found.difference,
        "low": found.low,
        "high": found.high,
        "rank": None,
        "of": None,
        "rank in common": moved,
        "common cells": found.published.of_common,
    }
