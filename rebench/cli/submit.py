"""``rebench submit``: send what is pending, now or again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import AsJson, Value, print_rows
from rebench.cli.sweep import PastRun, RunFolder, SpecFile, run_folder
from rebench.launch.calibration import times_from
from rebench.launch.expansion import expand_spec
from rebench.launch.submit import Order, Submitted, render_script, submit
from rebench.sweep import GUESS, SlurmOptions, read_spec, with_options

__all__ = ["app", "print_submitted"]

app = typer.Typer()


@app.command("submit")
def submit_command(
    spec: SpecFile,
    cluster: Annotated[str, typer.Option(help="slurm, local or debug.")] = "slurm",
    run: RunFolder = None,
    past: PastRun = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the sbatch script and send nothing.")
    ] = False,
    accept_change: Annotated[
        bool, typer.Option("--accept-change", help="Go on with a sweep that has changed.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Send failed trials as well.")
    ] = False,
    data_root: Annotated[
        str | None, typer.Option(envvar="REBENCH_DATA", help="Folder of data sets.")
    ] = None,
    trials_per_job: Annotated[
        int | None, typer.Option(min=1, help="Pack by number instead of by time.")
    ] = None,
    partition: Annotated[str | None, typer.Option()] = None,
    account: Annotated[str | None, typer.Option()] = None,
    qos: Annotated[str | None, typer.Option()] = None,
    constraint: Annotated[str | None, typer.Option()] = None,
    exclude: Annotated[str | None, typer.Option(help="Nodes to leave out.")] = None,
    nodelist: Annotated[str | None, typer.Option(help="Nodes to use.")] = None,
    gpus_per_task: Annotated[int | None, typer.Option(min=0)] = None,
    cpus_per_task: Annotated[int | None, typer.Option(min=1)] = None,
    processes_per_job: Annotated[
        int | None, typer.Option(min=1, help="Workers that share a job and its GPUs.")
    ] = None,
    mem_gb: Annotated[float | None, typer.Option()] = None,
    time_min: Annotated[int | None, typer.Option("--time-min", "--time", min=1)] = None,
    signal_delay_s: Annotated[
        int | None, typer.Option(min=1, help="Warning before the time limit.")
    ] = None,
    array_parallelism: Annotated[int | None, typer.Option(min=1, help="Jobs at a time.")] = None,
    max_requeues: Annotated[int | None, typer.Option(min=0)] = None,
    checkpoint_min: Annotated[float | None, typer.Option(help="Minutes between.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    compile_net: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Use torch.compile.")
    ] = None,
    cuda_graphs: Annotated[
        bool | None, typer.Option("--cuda-graphs/--no-cuda-graphs", help="Replay steps on a GPU.")
    ] = None,
    setup: Annotated[
        list[str] | None, typer.Option(help="A shell command before the worker; repeatable.")
    ] = None,
    container_image: Annotated[str | None, typer.Option(help="An Apptainer image.")] = None,
    comment: Annotated[str | None, typer.Option()] = None,
    as_json: AsJson = False,
) -> None:
    """Send every trial that has no record, no live job and no failure; safe to repeat."""
    flags = {name: value for name, value in locals().items() if name in SlurmOptions.model_fields}
    sweep = with_options(read_spec(spec), flags)
    expansion = expand_spec(sweep)
    folder = run_folder(spec, run)
    order = Order(
        cluster=cluster,
        times=times_from(past, sweep, expansion, calibrate=False) or GUESS,
        data_root=data_root and str(Path(data_root).absolute()),
        trials_per_job=trials_per_job,
        retry_failed=retry_failed,
        accept_change=accept_change,
    )
    if dry_run:
        typer.echo(render_script(folder, sweep, expansion, order))
        return
    done = submit(folder, sweep, expansion, order, tell=lambda line: typer.echo(line, err=True))
    print_submitted(done, folder, as_json=as_json)


def print_submitted(done: Submitted, folder: Path, *, as_json: bool) -> None:
    """Print what was sent, what was not, and why."""
    print_rows([_row(done, folder)], as_json=as_json)
    for job, count in done.held.items():
        typer.echo(f"{count} trials are held by job {job}", err=True)
    if done.failed:
        typer.echo(
            f"{done.failed} trials failed before: see `rebench status {folder} --trials`,"
            f" then `rebench retry {folder} --failed`",
            err=True,
        )


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
