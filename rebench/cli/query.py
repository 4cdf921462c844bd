"""``rebench query``: one cell under every recipe, or in two tables; or SQL over both tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rebench.cli import options
from rebench.cli.output import print_rows, warn
from rebench.errors import InputError, MissingDataError

if TYPE_CHECKING:
    from rebench.tables import Summary, Table
    from rebench.tables.cell_comparison import CellComparison
    from rebench.tables.layout import Key

__all__ = ["query"]

_NO_INTERVAL: Final[Mapping[str, object]] = dict.fromkeys(("rank_low", "rank_high", "may_be_best"))


def query(
    context: typer.Context,
    table: options.TableName,
    cell: Annotated[
        str | None,
        typer.Argument(help="An index, an architecture string or a code."),
    ] = None,
    dataset: options.Dataset = None,
    split: options.Split = None,
    epochs: options.Epochs = None,
    recipe: options.Recipe = None,
    published: options.Published = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every data set, split and length of training.")
    ] = False,
    sql: Annotated[
        str | None,
        typer.Option(
            help="A query instead of a cell: tables `results` (all recipes) and `published`, a row "
            "per cell, data set, split, epochs and seed, with accuracy (percent), loss, seconds, "
            "and of a run recipe, status, learning_rate and more. It sees no files."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a cell's accuracy per seed under every recipe, or its difference between two tables.

    Intervals are 95 %: of a mean by Student's t, of the difference by Welch's, of a rank from the
    noise between seeds. A cell may be the best if its interval of ranks begins at 1.

    Example: rebench query mini 1696
    """
    from rebench.tables import cell_index, open_table
    from rebench.tables.cell_comparison import compare_cell
    from rebench.tables.opening import open_recipes, read_rows

    if sql is not None:
        from rebench.tables.sql import query_sql

        names = {"results": table} | ({"published": published} if published else {})
        rows = query_sql(sql, {name: read_rows(given) for name, given in names.items()})
        print_rows(rows, as_json=as_json)
        return
    table, cell = _in_order(table, cell)
    if cell is None:
        raise InputError("name a CELL (an index, a code or an architecture string) or give --sql")
    index = cell_index(cell)
    by_recipe: Mapping[str | None, Table] = (
        {recipe: open_table(table, recipe=recipe)} if recipe else open_recipes(table)
    )
    opened = next(iter(by_recipe.values()))
    if everything:
        rows = [row for label, each in by_recipe.items() for row in _groups(each, index, label)]
        if not rows:
            raise MissingDataError(f"{opened.name} holds nothing of cell {index}")
        print_rows(rows, as_json=as_json, title=f"cell {index} in {opened.name}")
        return
    key = opened.usual_key(dataset, split, epochs)
    title = f"cell {index}, {key.dataset} {key.split}, {key.epochs} epochs"
    benchmark = open_table(published) if published is not None else None
    source = context.get_parameter_source("published")
    implied = source is not None and source.name == "ENVIRONMENT"
    if benchmark is not None and implied and not benchmark.holds(index, *key):
        warn(f"{benchmark.name} (REBENCH_BENCHMARK) has no cell {index} for {key}: not compared")
        benchmark = None
    label = _label(table, opened)
    other = _label(str(published), benchmark) if benchmark else ""
    if len(by_recipe) > 1:
        sides = [
            (recipe, each.query(index, *key), _rank_interval(each, index, key))
            for recipe, each in by_recipe.items()
            if each.holds(index, *key)
        ]
        if not sides:
            raise opened.group(*key).lacking(index, opened.name)
        sides.sort(key=lambda side: -side[1].mean)
        if benchmark is not None:
            ranked = _rank_interval(benchmark, index, key)
            sides.append((other, benchmark.query(index, *key), ranked))
        rows = [{"recipe": name, **_row(side, ranked)} for name, side, ranked in sides]
    elif benchmark is None:
        ranked = _rank_interval(opened, index, key)
        rows = [_of_table(opened.query(index, *key), label, ranked)]
    else:
        compared = compare_cell(benchmark, opened, index, key)
        rows = [
            _of_table(side, name, _rank_interval(own, index, key), rank, compared.common)
            for side, name, own, rank in (
                (compared.published, other, benchmark, compared.ranks[0]),
                (compared.retrained, label, opened, compared.ranks[1]),
            )
        ]
        rows.append(
            _difference(compared, f"{label} minus {other}"),
        )
    print_rows(rows if as_json else _on_screen(rows), as_json=as_json, title=title)


