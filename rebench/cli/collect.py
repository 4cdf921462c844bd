"""``rebench collect``: the shards of a run to its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import AsJson, Value, print_rows
from rebench.errors import InputError

__all__ = ["app"]

app = typer.Typer()


@app.command()
def collect(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    quarantine: Annotated[
        bool,
        typer.Option(
            "--quarantine",
            help="Set damaged and conflicting lines aside; their trials are pending again.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build results.parquet and curves.parquet from the records of a run."""
    from rebench.tables.collecting import collect as collect_run

    if not (run / "results").is_dir():
        raise InputError(f"{run} holds no records: there is no folder {run / 'results'}")
    made = collect_run(run, set_aside=quarantine)
    if made.unchanged:
        typer.echo("nothing new: the records are those that the tables were made of", err=True)
    for shard in made.torn:
        typer.echo(f"{shard} ends in an unfinished line: ignored, its trial is pending", err=True)
    for place in made.damaged:
        typer.echo(f"{place} is damaged: 1 line ignored", err=True)
    if len(made.environments) > 1:
        typer.echo(
            "the code or its environment changed during the run (column `environment`): "
            + "; ".join(made.environments),
            err=True,
        )
    row: dict[str, Value] = {
        "trials": made.trials,
        "rows": made.rows,
        "equal duplicates": made.duplicates,
        "damaged lines": len(made.damaged),
        "set aside": made.quarantined,
        "results": str(made.results),
        "curves": str(made.curves),
    }
    print_rows([row], as_json=as_json)
