"""What the shell offers after Tab: names from the registries, and what a run or table holds.

Everything is imported when it is asked for, and what cannot be read offers nothing: a shell that
completes shows no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

import typer

from rebench import data, search
from rebench import recipes as rules
from rebench.errors import RebenchError

__all__ = [
    "algorithms",
    "cells_of",
    "datasets",
    "datasets_of",
    "recipes",
    "recipes_of",
    "states",
    "tables",
    "trials_of",
]

Offer: TypeAlias = Callable[[typer.Context, str], list[str]]


def _offering(names: Callable[[str], Iterable[str]]) -> Offer:
    """The names that go on as it was begun, given the run or table that was typed before."""

    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return [name for name in names(_table(ctx)) if name.startswith(incomplete)]
        except (RebenchError, OSError, ValueError):
            return []

    return offer


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


def _states(_: str) -> Iterable[str]:
    from rebench.launch.status import STATES

    return STATES


def _tables(_: str) -> Iterable[str]:
    from rebench.tables.opening import released_tables

    return released_tables()


def _recipes_of(table: str) -> Iterable[str]:
    from rebench.tables.opening import recipes_of

    return recipes_of(table)


def _values(table: str, column: str) -> Iterable[str]:
    from rebench.tables.opening import read_rows

    return map(str, sorted(read_rows(table)[column].unique().tolist()))


def _trials_of(run: str) -> Iterable[str]:
    from rebench.launch.run import Run

    trials = Run.open(Path(run)).trials()
    cells = {str(trial.cell.index): None for trial in trials.values()}
    labels = {trial.recipe.label: None for trial in trials.values()}
    return [*labels, *cells, *trials]


algorithms: Final = _offering(lambda _: search.algorithm_names())
datasets: Final = _offering(lambda _: data.data_specs())
recipes: Final = _offering(lambda _: rules.recipe_names())
states: Final = _offering(_states)
tables: Final = _offering(_tables)
"""Where none fits, the shell offers files."""
recipes_of: Final = _offering(_recipes_of)
datasets_of: Final = _offering(lambda table: _values(table, "dataset"))
cells_of: Final = _offering(lambda table: _values(table, "index"))
trials_of: Final = _offering(_trials_of)
