"""``rebench retry``: send what a run still lacks, from the sweep that the run itself holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rebench.cli.output import AsJson
from rebench.cli.status import RunArgument
from rebench.cli.submit import send
from rebench.cli.sweep_options import (
    DryRun,
    EveryS,
    KeepGoing,
    NoPreflight,
    PastRun,
    TrialsPerJob,
    TrustFolder,
    takes_settings,
)
from rebench.errors import InputError
from rebench.launch.calibration import times_from
from rebench.launch.journal import Journal
from rebench.launch.run import Run
from rebench.launch.submit import Order
from rebench.sweep import GUESS, Expansion, SweepSpec, with_settings

__all__ = ["app", "as_before"]

app = typer.Typer()


@app.command()
@takes_settings
def retry(
    run: RunArgument,
    settings: Mapping[str, Any],
    failed: Annotated[
        bool, typer.Option("--failed", "--retry-failed", help="Send failed trials as well.")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option(help="slurm, local or debug (default: as last time).")
    ] = None,
    past: PastRun = None,
    dry_run: DryRun = False,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of data sets (default: as last time).")
    ] = None,
    trials_per_job: TrialsPerJob = None,
    trust_folder: TrustFolder = False,
    no_preflight: NoPreflight = False,
    keep_going: KeepGoing = False,
    every_s: EveryS = 10.0,
    as_json: AsJson = False,
) -> None:
    """Send a run's trials that are lost or were never sent, asked for as when last submitted.

    It is `rebench submit` without the sweep's file. Options given here stay for the next time.
    """
    sweep, expansion, order = as_before(
        run,
        settings,
        cluster=cluster,
        past=past,
        data_root=data_root,
        trials_per_job=trials_per_job,
        retry_failed=failed,
        preflight=not no_preflight,
        trust_folder=trust_folder,
    )
    again_s = every_s if keep_going else None
    send(run, sweep, expansion, order, dry_run=dry_run, as_json=as_json, again_s=again_s)


def as_before(
    run: Path,
    settings: Mapping[str, Any],
    *,
    cluster: str | None = None,
    past: Path | None = None,
    data_root: Path | None = None,
    trust_folder: bool = False,
    **rest: Any,
) -> tuple[SweepSpec, Expansion, Order]:
    """Return what a run holds to be sent as when it was last submitted, but for what is given."""
    opened = Run.open(run)
    last = Journal(opened.folder).last()
    stored = opened.spec(trust_folder=trust_folder)
    if last is None or stored is None:
        raise InputError(f"nothing was ever submitted to {run}: use `rebench submit`")
    sweep = with_settings(stored, settings)
    if sweep.digest != stored.digest:
        raise InputError(
            "a retry sends the trials that the run has: keys of slurm alone can be set; to train"
            " something else, change the sweep's file and use `rebench submit`"
        )
    expansion = Expansion(trials=tuple(opened.trials().values()), skipped=(), duplicates=0)
    order = Order(
        cluster=cluster or last.cluster,
        times=times_from(past, sweep, expansion, calibrate=False) or GUESS,
        data_root=str(data_root.absolute()) if data_root else last.data_root,
        trust_folder=trust_folder,
        **rest,
    )
    return sweep, expansion, order
