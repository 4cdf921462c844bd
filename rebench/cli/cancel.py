"""``rebench cancel``: end the live jobs of a run; what is recorded stays."""

from __future__ import annotations

import typer

from rebench.cli.status import RunArgument
from rebench.launch.cancel import cancel_jobs
from rebench.launch.run import Run

__all__ = ["app"]

app = typer.Typer()


@app.command()
def cancel(run: RunArgument) -> None:
    """Cancel every live job of a run; submitting again takes up where they stopped."""
    cancelled = cancel_jobs(Run.open(run))
    typer.echo(
        f"cancelled {len(cancelled)} jobs" + (f": {', '.join(cancelled)}" if cancelled else "")
    )
