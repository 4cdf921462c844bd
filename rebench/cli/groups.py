"""Commands and groups of commands, with the format of their help and the parsing of values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.models import CommandFunctionType as F

__all__ = ["App", "CommandGroup"]


class _Reader(NamedTuple):
    """Parser of command-line values that needs no pydantic for texts and default values.

    Typer parses every value with pydantic. The import of pydantic takes a third of a short command.
    """

    of_typer: Callable[[], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        if param.type_descriptor.annotation in (str, list[str]) or value == param.default:
            return list(value) if many else value
        return self.of_typer().coerce(value, param=param, ctx=ctx)


class _Argument(TyperArgument):
    def get_runtime_param(self) -> Any:
        return _Reader(super().get_runtime_param)


class _Option(TyperOption):
    def get_runtime_param(self) -> Any:
        return _Reader(super().get_runtime_param)


def _light(params: list[Any]) -> list[Any]:
    """Give parameters the classes above; Typer has no setting for this."""
    for param in params:
        param.__class__ = _Option if isinstance(param, TyperOption) else _Argument
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _light(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """Group that lists its commands by panel, with the complete first sentence of each help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of typer, with the classes above."""
        return _light(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands for help; Typer's version cuts sentences and has no panels."""
        commands: Any = map(self.commands.get, self.list_commands(ctx))
        for panel, listed in itertools.groupby(commands, lambda one: one.rich_help_panel):
            with formatter.section(panel or "Commands"):
                formatter.write_dl([(one.name, one.help.partition("\n\n")[0]) for one in listed])


class App(typer.Typer):
    """Command or group of commands, with help as plain text of at most 80 columns."""

    def __init__(self, **settings: Any) -> None:
        usual: dict[str, Any] = {
            "cls": CommandGroup,
            "add_completion": False,
            "no_args_is_help": True,
        }
        super().__init__(**usual | settings, rich_markup_mode=None, pretty_exceptions_enable=False)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """Register a function as a command, as Typer does."""
        return super().command(name, cls=_Command, **settings)
