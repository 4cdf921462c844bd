"""``rebench submit``: send what is pending, now or again."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebench.cli.options import takes
from rebench.cli.output import Value, as_text, print_rows, warn
from rebench.cli.status import Screen
from rebench.cli.sweep import RunFolder, run_folder
from rebench.cli.sweep_options import Sending, SpecFile, settings

if TYPE_CHECKING:
    from rebench.launch.submit import Order, Preview, Submitted
    from rebench.sweep import Expansion, SweepSpec

__all__ = ["app", "send"]

app = typer.Typer()

_MANY_HOURS = 100.0
# Jobs named where trials are held by live ones.
_LISTED = 5


@app.command("submit")
@takes(settings=settings, how=Sending)
def submit_command(
    spec: SpecFile,
    cluster: Annotated[str, typer.Option(help="slurm, local or debug.")] = "slurm",
    run: RunFolder = None,
    accept_change: Annotated[
        bool, typer.Option("--accept-change", help="Go on with a sweep that has changed.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Send failed trials as well.")
    ] = False,
    data_root: Annotated[
        Path | None, typer.Option(envvar="REBENCH_DATA", help="Folder of data sets.")
    ] = None,
    *,
    how: Sending,
    settings: Mapping[str, Any],
) -> None:
    """Send every trial that has no record, no live job and no failure; safe to repeat."""
    from rebench.launch.calibration import times_from
    from rebench.launch.expansion import expand_spec
    from rebench.launch.submit import Order
    from rebench.sweep import GUESS, read_spec, with_settings

    sweep = with_settings(read_spec(spec), settings)
    expansion = expand_spec(sweep)
    order = Order(
        cluster=cluster,
        times=times_from(how.past, sweep, expansion, calibrate=False) or GUESS,
        data_root=str(data_root.absolute()) if data_root else None,
        trials_per_job=how.trials_per_job,
        retry_failed=retry_failed,
        trust_folder=how.trust_folder,
        preflight=not how.no_preflight,
        accept_change=accept_change,
    )
    send(run_folder(spec, run), sweep, expansion, order, how)


def send(folder: Path, sweep: SweepSpec, expansion: Expansion, order: Order, how: Sending) -> None:
    """Submit, or show the script; print what was sent, what was not, and why.

    If it is to keep going, look and send again until the run is over.
    """
    from rebench.launch.keeping import follow
    from rebench.launch.run import Run
    from rebench.launch.submit import preview, submit

    if how.dry_run:
        _print_previews(preview(folder, sweep, expansion, order), order, as_json=how.as_json)
        return
    # On a terminal, work of days is asked about once.
    ask = _ask if sys.stdin.isatty() and sys.stderr.isatty() else _do_not_ask
    done = submit(folder, sweep, expansion, order, warn, ask)
    print_rows([_row(done, folder)], as_json=how.as_json)
    if done.held:
        jobs = sorted(done.held, key=lambda job: [int(part) for part in re.findall(r"\d+", job)])
        listed = ", ".join([*jobs[:_LISTED], *["..."] * (len(jobs) > _LISTED)])
        typer.echo(f"{sum(done.held.values())} trials are held by live jobs ({listed})", err=True)
    if done.waiting:
        typer.echo(
            f"{done.waiting} trials wait: {done.limit}; submit again later, or let `rebench watch"
            f" {folder} --resubmit` do it",
            err=True,
        )
    if done.failed:
        typer.echo(
            f"{done.failed} trials failed before: see `rebench status {folder} --trials`,"
            f" then `rebench retry {folder} --failed`",
            err=True,
        )
    if how.keep_going:
        again = dataclasses.replace(order, retry_failed=False)
        resend = functools.partial(submit, folder, sweep, expansion, again)
        screen = Screen()
        run = Run.open(folder)
        screen.exit(follow(run, screen.show, every_s=how.every_s, send=resend, tell=warn))


def _ask(device_hours: float) -> None:
    if device_hours > _MANY_HOURS:
        typer.confirm(f"about {device_hours:.0f} device hours: send them?", abort=True, err=True)


def _do_not_ask(device_hours: float) -> None:
    """Send whatever it takes."""


def _print_previews(previews: Sequence[Preview], order: Order, *, as_json: bool) -> None:
    rows: list[dict[str, Value]] = [
        {
            **({"type": shown.type_name} if shown.type_name else {}),
            "trials": shown.trials,
            "jobs": sum(shown.arrays),
            "arrays": list(shown.arrays),
            "device hours": round(shown.device_hours, 3),
            "times from": order.times.source,
            "data root": order.data_root,
        }
        for shown in previews
    ]
    scripts = [shown.script for shown in previews]
    if as_json:
        page = [row | {"script": script} for row, script in zip(rows, scripts, strict=True)]
        print_rows(page, as_json=True)
        return
    for row, script in zip(rows, scripts, strict=True):
        typer.echo(script)
        typer.echo(", ".join(f"{name}: {as_text(value)}" for name, value in row.items()), err=True)


def _row(done: Submitted, folder: Path) -> dict[str, Value]:
    return {
        "sent": done.sent,
        "jobs": len(done.jobs),
        "already done": done.done,
        "held by live jobs": sum(done.held.values()),
        "failed before": done.failed,
        "taken over": done.adopted,
        "run": str(folder),
    }
