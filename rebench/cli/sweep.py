"""``rebench sweep``: write a sweep's file, list its trials, estimate its cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from rebench.cli import options
from rebench.cli.groups import App
from rebench.cli.output import print_rows, progress, warn
from rebench.errors import ClusterError, InputError

if TYPE_CHECKING:
    import pandas as pd

    from rebench.launch.expansion import Expansion
    from rebench.launch.forecast import Forecast
    from rebench.runs import SweepSpec, TimeModel

__all__ = ["app"]

Machine = Literal["laptop", "slurm-gpu", "slurm-cpu"]

# Files for users of a cluster to adapt.
_TEMPLATES: Final = Path(__file__).parents[1] / "launch" / "cluster_files"

# Minimum number of epochs of a sweep -> released table with a similar seed tau.
_NOISE: Final = {100: "nb201", 33: "mini-60ep@fixed", 1: "mini@fixed"}

app = App(help="Write the file of a sweep (a list of trainings), or estimate its cost.")


@app.command()
def new(
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("sweep.toml"),
    machine: Annotated[
        Machine | None,
        typer.Option(
            "--for",
            metavar="MACHINE",
            help="laptop, slurm-gpu or slurm-cpu (default: laptop, except where SLURM answers).",
        ),
    ] = None,
    cluster_files: Annotated[
        bool,
        typer.Option(
            "--cluster-files",
            help="Also write one-job.sbatch (a sweep in one job) and rebench.def (a container).",
        ),
    ] = False,
    force: options.Force = False,
) -> None:
    """Write an example of a sweep file, with comments.

    The example for a laptop trains 144 small networks in about a minute on two cores.

    Example: rebench sweep new --for laptop --out my-sweep.toml
    """
    from rebench.runs import example

    machine = machine or _machine()
    texts = {out: example(machine)}
    if cluster_files:
        texts |= {out.parent / file.name: file.read_text() for file in sorted(_TEMPLATES.iterdir())}
    for path in texts:
        options.refuse_existing(path, force)
    out.parent.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text)
        typer.echo(f"wrote {path}")
    typer.echo(f"the example is for: {machine} (--for names another machine)")
    typer.echo(f"next: rebench sweep plan {out}")


@app.command()
def plan(
    spec: Annotated[Path, typer.Argument(metavar="SWEEP", help="TOML file of the sweep.")],
    run: options.RunOption = None,
    assignments: options.Settings = None,
    trials: Annotated[
        bool, typer.Option("--trials", help="List every trial, instead of the cost.")
    ] = False,
    past: options.PastRun = None,
    trials_per_job: options.TrialsPerJob = None,
    devices: Annotated[
        str,
        typer.Option(
            metavar="N,N,...", help="Estimate the days that the sweep takes on N devices."
        ),
    ] = "8,64,512",
    power: Annotated[
        float | None,
        typer.Option(
            metavar="DROP",
            help="Simulate tables, and print the probability that `rebench rank` detects a drop of"
            " this size (seed tau minus tau; p at this K, adjusted for all default K). It is"
            " printed with the device hours, for the numbers of cells and seeds in the sweep, and"
            " for up to 16 times the number of cells.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="With --power: table with several seeds. The simulation uses its accuracies and"
            " its variation between seeds (default: a table of rebench with a similar number of"
            " epochs).",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Count the trainings (trials) of a sweep; estimate its jobs and time.

    Example: rebench sweep plan my-sweep.toml --set stack=3
    """
    from rebench.launch.devices import visible_gpus
    from rebench.launch.expansion import expand_spec
    from rebench.launch.forecast import forecast, times_for
    from rebench.runs import FinishedTrials, read_spec, with_settings
    from rebench.runs.folder import run_folder

    if like is not None and power is None:
        raise InputError("--like is the table of --power: add --power DROP, such as --power 0.1")
    counts = _counts(devices)
    sweep = with_settings(read_spec(spec), options.settings_of(assignments))
    expansion = expand_spec(sweep)
    if trials:
        print_rows(_trials(expansion), as_json=as_json)
        return
    folder = run_folder(spec, run)
    here = False
    if _machine() == "laptop":
        gpu = "" if visible_gpus() else sweep.slurm.gpu_setting
        here = not gpu
        if gpu:
            warn(
                f"the sweep needs a GPU ({gpu}), and this machine has no GPU: `rebench submit"
                " --cluster local` will fail here. Train on a cluster that has GPUs, or remove"
                " the setting and set slurm.device = 'cpu'"
            )
    times = times_for(sweep, expansion.trials, run=folder, past=past, here=here)
    if power is not None:
        all_of_it = forecast(sweep, expansion.trials, times, (), here=here)
        with progress("Simulating"):
            rows = _power(sweep, expansion, power, like)
        hours = rows["runs"] * all_of_it.device_s / all_of_it.trials / 3600
        rows.insert(len(rows.columns) - 1, "device hours", hours.round(3))
        noise = rows["noise of"].iloc[0]
        title = (
            f"with the noise of {noise}; power: ±0.10 or less (95 % CI of the simulation);"
            f" device hours from {times.source}"
        )
        print_rows(rows if as_json else rows.drop(columns="noise of"), as_json=as_json, title=title)
        return
    done = FinishedTrials(folder).refresh().trials
    told = forecast(
        sweep,
        expansion.trials,
        times,
        done,
        trials_per_job=trials_per_job,
        devices=counts,
        here=here,
    )
    sections = _sections(sweep, expansion, told, times)
    if as_json:
        every = {name: value for row in sections.values() for name, value in row.items()}
        print_rows([every], as_json=True)
    else:
        for title, row in sections.items():
            print_rows([row], as_json=False, title=title)
    for reason, count in Counter(expansion.skipped).most_common(20):
        warn(f"skipped {count}: {reason}")
    if over := told.too_long:
        warn(
            f"{over} jobs are estimated to be longer than the time limit (time_min ="
            f" {sweep.slurm.time_min}): SLURM ends them, and they are requeued and resumed"
        )


