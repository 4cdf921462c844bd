"""``rebench retry``: send what a run still lacks, from the sweep that the run itself holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import AsJson
from rebench.cli.status import RunArgument
from rebench.cli.submit import print_submitted
from rebench.cli.sweep import PastRun
from rebench.errors import InputError
from rebench.launch.calibration import times_from
from rebench.launch.journal import Journal
from rebench.launch.run import Run
from rebench.launch.submit import Order, submit
from rebench.sweep import GUESS, Expansion, with_options

__all__ = ["app"]

app = typer.Typer()


@app.command()
def retry(
    run: RunArgument,
    failed: Annotated[bool, typer.Option("--failed", help="Send failed trials as well.")] = False,
    cluster: Annotated[
        str | None, typer.Option(help="slurm, local or debug (default: as last time).")
    ] = None,
    past: PastRun = None,
    data_root: Annotated[
        str | None, typer.Option(help="Folder of data sets (default: as last time).")
    ] = None,
    trials_per_job: Annotated[
        int | None, typer.Option(min=1, help="Pack by number instead of by time.")
    ] = None,
    partition: Annotated[str | None, typer.Option()] = None,
    exclude: Annotated[str | None, typer.Option(help="Nodes to leave out.")] = None,
    mem_gb: Annotated[float | None, typer.Option()] = None,
    time_min: Annotated[int | None, typer.Option("--time-min", "--time", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Send a run's trials that are lost or were never sent, asked for as when last submitted.

    It is `rebench submit` without the sweep's file. Options given here stay for the next time.
    """
    opened = Run.open(run)
    last, sweep = Journal(opened.folder).last(), opened.spec()
    if last is None or sweep is None:
        raise InputError(f"nothing was ever submitted to {run}: use `rebench submit`")
    flags = {
        "partition": partition,
        "exclude": exclude,
        "mem_gb": mem_gb,
        "time_min": time_min,
    }
    sweep = with_options(sweep, flags)
    expansion = Expansion(trials=tuple(opened.trials().values()), skipped=(), duplicates=0)
    order = Order(
        cluster=cluster or last.cluster,
        times=times_from(past, sweep, expansion, calibrate=False) or GUESS,
        data_root=str(Path(data_root).absolute()) if data_root else last.data_root,
        trials_per_job=trials_per_job,
        retry_failed=failed,
    )
    done = submit(opened.folder, sweep, expansion, order, lambda line: typer.echo(line, err=True))
    print_submitted(done, run, as_json=as_json)
