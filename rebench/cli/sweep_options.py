"""Options of the commands that take a sweep: any of its keys by ``--set``, six by a flag."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rebench.cli.output import AsJson

__all__ = ["EveryS", "PastRun", "Sending", "SpecFile", "TrialsPerJob", "TrustFolder", "settings"]

SpecFile = Annotated[Path, typer.Argument(help="The sweep's TOML file.")]
PastRun = Annotated[
    Path | None, typer.Option("--from", help="A run whose records tell how long trials take.")
]
TrialsPerJob = Annotated[int | None, typer.Option(min=1, help="Pack by number instead of by time.")]
TrustFolder = Annotated[
    bool, typer.Option("--trust-folder", help="Run what others could have put into the run.")
]
EveryS = Annotated[float, typer.Option(min=0.2, help="Seconds between looks.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How jobs are sent and what is shown of it: options of `submit` and of `retry`."""

    past: PastRun = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the script and send nothing.")
    ] = False
    trials_per_job: TrialsPerJob = None
    trust_folder: TrustFolder = False
    no_preflight: Annotated[
        bool, typer.Option("--no-preflight", help="Send without looking for data, device and time.")
    ] = False
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Watch, and send again what is left or lost.")
    ] = False
    every_s: EveryS = 10.0
    as_json: AsJson = False


def settings(
    tuned: Annotated[
        Path | None,
        typer.Option("--tuned", help="The file tuned.toml that `rebench gpu check` left."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Another value for a key of the sweep, such as slurm.mem_gb=32; repeatable.",
        ),
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", help="Where SLURM runs the jobs.")
    ] = None,
    account: Annotated[
        str | None, typer.Option("--account", help="Who pays, in SLURM's accounting.")
    ] = None,
    qos: Annotated[str | None, typer.Option("--qos", help="SLURM's quality of service.")] = None,
    time_min: Annotated[int | None, typer.Option("--time", help="Minutes of a job.")] = None,
    gpus_per_task: Annotated[int | None, typer.Option("--gpus", help="GPUs of a job.")] = None,
    array_parallelism: Annotated[
        int | None, typer.Option("--array-parallelism", help="Jobs at a time.")
    ] = None,
) -> dict[str, Any]:
    """Return other values for keys of the sweep: from a file, then ``--set``, then the flags."""
    from rebench.sweep import parse_setting, read_settings

    flags = {
        "partition": partition,
        "account": account,
        "qos": qos,
        "time_min": time_min,
        "gpus_per_task": gpus_per_task,
        "array_parallelism": array_parallelism,
    }
    chosen = read_settings(tuned) if tuned else {}
    chosen |= map(parse_setting, assignments or ())
    return chosen | {f"slurm.{key}": value for key, value in flags.items() if value is not None}
