"""The root command: which function is which command, loaded only when it is called."""

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

from rebench.cli.groups import App, Group
from rebench.errors import RebenchError
from rebench.machine import search_garbage_rarely
from rebench.version import version

__all__ = ["COMMANDS", "load", "main"]


class Command(NamedTuple):
    """Where a command of the root is defined, and how help lists it."""

    function: str
    """A module and its function, or its group of commands."""
    panel: str
    help: str


ASK, TRAIN, SEARCH, SET_UP = "Ask", "Train", "Search", "Set up"
COMMANDS: Final[dict[str, Command]] = {
    "query": Command("query:query", ASK, "One cell under every recipe, or in two tables."),
    "rank": Command("rank:rank", ASK, "How far recipes move the ranking, beside seed noise."),
    "report": Command("rank:report", ASK, "One self-contained page about a run."),
    "table": Command("tables:app", ASK, "Tables: released, ingested, fetched."),
    "export": Command("tables:export", ASK, "A table for other programs."),
    "cells": Command("cells:app", ASK, "Architectures and their graph statistics."),
    "recipe": Command("recipe:app", ASK, "Rules for learning rate and init."),
    "sweep": Command("sweep:app", TRAIN, "A sweep's file, its trials, its cost."),
    "train": Command("train:train", TRAIN, "Trials of one cell, in the foreground."),
    "submit": Command("runs:submit", TRAIN, "Send the pending trials of a sweep to a cluster."),
    "status": Command("runs:status", TRAIN, "What became of every trial of a run."),
    "watch": Command("runs:watch", TRAIN, "The status of a run, until it is over."),
    "logs": Command("runs:logs", TRAIN, "What was printed about a trial."),
    "cancel": Command("runs:cancel", TRAIN, "End the live jobs of a run."),
    "collect": Command("runs:collect", TRAIN, "The records of a run to tables."),
    "search": Command("search:app", SEARCH, "NAS algorithms on any table."),
    "doctor": Command("doctor:doctor", SET_UP, "What is installed, what is missing."),
    "data": Command("data:app", SET_UP, "Image data sets: where they lie, how to get them."),
    "demo": Command("demo:demo", SET_UP, "All of it, small, on embedded data, in minutes."),
}


class LazyGroup(Group):
    """A group that imports a command's module only to run it, so that help stays instant."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (_, panel, text) in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=text, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else command, rest


def load(name: str) -> Any:
    """A command of the root, or a group of commands, with its arguments and options."""
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
    help="Re-train, re-query and re-rank NAS-Bench-201 under any recipe.",
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
        # A file that may not be read or written, wherever that came up.
        said = f"cannot read or write {error.filename}: {error.strerror}"
        code = complain(said, 2) if error.filename else complain(error, 1)
    except ValueError as error:
        from cells import CellError  # loads numpy

        if not isinstance(error, CellError):
            raise
        code = complain(error, 2)
    return code if isinstance(code, int) else 0


def _replace_what_cannot_be_written() -> None:
    """See to it that a closed stream, or a character that a terminal lacks, stops nothing."""
    # Python has no object for a stream that was closed before it began.
    nowhere = Path(os.devnull)
    sys.stdout = sys.stdout or nowhere.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _complain_usage(error: Any, complain: Callable[[str, int], int]) -> int:
    """Say what is wrong with what was typed, as of every error; where nothing was, show help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message())
        return 2
    from rebench.runs import rule_of  # loads pydantic

    message = rule_of({"msg": error.format_message().rstrip(".")})
    command = error.ctx.command_path if getattr(error, "ctx", None) else "rebench"
    return complain(f"{message[:1].lower()}{message[1:]} (see {command} --help)", 2)


def _complain_as_json(error: Exception | str, code: int) -> int:
    line = json.dumps({"error": str(error), "exit_code": code})
    # Of control characters, json leaves this one as it is.
    typer.echo(line.replace("\x7f", "\\u007f"), err=True)
    return code


def _complain(error: Exception | str, code: int) -> int:
    from rebench.cli.output import warn  # loads what draws tables

    for line in str(error).splitlines():
        warn(f"rebench: {line}")
    return code