def _machine() -> Machine:
    """Return the example for this machine: for SLURM if it answers, else for a laptop."""
    from rebench.launch.clusters.commands import has_gpus

    try:
        return "slurm-gpu" if has_gpus() else "slurm-cpu"
    except ClusterError:
        return "laptop"


def _power(sweep: SweepSpec, expansion: Expansion, drop: float, like: str | None) -> pd.DataFrame:
    """Return the power of the sweep among the top K %, for its cells and for more cells."""
    import pandas as pd

    from rebench.analysis import read_accuracies
    from rebench.analysis.conditions import FEWEST_SEEDS
    from rebench.analysis.power import power
    from rebench.tables import open_table

    like = like or _noise_table(sweep.epochs)
    table = open_table(like)
    held = {key.dataset for key in table.keys if table.has_runs(key)}
    named = (name for name in (*sweep.datasets, "cifar10", "cifar10-valid") if name in held)
    usual = table.default_key(next(named, None))
    lengths = {key.epochs for key in table.keys if key[:2] == usual[:2]}
    key = usual._replace(epochs=min(lengths, key=lambda epochs: abs(epochs - sweep.epochs)))
    if not 0.5 <= key.epochs / sweep.epochs <= 2:
        warn(
            f"the seed tau is from {like} after {key.epochs} epochs, but the sweep trains "
            f"{sweep.epochs}. The power can be very different; --like TABLE takes the seed tau of "
            "another table (a run, a file or a released table with two seeds or more)"
        )
    known = read_accuracies(table.frame(**key._asdict()), **key._asdict(), name=like)
    cells = len({trial.cell for trial in expansion.trials})
    frames = []
    seeds = sorted({len(sweep.seeds), max(len(sweep.seeds), FEWEST_SEEDS)})
    for percent in (100.0, 50.0, 20.0, 10.0):
        sizes = [cells * times for times in (1, 2, 4, 8, 16) if cells * times * percent >= 1000]
        try:
            with progress(f"power, top {percent:g} %"):
                frame = power(known, drop, cells=sizes, seeds=seeds, top_percent=percent, rng=0)
        except InputError as error:
            if percent == 100:
                raise
            warn(f"top {percent:g} %: no power from {like} ({key.epochs} epochs): {error}")
            continue
        frame.insert(0, "top %", percent)
        frames.append(frame)
    warn("the simulated recipe changes all cells: if yours changes few, the power is lower")
    if len(sweep.seeds) < FEWEST_SEEDS:
        warn(
            f"train {FEWEST_SEEDS} seeds: with fewer, `rebench rank` cannot test whether the "
            "effect of a seed differs between cells"
        )
    return pd.concat(frames, ignore_index=True).round(2).assign(**{"noise of": f"{like}, {key}"})


def _noise_table(epochs: int) -> str:
    """Return the released table with the nearest number of epochs."""
    from rebench.tables.opening import released_tables

    held = released_tables()
    fitting = (name for start, name in _NOISE.items() if start <= epochs)
    return next(name for name in fitting if name.partition("@")[0] in held)


def _trials(expansion: Expansion) -> list[dict[str, object]]:
    return [
        {
            "trial": trial.trial_id,
            "index": trial.cell.index,
            "dataset": trial.dataset,
            "recipe": trial.recipe.label,
            "seed": trial.seed,
            "epochs": trial.epochs,
        }
        for trial in expansion.trials
    ]


def _sections(
    sweep: SweepSpec, expansion: Expansion, planned: Forecast, times: TimeModel
) -> dict[str, dict[str, object]]:
    """Return the counts of a sweep and the forecast of its cost, by the title of their table."""
    content = {
        "trials": planned.trials,
        "already done": planned.done,
        "cells": len({trial.cell for trial in expansion.trials}),
        "data sets": len(sweep.datasets),
        "recipes": len(sweep.recipes),
        "seeds": len(sweep.seeds),
        "duplicates": expansion.duplicates,
        "skipped": sum(expansion.skipped.values()),
        "spec hash": sweep.digest,
    }
    hours = planned.device_s / 3600
    interval = {}
    if times.within > 1:
        interval["fewest device hours"] = round(hours / times.within, 3)
        interval["most device hours"] = round(hours * times.within, 3)
    cost = {
        "jobs": planned.jobs,
        "trials per job": round(planned.trials_per_job, 1),
        "longest job (min)": round(planned.longest_job_s / 60, 2),
        "device hours": round(hours, 3),
        **interval,
        "wall hours": round(planned.wall_s / 3600, 3),
        "times from": times.source,
    }
    days: dict[str, object] = {
        f"days on {count} devices": round(seconds / 86400, 6)
        for count, seconds in planned.wall_s_on.items()
    }
    return {"": content, "\ncost": cost, "\nif no device is ever idle": days}


def _counts(devices: str) -> list[int]:
    counts = [int(text) if text.strip().isdecimal() else 0 for text in devices.split(",")]
    if not all(counts):
        raise InputError(
            f"--devices takes whole numbers above 0, separated by commas, such as 8,64,512, got"
            f" {devices!r}"
        )
    return counts
