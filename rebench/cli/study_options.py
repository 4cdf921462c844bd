"""What ``rebench rank`` and ``rebench report`` have in common: options and what they mean."""

from __future__ import annotations

from typing import Annotated, Final, get_args

import typer

from rebench.analysis import TOP_PERCENT, Choices
from rebench.analysis.concordance import Selection
from rebench.errors import InputError

__all__ = [
    "ALL_TOP",
    "Against",
    "By",
    "Datasets",
    "Draws",
    "Epochs",
    "Published",
    "Recipes",
    "Run",
    "Seed",
    "Split",
    "Top",
    "choices",
    "percentages",
    "selection",
]

Run = Annotated[str, typer.Argument(help="A run's folder, or a table of re-trained results.")]
Published = Annotated[
    str | None,
    typer.Option(envvar="REBENCH_BENCHMARK", help="The ingested benchmark, to compare with."),
]
Datasets = Annotated[
    list[str] | None, typer.Option("--dataset", help="Which data sets; repeatable.")
]
Recipes = Annotated[list[str] | None, typer.Option("--recipe", help="Which recipes; repeatable.")]
Against = Annotated[
    str | None,
    typer.Option(
        help="benchmark, or a recipe of the run (mup, say) "
        "(default: the run's nb201, then the published table)."
    ),
]
Split = Annotated[str, typer.Option(help="Where accuracies are measured.")]
Epochs = Annotated[
    int | None,
    typer.Option(min=1, help="Of the run's trials, where a recipe was trained for several."),
]
Top = Annotated[str, typer.Option(help="Percentages K, comma-separated.")]
By = Annotated[str, typer.Option(help="Whose top K %: benchmark, retrained or either.")]
Draws = Annotated[
    int, typer.Option(min=0, help="Bootstrap draws, and deals of runs for the p-values.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the random draws.")]

ALL_TOP: Final = ",".join(f"{percent:g}" for percent in TOP_PERCENT)


def choices(
    published: str | None,
    datasets: list[str] | None,
    recipes: list[str] | None,
    against: str | None,
    split: str,
    epochs: int | None,
    top: str,
    by: str,
    draws: int,
    seed: int,
) -> Choices:
    """Return what both commands ask for, in the order of their options."""
    return Choices(
        published=published,
        datasets=datasets or (),
        recipes=recipes or (),
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
