"""``rebench watch``: the status of a run, again and again."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

from rebench.cli.output import warn
from rebench.cli.retry import as_before
from rebench.cli.status import RunArgument, Screen
from rebench.cli.sweep_options import EveryS, TrustFolder

__all__ = ["app"]

app = typer.Typer()


@app.command()
def watch(
    run: RunArgument,
    every_s: EveryS = 10.0,
    resubmit: Annotated[
        bool, typer.Option("--resubmit", help="Send what is pending or lost, until nothing is.")
    ] = False,
    trust_folder: TrustFolder = False,
) -> None:
    """Show the status until nothing runs and nothing waits; exit 1 if trials are missing then."""
    from rebench.launch.keeping import follow
    from rebench.launch.run import Run
    from rebench.launch.submit import submit

    opened = Run.open(run)
    send = None
    if resubmit:
        send = functools.partial(submit, run, *as_before(run, {}, trust_folder=trust_folder))
    screen = Screen()
    screen.exit(follow(opened, screen.show, every_s=every_s, send=send, tell=warn))
