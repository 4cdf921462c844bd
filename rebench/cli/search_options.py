"""What the commands of ``rebench search`` share: options, opening, running, printing."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rebench.cli.output import print_rows, progress
from rebench.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from rebench.search import SearchTable
    from rebench.search.comparison import Comparison

__all__ = [
    "Dataset",
    "Epochs",
    "Evaluations",
    "FidelityOf",
    "OnTest",
    "Recipe",
    "Repeats",
    "Seconds",
    "Seed",
    "Signal",
    "Times",
    "open_tables",
    "print_sections",
    "run_all",
]

Dataset = Annotated[
    str | None, typer.Option(help="Default: the table's own, or cifar10 where it has several.")
]
Recipe = Annotated[
    str | None, typer.Option(help="Whose trials to take, where a table holds several recipes.")
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", help="Budget in simulated GPU-seconds.", min=1)
]
Evaluations = Annotated[
    float | None,
    typer.Option("--evaluations", help="Budget in runs at the signal's epochs instead.", min=1),
]
Epochs = Annotated[
    list[int] | None,
    typer.Option("--epochs", help="Fidelity to offer; repeat for more. Default: the table's own."),
]
FidelityOf = Annotated[
    Literal["runs", "curve"],
    typer.Option(
        "--fidelity",
        help="What Hyperband and BOHB see: runs of several lengths, or epochs of one run's curve, "
        "as the benchmark's authors do (--epochs names them; default: all, a third, a ninth).",
    ),
]
OnTest = Annotated[
    bool, typer.Option("--on-test", help="Search on test accuracy although there is validation.")
]
Signal = Annotated[
    str | None,
    typer.Option(help="Another table to search on, such as the published one with short runs."),
]
Times = Annotated[
    str | None, typer.Option(help="Another table whose times are the clock, if the table has none.")
]
Repeats = Annotated[int, typer.Option(help="Independent runs of each algorithm.", min=1)]
Seed = Annotated[int, typer.Option(help="Decides every draw.", min=0)]


def open_tables(
    names: list[str],
    dataset: str | None,
    recipe: str | None,
    signal: str | None,
    times: str | None,
    epochs: list[int] | None,
    *,
    on_test: bool,
    fidelity: Literal["runs", "curve"] = "runs",
) -> list[SearchTable]:
    """Open one table, or two that are searched in the same way over the cells of both."""
    from rebench.search import search_table
    from rebench.search.agreement import common_cells
    from rebench.search.tabular import has_validation
    from rebench.tables import open_table
    from rebench.tables.opening import recipes_of, table_label

    if len(names) not in (1, 2):
        raise InputError(f"compare takes one or two tables, got {len(names)}: give their names")
    tables = [
        open_table(name, recipe=recipe if recipe and recipes_of(name) else None) for name in names
    ]
    dataset = dataset or tables[0].usual_key().dataset
    shown = open_table(signal) if signal else None
    clock = open_table(times) if times else None
    validation = not on_test and all(has_validation(shown or table, dataset) for table in tables)
    opened: list[SearchTable] = []
    for name, table in zip(names, tables, strict=True):
        label = table_label(name, [other.name for other in opened])
        opened.append(
            search_table(
                table,
                dataset,
                name=label,
                signal=shown,
                times=clock,
                validation=validation,
                epochs=epochs,
                curve=fidelity == "curve",
            )
        )
    return list(common_cells(*opened)) if len(opened) == 2 else opened


def run_all(
    tables: list[SearchTable],
    algorithms: list[str],
    seconds: float | None,
    evaluations: float | None,
    repeats: int,
    seed: int,
) -> list[Comparison]:
    """Run the algorithms on every table under one budget, with progress."""
    from rebench.search import Budget, paper_budget
    from rebench.search.comparison import compare

    if seconds is not None or evaluations is not None:
        budget = Budget(seconds=seconds, evaluations=evaluations)
    else:
        budgets = [paper_budget(table) for table in tables]
        # Both in seconds, or both in evaluations.
        budget = min(budgets, key=lambda one: one.unit == "seconds")
    results = []
    with progress() as bar:
        for table in tables:
            task = bar.add_task(table.name, total=repeats * len(algorithms))
            results.append(
                compare(
                    table,
                    algorithms,
                    budget=budget,
                    repeats=repeats,
                    seed=seed,
                    on_run=lambda _, task=task: bar.advance(task),  # type: ignore[misc]  # default binds
                )
            )
    return results


def print_sections(sections: dict[str, pd.DataFrame], *, notes: list[str], as_json: bool) -> None:
    """Print tables under their titles and lines after them, or all of it as one JSON object."""
    rows = {
        title: [
            {str(key): _plain(value) for key, value in row.items()}
            for row in frame.to_dict("records")
        ]
        for title, frame in sections.items()
    }
    if as_json:
        typer.echo(json.dumps({"notes": notes, **rows}, indent=1, allow_nan=False))
        return
    for title, listed in rows.items():
        if listed:
            print_rows(listed, as_json=False, title=title)
            typer.echo()
    for note in notes:
        typer.echo(note)


def _plain(value: object) -> str | int | float | bool | None:
    import numpy as np
    import pandas as pd

    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return str(value)
