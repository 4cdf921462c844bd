"""``rebench search``: NAS algorithms replayed on tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli import completion, search_retrained
from rebench.cli.options import takes
from rebench.cli.output import AsJson, Force, print_rows, progress, refuse_existing
from rebench.cli.search_options import (
    Algorithms,
    Dataset,
    OldTable,
    Recipe,
    Repeats,
    Searching,
    Section,
    Seed,
    Spending,
    TableName,
    named,
    print_sections,
    run_all,
)
from rebench.errors import InputError
from rebench.search.proxy_names import NET_PROXIES

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from rebench.search.agreement import Agreement
    from rebench.search.comparison import Comparison

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="NAS algorithms on any table.")

app.command()(search_retrained.surrogate)
app.command()(search_retrained.missing)


@app.command("list")
def list_algorithms(as_json: AsJson = False) -> None:
    """List the algorithms."""
    from rebench.search import algorithm_names, describe

    rows = [{"algorithm": name, "what it does": describe(name)} for name in algorithm_names()]
    print_rows(rows, as_json=as_json)


@app.command()
@takes(how=Searching, spending=Spending)
def run(
    algorithm: Annotated[
        str,
        typer.Argument(help="One of `rebench search list`.", autocompletion=completion.algorithms),
    ],
    table: TableName = None,
    old: OldTable = None,
    *,
    how: Searching,
    spending: Spending,
    repeats: Repeats = 1,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Run one algorithm on a table; print what it answers and what that is worth."""
    import pandas as pd

    (searched,) = how.open(named(table, old))
    (comparison,) = run_all(
        [searched], [algorithm], budget=spending.budget([searched]), repeats=repeats, seed=seed
    )
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
    print_sections(
        {"answers": pd.DataFrame(answers[:20] if not as_json else answers),
         "summary": comparison.summary()},
        notes=[searched.protocol, f"budget: {comparison.budget}"],
        as_json=as_json,
    )  # fmt: skip


