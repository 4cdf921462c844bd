"""``rebench query``: one cell under every recipe, or in two tables; or SQL over both tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rebench.cli import options
from rebench.cli.output import print_rows, say, warn
from rebench.errors import InputError, MissingDataError

if TYPE_CHECKING:
    from rebench.tables import Table
    from rebench.tables.layout import Key

__all__ = ["query"]

_HEADINGS: Final = {
    "rank_low": "rank 95 %",
    "may_be_best": "may be the best",
}
_RANK_INTERVAL: Final = ("rank_low", "rank_high", "may_be_best")


def query(
    context: typer.Context,
    table: options.TableName,
    cell: Annotated[str | None, typer.Argument(metavar="CELL", help=options.CELL_HELP)] = None,
    dataset: options.Dataset = None,
    split: options.Split = None,
    epochs: options.Epochs = None,
    recipe: Annotated[
        str | None, typer.Option(help="Show only this recipe (default: all recipes of the table).")
    ] = None,
    published: options.Published = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every data set, split and number of epochs.")
    ] = False,
    sql: Annotated[
        str | None,
        typer.Option(
            help="SQL query, instead of a cell. In the query, TABLE is called `results`, and the "
            "table of --published is called `published`. Both have one row for each cell, recipe, "
            "data set, split, number of epochs and seed; accuracies are in percent. The query "
            "cannot read files."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the accuracies of one cell for each seed and recipe, and its rank.

    With --published, they are compared with the published accuracies of the cell.

    The mean over seeds and the rank have 95 % intervals. These are computed from the variation
    between seeds, which is estimated from cells of similar accuracy together. If the
    accuracies of a cell vary significantly more than those of similar cells, the interval of its
    mean is computed from this cell only. In a table of fewer than 10 cells, only the mean has an
    interval (Student's t). A cell may be the best if the interval of its rank begins at 1.

    Example: rebench query mini 1696
    """
    from rebench.tables import open_table
    from rebench.tables.cell_comparison import compare_cell
    from rebench.tables.opening import open_recipes, read_rows

    if sql is not None:
        from rebench.tables.sql import query_sql

        ignored = ("cell", "dataset", "split", "epochs", "recipe", "everything")
        options.refuse_unused(context, "--sql", *ignored)
        names = {"results": table} | ({"published": published} if published else {})
        rows = query_sql(sql, {name: read_rows(given) for name, given in names.items()})
        print_rows(rows, as_json=as_json)
        return
    table, cell = _in_order(table, cell)
    if cell is None and table.isdigit():
        raise InputError(f"name a table too, such as `rebench query nb201 {table}`")
    if cell is None:
        raise InputError("name a CELL (an index, a code or an architecture string) or give --sql")
    by_recipe: Mapping[str | None, Table] = (
        {recipe: open_table(table, recipe=recipe)} if recipe else open_recipes(table)
    )
    opened = next(iter(by_recipe.values()))
    index = _trained(opened.space.find(cell), list(by_recipe.values()))
    title = opened.space.title(index)
    if everything:
        rows = [row for label, each in by_recipe.items() for row in _groups(each, index, label)]
        if not rows:
            raise MissingDataError(f"{opened.name} has no accuracy of {title}")
        print_rows(rows, as_json=as_json, title=f"{title} in {opened.name}")
        return
    key = opened.default_key(dataset, split, epochs)
    title = f"{title}, {_measured(key)}"
    benchmark = open_table(published) if published is not None else None
    source = context.get_parameter_source("published")
    implied = source is not None and source.name == "ENVIRONMENT"
    if benchmark is not None and implied and not benchmark.has_value(index, *key):
        lacking = opened.space.title(index)
        warn(f"{benchmark.name} (REBENCH_BENCHMARK) has no {lacking} for {key}: not compared")
        benchmark = None
    named = [(_label(str(published), benchmark), benchmark)] if benchmark else []
    if len(by_recipe) > 1:
        held = [
            (str(name), each) for name, each in by_recipe.items() if each.has_value(index, *key)
        ]
        if not held:
            raise opened.group(*key).lacking(index, opened.name)
        held.sort(key=lambda side: -opened.measure.goodness(side[1].query(index, *key).mean))
        rows = [{"recipe": name, **_row(each, index, key)} for name, each in held + named]
    else:
        named.append((_label(table, opened), opened))
        compared = compare_cell(benchmark, opened, index, key) if benchmark else None
        ranks = compared.ranks if compared else (None,)
        common = {"common cells": compared and compared.common}
        rows = [
            {"accuracy": each.origin, "table": name, **_row(each, index, key)}
            | {"rank in common": rank, **common}
            for (name, each), rank in zip(named, ranks, strict=True)
        ]
        if compared:
            rows.append(
                dict.fromkeys(rows[0])
                | {"accuracy": "difference", "table": f"{named[1][0]} minus {named[0][0]}"}
                | _difference(compared.difference, rows)
                | {"rank in common": compared.ranks[1] - compared.ranks[0], **common}
            )
    shown = rows if as_json else _on_screen(rows)
    headings = _HEADINGS | {"of": f"{opened.space.items} in the ranking"}
    print_rows(shown, as_json=as_json, title=title, headings=headings)


