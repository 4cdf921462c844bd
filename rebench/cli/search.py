"""``rebench search``: NAS algorithms replayed on tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from rebench.cli.output import AsJson, print_rows, progress
from rebench.errors import InputError
from rebench.search import (
    Budget,
    SearchTable,
    algorithm_names,
    describe,
    paper_budget,
    search_table,
)
from rebench.search.compare import Comparison, compare
from rebench.search.proxies import rate_proxies
from rebench.search.published import look_up, published_frame
from rebench.search.rerank import Rerank, common_cells, rerank, rerun_tables
from rebench.search.source import open_table
from rebench.search.table import has_validation

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="NAS algorithms on any table.")

Dataset = Annotated[
    str, typer.Option(help="cifar10, cifar100, ImageNet16-120, or the table's own.")
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


@app.command("list")
def list_algorithms(as_json: AsJson = False) -> None:
    """List the algorithms."""
    rows = [{"algorithm": name, "what it does": describe(name)} for name in algorithm_names()]
    print_rows(rows, as_json=as_json)


@app.command()
def run(
    algorithm: Annotated[str, typer.Argument(help="One of `rebench search list`.")],
    table: Annotated[str, typer.Option(help="A Parquet or CSV file, a run, or `generated`.")],
    dataset: Dataset = "cifar10",
    recipe: Recipe = None,
    seconds: Seconds = None,
    evaluations: Evaluations = None,
    epochs: Epochs = None,
    on_test: OnTest = False,
    signal: Signal = None,
    times: Times = None,
    repeats: Repeats = 1,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Run one algorithm on a table; print what it answers and what that is worth."""
    (searched,) = _open([table], dataset, recipe, signal, times, epochs, on_test=on_test)
    (comparison,) = _compare([searched], [algorithm], seconds, evaluations, repeats, seed)
    runs = comparison.runs[algorithm]
    answers = [
        {
            "run": number,
            "cell": int(searched.space.indices[one.answers[-1]]),
            "accuracy": round(float(searched.final[one.answers[-1]]), 4),
            "regret": round(searched.best - float(searched.final[one.answers[-1]]), 4),
            "evaluations": len(one.clock),
            "spent": round(float(one.clock[-1]), 3),
        }
        for number, one in enumerate(runs)
    ]
    _print(
        {"answers": pd.DataFrame(answers[:20] if not as_json else answers),
         "summary": comparison.summary()},
        notes=[searched.protocol, f"budget: {comparison.budget}"],
        as_json=as_json,
    )  # fmt: skip


