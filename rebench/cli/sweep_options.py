"""Options of the commands that take a sweep: any of its keys by ``--set``, six by a flag."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from rebench.sweep import parse_setting, read_settings

__all__ = [
    "DryRun",
    "EveryS",
    "KeepGoing",
    "NoPreflight",
    "PastRun",
    "SpecFile",
    "TrialsPerJob",
    "TrustFolder",
    "takes_settings",
]

SpecFile = Annotated[Path, typer.Argument(help="The sweep's TOML file.")]
PastRun = Annotated[
    Path | None, typer.Option("--from", help="A run whose records tell how long trials take.")
]
TrialsPerJob = Annotated[int | None, typer.Option(min=1, help="Pack by number instead of by time.")]
TrustFolder = Annotated[
    bool, typer.Option("--trust-folder", help="Run what others could have put into the run.")
]
NoPreflight = Annotated[
    bool, typer.Option("--no-preflight", help="Send without looking for data, device and time.")
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Watch, and send again what is left or lost.")
]
EveryS = Annotated[float, typer.Option(min=0.2, help="Seconds between looks.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the script and send nothing.")]

# By the key of a sweep's file: the flag that stands for it.
_FLAGS: Final[dict[str, Any]] = {
    "slurm.partition": Annotated[str | None, typer.Option("--partition")],
    "slurm.account": Annotated[str | None, typer.Option("--account")],
    "slurm.qos": Annotated[str | None, typer.Option("--qos")],
    "slurm.time_min": Annotated[int | None, typer.Option("--time", help="Minutes of a job.")],
    "slurm.gpus_per_task": Annotated[int | None, typer.Option("--gpus", help="GPUs of a job.")],
    "slurm.array_parallelism": Annotated[
        int | None, typer.Option("--array-parallelism", help="Jobs at a time.")
    ],
}
_Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value for a key of the sweep, such as slurm.mem_gb=32; repeatable.",
    ),
]


_Tuned = Annotated[
    Path | None,
    typer.Option("--tuned", help="The file tuned.toml that `rebench gpu check` left."),
]


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--tuned``, ``--set`` and the flags; it gets `settings`, by key."""
    signature = inspect.signature(command, eval_str=True)
    own = [one for name, one in signature.parameters.items() if name != "settings"]
    flags = {key.rpartition(".")[2]: key for key in _FLAGS}
    added = {"tuned": _Tuned, "assignments": _Set} | {
        name: _FLAGS[key] for name, key in flags.items()
    }
    parameters = own + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=what)
        for name, what in added.items()
    ]

    @functools.wraps(command)
    def with_settings(**given: Any) -> None:
        tuned = given.pop("tuned")
        settings = read_settings(tuned) if tuned else {}
        settings |= map(parse_setting, given.pop("assignments") or ())
        said = {key: given.pop(name) for name, key in flags.items()}
        settings |= {key: value for key, value in said.items() if value is not None}
        command(**given, settings=settings)

    # What typer reads.
    with_settings.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # functions have it, stubs do not
    with_settings.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_settings
