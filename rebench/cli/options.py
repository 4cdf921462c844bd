"""Options that several commands share, and groups of options as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rebench.analysis.choices import MOST_DRAWS
from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.runs import SweepSpec
    from rebench.tables import Table

__all__ = [
    "CELL_HELP",
    "AgainstDataset",
    "AsJson",
    "BaselineName",
    "CellName",
    "DataRoot",
    "Dataset",
    "Draws",
    "Epochs",
    "Force",
    "OtherName",
    "PastRun",
    "Published",
    "Recipe",
    "RunFolder",
    "RunOption",
    "Seed",
    "Settings",
    "SomeSettings",
    "Split",
    "TableName",
    "TrialsPerJob",
    "TrustFolder",
    "refuse_existing",
    "refuse_unused",
    "settings_of",
    "sweep_of",
    "takes",
]

TABLE_HELP: Final = (
    "Name in `rebench table list`, run folder or file; NAME@RECIPE selects a recipe."
)
CELL_HELP: Final = "Index (0 to 15624), code (such as 3_34_131) or architecture string of a cell."

AgainstDataset = Annotated[
    str | None, typer.Option(help="Data set of OTHER, if it differs from that of BASELINE.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
CellName = Annotated[str, typer.Argument(metavar="CELL", help=CELL_HELP)]
DataRoot = Annotated[
    Path | None, typer.Option(envvar="REBENCH_DATA", help="Folder of the image data sets.")
]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="Data set (default: the only data set of the table, else cifar10, else cifar10-valid, "
        "else the first by name. A data set with one accuracy per seed is preferred to one with "
        "means over seeds only)."
    ),
]
Draws = Annotated[
    int,
    typer.Option(
        min=0, max=MOST_DRAWS, help="Number of bootstrap draws, and of permutations for p-values."
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(min=1, help="Number of epochs of the trainings (default: the largest)."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
PastRun = Annotated[
    Path | None,
    typer.Option("--from", help="Earlier run folder; its records give estimates of times."),
]
Published = Annotated[
    str | None,
    typer.Option(envvar="REBENCH_BENCHMARK", help="Table of published accuracies, such as nb201."),
]
Recipe = Annotated[str | None, typer.Option(help="Recipe to use, if the table has several.")]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder, which `rebench submit` has made.")
]
RunOption = Annotated[
    Path | None, typer.Option("--run", help="Run folder (default: runs/NAME next to NAME.toml).")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random draws.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Value that replaces a key of the sweep file, such as slurm.partition=gpu, or a TOML"
        " file of such values; repeatable.",
    ),
]
SomeSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Value for a key that a sweep file may have, such as skeleton.channels=4, or a TOML"
        " file of such values; repeatable.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="Images on which accuracy was measured (default: ori-test, the whole test set; else "
        "x-test, a half of it; else x-valid, the validation images. A split with one accuracy per "
        "seed is preferred to one with means over seeds only)."
    ),
]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help=TABLE_HELP)]
BaselineName = Annotated[str, typer.Argument(metavar="BASELINE", help=TABLE_HELP)]
OtherName = Annotated[
    str | None,
    typer.Argument(metavar="OTHER", help="Table to compare with BASELINE, in the same forms."),
]
TrialsPerJob = Annotated[
    int | None,
    typer.Option(min=1, help="Number of trials in a job (default: by their estimated times)."),
]
TrustFolder = Annotated[
    bool,
    typer.Option(
        "--trust-folder",
        help="Use spec.json (the sweep of the last submission, in the run folder) even if other "
        "users own this file or can write to it.",
    ),
]


def refuse_existing(path: Path | None, force: bool) -> None:
    """Raise InputError if a path exists, unless `force` is set; None is ignored."""
    if path is not None and not force and (path.exists() or path.is_symlink()):
        raise InputError(f"{path} exists; give another name, or --force to replace it")


def refuse_unused(context: typer.Context, use: str, *names: str) -> None:
    """Raise InputError if parameters were typed that this use of the command would ignore.

    Values of environment variables are ignored without an error.

    Args:
        context: the context of the running command.
        use: what was asked, such as ``--sql``.
        names: the parameters that it ignores, by their names in Python.
    """
    typed = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            option = parameter.param_type_name == "option"
            typed.append(parameter.opts[0] if option else parameter.name.upper())
    if typed:
        them = "it" if len(typed) == 1 else "them"
        raise InputError(f"{use} does not use {' and '.join(typed)}: leave {them} out")


def settings_of(assignments: list[str] | None) -> dict[str, Any]:
    """Return new values for keys of a sweep from the texts of ``--set``."""
    from rebench.runs import parse_setting, read_settings

    settings: dict[str, Any] = {}
    for text in assignments or ():
        is_file = "=" not in text and text.endswith(".toml")
        settings |= read_settings(Path(text)) if is_file else dict([parse_setting(text)])
    return settings


def sweep_of(assignments: list[str] | None, **typed: Any) -> SweepSpec:
    """Return the sweep of a command line without a file: options first, then ``--set``."""
    from rebench.runs import SweepSpec, with_settings

    usual = {"cells": {"indices": [0]}, "datasets": ["cifar10"], "recipes": ["nb201"], "seeds": [0]}
    return with_settings(SweepSpec.model_validate(usual), typed | settings_of(assignments))


def renamed_file(path: str, columns: str, lower_is_better: bool) -> Table:
    """Return the table in a CSV file whose columns have other names."""
    from rebench.tables import Table
    from rebench.tables.foreign import Naming
    from rebench.tables.longfile import TEXTS, read_csv

    file = Path(path)
    if file.suffix not in TEXTS or not file.is_file():
        raise InputError(f"--columns names the columns of {' or '.join(TEXTS)} files, got {path}")
    frame = read_csv(file)
    given: dict[str, Any] = {}
    for ours, theirs in Naming.parse(columns).columns.items():
        if ours == "accuracy":
            given[ours] = list(theirs)
        elif ours in _NAMED:
            [given[ours]] = theirs
        else:
            frame = frame.rename(columns=dict.fromkeys(theirs, ours))
    return Table.from_frame(frame, name=file.stem, lower_is_better=lower_is_better, **given)


# Columns that are arguments of `Table.from_frame`.
_NAMED: Final = ("index", "item", "seed", "dataset", "split", "epochs")


def takes(**shared: Callable[..., object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's named parameter by the options that make its value.

    ``@options.takes(how=Searching)`` on ``def run(how: Searching)`` is a command with the fields of
    `Searching` as options. The body gets a `Searching` made of their values.
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

        # Typer reads these attributes.
        called.__dict__["__signature__"] = own.replace(parameters=parameters)
        called.__annotations__ = {option.name: option.annotation for option in parameters}
        return called

    return decorate
