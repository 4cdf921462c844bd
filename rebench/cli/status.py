"""``rebench status``: what became of every trial of a run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from rebench.cli import completion
from rebench.cli.output import AsJson, Value, console, print_rows, say, warn
from rebench.errors import UnknownNameError

if TYPE_CHECKING:
    from rebench.launch.status import Status, TrialStatus

__all__ = ["RunArgument", "Screen", "app"]

app = typer.Typer()

RunArgument = Annotated[Path, typer.Argument(help="The run's folder.")]
_SHOWN = 20
# In SLURM's reasons for jobs that wait until somebody changes something.
_NEVER = (
    *("PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "BadConstraints"),
    *("DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS", "JobHeld", "held"),
)


@app.command("status")
def status_command(
    run: RunArgument,
    trials: Annotated[bool, typer.Option("--trials", help="List every trial.")] = False,
    state: Annotated[
        str | None,
        typer.Option(help="List the trials in this state.", autocompletion=completion.states),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is done, running, queued, failed (and why), lost and pending."""
    from rebench.launch.run import Run
    from rebench.launch.status import STATES, status_of

    if state is not None and state not in STATES:
        raise UnknownNameError("state", state, STATES)
    status = status_of(Run.open(run))
    for warning in status.warnings:
        warn(warning)
    if trials or state:
        rows = [row for row in _rows(status) if state in (None, row["state"])]
        print_rows(rows, as_json=as_json)
        return
    _print_status(status, as_json=as_json)


def _print_status(status: Status, *, as_json: bool) -> None:
    """Print the totals, and a first look at what runs and what went wrong."""
    totals: dict[str, Value] = {**status.counts}
    totals["trials"] = len(status.trials)
    totals["device hours"] = round(status.train_hours, 4)
    if status.hours_by_type:
        totals = {"type": "all", **totals}
    if as_json or status.extra_records:
        totals["records of other trials"] = status.extra_records
    rows = [totals, *({**dict.fromkeys(totals), **row} for row in _rows_by_type(status))]
    print_rows(rows, as_json=as_json)
    if as_json:
        return
    running = [row for row in _rows(status) if row["state"] == "running"]
    if running:
        print_rows(running[:_SHOWN], as_json=False, title="\nrunning")
    if len(running) > _SHOWN:
        typer.echo(f"and {len(running) - _SHOWN} more: rebench status RUN --state running")
    _print_reasons(status)


def _rows_by_type(status: Status) -> list[dict[str, Value]]:
    return [
        {
            "type": name,
            **counts,
            "trials": sum(counts.values()),
            "device hours": round(status.hours_by_type[name], 4),
        }
        for name, counts in status.by_type.items()
    ]


class Screen:
    """Shows a status anew: on a terminal whole, elsewhere in a line where it has changed."""

    def __init__(self) -> None:
        self._console = console()
        self._last = ""

    def show(self, status: Status) -> None:
        """Show the latest status."""
        line = ", ".join(f"{count} {state}" for state, count in status.counts.items() if count)
        if self._console.is_terminal:
            self._console.clear()
            _print_status(status, as_json=False)
        elif line != self._last:
            typer.echo(line)
        self._last = line

    def exit(self, status: Status) -> NoReturn:
        """End the command of a run that is over: with 1 if trials are missing."""
        missing = sum(status.counts[state] for state in ("failed", "lost", "pending"))
        raise typer.Exit(1 if missing else 0)


def _print_reasons(status: Status) -> None:
    """Print why trials failed or were lost, most frequent first, with one example's log."""
    troubles = [one for one in status.trials.values() if _is_trouble(one)]
    reasons = Counter((one.state, one.reason) for one in troubles)
    for (state, reason), count in reasons.most_common(_SHOWN):
        example = next(one for one in troubles if (one.state, one.reason) == (state, reason))
        say(f"\n{count} {state}: {reason}", style="red" if state in ("failed", "lost") else "")
        typer.echo(
            f"  such as {example.trial_id}, job {example.job or '-'}, log {example.log or '-'}"
        )
    if any(one.state == "queued" for one in troubles):
        typer.echo("\nqueued trials with such a reason do not start by themselves")
    if any(one.state == "lost" for one in troubles):
        typer.echo("\nlost trials are sent again by `rebench retry RUN`, or by submitting again")
    if any(one.state == "failed" for one in troubles):
        typer.echo("\nfailed trials are sent again by `rebench retry RUN --failed`")


def _is_trouble(trial: TrialStatus) -> bool:
    waits_in_vain = trial.state == "queued" and any(word in trial.reason for word in _NEVER)
    return trial.state in ("failed", "lost") or waits_in_vain


def _rows(status: Status) -> list[dict[str, Value]]:
    typed = bool(status.hours_by_type)
    return [
        {
            "trial": one.trial_id,
            **({"type": one.type_name or None} if typed else {}),
            "state": one.state,
            "job": one.job or None,
            "epoch": one.epoch,
            "epochs": one.epochs,
            "eta_s": None if one.eta_s is None else round(one.eta_s),
            "reason": one.reason or None,
            "log": one.log or None,
        }
        for one in status.trials.values()
    ]
