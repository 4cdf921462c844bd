"""The root command: which module holds which command, loaded only when it is called."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import rebench
from rebench.errors import RebenchError, UnknownNameError

__all__ = ["COMMANDS", "main"]

# What the parser of arguments raises, by whatever name this version of typer has it.
_WRONG_USAGE: Final[type[Exception]] = typer.BadParameter.__mro__[2]

# name -> (module that defines `app`, one line of help). A module with several commands is a group.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "doctor": ("rebench.cli.doctor", "What is installed, what is missing, how to get it."),
    "docs": ("rebench.cli.docs", "Where the documentation lies."),
    "cells": ("rebench.cli.cells", "Architecture strings and their graph statistics."),
    "recipe": ("rebench.cli.recipe", "Rules for learning rate and init."),
    "base-lr": ("rebench.cli.base_lr", "The base maximal learning rate, by the paper's grid."),
    "data": ("rebench.cli.data", "Data sets: where they are expected, and their state."),
    "train": ("rebench.cli.train", "Trials of one cell in the foreground; prints their records."),
    "gpu": ("rebench.cli.gpu", "Check a GPU: right, fast, and how to use it."),
    "benchmark": ("rebench.cli.benchmark", "The benchmark's published results as one table."),
    "sweep": ("rebench.cli.sweep", "A sweep's spec, its trials, its cost."),
    "submit": ("rebench.cli.submit", "Send the pending trials of a sweep to a cluster."),
    "status": ("rebench.cli.status", "What became of every trial of a run."),
    "watch": ("rebench.cli.watch", "The status of a run, until it is over."),
    "logs": ("rebench.cli.logs", "What was printed about a trial, a cell or a recipe."),
    "cancel": ("rebench.cli.cancel", "End the live jobs of a run."),
    "retry": ("rebench.cli.retry", "Send what a run still lacks, without the sweep's file."),
    "slurm": ("rebench.cli.slurm", "Files to adapt for a SLURM cluster."),
    "collect": ("rebench.cli.collect", "The records of a run to tables."),
    "query": ("rebench.cli.query", "One cell of a run or table, re-trained beside published."),
    "table": ("rebench.cli.table", "Tables that come with the package, and how to make one."),
    "rank": ("rebench.cli.rank", "How far recipes move the ranking, beside seed noise."),
    "surface": ("rebench.cli.surface", "What cells' own learning rates gain, and what rules miss."),
    "report": ("rebench.cli.report", "One self-contained page about a run."),
    "export": ("rebench.cli.export", "A run's results for other programs."),
    "search": ("rebench.cli.search", "NAS algorithms replayed on any table."),
    "theory": ("rebench.cli.theory", "The laws behind the recipes, measured beside the papers."),
    "demo": ("rebench.cli.demo", "All of it, small, on embedded data, in minutes."),
}


class Group(TyperGroup):
    """A group whose flags are False where they are not given.

    None, their default, typer has pydantic turn into None; so much shorter is help without it.
    """

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False) and param.default is None:
                param.default = False
        return params


class LazyGroup(Group):
    """A group that imports a command's module only to run it, so that help stays instant."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - typer's signature
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not ctx.resilient_parsing and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UnknownNameError("command", args[0], COMMANDS)
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            app = importlib.import_module(COMMANDS[name][0]).app
            app.info.cls = Group
            app._add_completion = False  # noqa: SLF001 - the root's own options, once, are enough
            command = typer.main.get_command(app)
            command.name = name
            for one in (command, *getattr(command, "commands", {}).values()):
                one.help = _in_paragraphs(one.help)
        return name, command, rest


def _in_paragraphs(text: str | None) -> str | None:
    """Return a docstring without the line ends of its source: the screen has its own width."""
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        one if "\n " in one or "\n-" in one else one.replace("\n", " ") for one in paragraphs
    )


root = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Re-train, re-query and re-rank NAS-Bench-201 under any recipe.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rebench {rebench.__version__}")
        raise typer.Exit


@root.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done, 1 something failed, 2 bad input."""
    try:
        code = root(list(arguments) if arguments is not None else None, standalone_mode=False)
    except SystemExit as stop:
        code = stop.code
    except typer.Abort:
        code = _complain("stopped: nothing more was done", 1)
    except _WRONG_USAGE as error:
        code = _complain_usage(error)
    except RebenchError as error:
        code = _complain(error, error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        code = 0
    except OSError as error:
        # A file that may not be read or written, wherever that came up.
        code = _complain(error, 1)
    except ValueError as error:
        from cells import CellError  # loads numpy

        if not isinstance(error, CellError):
            raise
        code = _complain(error, 2)
    return code if isinstance(code, int) else 0


def _complain_usage(error: Any) -> int:
    """Say what is wrong with what was typed, as of every error; where nothing was, show help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    message = error.format_message().rstrip(".")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "rebench"
    return _complain(f"{message[:1].lower()}{message[1:]} (see {command} --help)", 2)


def _complain(error: Exception | str, code: int) -> int:
    from rebench.cli.output import warn  # loads what draws tables

    warn(f"rebench: {error}")
    return code
