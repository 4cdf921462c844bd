"""``rebench logs``: what was printed about a trial, the trials of a cell, or those of a recipe."""

from __future__ import annotations

from typing import Annotated

import typer

from rebench.cli import completion
from rebench.cli.output import printable
from rebench.cli.status import RunArgument

__all__ = ["app"]

app = typer.Typer()


@app.command()
def logs(
    run: RunArgument,
    trial: Annotated[
        str,
        typer.Argument(
            help="A trial's id (`rebench status --trials`), a cell or a recipe.",
            autocompletion=completion.trials_of,
        ),
    ],
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=1, help="Of each file, for each trial.")
    ] = 50,
) -> None:
    """Show what was printed about a trial, a cell's or a recipe's trials, the latest job last."""
    from rebench.launch.logs import log_of, named_trials
    from rebench.launch.run import Run

    opened = Run.open(run)
    wanted = named_trials(opened, trial)
    trials = opened.trials(set(wanted))
    for trial_id, printed in log_of(opened, wanted):
        known = trials.get(trial_id)
        typer.echo(f"trial {trial_id}" + (f": {known.describe()}" if known else ""))
        if not printed:
            typer.echo("no job that was given this trial has printed anything yet")
        for one in printed:
            note = "" if one.about_trial else " (nothing about this trial: its job's last lines)"
            typer.echo(f"==> {one.log} <=={note}")
            typer.echo(printable("\n".join(one.lines[-lines:])))
