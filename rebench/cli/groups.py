"""Groups of commands: unknown names are answered by those that there are."""

from __future__ import annotations

import inspect
from typing import Any

import typer
from typer.core import TyperGroup

from rebench.errors import UnknownNameError

__all__ = ["Group", "group", "in_paragraphs"]


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
        """Parameters whose flags are False, not None, where they are not given.

        None has typer load pydantic, and so much shorter is help without it.
        """
        params = super().get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False) and param.default is None:
                param.default = False
        return params


def group(text: str) -> typer.Typer:
    """A group of commands, such as ``rebench table``, described by `text`."""
    return typer.Typer(cls=Group, add_completion=False, no_args_is_help=True, help=text)


def in_paragraphs(text: str | None) -> str | None:
    """A docstring without the line ends of its source: the screen has its own width."""
    if text is None:
        return None
    return "\n\n".join(
        part if "\n " in part or "\n-" in part else part.replace("\n", " ")
        for part in inspect.cleandoc(text).split("\n\n")
    )
