"""What the commands of ``rebench search`` share: options, opening, running, printing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from rebench.cli import completion
from rebench.cli.output import Value, frame_rows, print_json, print_rows, progress, say
from rebench.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from rebench.search import Budget, SearchTable
    from rebench.search.comparison import Comparison
    from rebench.tables import Table

__all__ = [
    "Algorithms",
    "Dataset",
    "OldTable",
    "Recipe",
    "Repeats",
    "Searching",
    "Section",
    "Seed",
    "Spending",
    "TableName",
    "named",
    "print_sections",
    "run_all",
]

Section: TypeAlias = "pd.DataFrame | Mapping[str, pd.DataFrame]"
"""A frame, or a frame of each table."""

TableName = Annotated[
    str | None,
    typer.Argument(
        help="A run, a file, a released table or `generated`; NAME@RECIPE.",
        autocompletion=completion.tables,
    ),
]
OldTable = Annotated[str | None, typer.Option("--table", hidden=True)]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="Default: the table's own, or cifar10 where it has several.",
        autocompletion=completion.datasets_of,
    ),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        help="Whose trials to take, where a table holds several recipes.",
        autocompletion=completion.recipes_of,
    ),
]
Algorithms = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        help="Repeat for more. Default: all of them.",
        autocompletion=completion.algorithms,
    ),
]
Repeats = Annotated[int, typer.Option(help="Independent runs of each algorithm.", min=1)]
Seed = Annotated[int, typer.Option(help="Decides every draw.", min=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    """Whose accuracies are searched and what an algorithm sees of them."""

    dataset: Dataset = None
    recipe: Recipe = None
    epochs: Annotated[
        list[int] | None,
        typer.Option(help="Fidelity to offer; repeat for more. Default: the table's own."),
    ] = None
    fidelity: Annotated[
        Literal["runs", "curve"],
        typer.Option(
            help="What Hyperband and BOHB see: runs of several lengths, or epochs of one run's "
            "curve, as the benchmark's authors do (--epochs names them; default: all, a third, a "
            "ninth).",
        ),
    ] = "runs"
    on_test: Annotated[
        bool,
        typer.Option("--on-test", help="Search on test accuracy although there is validation."),
    ] = False
    signal: Annotated[
        str | None,
        typer.Option(help="Another table to search on, such as the published one with short runs."),
    ] = None
    times: Annotated[
        str | None,
        typer.Option(help="Another table whose times are the clock, if the table has none."),
    ] = None

    def open(self, *names: str) -> list[SearchTable]:
        """Open one table, or two that are searched in the same way over the cells of both."""
        from rebench.search import search_table
        from rebench.search.agreement import common_cells
        from rebench.search.tabular import has_validation
        from rebench.tables import open_table
        from rebench.tables.opening import recipes_of, table_label

        if len(names) not in (1, 2):
            raise InputError(f"compare takes one or two tables, got {len(names)}: give their names")
        tables = [
            open_table(name, recipe=self.recipe if self.recipe and recipes_of(name) else None)
            for name in names
        ]
        dataset = self.dataset or _common_dataset(tables)
        shown = open_table(self.signal) if self.signal else None
        clock = open_table(self.times) if self.times else None
        validation = not self.on_test and all(
            has_validation(shown or table, dataset) for table in tables
        )
        opened: list[SearchTable] = []
        for name, table in zip(names, tables, strict=True):
            opened.append(
                search_table(
                    table,
                    dataset,
                    name=table_label(name, [other.name for other in opened]),
                    signal=shown,
                    times=clock,
                    validation=validation,
                    epochs=self.epochs,
                    curve=self.fidelity == "curve",
                )
            )
        return list(common_cells(*opened)) if len(opened) == 2 else opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """How long an algorithm may search: in simulated seconds or in evaluations, not both."""

    seconds: Annotated[
        float | None, typer.Option(help="Budget in simulated GPU-seconds.", min=1)
    ] = None
    evaluations: Annotated[
        float | None,
        typer.Option(help="Budget in runs at the signal's epochs instead.", min=1),
    ] = None

    def budget(self, tables: Sequence[SearchTable]) -> Budget:
        """Return what was asked for, or what papers allow on these tables."""
        from rebench.search import Budget, paper_budget

        if self.seconds is not None or self.evaluations is not None:
            return Budget(seconds=self.seconds, evaluations=self.evaluations)
        # Both in seconds, or both in evaluations.
        return min(map(paper_budget, tables), key=lambda one: one.unit == "seconds")


def named(table: str | None, old: str | None) -> str:
    """Return the table that is named, in its place or by the option that it once had."""
    if table is None and old is None:
        raise InputError("name a TABLE: a run, a file, a released table or `generated`")
    if table is not None and old is not None:
        raise InputError(f"one TABLE is searched, got {table} and --table {old}")
    return str(table or old)


def _common_dataset(tables: Sequence[Table]) -> str:
    """Return the data set that is usually meant, of those that every table holds."""
    held = [{key.dataset for key in table.keys} for table in tables]
    common = set.intersection(*held)
    if not common:
        said = "; ".join(
            f"{table.name}: {', '.join(sorted(names))}"
            for table, names in zip(tables, held, strict=True)
        )
        raise InputError(f"the tables have no data set in common ({said})")
    usual = tables[0].usual_key().dataset
    return usual if usual in common else min(common)


def run_all(
    tables: Sequence[SearchTable],
    algorithms: Sequence[str],
    *,
    budget: Budget,
    repeats: int,
    seed: int,
) -> list[Comparison]:
    """Run the algorithms on every table under one budget, with progress."""
    from rebench.search.comparison import compare

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


def print_sections(sections: Mapping[str, Section], *, notes: list[str], as_json: bool) -> None:
    """Print frames under their titles and lines after them, or all of it as one JSON object.

    Of a section of several tables JSON is one list, whose rows name their table.
    """
    if as_json:
        print_json({"notes": notes, **{title: _rows(one) for title, one in sections.items()}})
        return
    for title, section in sections.items():
        parts = section if isinstance(section, Mapping) else {None: section}
        for name, frame in parts.items():
            if len(frame):
                label = f"{title} on {name}" if name and len(parts) > 1 else title
                print_rows(frame_rows(frame), as_json=False, title=label)
                typer.echo()
    for note in notes:
        say(note)


def _rows(section: Section) -> list[dict[str, Value]]:
    if not isinstance(section, Mapping):
        return frame_rows(section)
    return [{"table": name, **row} for name, frame in section.items() for row in frame_rows(frame)]
