"""What commands take: the options of several commands, and groups of options as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebench.analysis.choices import MOST_DRAWS
from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.runs import SweepSpec

__all__ = [
    "AsJson",
    "CellName",
    "DataRoot",
    "Dataset",
    "Draws",
    "Epochs",
    "Force",
    "PastRun",
    "Published",
    "Recipe",
    "RunFolder",
    "RunOption",
    "Seed",
    "Settings",
    "Split",
    "TableName",
    "TrialsPerJob",
    "TrustFolder",
    "refuse_existing",
    "settings_of",
    "sweep_of",
    "takes",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
CellName = Annotated[
    str,
    typer.Argument(metavar="CELL", help="An index, an architecture string or a code."),
]
DataRoot = Annotated[
    Path | None, typer.Option(envvar="REBENCH_DATA", help="Folder of image data sets.")
]
Dataset = Annotated[
    str | None,
    typer.Option(help="Which data set (default: the only one, or cifar10)."),
]
Draws = Annotated[
    int,
    typer.Option(
        min=0, max=MOST_DRAWS, help="Bootstrap draws, and deals of runs for the p-values."
    ),
]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="After how many epochs (default: the most).")
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]
PastRun = Annotated[
    Path | None, typer.Option("--from", help="A run whose records tell how long trials take.")
]
Published = Annotated[
    str | None,
    typer.Option(envvar="REBENCH_BENCHMARK", help="The ingested benchmark, or any other table."),
]
Recipe = Annotated[
    str | None,
    typer.Option(help="Whose trials, where the table holds several recipes."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")]
RunOption = Annotated[
    Path | None,
    typer.Option("--run", help="The run's folder (default: runs/NAME beside the sweep)."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of all random draws.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value for a key of the sweep, such as slurm.partition=gpu, or a TOML file of"
        " such values; repeatable.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(help="Where accuracies are measured (default: ori-test, or what there is)."),
]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A run, a file or a released table; NAME@RECIPE takes one recipe.",
    ),
]
TrialsPerJob = Annotated[int | None, typer.Option(min=1, help="Pack by number instead of by time.")]
TrustFolder = Annotated[
    bool, typer.Option("--trust-folder", help="Run what others could have put into the run.")
]


def refuse_existing(path: Path | None, force: bool) -> None:
    """Refuse to write over a file or folder, unless `force` says so; None is nowhere."""
    if path is not None and not force and (path.exists() or path.is_symlink()):
        raise InputError(f"{path} exists; give another name, or --force to replace it")


def settings_of(assignments: list[str] | None) -> dict[str, Any]:
    """Other values for keys of a sweep, as ``--set`` gives them."""
    from rebench.runs import parse_setting, read_settings

    settings: dict[str, Any] = {}
    for text in assignments or ():
        is_file = "=" not in text and text.endswith(".toml")
        settings |= read_settings(Path(text)) if is_file else dict([parse_setting(text)])
    return settings


def sweep_of(settings: Mapping[str, Any], **typed: Any) -> SweepSpec:
    """The sweep that a command line describes without a file: its options, then other values."""
    from rebench.runs import SweepSpec, with_settings

    usual = {"cells": {"indices": [0]}, "datasets": ["cifar10"], "recipes": ["nb201"], "seeds": [0]}
    return with_settings(SweepSpec.model_validate(usual | typed), settings)


def takes(**shared: Callable[..., object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, where a named parameter stands, the options that make its value.

    ``@options.takes(how=Searching)`` on ``def run(how: Searching)`` is a command with the fields of
    `Searching` as its options; the body is given the `Searching` that they make.
    """
    options = {
        name: inspect.signature(make, eval_str=True).parameters for name, make in shared.items()
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [
            option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in own.parameters.values()
            for option in options.get(parameter.name, {parameter.name: parameter}).values()
        ]

        @functools.wraps(command)
        def called(**given: Any) -> None:
            made = {
                name: make(**{option: given.pop(option) for option in options[name]})
                for name, make in shared.items()
            }
            command(**given, **made)

        # What typer reads.
        called.__dict__["__signature__"] = own.replace(parameters=parameters)
        called.__annotations__ = {option.name: option.annotation for option in parameters}
        return called

    return decorate