def _difference(value: float, rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """Return the difference of the means in two rows, with its interval if both have one."""
    halves = [row["high"] - row["mean"] for row in rows if row["high"] is not None]
    if len(halves) < len(rows):
        return {"mean": value, "low": None, "high": None}
    half = math.hypot(*halves)
    return {"mean": value, "low": value - half, "high": value + half}


def _in_order(table: str, cell: str | None) -> tuple[str, str | None]:
    """Return the table and the cell, which may have been typed in the other order."""
    swapped = cell is not None and table.isdigit() and not Path(table).exists()
    return (str(cell), table) if swapped else (table, cell)


def _trained(index: int, tables: list[Table]) -> int:
    """Return the cell; if no table has it, return and announce an equal cell that has results."""
    from rebench.tables.whole_space import trained_cell_of, trained_cells

    trained = sorted({cell for table in tables for cell in trained_cells(table).tolist()})
    equal = index if index in trained else int(trained_cell_of(trained)[index])
    if equal in (-1, index):
        return index
    say(
        f"cell {index} is the same network as cell {equal}; the results are those of cell {equal}",
        err=True,
    )
    return equal


def _groups(table: Table, index: int, recipe: str | None) -> Iterator[dict[str, object]]:
    """Yield mean, standard deviation, rank and cost of a cell for every key of a table."""
    for key in table.keys:
        group = table.group(*key)
        if group.n[index] and group.has_accuracy:
            row = {} if recipe is None else {"recipe": recipe}
            row |= dataclasses.asdict(table.query(index, *key))
            for hidden in ("name", "index", "of", "seeds"):
                del row[hidden]
            cost = table.cost(index, key.dataset, key.epochs)
            yield {**row, "params_m": cost.params_m, "mflops": cost.mflops}


def _label(typed: str, table: Table) -> str:
    """Return the name of a table, with its recipe if the recipe was typed."""
    _, at, recipe = typed.rpartition("@")
    return f"{table.name}@{recipe}" if at and not Path(typed).exists() else table.name


def _on_screen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with a column for each seed, and without empty columns."""
    per_seed = [row["per seed"] or {} for row in rows]
    seeds = sorted({seed for values in per_seed for seed in values} - {"mean"}, key=_run_order)
    shown = []
    for row, values in zip(rows, per_seed, strict=True):
        line: dict[str, object] = {}
        if row["rank_low"] is None and len(values) == 1:
            named = row.get("recipe", row.get("table"))
            say(f"{named}: no 95 % intervals, because the cell has one value", err=True)
        for name, value in row.items():
            by_seed = {seed: values.get(seed) for seed in seeds}
            line |= by_seed if name == "per seed" else {name: value}
        if line.pop("accuracy", None) == "difference":
            line["table"] = "difference"
        shown.append(line)
    if all(line["rank"] in (None, line.get("rank in common")) for line in shown):
        # All cells are common: the two kinds of ranks are equal.
        merged = ("rank in common", "common cells")
        shown = [line | {"rank": line[merged[0]]} | dict.fromkeys(merged) for line in shown]
    kept = [name for name in shown[0] if any(line[name] is not None for line in shown)]
    return [{name: line[name] for name in kept} for line in shown]


def _measured(key: Key) -> str:
    """Return the data set, the split and, if it is known, the number of epochs."""
    trained = f", {key.epochs} epochs" if key.epochs else ""
    return f"{key.dataset} {key.split}{trained}"


def _run_order(name: str) -> tuple[bool, int]:
    """Return a sort key of the name of a seed: seeds by number, then run 1, run 2, ..."""
    return name.startswith("run"), int(name.removeprefix("run "))


def _row(table: Table, index: int, key: Key) -> dict[str, Any]:
    """Return accuracies, mean and rank of a cell in one table, with 95 % intervals."""
    from rebench.analysis import MIN_CELLS, rank_intervals, read_accuracies
    from rebench.analysis.cell_ranks import mean_half_width
    from rebench.spaces import NamedItems
    from rebench.tables.columns import seed_name

    side, group = table.query(index, *key), table.group(*key)
    low, high = side.interval or (None, None)
    ranked: dict[str, Any] = dict.fromkeys(_RANK_INTERVAL)
    about = key._asdict()
    if not math.isfinite(side.mean):
        warn(
            f"{table.name}: a run of cell {index} has no finite accuracy, so the cell has no mean. "
            "Its rank is that of its other runs, or the last"
        )
    elif (
        len(group.index) >= MIN_CELLS
        and group.n.max() >= 2
        and (own := read_accuracies(table.frame(**about), **about)).has_seeds
    ):
        named = isinstance(table.space, NamedItems)
        item = table.space.label(index) if named else index
        half = mean_half_width(own, item)
        low, high = side.mean - half, side.mean + half
        [ranked] = rank_intervals(own, [item])[[*_RANK_INTERVAL]].to_dict("records")
    ascending = sorted(side.seeds.items(), key=lambda told: (told[0] < 0, abs(told[0])))
    per_seed = {seed_name(seed): value for seed, value in ascending}
    row = {"per seed": per_seed, "mean": side.mean, "low": low, "high": high}
    return {**row, "rank": side.rank, **ranked, "of": side.of}
