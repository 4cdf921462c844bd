"""What the shell offers after Tab: names from the registries, and what a run or table holds.

Everything is imported when it is asked for, and what cannot be read offers nothing: a shell that
completes shows no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import typer

from rebench.errors import RebenchError

__all__ = ["OFFERED", "offer"]


def offer(parameter: str) -> Callable[[typer.Context, str], list[str]]:
    """What completes a value of the parameter of this name, given what was typed before it."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            names = OFFERED[parameter](_table(ctx))
            return [name for name in names if name.startswith(incomplete)]
        except (RebenchError, OSError, ValueError):
            return []

    return complete


def _table(ctx: typer.Context) -> str:
    """The run or table that was typed: parsed, or before an option that lacks its value."""
    names = [each.name for each in ctx.command.params if each.param_type_name == "argument"]
    for name in ("table", "tables", "run"):
        value = ctx.params.get(name)
        if value is None and name in names and names.index(name) < len(ctx.args):
            value = ctx.args[names.index(name)]
        if value:
            return str(value[0] if isinstance(value, list | tuple) else value)
    return ""


def _algorithms(_: str) -> Iterable[str]:
    from rebench.search import algorithm_names

    return algorithm_names()


def _datasets(table: str) -> Iterable[str]:
    from rebench.data import data_specs

    return _values(table, "dataset") if table else data_specs()


def _recipes(table: str) -> Iterable[str]:
    from rebench.recipes import recipe_names
    from rebench.tables.opening import recipes_of

    return recipes_of(table) if table else recipe_names()


def _states(_: str) -> Iterable[str]:
    from rebench.launch.status import STATES

    return STATES


def _tables(_: str) -> Iterable[str]:
    from rebench.tables.opening import released_tables

    return released_tables()


def _trials(run: str) -> Iterable[str]:
    from rebench.runs import Run

    trials = Run.open(Path(run)).trials()
    cells = {str(trial.cell.index): None for trial in trials.values()}
    labels = {trial.recipe.label: None for trial in trials.values()}
    return [*labels, *cells, *trials]


def _values(table: str, column: str) -> Iterable[str]:
    from rebench.tables.opening import read_rows

    return map(str, sorted(read_rows(table)[column].unique().tolist()))


OFFERED: Final[dict[str, Callable[[str], Iterable[str]]]] = {
    "against": _recipes,
    "algorithm": _algorithms,
    "cell": lambda table: _values(table, "index"),
    "dataset": _datasets,
    "recipe": _recipes,
    "second": _tables,
    "state": _states,
    "table": _tables,
    "tables": _tables,
    "trial": _trials,
}
"""By the name of a parameter, its values: of the table that was typed before, or all there are."""