@app.command("compare")
def compare_tables(
    tables: Annotated[list[str], typer.Option("--tables", help="One table, or two to compare.")],
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Repeat for more. Default: all of them.")
    ] = None,
    dataset: Dataset = "cifar10",
    recipe: Recipe = None,
    seconds: Seconds = None,
    evaluations: Evaluations = None,
    epochs: Epochs = None,
    on_test: OnTest = False,
    signal: Signal = None,
    times: Times = None,
    repeats: Repeats = 500,
    reruns: Annotated[
        int, typer.Option(help="Tables of other seeds to search for the noise baseline.", min=0)
    ] = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Save figures under this name, without a suffix.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms on one table, or how two tables rank them.

    Two tables are searched over the cells that both hold and in the same way: if only one has a
    validation split, or times, neither uses them.
    """
    opened = _open(tables, dataset, recipe, signal, times, epochs, on_test=on_test)
    names = algorithm or algorithm_names()
    results = _compare(opened, names, seconds, evaluations, repeats, seed)
    sections: dict[str, pd.DataFrame] = {}
    for result in results:
        label = f" on {result.table.name}" if len(results) > 1 else ""
        sections |= {f"{title}{label}": frame for title, frame in _sections(result).items()}
    notes = [f"{result.table.name}: {result.table.protocol}" for result in results]
    notes.append(f"budget: {results[0].budget}, {repeats} repeats, seed {seed}")
    if len(results) == 2:
        found = _rerank(results[0], results[1], reruns, seed)
        sections |= {"Ranking of the algorithms": found.table, "Pairs that swap": found.swaps}
        notes += _verdict(found)
    sections["Published cells"] = look_up(opened)
    sections["Published accuracies, not measured here"] = published_frame(dataset)
    if figure:
        from rebench.figures.search import save_comparison

        notes += [f"saved {path}" for path in save_comparison(results, figure)]
    _print(sections, notes=notes, as_json=as_json)


@app.command()
def proxies(
    table: Annotated[str, typer.Option(help="A Parquet or CSV file, a run, or `generated`.")],
    dataset: Dataset = "cifar10",
    recipe: Recipe = None,
    as_json: AsJson = False,
) -> None:
    """Rank the cells without training: parameters, FLOPs, path statistics."""
    (searched,) = _open([table], dataset, recipe, None, None, None, on_test=True)
    notes = [f"ranked against: {searched.reported}, {len(searched.space):,} cells"]
    _print({"Proxies": rate_proxies(searched)}, notes=notes, as_json=as_json)


def _open(
    names: list[str],
    dataset: str,
    recipe: str | None,
    signal: str | None,
    times: str | None,
    epochs: list[int] | None,
    *,
    on_test: bool,
) -> list[SearchTable]:
    """Open one table, or two that are searched in the same way over the cells of both."""
    if len(names) not in (1, 2):
        raise InputError(f"compare takes one or two tables, got {len(names)}")
    tables = [open_table(name, recipe=recipe) for name in names]
    shown = open_table(signal) if signal else None
    clock = open_table(times) if times else None
    validation = not on_test and all(has_validation(shown or table, dataset) for table in tables)
    opened = [
        search_table(
            table, dataset, signal=shown, times=clock, validation=validation, epochs=epochs
        )
        for table in tables
    ]
    return list(common_cells(*opened)) if len(opened) == 2 else opened


def _compare(
    tables: list[SearchTable],
    algorithms: list[str],
    seconds: float | None,
    evaluations: float | None,
    repeats: int,
    seed: int,
) -> list[Comparison]:
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


def _rerank(first: Comparison, second: Comparison, reruns: int, seed: int) -> Rerank:
    rng = np.random.default_rng(seed)
    null: list[Comparison] = []
    if reruns:
        repeats = len(first.finals)
        tables = rerun_tables(first.table, reruns, rng)
        budget = first.budget
        arguments = {budget.unit: budget.limit}
        null = _compare(
            tables,
            first.algorithms,
            arguments.get("seconds"),
            arguments.get("evaluations"),
            repeats,
            seed,
        )
    return rerank(first, second, rng=rng, reruns=null)


def _sections(result: Comparison) -> dict[str, pd.DataFrame]:
    ranks = result.ranks()
    columns = {"algorithm": list(ranks.average), "average_rank": list(ranks.average.values())}
    averages = pd.DataFrame(columns).sort_values("average_rank", ignore_index=True)
    averages["critical_difference"] = ranks.critical_difference
    averages["friedman_p"] = ranks.p_value
    return {
        "Final test accuracy": result.summary(),
        "Average ranks": averages,
        "Chance that the first ends better": result.wins(),
    }


def _verdict(found: Rerank) -> list[str]:
    tau = found.tau
    interval = f"{tau.value:.3f} [{tau.low:.3f}, {tau.high:.3f}]"
    lines = [f"algorithms' rankings: Kendall tau {interval}, {len(found.swaps)} pair(s) swap"]
    if found.p_value is None:
        lines.append("no noise baseline was asked for: --reruns 20 searches tables of other seeds")
    else:
        lines.append(
            f"seed noise alone: median tau {np.median(found.null_tau):.3f}, "
            f"{np.mean(found.null_swaps):.1f} swaps on average in {len(found.null_tau)} reruns; "
            f"p = {found.p_value:.3f}"
        )
    return lines


def _print(sections: dict[str, pd.DataFrame], *, notes: list[str], as_json: bool) -> None:
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
    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return str(value)
