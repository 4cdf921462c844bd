"""What the shell offers after Tab: names from the registries, and what a run or table holds.

Everything is imported when it is asked for, and what cannot be read offers nothing: a shell that
completes shows no error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import typer

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


def _offering(names: Callable[[typer.Context], Iterable[str]]) -> Offer:
    """Offer the names that go on as it was begun; they may need what is typed before."""

    @functools.wraps(names)
    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return [name for name in names(ctx) if name.startswith(incomplete)]
        except (RebenchError, OSError, ValueError):
            return []

    # typer finds out by their types what the parameters are.
    del offer.__wrapped__
    offer.__annotations__ = {"ctx": typer.Context, "incomplete": str, "return": list[str]}
    return offer


@_offering
def recipes(_: typer.Context) -> Iterable[str]:
    """Offer the recipes that there are."""
    from rebench.recipes import recipe_names

    return recipe_names()


@_offering
def datasets(_: typer.Context) -> Iterable[str]:
    """Offer the data sets that there are."""
    from rebench.datasets import data_specs

    return data_specs()


@_offering
def algorithms(_: typer.Context) -> Iterable[str]:
    """Offer the algorithms of ``rebench search``."""
    from rebench.search import algorithm_names

    return algorithm_names()


@_offering
def states(_: typer.Context) -> Iterable[str]:
    """Offer the states of a trial."""
    from rebench.launch.status import STATES

    return STATES


@_offering
def tables(_: typer.Context) -> Iterable[str]:
    """Offer the released tables; where none fits, the shell offers files."""
    from rebench.tables.opening import released_tables

    return released_tables()


@_offering
def recipes_of(ctx: typer.Context) -> Iterable[str]:
    """Offer the recipes of the table that was typed."""
    from rebench.tables.opening import recipes_of as held

    return held(_table(ctx))


@_offering
def datasets_of(ctx: typer.Context) -> Iterable[str]:
    """Offer the data sets of the table that was typed."""
    from rebench.tables.opening import read_rows

    return sorted(map(str, read_rows(_table(ctx))["dataset"].unique()))


@_offering
def cells_of(ctx: typer.Context) -> Iterable[str]:
    """Offer the cells of the table that was typed."""
    from rebench.tables.opening import read_rows

    return map(str, sorted(read_rows(_table(ctx))["index"].unique().tolist()))


@_offering
def trials_of(ctx: typer.Context) -> Iterable[str]:
    """Offer the trials of the run that was typed, its cells and its recipes."""
    from rebench.launch.run import Run

    trials = Run.open(Path(_table(ctx))).trials()
    cells = {str(one.cell.index): None for one in trials.values()}
    labels = {one.recipe.label: None for one in trials.values()}
    return [*labels, *cells, *trials]


def _table(ctx: typer.Context) -> str:
    """Return the run or table that was typed: parsed, or before an option that lacks its value."""
    names = [one.name for one in ctx.command.params if one.param_type_name == "argument"]
    for name in ("run", "table", "tables"):
        value = ctx.params.get(name)
        if value is None and name in names and names.index(name) < len(ctx.args):
            value = ctx.args[names.index(name)]
        if value:
            return str(value[0] if isinstance(value, list | tuple) else value)
    return ""
