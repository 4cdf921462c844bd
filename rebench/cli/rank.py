"""``rebench rank`` and ``rebench report``: differences between rankings, and the seed baseline."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from rebench.analysis.choices import TOP_PERCENT, Choices
from rebench.cli import options
from rebench.cli.output import frame_rows, print_rows, progress, say
from rebench.cli.reliability import of_one_data_set, print_reliability, print_values
from rebench.errors import InputError
from rebench.machine import keep_freed_memory

if TYPE_CHECKING:
    import pandas as pd

    from rebench.analysis import Reranking, Study
    from rebench.report.figures.style import Drawing
    from rebench.tables import Table

__all__ = ["rank", "report"]

_ALL_TOP: Final = ",".join(f"{percent:g}" for percent in TOP_PERCENT)

Format: TypeAlias = Literal["table", "csv", "json", "latex", "md"]


def choices(
    dataset: Annotated[
        list[str] | None, typer.Option(help="Data set to compare; repeatable (default: all).")
    ] = None,
    recipe: Annotated[
        list[str] | None, typer.Option(help="Recipe to compare; repeatable (default: all).")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Recipe of TABLE with which the others are compared, such as mup. The value "
            "`benchmark` stands for the table of --published. Default: `nb201` (or `fixed`, if "
            "TABLE has no `nb201`), and also the table of --published, if given."
        ),
    ] = None,
    published: options.Published = None,
    split: options.Split = None,
    epochs: options.Epochs = None,
    top: Annotated[
        str,
        typer.Option(help="Values of K, comma-separated: only the K % best cells are compared."),
    ] = _ALL_TOP,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of a third table that selects the K % best cells. Default: one seed of the "
            "baseline selects them and the other seeds are measured, averaged over the selecting "
            "seeds. With fewer than three seeds of the baseline, its measured runs select them.",
        ),
    ] = None,
    draws: options.Draws = 1000,
    seed: options.Seed = 0,
) -> Choices:
    """Return the choices of both commands; the parameters are their options."""
    percents: tuple[float, ...] = ()
    with contextlib.suppress(ValueError):
        percents = tuple(float(part) for part in top.split(","))
    if not percents or not all(0 < percent <= 100 for percent in percents):
        raise InputError(
            f"--top takes percentages above 0 and at most 100, like 100,50,10, got {top!r}"
        )
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
    context: typer.Context,
    table: options.BaselineName,
    second: options.OtherName = None,
    *,
    chosen: Choices,
    against_dataset: options.AgainstDataset = None,
    across: Annotated[
        Literal["recipes", "datasets"] | None,
        typer.Option(
            metavar="KIND",
            help="recipes: compare every two recipes of TABLE. datasets: compare every two data "
            "sets of TABLE. --format must then be table, csv or json.",
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save a figure (.pdf, .svg or .png) of tau over K; with --across, of all pairs.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="With --across, instead of --figure: save the figure as OUT.pdf, OUT.svg and "
            "OUT.png."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="With two tables: the column with the group of each cell, such as its family. The "
            "cells of a group are one observation. Default: equal networks are one observation.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="OURS=THEIRS,...",
            help="For CSV files with other names of columns: what they are, such as "
            "item=model,accuracy=score,seed=run.",
        ),
    ] = None,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="With --columns: small values are better.")
    ] = False,
    force: options.Force = False,
    output: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="table, csv, json, latex or md. csv and json contain all columns.",
        ),
    ] = "table",
    as_json: options.AsJson = False,
) -> None:
    """Compare rankings of the same cells by Kendall's tau, between recipes and between seeds.

    Each row is one comparison on the K % best cells. tau is the agreement between two recipes, and
    seed tau the agreement between two seeds of one recipe. The drop is seed tau minus tau. A small
    p means that different seeds do not explain the drop.

    With one table, every other recipe is compared with the recipe `nb201`, or with the recipe
    `fixed` if the table has no `nb201`. If --published names published accuracies, every recipe is
    also compared with them. For a table with a single recipe, seed tau is shown, and how many cells
    cannot be separated from the best. With two tables, OTHER is compared with BASELINE. With
    --across, all recipes or data sets of a table are compared with each other.

    Example: rebench rank mini@fixed mini@topology --top 100,10
    """
    keep_freed_memory()  # freed by thousands of samples
    output = "json" if as_json else output
    if figure is not None and figure.suffix not in (".pdf", ".svg", ".png"):
        raise InputError(f"--figure takes FILE.pdf, FILE.svg or FILE.png, got {figure}")
    if second is None:
        _refuse_for_one_table({"--against-dataset": against_dataset, "--groups": groups})
    if across is not None:
        options.refuse_unused(context, "--across", "published")
        _check_across(second, chosen, output)
        _print_matrices(table, across, chosen, figure or out, force, output)
        return
    if out is not None:
        raise InputError("--out draws the matrix of --across; --figure FILE draws tau over K")
    if figure is not None:
        _check_files([figure], force)
    if second is None and print_reliability(table, chosen, output, figure):
        return
    rerankings: Sequence[Reranking]
    notes: Sequence[str] = ()
    if second is not None:
        options.refuse_unused(context, "a comparison of two tables", "published")
        tables = [_opened(each, columns, lower_is_better) for each in (table, second)]
        rerankings = [_compared(tables, chosen, against_dataset=against_dataset, groups=groups)]
    else:
        asked = _study(table, chosen)
        rerankings, notes = asked.rerankings, asked.notes
    if figure is not None:
        _draw_curve(rerankings, figure)
    _print_rerankings(rerankings, output)
    for note in dict.fromkeys([*notes, *(n for each in rerankings for n in each.notes)]):
        say(note, err=True)


@options.takes(chosen=choices)
def report(
    table: options.TableName,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the report (default: RUN/report for a run folder; NAME-report next to "
            "a file NAME.csv; NAME-report in the current folder for the name of a table)."
        ),
    ] = None,
    *,
    chosen: Choices,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the comparisons of `rebench rank TABLE` as report.html and report.md, with figures.

    Example: rebench report runs/my-sweep --out my-report
    """
    from rebench.report import write_report

    path = Path(table)
    beside = path / "report" if path.is_dir() else path.with_name(f"{path.stem}-report")
    folder = out or beside
    for name in ("report.html", "report.md", "figures"):
        options.refuse_existing(folder / name, force)
    keep_freed_memory()
    with progress("Comparing and drawing"):
        written = write_report(_study(table, chosen), folder)
    row = {"html": written.html, "markdown": written.markdown, "figures": written.figures}
    print_rows([row], as_json=as_json)


