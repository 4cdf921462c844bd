"""The commands on a run: submit, status, watch, logs, cancel and collect."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rebench.cli import options
from rebench.cli.output import as_text, print_rows, printable, say, warn
from rebench.errors import InputError, UnknownNameError
from rebench.machine import expanded

if TYPE_CHECKING:
    from rebench.launch.status import Status, TrialStatus
    from rebench.launch.submit import Preview, Submitted

__all__ = ["cancel", "collect", "logs", "status", "submit", "watch"]

_MANY_HOURS: Final = 100.0


def submit(
    context: typer.Context,
    spec: Annotated[
        Path,
        typer.Argument(
            metavar="SWEEP|RUN", help="TOML file of the sweep, or run folder to submit again."
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            help="slurm, local (processes of this machine) or debug (in the foreground). Default: "
            "slurm; for RUN, as last time."
        ),
    ] = None,
    run: options.RunOption = None,
    assignments: options.Settings = None,
    accept_change: Annotated[
        bool, typer.Option("--accept-change", help="Continue a run although its sweep has changed.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Submit failed trials again.")
    ] = False,
    data_root: options.DataRoot = None,
    past: options.PastRun = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the job script; submit nothing.")
    ] = False,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Submit at most N trials; a later submission gets the others."
        ),
    ] = None,
    trials_per_job: options.TrialsPerJob = None,
    trust_folder: options.TrustFolder = False,
    no_preflight: Annotated[
        bool,
        typer.Option(
            "--no-preflight",
            help="Skip the checks of data, time and memory. Also use nodes that were avoided after "
            "failed jobs.",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Submit the trials of a sweep that still have to be trained; safe to repeat.

    A trial is one training, and its record is its stored result. A trial is not submitted if it has
    a record, or if it is part of a waiting or running job. A failed trial is submitted only with
    --retry-failed. RUN is submitted with the settings of its last submission. `rebench watch RUN
    --resubmit` repeats this until no trial is left.

    Example: rebench submit my-sweep.toml --cluster slurm
    """
    from rebench.launch.submit import submit as submit_sweep

    if spec.is_dir() and run is not None:
        raise InputError(f"{spec} is a run itself: leave --run out")
    source = context.get_parameter_source("data_root")
    # A run keeps its own folder of data, even if the environment names another folder.
    typed = not spec.is_dir() or (source is not None and source.name == "COMMANDLINE")
    done = submit_sweep(
        spec,
        run,
        settings=options.settings_of(assignments),
        tell=warn,
        confirm=_ask,
        cluster=cluster,
        past=past,
        data_root=str(expanded(data_root).absolute()) if data_root and typed else None,
        trials=trials,
        trials_per_job=trials_per_job,
        retry_failed=retry_failed,
        trust_folder=trust_folder,
        preflight=not no_preflight,
        accept_change=accept_change,
        dry_run=dry_run,
    )
    _print(done, dry_run=dry_run, as_json=as_json)


def _print(done: Submitted, *, dry_run: bool, as_json: bool) -> None:
    """Print the result of a submission or its preview; exit with 1 if trials wait or failed."""
    if dry_run:
        _print_preview(done.preview, as_json=as_json)
    else:
        print_rows([_row(done)], as_json=as_json)
    if done.held:
        held = sum(done.held.values())
        warn(
            f"{held} trials are held by live jobs (waiting or running) and are not submitted again;"
            f" new options do not change these jobs: see `rebench status {done.run} --trials`"
        )
    if done.failed:
        warn(
            f"{done.failed} trials failed before: see `rebench status {done.run} --state failed`,"
            f" then `rebench submit {done.run} --retry-failed`"
        )
    if done.failed_here:
        warn(
            f"{done.failed_here} of {done.sent} trials failed: see `rebench status {done.run}"
            " --state failed`"
        )
    if done.waiting:
        warn(
            f"{done.waiting} trials wait: {done.limit}; submit again later, or let `rebench watch"
            f" {done.run} --resubmit` do it"
        )
    if done.failed_here or done.waiting:
        raise typer.Exit(1)


def _ask(device_hours: float) -> None:
    """Ask for confirmation on a terminal before a submission of many device hours."""
    if device_hours > _MANY_HOURS and sys.stdin.isatty() and sys.stderr.isatty():
        asked = f"this submission needs about {device_hours:.0f} device hours: submit it?"
        typer.confirm(asked, abort=True, err=True)


def _print_preview(preview: Preview | None, *, as_json: bool) -> None:
    """Print the job script, and a table about the jobs on standard error."""
    rows = []
    if preview is not None:
        row = dataclasses.asdict(preview)
        row["device_hours"] = round(preview.device_hours, 3)
        rows.append(row)
    if as_json:
        print_rows(rows, as_json=True)
    elif preview is None:
        warn("nothing would be sent")
    else:
        del row["script"]
        typer.echo(preview.script)
        with contextlib.redirect_stdout(sys.stderr):
            print_rows(rows, as_json=False)


