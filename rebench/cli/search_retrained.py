"""``rebench search surrogate`` and ``missing``: when a re-trained table covers only a sample."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli.options import takes
from rebench.cli.output import AsJson, Force, refuse_existing
from rebench.cli.search_options import (
    Algorithms,
    Dataset,
    Recipe,
    Repeats,
    Searching,
    Seed,
    Spending,
    print_sections,
    run_all,
)
from rebench.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rebench.tables import Table

__all__ = ["missing", "surrogate"]


def surrogate(
    table: Annotated[
        str, typer.Argument(help="The re-trained table: a run or a file; NAME@RECIPE.")
    ],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    dataset: Dataset = None,
    recipe: Recipe = None,
    published: Annotated[
        str | None, typer.Option(help="A table of the whole space, as a further feature.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Predict all 15,625 cells from those a sweep has trained, with intervals.

    The result is a table that `rebench search compare` takes. It holds predictions only,
    and every line made from it says so.
    """
    import numpy as np
    import pandas as pd

    from rebench.search.surrogate import fit_surrogate, write_surrogate

    refuse_existing(out, force)
    (trained,) = Searching(dataset=dataset, recipe=recipe, on_test=True).open(table)
    split = trained.searched_on.split()[1]
    feature = _whole(published, trained.dataset, split) if published else None
    found = fit_surrogate(
        trained.space.indices,
        trained.final,
        rng=np.random.default_rng(seed),
        published=feature,
    )
    paths = write_surrogate(
        found,
        out,
        name=f"{trained.name}-surrogate",
        dataset=trained.dataset,
        split=split,
        epochs=trained.fidelities[-1].epochs,
    )
    quality = pd.DataFrame(
        [
            {
                "trained": len(trained.space),
                "tau": found.tau.value,
                "tau_low": found.tau.low,
                "tau_high": found.tau.high,
                "level": found.level,
                "coverage": found.coverage,
                "median_width": float(np.median(found.high - found.low)),
            }
        ]
    )
    notes = [found.describe(), *(f"wrote {path}" for path in paths)]
    print_sections({"Cross-validation": quality}, notes=notes, as_json=as_json)


@takes(spending=Spending)
def missing(
    table: Annotated[
        str, typer.Argument(help="The re-trained table: a run or a file; NAME@RECIPE.")
    ],
    published: Annotated[
        str | None,
        typer.Option(envvar="REBENCH_BENCHMARK", help="The published table that is searched."),
    ] = None,
    signal: Annotated[str | None, typer.Option("--signal", hidden=True)] = None,
    out: Annotated[Path | None, typer.Option(help="Sweep file (TOML) to write.")] = None,
    dataset: Dataset = None,
    recipe: Recipe = None,
    algorithm: Algorithms = None,
    *,
    spending: Spending,
    repeats: Repeats = 100,
    limit: Annotated[int, typer.Option(help="Most cells to list and to train.", min=1)] = 100,
    training_seed: Annotated[
        list[int] | None, typer.Option(help="Repeat for more. Default: 777, 888, 999.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """List the algorithms' answers that are not re-trained yet, and write a sweep for them."""
    from rebench.search import algorithm_names, search_table
    from rebench.search.missing import answers_retrained, missing_answers, sweep_toml
    from rebench.tables import open_table

    refuse_existing(out, force)
    source = signal or published  # the environment may name the second
    if source is None:
        raise InputError("name the table that is searched: --published TABLE")
    retrained = open_table(table, recipe=recipe)
    ours = search_table(retrained, dataset or retrained.usual_key().dataset, validation=False)
    searched = search_table(open_table(source), ours.dataset)
    names = algorithm or algorithm_names()
    (comparison,) = run_all(
        [searched], names, budget=spending.budget([searched]), repeats=repeats, seed=seed
    )
    lacking = missing_answers(comparison, ours.space.indices.tolist())
    first = lacking.head(limit)
    notes = [
        searched.protocol,
        f"budget: {comparison.budget}, {repeats} repeats",
    ]
    share = first["share"].sum()
    notes.append(
        f"{len(lacking)} answered cells are not trained; the {len(first)} listed are the answers "
        f"of {share:.1%} of all runs"
    )
    if out is not None:
        text = sweep_toml(
            first["index"].tolist(),
            dataset=ours.dataset,
            recipe=recipe or _only_recipe(retrained),
            seeds=training_seed or [777, 888, 999],
            epochs=ours.fidelities[-1].epochs,
            comment="Cells that NAS algorithms answer and that are not trained yet, the most\n"
            "frequent first (rebench search missing).",
        )
        out.write_text(text)
        notes.append(f"wrote {out}; next: rebench sweep check {out}")
    sections = {"Already trained": answers_retrained(comparison, ours), "To train": first}
    print_sections(sections, notes=notes, as_json=as_json)


def _only_recipe(table: Table) -> str:
    frame = table.frame()
    return str(frame["recipe"].iloc[0]) if "recipe" in frame else "nb201"


def _whole(name: str, dataset: str, split: str) -> NDArray[np.float64]:
    import numpy as np

    from cells import SPACE_SIZE
    from rebench.tables import open_table

    means = open_table(name).means(dataset, split)
    if len(means) != SPACE_SIZE:
        raise InputError(
            f"--published must hold all {SPACE_SIZE:,} cells, {name} has {len(means):,}"
        )
    return means.to_numpy(dtype=np.float64)