def _print_rerankings(rerankings: Sequence[Reranking], output: Format) -> None:
    """Print comparisons; those with the same table and data set are one table."""
    from rebench.analysis.result_table import alike, as_latex, as_markdown, caption_of, rank_table

    if output in ("json", "csv"):
        rows = [
            {"dataset": reranking.dataset, "recipe": reranking.other.name, **row}
            | {"against": reranking.baseline.name, "differs_by": reranking.contrast}
            | {"comparisons": reranking.comparisons}
            | {"n_classes": int(reranking.improvement["n_classes"])}
            for reranking in rerankings
            for row in frame_rows(_with_p(reranking).round(4))
        ]
        print_values(rows, output)
        return
    groups = alike(rerankings)
    for number, group in enumerate(groups, start=1):
        if output == "latex":
            label = f"tab:rank-{number}" if len(groups) > 1 else "tab:rank"
            typer.echo(as_latex(rank_table(group), caption_of(group), label))
        elif output == "md":
            typer.echo(as_markdown(rank_table(group)))
        else:
            _print_group(group)


def _with_p(reranking: Reranking) -> pd.DataFrame:
    """Return the rows of a comparison with `p_adjusted`, the p-value of the printed table."""
    frame = reranking.frame()
    return frame.assign(p_adjusted=frame["top_percent"].map(reranking.p_adjusted_by_k))


