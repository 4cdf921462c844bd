"""The root command: a table of all commands. The module of a command is loaded when it runs."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand

from rebench.cli.groups import App, CommandGroup
from rebench.errors import RebenchError
from rebench.machine import search_garbage_rarely
from rebench.version import version

__all__ = ["COMMANDS", "load", "main"]


class Command(NamedTuple):
    """Definition of a command of the root, and its entry in help."""

    function: str
    """``module:function`` or ``module:group``."""
    panel: str
    help: str


ASK, TRAIN, SEARCH, SET_UP = "Ask", "Train", "Search", "Set up"
COMMANDS: Final[dict[str, Command]] = {
    "query": Command("query:query", ASK, "Show the accuracies and the rank of one cell."),
    "rank": Command("rank:rank", ASK, "Compare rankings between recipes and between seeds."),
    "report": Command("rank:report", ASK, "Write the comparisons of `rank` as a page."),
    "explore": Command(
        "explore:explore", ASK, "Write a page that shows every cell of a table as a point."
    ),
    "table": Command("tables:app", ASK, "List, import, download or publish tables of accuracies."),
    "export": Command("tables:export", ASK, "Write a table of accuracies for another program."),
    "cells": Command("cells:app", ASK, "Show cells (architectures) and their statistics."),
    "recipe": Command(
        "recipe:app", ASK, "Show recipes: rules for learning rate and initialisation."
    ),
    "sweep": Command("sweep:app", TRAIN, "Write a sweep file, or estimate the cost of a sweep."),
    "train": Command("train:train", TRAIN, "Train one cell in the foreground."),
    "submit": Command("runs:submit", TRAIN, "Train a sweep on SLURM or on this machine."),
    "status": Command("runs:status", TRAIN, "Count the trials of a run in each state."),
    "watch": Command("runs:watch", TRAIN, "Show the status of a run until the run ends."),
    "logs": Command("runs:logs", TRAIN, "Show the log of a trial."),
    "cancel": Command("runs:cancel", TRAIN, "Cancel the waiting and running jobs of a run."),
    "collect": Command("runs:collect", TRAIN, "Write the results of a run to tables."),
    "search": Command("search:app", SEARCH, "Run and compare NAS algorithms on tables."),
    "doctor": Command("doctor:doctor", SET_UP, "Show installed and missing software."),
    "data": Command("data:app", SET_UP, "List and download image data sets."),
    "demo": Command("demo:demo", SET_UP, "Run a small example of all steps, in minutes."),
}


class LazyGroup(CommandGroup):
    """Group that imports the module of a command only to run it, so that help is fast."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (_, panel, text) in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=text, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else command, rest


def load(name: str) -> Any:
    """Load a command of the root, or a group of commands, with its arguments and options."""
    module, _, attribute = COMMANDS[name].function.partition(":")
    loaded = getattr(importlib.import_module(f"rebench.cli.{module}"), attribute)
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, App()
        loaded.command(name)(function)
    command = typer.main.get_command(loaded)
    command.name = name
    return command


root = App(
    cls=LazyGroup,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Re-train, re-query and re-rank NAS-Bench-201 under any recipe.\n\nA cell is one of the "
    "15,625 architectures of the benchmark. A recipe gives a cell its learning rate and its "
    "initialisation. A table contains accuracies of cells. A sweep is a list of trainings "
    "(trials), and a run is the folder with its results.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rebench {version()}")
        raise typer.Exit


@root.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main(
    arguments: Sequence[str] | None = None, app: typer.Typer | None = None, name: str = "rebench"
) -> int:
    """Run a command line; return the exit code: 0 done, 1 something failed, 2 bad input."""
    search_garbage_rarely()
    _replace_what_cannot_be_written()
    given = list(sys.argv[1:] if arguments is None else arguments)
    complain = _complain_as_json if "--json" in given else _complain
    try:
        code = (app or root)(given, prog_name=name, standalone_mode=False)
    except SystemExit as stop:
        code = stop.code
    except typer.Abort:
        code = complain("stopped: nothing more was done", 1)
    except typer.TyperException as error:
        code = _complain_usage(error, complain)
    except RebenchError as error:
        code = complain(error, error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        code = 0
    except OSError as error:
        # A file without permission, from any place in the program.
        said = f"cannot read or write {error.filename}: {error.strerror}"
        code = complain(said, 2) if error.filename else complain(error, 1)
    except ValueError as error:
        from cells import CellError  # loads numpy

        if not isinstance(error, CellError):
            raise
        code = complain(error, 2)
    return code if isinstance(code, int) else 0


def _replace_what_cannot_be_written() -> None:
    """Prevent errors from closed streams and from characters that a terminal cannot show."""
    # Python has no object for a stream that was closed before the program started.
    nowhere = Path(os.devnull)
    sys.stdout = sys.stdout or nowhere.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _complain_usage(error: Any, complain: Callable[[str, int], int]) -> int:
    """Report a usage error like every other error; without arguments, show help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message())
        return 2
    from rebench.arguments import rule_of

    message = rule_of({"msg": error.format_message().rstrip(".")})
    if getattr(error, "option_name", "")[1:2].isdigit():  # such as `rebench query nb201 -1`
        message += ". An index of a cell is a whole number from 0 to 15624, without a sign"
    command = error.ctx.command_path if getattr(error, "ctx", None) else "rebench"
    return complain(f"{message[:1].lower()}{message[1:]} (see {command} --help)", 2)


def _complain_as_json(error: Exception | str, code: int) -> int:
    line = json.dumps({"error": str(error), "exit_code": code})
    # json does not escape this control character.
    typer.echo(line.replace("\x7f", "\\u007f"), err=True)
    return code


def _complain(error: Exception | str, code: int) -> int:
    from rebench.cli.output import warn  # loads rich

    for line in str(error).splitlines():
        warn(f"rebench: {line}")
    return code
