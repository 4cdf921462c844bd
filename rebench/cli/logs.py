"""``rebench logs``: what the jobs printed that were given a trial."""

from __future__ import annotations

from typing import Annotated

import typer

from rebench.cli.output import printable
from rebench.cli.status import RunArgument
from rebench.launch.run import Run
from rebench.launch.status import log_of

__all__ = ["app"]

app = typer.Typer()


@app.command()
def logs(
    run: RunArgument,
    trial: Annotated[str, typer.Argument(help="A trial's id, as `rebench status` shows it.")],
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="Of each file.")] = 50,
) -> None:
    """Show the logs of the jobs that were given a trial, the latest last."""
    found = log_of(Run.open(run), trial)
    if not found:
        typer.echo("no job that was given this trial has printed anything yet")
    for path in found:
        typer.echo(f"==> {path} <==")
        typer.echo(printable("\n".join(path.read_text(errors="replace").splitlines()[-lines:])))