def _print_group(group: Sequence[Reranking]) -> None:
    """Print comparisons with one table, and the verdict."""
    from rebench.analysis.result_table import (
        legend,
        overlap_legend,
        overlap_table,
        rank_table,
        regret_sentence,
        summary,
    )

    [first, *more] = group
    rows, title, verdict = rank_table(group), first.name, first.sentence
    if more:
        rows = rows.drop(columns="corrected tau", errors="ignore")  # to fit 80 columns
        title, verdict = f"recipes against {first.baseline.name}: {first.measured}", summary(group)
    print_rows(rows, as_json=False, title=title)
    say(legend(group))
    say(f"\n{verdict}\n")
    if more or rows.empty:
        return
    overlaps = overlap_table(first)
    if len(overlaps):
        print_rows(overlaps, as_json=False)
        say(overlap_legend(first))
    if regret := regret_sentence(first):
        say(f"{regret}\n")


def _check_files(figures: Sequence[Path], force: bool) -> None:
    """Refuse figures if any of their files exists, unless `force` is set."""
    from rebench.report.figures.style import files_of

    for figure in figures:
        for path in files_of(*_formats(figure)):
            options.refuse_existing(path, force)


def _formats(path: Path) -> tuple[Path, Sequence[str]]:
    """Return the path of a figure without a suffix, and its formats: its suffix, or all."""
    from rebench.report.figures.style import FORMATS

    known = path.suffix[1:] in FORMATS
    return (path.with_suffix(""), [path.suffix[1:]]) if known else (path, FORMATS)


def _draw_curve(rerankings: Sequence[Reranking], path: Path) -> None:
    """Save the figure of tau over K of the only comparison."""
    if len(rerankings) > 1:
        names = ", ".join(dict.fromkeys(each.other.name for each in rerankings))
        raise InputError(
            f"--figure draws one comparison, got {len(rerankings)}: choose one with --recipe "
            f"({names}), --dataset and --against"
        )
    _save(rerankings[0].plot("curve"), path)  # type: ignore[arg-type]  # a Drawing


def _save(drawing: Drawing, path: Path) -> None:
    """Save a figure in the format of its suffix, or in all formats, and say where."""
    stem, formats = _formats(path)
    for written in drawing.save(stem, formats=formats):
        say(f"wrote {written}", err=True)


def _refuse_for_one_table(given: Mapping[str, object]) -> None:
    """Refuse options of a comparison of two tables."""
    for option, value in given.items():
        if value is not None:
            raise InputError(f"{option} is for a comparison of two tables: name BASELINE and OTHER")


def _opened(name: str, columns: str | None, lower_is_better: bool) -> str | Table:
    """Return the table of a file with other names of columns, or the name of a table."""
    return name if columns is None else options.renamed_file(name, columns, lower_is_better)


def _compared(
    tables: Sequence[str | Table],
    chosen: Choices,
    *,
    against_dataset: str | None,
    groups: str | None,
) -> Reranking:
    from rebench.analysis import compare

    if chosen.recipes or chosen.against or len(chosen.datasets) > 1:
        raise InputError(
            "with two tables, --recipe, --against and several --dataset are not allowed: write"
            " NAME@RECIPE for a recipe of a table"
        )
    return compare(
        *tables,
        dataset=next(iter(chosen.datasets), None),
        against_dataset=against_dataset,
        by=chosen.by,
        groups=groups,
        **of_one_data_set(chosen),
    )


def _study(table: str, chosen: Choices) -> Study:
    from rebench.analysis.study import BENCHMARK, study
    from rebench.tables import open_table
    from rebench.tables.opening import read_rows

    asked = chosen.against in (None, BENCHMARK)
    published = open_table(chosen.published) if chosen.published and asked else None
    return study(read_rows(table), chosen, name=table, published=published)


