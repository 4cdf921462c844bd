"""Groups of commands, and how what was typed is read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import typer

__all__ = ["built", "group", "spared"]


def group(text: str) -> typer.Typer:
    """A group of commands, such as ``rebench table``, described by `text`."""
    return typer.Typer(add_completion=False, no_args_is_help=True, help=text)


def built(app: typer.Typer) -> Any:
    """The command or group of an app: help in paragraphs, values read lightly."""
    command = typer.main.get_command(app)
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = _in_paragraphs(each.help or "")
        get_params = each.get_params
        each.get_params = functools.partial(lambda read, ctx: spared(read(ctx)), get_params)
    return command


def spared(params: Any) -> Any:
    """Parameters of which texts, and values that were not given, pass as they are.

    Typer itself reads these: loading pydantic takes a tenth of a question's time.
    """
    for param in params:
        if getattr(param, "is_flag", False) and param.default is None:
            param.default = False
        if param.callback is None and "process_value" not in vars(param):
            param.process_value = functools.partial(_process, param, param.process_value)
    return params


def _process(param: Any, process: Callable[..., Any], ctx: Any, value: Any) -> Any:
    if value is None and not param.required:
        return () if param.multiple or param.nargs == -1 else None
    kind = param.type_descriptor.annotation
    if kind == list[str] and value:
        return list(value)
    simple = value is not None and (kind is str or value == param.default)
    return value if simple else process(ctx, value)


def _in_paragraphs(text: str) -> str:
    """A docstring without the line ends of its source: the screen has its own width."""
    return "\n\n".join(
        part if "\n " in part or "\n-" in part else part.replace("\n", " ")
        for part in inspect.cleandoc(text).split("\n\n")
    )
