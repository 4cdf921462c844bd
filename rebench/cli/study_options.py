"""What ``rebench rank`` and ``rebench report`` have in common: options and what they mean."""

from __future__ import annotations

from typing import Annotated, Final, get_args

import typer

from rebench.analysis.choices import TOP_PERCENT, Choices, Selection
from rebench.cli import completion
from rebench.errors import InputError

__all__ = ["Draws", "Run", "Seed", "Split", "choices", "percentages", "selection"]

Run = Annotated[
    str,
    typer.Argument(
        help="A run, a file or a released table; NAME@RECIPE.", autocompletion=completion.tables
    ),
]
Split = Annotated[
    str | None,
    typer.Option(help="Where accuracies are measured (default: ori-test, or what there is)."),
]
Draws = Annotated[
    int, typer.Option(min=0, help="Bootstrap draws, and deals of runs for the p-values.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the random draws.")]

_ALL_TOP: Final = ",".join(f"{percent:g}" for percent in TOP_PERCENT)


def choices(
    published: Annotated[
        str | None,
        typer.Option(envvar="REBENCH_BENCHMARK", help="The ingested benchmark, to compare with."),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="Which data sets; repeatable.", autocompletion=completion.datasets_of),
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option(help="Which recipes; repeatable.", autocompletion=completion.recipes_of),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="benchmark, or a recipe of the run (mup, say) "
            "(default: the run's nb201 or fixed, then the published table).",
            autocompletion=completion.recipes_of,
        ),
    ] = None,
    split: Split = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Of the run's trials, where a recipe was trained for several."),
    ] = None,
    top: Annotated[str, typer.Option(help="Percentages K, comma-separated.")] = _ALL_TOP,
    by: Annotated[
        str, typer.Option(help="Whose top K %: benchmark, retrained or either.")
    ] = "benchmark",
    draws: Draws = 1000,
    seed: Seed = 0,
) -> Choices:
    """Return what both commands ask for; its parameters are their options."""
    return Choices(
        published=published,
        datasets=dataset or (),
        recipes=recipe or (),
        against=against,
        split=split,
        epochs=epochs,
        top_percent=percentages(top),
        by=selection(by),
        draws=draws,
        seed=seed,
    )


def percentages(text: str) -> tuple[float, ...]:
    """Return the percentages of ``--top``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--top takes percentages like 100,50,10, got {text!r}") from error


def selection(name: str) -> Selection:
    """Return the choice of ``--by``."""
    for known in get_args(Selection):
        if name == known:
            return known
    raise InputError(f"--by must be benchmark, retrained or either, got {name!r}")