def _check_across(second: str | None, chosen: Choices, output: Format) -> None:
    """Refuse a second table and options that --across cannot use."""
    for wrong, message in (
        (second, "--across compares the contents of one table: leave the second out"),
        (chosen.against, "--across compares all with all: leave --against out"),
        (output in ("latex", "md"), f"--across prints table, csv or json, got --format {output}"),
        (
            chosen.by,
            "with --across, the first of each two rankings selects the best cells: leave --by out",
        ),
    ):
        if wrong:
            raise InputError(message)


def _print_matrices(
    table: str,
    across: Literal["recipes", "datasets"],
    chosen: Choices,
    out: Path | None,
    force: bool,
    output: Format,
) -> None:
    """Print tau between every two recipes or data sets of a table."""
    from rebench.analysis.matrix import read_rankings, tau_matrix
    from rebench.tables.opening import read_rows, table_label

    tables, notes = read_rankings(
        read_rows(table),
        across,
        datasets=chosen.datasets,
        recipes=chosen.recipes,
        split=chosen.split,
        epochs=chosen.epochs,
        name=table_label(table),
    )
    figures: list[Path] = []
    if out is not None:
        numbers = (
            [f"-{number}" for number in range(1, len(tables) + 1)] if len(tables) > 1 else [""]
        )
        figures = [out.with_name(f"{out.stem}{number}{out.suffix}") for number in numbers]
        _check_files(figures, force)
    of = "dataset" if across == "recipes" else "recipe"
    # Without --top, tau is computed at all default K, but the screen shows the largest K only.
    asked = chosen.top_percent
    percents = (max(asked),) if tuple(asked) == TOP_PERCENT else asked
    page: list[dict[str, object]] = []
    for number, (shared, rankings) in enumerate(tables.items()):
        taus, said = tau_matrix(rankings, asked, draws=chosen.draws, seed=chosen.seed)
        notes += said
        known = taus.dropna(subset=["tau"])
        whole = known[known["top_percent"] == max(asked)]
        names = [name for name in rankings if (whole[["first", "second"]] == name).any(axis=None)]
        if alone := ", ".join(name for name in rankings if name not in names):
            notes.append(f"{shared}: fewer than 10 cells in common with every other: {alone}")
        if output != "table":
            page += [{of: shared, **row} for row in frame_rows(taus)]
        elif names:
            for percent in percents:
                _print_matrix(known[known["top_percent"] == percent], names, shared, percent)
        if figures and names:
            from rebench.report.figures.ranking import draw_tau_matrix  # loads matplotlib

            _save(draw_tau_matrix(whole, shared), figures[number])
    if output != "table":
        print_values(page, output)
    for note in dict.fromkeys(notes):
        say(note, err=True)


def _print_matrix(pairs: pd.DataFrame, names: list[str], shared: str, percent: float) -> None:
    """Print tau between every two rankings at one K."""
    from rebench.analysis.result_table import LEVEL

    if pairs.empty:
        say(f"{shared}, top {percent:g} %: no pair has 10 cells in common\n")
        return
    cells: dict[tuple[object, object], str] = {}
    for row in pairs.to_dict("records"):
        pair = row["first"], row["second"]
        cells[pair] = f"{row['tau']:.2f}{'*' if row['p_adjusted'] <= LEVEL else ' '}"
        cells[pair[::-1]] = "- " if math.isnan(row["seed_tau"]) else f"{row['seed_tau']:.2f} "
    numbered = [
        {
            "no": at + 1,
            "ranking": name,
            **{str(to + 1): cells.get((name, other), "- ") for to, other in enumerate(names)},
        }
        for at, name in enumerate(names)
    ]
    least, most = int(pairs["n_cells"].min()), int(pairs["n_cells"].max())
    counted = f"{least} cells" if least == most else f"{least} to {most} cells"
    print_rows(numbered, as_json=False, title=f"{shared}, top {percent:g} %, {counted}")
    say(
        "Above the diagonal: tau between two rankings. Below: seed tau. * tau is below seed tau by "
        f"more than seeds explain (5 %, adjusted for all K and {len(pairs)} pairs by Holm).\n"
    )
