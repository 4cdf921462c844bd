"""``rebench watch``: the status of a run, again and again."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from rebench.cli.output import console
from rebench.cli.status import RunArgument, print_status
from rebench.launch.run import Run
from rebench.launch.status import status_of

__all__ = ["app"]

app = typer.Typer()


@app.command()
def watch(
    run: RunArgument,
    every_s: Annotated[float, typer.Option(min=0.2, help="Seconds between looks.")] = 10.0,
) -> None:
    """Show the status until nothing runs and nothing waits; exit 1 if trials are missing then."""
    opened = Run.open(run)
    screen = console()
    last = ""
    while True:
        status = status_of(opened)
        line = ", ".join(f"{count} {state}" for state, count in status.counts.items() if count)
        if screen.is_terminal:
            screen.clear()
            print_status(status, as_json=False)
        elif line != last:
            typer.echo(line)
        last = line
        if status.is_over:
            missing = sum(status.counts[state] for state in ("failed", "lost", "pending"))
            raise typer.Exit(1 if missing else 0)
        time.sleep(every_s)