def _in_order(table: str, cell: str | None) -> tuple[str, str | None]:
    """The table and the cell, which may have been typed the other way round."""
    swapped = cell is not None and table.isdigit() and not Path(table).exists()
    return (str(cell), table) if swapped else (table, cell)


def _groups(table: Table, index: int, recipe: str | None) -> Iterator[dict[str, object]]:
    """What a table holds of a cell: mean over its n seeds, standard deviation, rank, cost."""
    for key in table.keys:
        group = table.group(*key)
        if group.n[index] and group.has_accuracy:
            told = dataclasses.asdict(table.query(index, *key))
            hidden = ("name", "index", "of", "seeds")
            summary = {name: told[name] for name in told if name not in hidden}
            cost = table.cost(index, key.dataset, key.epochs)
            named = {} if recipe is None else {"recipe": recipe}
            yield {**named, **summary, "params_m": cost.params_m, "mflops": cost.mflops}


def _label(typed: str, table: Table) -> str:
    """What a table is called: its recipe is told where it was typed."""
    _, at, recipe = typed.rpartition("@")
    return f"{table.name}@{recipe}" if at and not Path(typed).exists() else table.name


def _on_screen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a column for each seed, and none that is empty."""
    per_seed = [row["per seed"] or {} for row in rows]
    seeds = sorted({seed for values in per_seed for seed in values} - {"mean"}, key=_run_order)
    shown = []
    for row, values in zip(rows, per_seed, strict=True):
        line: dict[str, object] = {}
        for name, value in row.items():
            by_seed = {seed: values.get(seed) for seed in seeds}
            if name == "rank_low":
                line["rank 95 %"] = value and f"{value} to {row['rank_high']}"
            elif name != "rank_high":
                line |= by_seed if name == "per seed" else {name: value}
        if row.get("accuracy") == "difference":
            line["table"] = "difference"
        shown.append(line)
    if all(line["rank"] in (None, line.get("rank in common")) for line in shown):
        # Every cell is common: one rank says it all, and how far the cell moved.
        merged = ("rank in common", "common cells")
        shown = [line | {"rank": line[merged[0]]} | dict.fromkeys(merged) for line in shown]
    hidden = {name for name in shown[0] if all(line[name] is None for line in shown)}
    hidden.add("accuracy")
    return [{name: line[name] for name in line if name not in hidden} for line in shown]


def _run_order(name: str) -> tuple[bool, int]:
    """Return a sort key of the name of a seed: seeds by number, then run 1, run 2, ..."""
    return name.startswith("run"), int(name.removeprefix("run "))


def _rank_interval(table: Table, index: int, key: Key) -> Mapping[str, object]:
    """Return the 95 % interval of a cell's rank, and whether the cell may be the best of all."""
    from rebench.analysis import MIN_CELLS, rank_intervals, read_accuracies

    group = table.group(*key)
    if len(group.index) < MIN_CELLS or group.n.max() < 2:
        return _NO_INTERVAL

    dataset, split, epochs = key
    rows = table.frame(dataset=dataset, split=split, epochs=epochs)
    own = read_accuracies(rows, dataset=dataset, split=split, epochs=epochs)
    [found] = rank_intervals(own, [index])[list(_NO_INTERVAL)].to_dict("records")
    return found


def _row(side: Summary, ranked: Mapping[str, object]) -> dict[str, object]:
    from rebench.tables.columns import seed_name

    low, high = side.interval or (None, None)
    ascending = sorted(side.seeds.items(), key=lambda told: (told[0] < 0, abs(told[0])))
    per_seed = {seed_name(seed): value for seed, value in ascending}
    row = {"per seed": per_seed, "mean": side.mean, "low": low, "high": high}
    return {**row, "rank": side.rank, **ranked, "of": side.of}


def _of_table(
    side: Summary,
    label: str,
    ranked: Mapping[str, object],
    rank: int | None = None,
    common: int | None = None,
) -> dict[str, object]:
    named = {"accuracy": side.origin, "table": label}
    return {**named, **_row(side, ranked), "rank in common": rank, "common cells": common}


def _difference(compared: CellComparison, label: str) -> dict[str, object]:
    before, after = compared.ranks
    return dict.fromkeys(_of_table(compared.published, label, _NO_INTERVAL)) | {
        "accuracy": "difference",
        "table": label,
        "mean": compared.difference,
        "low": compared.low,
        "high": compared.high,
        "rank in common": after - before,
        "common cells": compared.common,
    }
