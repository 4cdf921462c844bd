"""``rebench rank`` and ``rebench report``: how far rankings move, beside what seed noise does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

import typer

from rebench.analysis.choices import TOP_PERCENT, Choices, Selection
from rebench.cli import options
from rebench.cli.output import frame_rows, print_json, print_rows, progress, say
from rebench.cli.reliability import print_reliability
from rebench.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from rebench.analysis import Reranking, Study

__all__ = ["rank", "report"]

# Columns of a curve that a screen shows, and their headings.
_CURVE: Final = {
    "top_percent": "top %",
    "n_cells": "cells",
    "tau": "tau",
    "tau_low": "low",
    "tau_high": "high",
    "seed_tau": "seed tau",
    "drop": "drop",
    "drop_low": "drop low",
    "drop_high": "drop high",
    "ratio": "ratio",
    "p_value": "p",
    "p_family": "p, all K",
}
_LEVEL: Final = 0.05
_ALL_TOP: Final = ",".join(f"{percent:g}" for percent in TOP_PERCENT)


def choices(
    published: options.Published = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="Which data sets; repeatable."),
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option(help="Which recipes; repeatable."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="benchmark, or a recipe of the table (mup, say) "
            "(default: the table's nb201 or fixed, then the published table)."
        ),
    ] = None,
    split: options.Split = None,
    epochs: options.Epochs = None,
    top: Annotated[str, typer.Option(help="Percentages K, comma-separated.")] = _ALL_TOP,
    by: Annotated[
        str,
        typer.Option(
            help="Table that chooses the top K %: benchmark (the first), retrained (the second), "
            "either, or the name of a third table."
        ),
    ] = "benchmark",
    draws: options.Draws = 1000,
    seed: options.Seed = 0,
) -> Choices:
    """What both commands compare; its parameters are their options."""
    try:
        percents = tuple(float(part) for part in top.split(","))
    except ValueError as error:
        raise InputError(f"--top takes percentages like 100,50,10, got {top!r}") from error
    return Choices(
        published=published,
        datasets=dataset or (),
        recipes=recipe or (),
        against=against,
        split=split,
        epochs=epochs,
        top_percent=percents,
        by=by,
        draws=draws,
        seed=seed,
    )


@options.takes(chosen=choices)
def rank(
    table: options.TableName,
    second: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Another table, held against the first."),
    ] = None,
    *,
    chosen: Choices,
    across: Annotated[
        Literal["recipes", "datasets"] | None,
        typer.Option(help="Compare all recipes, or all data sets, of the table with each other."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --across: name of the heat map, without a suffix.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Print Kendall's tau at each top K %, between runs of different seeds, beside seed noise.

    Of one table every recipe is compared with the table's own nb201 and with the published table.
    A table of one recipe alone shows how well its own seeds agree at each top K %, and how many
    cells cannot be separated from the best;
    with --across, everything with everything, of which --dataset and --recipe choose. Of two tables
    the second is held against the first.

    Example: rebench rank mini@fixed mini@topology --top 100,10
    """
    if across is not None:
        if second is not None:
            raise InputError("--across compares what one table holds: leave the second out")
        if out is not None:
            options.refuse_existing(out.with_name(f"{out.name}.pdf"), force)
        _print_matrices(table, across, chosen, out, as_json=as_json)
        return
    if out is not None:
        raise InputError("--out draws the heat map of --across recipes or --across datasets")
    if second is None and print_reliability(table, chosen, as_json=as_json):
        return
    if second is None:
        asked = _study(table, chosen)
        rerankings, notes = asked.rerankings, asked.notes
    else:
        rerankings, notes = (_compared(table, second, chosen),), ()
    if as_json:
        rows = [
            {"dataset": reranking.dataset, "recipe": reranking.after.name, **row}
            | {"against": reranking.before.name, "differs_by": reranking.contrast}
            | {"p_adjusted": reranking.p_adjusted, "comparisons": reranking.comparisons}
            | {"n_classes": int(reranking.improvement["n_classes"])}
            for reranking in rerankings
            for row in frame_rows(reranking.curve.round(4))
        ]
        print_rows(rows, as_json=True)
        return
    for reranking in rerankings:
        _print_curve(reranking.moved, reranking.name)
        say(f"{reranking.sentence}\n")
    for note in dict.fromkeys([*notes, *(n for each in rerankings for n in each.notes)]):
        say(note, err=True)