def _row(done: Submitted) -> dict[str, object]:
    here = Path.cwd()
    return {
        "sent": done.sent,
        "jobs": len(done.jobs),
        "already done": done.done,
        "held by live jobs": sum(done.held.values()),
        "failed before": done.failed,
        "waiting": done.waiting,
        "taken over": done.adopted,
        # The shortest path that works from the current folder.
        "run": str(done.run.relative_to(here) if done.run.is_relative_to(here) else done.run),
    }


_SHOWN: Final = 20
# In SLURM's reasons for jobs that wait until somebody changes something.
_NEVER: Final = (
    *("PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "BadConstraints"),
    *("DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS", "JobHeld", "held"),
)


def status(
    run: options.RunFolder,
    trials: Annotated[bool, typer.Option("--trials", help="List every trial.")] = False,
    state: Annotated[
        str | None,
        typer.Option(
            help="List the trials in this state: done, diverged, running, queued, failed, lost or "
            "pending."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Count the trials in each state, and show why trials failed or were lost.

    A trial is lost if its job ended and stored neither a result nor an error of the trial. A trial
    is pending if no job has been submitted for it. `rebench submit RUN` submits both. If a job
    waits, its trials are queued.

    Example: rebench status runs/my-sweep --state failed
    """
    from rebench.launch.status import STATES
    from rebench.launch.status import status as status_of

    if state is not None and state not in STATES:
        raise UnknownNameError("state", state, STATES)
    seen = status_of(run)
    for warning in seen.warnings:
        warn(warning)
    if trials or state:
        rows = [row for row in _rows(seen) if state in (None, row["state"])]
        print_rows(rows if as_json else map(_in_short, rows), as_json=as_json)
        return
    _print_status(seen, as_json=as_json)


def watch(
    run: options.RunFolder,
    every_s: Annotated[float, typer.Option(min=0.2, help="Seconds between two updates.")] = 10.0,
    resubmit: Annotated[
        bool, typer.Option("--resubmit", help="Submit pending and lost trials until none is left.")
    ] = False,
    trust_folder: options.TrustFolder = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the status of a run until none of its jobs runs or waits.

    The exit code is then 1 if some trials have no record (they failed, were lost or are pending).
    With --json, only the last status is printed.

    Example: rebench watch runs/my-sweep --resubmit
    """
    from rebench.launch.status import follow
    from rebench.launch.submit import submit
    from rebench.runs import Run

    opened = Run.open(run)
    send = None
    if resubmit:
        send = functools.partial(submit, run, trust_folder=trust_folder, tell=warn)
    last = ""

    def show(status: Status) -> None:
        """Print the whole status on a terminal; elsewhere, a line when it has changed."""
        nonlocal last
        if as_json:
            return
        line = ", ".join(f"{count} {state}" for state, count in status.counts.items() if count)
        if sys.stdout.isatty():
            typer.echo("\x1b[2J\x1b[H", nl=False)  # an empty screen
            _print_status(status, as_json=False)
        elif line != last:
            typer.echo(line)
        last = line

    try:
        ended = follow(opened, show, every_s=every_s, send=send, tell=warn)
    except KeyboardInterrupt:
        warn(f"the jobs continue; `rebench cancel {run}` ends them after a checkpoint")
        raise
    if as_json:
        _print_status(ended, as_json=True)
    elif not sys.stdout.isatty():
        _print_reasons(ended)
    counts = ended.counts
    raise typer.Exit(1 if counts["failed"] + counts["lost"] + counts["pending"] else 0)


def logs(
    run: options.RunFolder,
    trial: Annotated[
        str | None,
        typer.Argument(
            metavar="TRIAL",
            help="Id of a trial; `rebench status --trials` lists ids. Default: the newest log.",
        ),
    ] = None,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=1, help="Number of lines of each log.")
    ] = 50,
    as_json: options.AsJson = False,
) -> None:
    """Show the newest log of a run, or the lines of all logs about one trial.

    Example: rebench logs runs/my-sweep
    """
    from rebench.launch.logs import log_of, newest_log
    from rebench.runs import Run

    opened = Run.open(run)
    printed = newest_log(opened) if trial is None else log_of(opened, trial)
    if as_json:
        rows = [part._asdict() | {"lines": part.lines[-lines:]} for part in printed]
        print_rows(rows, as_json=True)
        return
    if not printed:
        typer.echo(f"no job {'with this trial ' if trial else ''}has printed anything yet")
    for part in printed:
        note = "" if part.about_trial else " (no line about this trial: the last lines of its job)"
        typer.echo(printable(f"==> {part.log} <=={note}"))
        typer.echo(printable("\n".join(part.lines[-lines:])))


def cancel(
    run: options.RunFolder,
    job: Annotated[
        list[str] | None,
        typer.Option(help="Number of a job in `rebench status`; repeatable (default: all)."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Cancel the waiting and running jobs of a run; `rebench submit RUN` resumes their trials.

    Example: rebench cancel runs/my-sweep
    """
    from rebench.launch.state import cancel_jobs
    from rebench.runs import Run

    cancelled = cancel_jobs(Run.open(run), job or (), warn)
    if as_json:
        print_rows([{"cancelled": len(cancelled), "jobs": cancelled}], as_json=True)
    else:
        typer.echo(f"cancelled {len(cancelled)} jobs")


def collect(
    run: options.RunFolder,
    partial: Annotated[
        bool, typer.Option("--partial", help="Exit with 0 even if trials have no record.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the records of a run to results.parquet and curves.parquet.

    If some trials have no record, the tables contain the other trials, and the exit code is 1.

    Example: rebench collect runs/my-sweep
    """
    from rebench.tables.collecting import collect as collect_run

    made = collect_run(run)
    for problem in (*made.problems, *made.changed_rules):
        warn(problem)
    if len(made.environments) > 1:
        changed = "the code or its environment changed during the run (column `environment`)"
        warn(f"{changed}: {'; '.join(made.environments)}")
    if len(made.devices) > 1:
        rounding = "trials ran on different devices (column `device`), which round differently"
        warn(f"{rounding}: {'; '.join(made.devices)}")
    row = {
        "trials": made.trials,
        "missing": made.missing,
        "rows": made.rows,
        "equal duplicates": made.duplicates,
        "damaged lines": len(made.damaged),
        "results": made.results,
        "curves": made.curves,
    }
    if (networks := run / "weights").is_dir():
        row["networks"] = sum(1 for _ in networks.glob("*/*.safetensors"))
    print_rows([row], as_json=as_json)
    if made.missing:
        have = f"{made.asked - made.missing} of {made.asked} trials have a record"
        warn(f"{have}; `rebench submit` trains the others, --partial accepts the table as it is")
        raise typer.Exit(0 if partial else 1)


def _print_status(status: Status, *, as_json: bool) -> None:
    """Print the totals, the first running trials, and reasons of failures."""
    totals: dict[str, object] = {**status.counts, "trials": len(status.trials)}
    totals["device hours"] = round(status.train_hours, 4)
    if as_json or status.extra_records:
        totals["records of other trials"] = status.extra_records
    print_rows([totals], as_json=as_json)
    if as_json:
        return
    running = [row for row in _rows(status) if row["state"] == "running"]
    if running:
        print_rows(map(_in_short, running[:_SHOWN]), as_json=False, title="\nrunning")
    if len(running) > _SHOWN:
        typer.echo(f"and {len(running) - _SHOWN} more: rebench status RUN --state running")
    _print_reasons(status)


def _print_reasons(status: Status) -> None:
    """Print why trials failed or were lost, most frequent first, with one example's log."""
    troubles = [trial for trial in status.trials.values() if _is_trouble(trial)]
    reasons = Counter((trial.state, trial.reason) for trial in troubles)
    for (state, reason), count in reasons.most_common(_SHOWN):
        example = next(each for each in troubles if (each.state, each.reason) == (state, reason))
        say(f"\n{count} {state}: {reason}")
        log = example.log if Path(example.log).is_file() else "-"
        such = f"{example.trial_id}, job {example.job or '-'}, log {log}"
        say(f"such as {such}", indent="  ")
    if any(trial.state == "queued" for trial in troubles):
        say(
            "\nqueued trials with this reason do not start without a change: for example `rebench"
            " cancel RUN`, then `rebench submit RUN --set slurm.KEY=VALUE`"
        )
    if any(trial.state == "lost" for trial in troubles):
        typer.echo("\n`rebench submit RUN` submits lost trials again")
    if any("memory" in trial.reason for trial in troubles if trial.state == "lost"):
        typer.echo(
            "\n`rebench submit RUN --set slurm.mem_gb=GB` gives each job GB of memory (if the sweep"
            " sets mem_per_cpu: --set slurm.mem_per_cpu=4G)"
        )
    if any(trial.state == "failed" for trial in troubles):
        typer.echo("\n`rebench submit RUN --retry-failed` submits failed trials again")


def _is_trouble(trial: TrialStatus) -> bool:
    waits_in_vain = trial.state == "queued" and any(word in trial.reason for word in _NEVER)
    return trial.state in ("failed", "lost") or waits_in_vain


def _in_short(row: dict[str, object]) -> dict[str, object]:
    """Return the row of a trial that fits a terminal: its log is `rebench logs RUN TRIAL`."""
    known = row["epoch"] is not None
    epoch = f"{row['epoch']}/{as_text(row['epochs'])}" if known else None
    kept = {name: value for name, value in row.items() if name not in ("epochs", "log")}
    return kept | {"epoch": epoch}


def _rows(status: Status) -> list[dict[str, object]]:
    return [
        {
            "trial": trial.trial_id,
            "state": trial.state,
            "job": trial.job or None,
            "epoch": trial.epoch,
            "epochs": trial.epochs,
            "eta_s": None if trial.eta_s is None else round(trial.eta_s),
            "reason": trial.reason or None,
            "log": trial.log or None,
        }
        for trial in status.trials.values()
    ]
