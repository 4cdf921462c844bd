"""Groups of commands: unknown names are answered by those that there are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from rebench.errors import UnknownNameError

__all__ = ["Group", "built", "group"]


class Group(TyperGroup):
    """A group of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant; an unknown one is an error that names those there are."""
        known = self.list_commands(ctx)
        if not ctx.resilient_parsing and args[0] not in known and not args[0].startswith("-"):
            inside = [] if ctx.parent is None else [ctx.info_name]
            raise UnknownNameError(" ".join([*inside, "command"]), args[0], known)
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        """Parameters that pydantic does not read."""
        return _spared(super().get_params(ctx))


def group(text: str) -> typer.Typer:
    """A group of commands, such as ``rebench table``, described by `text`."""
    return typer.Typer(cls=Group, add_completion=False, no_args_is_help=True, help=text)


def built(app: typer.Typer) -> Any:
    """The command or group of an app: help in paragraphs, values read lightly."""
    command = typer.main.get_command(app)
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = _in_paragraphs(each.help or "")
        get_params = each.get_params
        each.get_params = functools.partial(lambda read, ctx: _spared(read(ctx)), get_params)
    return command


def _spared(params: Any) -> Any:
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