@options.takes(chosen=choices)
def report(
    table: options.TableName,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write into; TABLE/report by default.")
    ] = None,
    *,
    chosen: Choices,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write report.html, report.md and the figures (PDF, SVG, PNG, CSV) of a run.

    Example: rebench report runs/my-sweep --out my-report
    """
    from rebench.report import write_report

    path = Path(table)
    beside = path / "report" if path.is_dir() else path.with_name(f"{path.stem}-report")
    folder = out or beside
    options.refuse_existing(folder / "report.html", force)
    with progress("Comparing and drawing"):
        written = write_report(_study(table, chosen), folder)
    row = {"html": written.html, "markdown": written.markdown, "figures": written.figures}
    print_rows([row], as_json=as_json)


def _compared(first: str, second: str, chosen: Choices) -> Reranking:
    from rebench.analysis import compare

    if chosen.recipes or chosen.against or len(chosen.datasets) > 1:
        raise InputError(
            "two tables are compared as they are: give one --dataset, NAME@RECIPE for a recipe of"
            " a table, and neither --recipe nor --against"
        )
    return compare(
        first,
        second,
        dataset=next(iter(chosen.datasets), None),
        split=chosen.split,
        epochs=chosen.epochs,
        top_percent=chosen.top_percent,
        by=chosen.by,
        draws=chosen.draws,
        seed=chosen.seed,
    )


def _study(table: str, chosen: Choices) -> Study:
    from rebench.analysis.study import BENCHMARK, study
    from rebench.machine import keep_freed_memory
    from rebench.tables import open_table
    from rebench.tables.opening import read_rows

    keep_freed_memory()  # of thousands of samples
    asked = chosen.against in (None, BENCHMARK)
    published = open_table(chosen.published) if chosen.published and asked else None
    return study(read_rows(table), chosen, name=table, published=published)


def _print_matrices(
    table: str,
    across: Literal["recipes", "datasets"],
    chosen: Choices,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print how every two recipes or data sets rank the cells."""
    from rebench.analysis.matrix import read_rankings, tau_matrix
    from rebench.tables.opening import read_rows

    if chosen.against is not None:
        raise InputError("--across compares what one table holds: leave --against out")
    tables = read_rankings(
        read_rows(table),
        across,
        datasets=chosen.datasets,
        recipes=chosen.recipes,
        split=chosen.split,
        epochs=chosen.epochs,
    )
    side = _side(chosen.by)
    of = "dataset" if across == "recipes" else "recipe"
    page = []
    for number, (shared, rankings) in enumerate(tables.items()):
        taus, notes = tau_matrix(
            rankings,
            chosen.top_percent,
            by=side,
            draws=chosen.draws,
            seed=chosen.seed,
        )
        whole = taus[taus["top_percent"] == max(chosen.top_percent)].dropna(subset=["tau"])
        names = [name for name in rankings if (whole[["first", "second"]] == name).any(axis=None)]
        if alone := ", ".join(name for name in rankings if name not in names):
            notes += (f"{shared}: too few cells in common with any other: {alone}",)
        if as_json:
            page += [{of: shared, **row} for row in frame_rows(taus)]
        elif names:
            _print_matrix(whole, names, shared)
        if out is not None and names:
            from rebench.report.figures.ranking import draw_tau_matrix

            several = len(tables) > 1
            path = out.with_name(f"{out.name}-{number + 1}") if several else out
            for written in draw_tau_matrix(whole, shared).save(path):
                say(f"wrote {written}", err=True)
        for note in notes:
            say(note, err=True)
    if as_json:
        print_json(page)


def _side(by: str) -> Selection:
    """Return which of two rankings chooses the top K %; --across knows no third."""
    for known in get_args(Selection):
        if by == known:
            return known
    raise InputError(f"with --across, --by takes {', '.join(get_args(Selection))}, got {by}")


def _print_matrix(whole: pd.DataFrame, names: list[str], shared: str) -> None:
    """Print every ranking against every other, on all cells."""
    cells: dict[tuple[object, object], str] = {}
    for row in whole.to_dict("records"):
        pair = row["first"], row["second"]
        cells[pair] = f"{row['tau']:.2f}{'*' if row['p_adjusted'] < _LEVEL else ' '}"
        cells[pair[::-1]] = "- " if math.isnan(row["seed_tau"]) else f"{row['seed_tau']:.2f} "
    numbered = [
        {
            "no": at + 1,
            "ranking": name,
            **{str(to + 1): cells.get((name, other), "- ") for to, other in enumerate(names)},
        }
        for at, name in enumerate(names)
    ]
    least, most = int(whole["n_cells"].min()), int(whole["n_cells"].max())
    shared += f", {least} cells" if least == most else f", {least} to {most} cells"
    print_rows(numbered, as_json=False, title=shared)
    say(
        "Above the diagonal tau, below it what seeds alone leave; * less than noise explains at "
        f"5 %, adjusted for {len(whole)} pairs.\n"
    )


def _print_curve(curve: pd.DataFrame, title: str) -> None:
    """Print the rows of a curve that have a tau, and name those that have none."""
    known = curve["tau"].notna()
    # 0.0 has no minus.
    shown = curve.loc[known, list(_CURVE)].round(3).add(0.0).rename(columns=_CURVE)
    print_rows(shown, as_json=False, title=title)
    if not known.all():
        few = ", ".join(f"{percent:g}" for percent in curve.loc[~known, "top_percent"])
        say(f"Without tau (too few cells): top {few} %")
