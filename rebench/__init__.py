"""Re-train, re-query and re-rank NAS-Bench-201 under any learning-rate and init recipe.

open(name)               a table: released, a run's folder, a file; `NAME@RECIPE` takes one recipe
compare(baseline, other) change of the ranking, compared with the change between seeds; has a plot
search.compare(tables)   rankings of NAS algorithms on two tables
lr(cell, recipe)         the learning rate that a recipe gives a cell
space()                  all 15,625 cells as a table, with the costs of their networks
network(cell, run=...)   a torch module: with a run's saved weights, or with initial weights
plan(model, inputs)      paths of a torch module; learning rate and init of each parameter
Cell, Table, Trial       an architecture, accuracies of many cells, one training run
ReBench                  a re-trained table with the interface of the package nats_bench
submit, status, collect  a sweep on a cluster: submit it, show its state, make its tables

Each name is loaded at its first use.
"""

from __future__ import annotations

from typing import Final

from rebench.shadow import keep_own_cells as _keep_own_cells

_keep_own_cells()

# name -> the module that has it, and its name there; their types are in `__init__.pyi`
_HOMES: Final = {
    "Cell": ("cells", "Cell"),
    "ReBench": ("rebench.nats", "ReBench"),
    "Table": ("rebench.tables", "Table"),
    "Trial": ("rebench.runs", "Trial"),
    "collect": ("rebench.tables.collecting", "collect"),
    "compare": ("rebench.analysis", "compare"),
    "lr": ("rebench.recipes", "learning_rate"),
    "network": ("rebench.train", "network"),
    "open": ("rebench.tables", "open_any"),
    "plan": ("rebench.modules", "plan"),
    "space": ("rebench.spaces.statistics", "space"),
    "status": ("rebench.launch.status", "status"),
    "submit": ("rebench.launch.submit", "submit"),
}

# subpackages with a page in docs/reference/python; they need no separate import
_PACKAGES: Final = frozenset(
    (
        "analysis",
        "data",
        "modules",
        "nats",
        "nets",
        "recipes",
        "report",
        "runs",
        "search",
        "tables",
        "train",
    )
)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from rebench.version import version

        return version()
    if name not in _HOMES.keys() | _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    # no `__all__`: with one, help(rebench) prints every class in full instead of one page
    return sorted([*_HOMES, "__version__"])