@app.command("compare")
@takes(how=Searching, spending=Spending)
def compare_tables(
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="One table, or two to compare; NAME@RECIPE takes one recipe."),
    ] = None,
    first: Annotated[list[str] | None, typer.Option("--tables", hidden=True)] = None,
    algorithm: Algorithms = None,
    *,
    how: Searching,
    spending: Spending,
    repeats: Repeats = 500,
    reruns: Annotated[
        int, typer.Option(help="Tables of other seeds to search for the noise baseline.", min=0)
    ] = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Save figures under this name, without a suffix.")
    ] = None,
    literature: Annotated[
        bool, typer.Option(help="Print what papers report on NAS-Bench-201, too.")
    ] = False,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms on one table, or how two tables rank them.

    Two tables are searched over the cells that both hold and in the same way: if only one has a
    validation split, or times, neither uses them.
    """
    from rebench.search import algorithm_names
    from rebench.search.literature import look_up

    if figure is not None:
        refuse_existing(figure.with_name(f"{figure.name}-anytime.pdf"), force)
    opened = how.open(*(first or []), *(tables or []))
    # Before the work, which may be long.
    reported = _reported(opened[0].dataset) if literature else None
    names = algorithm or algorithm_names()
    results = run_all(opened, names, budget=spending.budget(opened), repeats=repeats, seed=seed)
    parts = {result.table.name: _sections(result) for result in results}
    sections: dict[str, Section] = {
        title: {name: found[title] for name, found in parts.items()}
        for title in next(iter(parts.values()))
    }
    notes = [f"{result.table.name}: {result.table.protocol}" for result in results]
    notes.append(f"budget: {results[0].budget}, {repeats} repeats, seed {seed}")
    if len(results) == 2:
        found = _agreement(results[0], results[1], reruns, seed)
        sections |= {"Ranking of the algorithms": found.table, "Pairs that swap": found.swaps}
        notes += _verdict(found)
    if reported is not None:
        sections["Cells of the literature"] = look_up(opened)
        sections["Reported elsewhere, not measured here"] = reported
    if figure:
        from rebench.figures.search import save_comparison

        notes += [f"saved {path}" for path in save_comparison(results, figure)]
    print_sections(sections, notes=notes, as_json=as_json)


@app.command()
def proxies(
    table: TableName = None,
    old: OldTable = None,
    dataset: Dataset = None,
    recipe: Recipe = None,
    network: Annotated[
        list[str] | None,
        typer.Option(help=f"Score networks, too: {', '.join(NET_PROXIES)}, all; repeatable."),
    ] = None,
    cells: Annotated[int, typer.Option(help="Most cells to build networks of.", min=4)] = 200,
    images: Annotated[int, typer.Option(help="Images in the batch.", min=1)] = 64,
    images_of: Annotated[
        str | None, typer.Option(help="Data set of the images (default: the table's).")
    ] = None,
    data_root: Annotated[
        Path | None, typer.Option(envvar="REBENCH_DATA", help="Folder of data sets.")
    ] = None,
    channels: Annotated[int, typer.Option(help="Of the networks' first stage.", min=1)] = 16,
    cells_per_stage: Annotated[int, typer.Option(help="Of the networks.", min=1)] = 5,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Rank the cells without training: parameters, FLOPs, path statistics; NASWOT and others.

    Parameters and FLOPs are the baselines. With --network a random sample of the cells is built,
    initialised and scored on one batch of real images; every proxy is then ranked on that sample.
    """
    import numpy as np

    from rebench.datasets import data_spec
    from rebench.search.literature import PROXY_SOURCE
    from rebench.search.net_proxies import image_batch, net_proxy_scores
    from rebench.search.proxies import rate_proxies

    (searched,) = Searching(dataset=dataset, recipe=recipe, on_test=True).open(named(table, old))
    notes = []
    scores: dict[str, NDArray[np.float64]] = {}
    if network:
        names = list(NET_PROXIES) if "all" in network else network
        known = searched.space.indices
        sample = np.random.default_rng(seed).choice(known, min(cells, len(known)), replace=False)
        searched = searched.restrict(sample.tolist())
        source = images_of or searched.dataset
        batch = image_batch(source, images, seed=seed, root=data_root)
        with progress() as bar:
            task = bar.add_task("networks", total=len(sample))
            scores = net_proxy_scores(
                names,
                searched.space.indices.tolist(),
                *batch,
                seed=seed,
                channels=channels,
                cells_per_stage=cells_per_stage,
                classes=data_spec(source).classes,
                on_cell=lambda _: bar.advance(task),
            )
        notes.append(
            f"networks: {channels} channels, {cells_per_stage} cells a stage, PyTorch's init, one "
            f"batch of {images} images of {source}, seed {seed}"
        )
    notes.insert(0, f"ranked against: {searched.reported}, {len(searched.space):,} cells")
    rated = rate_proxies(searched, scores)
    if "published" in rated:
        notes.append(f"published (all cells, 16 channels, 5 cells a stage): {PROXY_SOURCE}")
    print_sections({"Proxies": rated}, notes=notes, as_json=as_json)


def _reported(dataset: str) -> pd.DataFrame:
    from rebench.search.literature import reported_frame

    known = ("cifar10", "cifar100", "ImageNet16-120")
    if dataset not in known:
        raise InputError(f"papers report {', '.join(known)}, got --dataset {dataset}")
    return reported_frame(dataset)


def _agreement(first: Comparison, second: Comparison, reruns: int, seed: int) -> Agreement:
    import numpy as np

    from rebench.search.agreement import agreement, rerun_tables

    rng = np.random.default_rng(seed)
    null: list[Comparison] = []
    if reruns:
        null = run_all(
            rerun_tables(first.table, reruns, rng),
            first.algorithms,
            budget=first.budget,
            repeats=len(first.finals),
            seed=seed,
        )
    return agreement(first, second, rng=rng, reruns=null)


def _sections(result: Comparison) -> dict[str, pd.DataFrame]:
    import pandas as pd

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


def _verdict(found: Agreement) -> list[str]:
    import numpy as np

    tau = found.tau
    interval = f"{tau.value:.3f} [{tau.low:.3f}, {tau.high:.3f}]"
    swaps = f"{len(found.swaps)} pairs swap that both tables tell apart"
    lines = [f"algorithms' rankings: Kendall tau {interval}; {swaps}"]
    if found.p_value is None:
        lines.append("no noise baseline was asked for: --reruns 20 searches tables of other seeds")
    else:
        lines.append(
            f"seed noise alone: median tau {np.median(found.null_tau):.3f}, "
            f"{np.mean(found.null_swaps):.1f} swaps on average in {len(found.null_tau)} reruns; "
            f"p = {found.p_value:.3f}"
        )
    return lines
