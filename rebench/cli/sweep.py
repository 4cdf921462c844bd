"""``rebench sweep``: write a sweep's spec, list its trials, estimate its cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rebench.cli.options import takes
from rebench.cli.output import AsJson, Force, Value, print_rows, refuse_existing
from rebench.cli.sweep_options import PastRun, SpecFile, TrialsPerJob, settings
from rebench.errors import InputError, RebenchError

__all__ = ["app", "run_folder"]

app = typer.Typer(no_args_is_help=True, help="A sweep's spec, its trials, its cost.")

RunFolder = Annotated[
    Path | None,
    typer.Option("--run", help="The run's folder (default: runs/NAME beside the spec)."),
]


def run_folder(spec: Path, given: Path | None) -> Path:
    """Return where the sweep of a spec runs unless told otherwise."""
    from rebench.launch import session

    return session.run_folder(spec, given)


@app.command()
def new(
    spec: Annotated[Path, typer.Argument(help="The file to write.")] = Path("sweep.toml"),
    force: Force = False,
) -> None:
    """Write a commented example."""
    from rebench.sweep import example

    refuse_existing(spec, force)
    try:
        spec.write_text(example())
    except OSError as error:
        raise RebenchError(f"cannot write {spec}: {error.strerror}") from error
    typer.echo(f"wrote {spec}; next: rebench sweep check {spec}")


@app.command()
@takes(settings=settings)
def check(
    spec: SpecFile,
    trials: Annotated[bool, typer.Option("--trials", help="List every trial.")] = False,
    as_json: AsJson = False,
    *,
    settings: Mapping[str, Any],
) -> None:
    """List the trials of a sweep, its duplicates, and what it skips and why."""
    from rebench.launch.expansion import expand_spec
    from rebench.sweep import read_spec, with_settings

    sweep = with_settings(read_spec(spec), settings)
    expansion = expand_spec(sweep)
    type_of = sweep.slurm.type_of
    if trials:
        rows: list[dict[str, Value]] = [
            {
                "trial": one.trial_id,
                **({"type": type_of(one)} if sweep.slurm.types else {}),
                "index": one.cell.index,
                "dataset": one.dataset,
                "recipe": one.recipe.label,
                "seed": one.seed,
                "epochs": one.epochs,
            }
            for one in expansion.trials
        ]
        print_rows(rows, as_json=as_json)
        return
    totals: dict[str, Value] = {
        **({"type": "all"} if sweep.slurm.types else {}),
        "trials": len(expansion.trials),
        "cells": len({one.cell for one in expansion.trials}),
        "data sets": len(sweep.datasets),
        "recipes": len(sweep.recipes),
        "seeds": len(sweep.seeds),
        "duplicates": expansion.duplicates,
        "skipped": len(expansion.skipped),
        "spec hash": sweep.digest,
    }
    drawn = Counter(map(type_of, expansion.trials)) if sweep.slurm.types else {}
    nothing = dict.fromkeys(totals)
    by_type = [{**nothing, "type": name, "trials": drawn[name]} for name in sweep.slurm.types]
    print_rows([totals, *by_type], as_json=as_json)
    for reason, count in Counter(one.reason for one in expansion.skipped).most_common(20):
        typer.echo(f"skipped {count}: {reason}", err=True)


@app.command()
@takes(settings=settings)
def plan(
    spec: SpecFile,
    run: RunFolder = None,
    past: PastRun = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Time a few short trainings on this machine.")
    ] = False,
    trials_per_job: TrialsPerJob = None,
    devices: Annotated[
        str, typer.Option(metavar="N,N,...", help="On how many devices to say how many days.")
    ] = "8,64,512",
    as_json: AsJson = False,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Estimate what a sweep costs, how it packs into jobs, how long it runs, what it leaves."""
    from rebench.launch.calibration import times_from
    from rebench.launch.expansion import expand_spec
    from rebench.launch.forecast import forecast
    from rebench.store import FinishedTrials
    from rebench.sweep import GUESS, read_spec, with_settings

    counts = _counts(devices)
    sweep = with_settings(read_spec(spec), settings)
    expansion = expand_spec(sweep)
    times = times_from(past, sweep, expansion, calibrate=calibrate) or GUESS
    done = FinishedTrials(run_folder(spec, run)).refresh().trials
    forecasts = forecast(
        sweep, expansion, times, done, trials_per_job=trials_per_job, devices=counts
    )
    named: list[dict[str, Value]] = [
        {"type": one.type_name or "all"} if sweep.slurm.types else {} for one in forecasts
    ]
    costs: list[dict[str, Value]] = [
        {
            "trials": one.trials,
            "already done": one.done,
            "duplicates": None if one.type_name else expansion.duplicates,
            "skipped": None if one.type_name else len(expansion.skipped),
            "jobs": one.jobs,
            "trials per job": round(one.trials_per_job, 1),
            "longest job (min)": round(one.longest_job_s / 60, 2),
            "device hours": round(one.device_s / 3600, 3),
            "wall hours": round(one.wall_s / 3600, 3),
            "times from": times.source,
        }
        for one in forecasts
    ]
    ends: list[dict[str, Value]] = [
        {
            "recipes": list(one.device_s_by_recipe),
            "device hours of each": [
                round(seconds / 3600, 3) for seconds in one.device_s_by_recipe.values()
            ],
            **{
                f"days on {count} devices": round(seconds / 86400, 6)
                for count, seconds in one.wall_s_on.items()
            },
            "disk (GB)": round(one.bytes_on_disk / 1e9, 6),
            "files": one.files,
        }
        for one in forecasts
    ]
    if as_json:
        rows = zip(named, costs, ends, strict=True)
        print_rows([name | cost | end for name, cost, end in rows], as_json=True)
    else:
        print_rows([name | cost for name, cost in zip(named, costs, strict=True)], as_json=False)
        end_rows = [name | end for name, end in zip(named, ends, strict=True)]
        print_rows(end_rows, as_json=False, title="\nwith devices that are never idle")
    if over := forecasts[0].too_long:
        limits = sorted({one.time_min for one in sweep.slurm.by_type.values()})
        limit = f"time_min = {', '.join(map(str, limits))}"
        typer.echo(
            f"{over} jobs hold one trial that is longer than {limit}:"
            " they will be requeued and resumed",
            err=True,
        )


def _counts(devices: str) -> list[int]:
    counts = [int(text) if text.strip().isdecimal() else 0 for text in devices.split(",")]
    if not all(counts):
        raise InputError(f"--devices is whole numbers such as 8,64,512, got {devices!r}")
    return counts
