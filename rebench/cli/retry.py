"""``rebench retry``: send what a run still lacks, from the sweep that the run itself holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebench.cli.options import takes
from rebench.cli.status import RunArgument
from rebench.cli.submit import send
from rebench.cli.sweep_options import Sending, settings
from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.launch.submit import Order
    from rebench.sweep import Expansion, SweepSpec

__all__ = ["app", "as_before"]

app = typer.Typer()


@app.command()
@takes(settings=settings, how=Sending)
def retry(
    run: RunArgument,
    failed: Annotated[
        bool, typer.Option("--failed", "--retry-failed", help="Send failed trials as well.")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option(help="slurm, local or debug (default: as last time).")
    ] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of data sets (default: as last time).")
    ] = None,
    *,
    how: Sending,
    settings: Mapping[str, Any],
) -> None:
    """Send a run's trials that are lost or were never sent, asked for as when last submitted.

    It is `rebench submit` without the sweep's file. Options given here stay for the next time.
    """
    sweep, expansion, order = as_before(
        run,
        settings,
        cluster=cluster,
        past=how.past,
        data_root=data_root,
        trials_per_job=how.trials_per_job,
        retry_failed=failed,
        preflight=not how.no_preflight,
        trust_folder=how.trust_folder,
    )
    send(run, sweep, expansion, order, how)


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
    from rebench.launch.calibration import times_from
    from rebench.launch.journal import Journal
    from rebench.launch.run import Run
    from rebench.launch.submit import Order
    from rebench.sweep import GUESS, Expansion, with_settings

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
