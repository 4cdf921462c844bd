"""``rebench cancel``: end the live jobs of a run; what is recorded stays."""

from __future__ import annotations

from typing import Annotated

import typer

from rebench.cli.output import warn
from rebench.cli.status import RunArgument

__all__ = ["app"]

app = typer.Typer()


@app.command()
def cancel(
    run: RunArgument,
    job: Annotated[
        list[str] | None, typer.Option(help="Only this job, as status names it; repeatable.")
    ] = None,
) -> None:
    """Cancel the live jobs of a run; `rebench retry` takes up where they stopped."""
    from rebench.launch.cancel import cancel_jobs
    from rebench.launch.run import Run

    cancelled = cancel_jobs(Run.open(run), job or (), warn)
    typer.echo(
        f"cancelled {len(cancelled)} jobs" + (f": {', '.join(cancelled)}" if cancelled else "")
    )
