"""Commands and groups of commands, with the format of their help and the parsing of values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType as F

__all__ = ["App", "CommandGroup"]

# Types of the values of options, and their names in help.
_VALUES: Final = {"str": "TEXT", "int": "N", "float": "N", "Path": "PATH"}
# Parts of Typer's help and their replacements. The name of an argument needs no type.
_PLAIN: Final = {
    r"^([^-].*) <.*": r"\1",
    r"(\S+)<=x<=([^];]+)": r"\1 to \2",
    "x>=": "at least ",
}


def _plain(text: str) -> str:
    for theirs, ours in _PLAIN.items():
        text = re.sub(theirs, ours, text)
    return text


class _Named:
    """Command or group that names the values of its options."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of Typer
        for param in params:
            if param.param_type_name == "option" and param.metavar is None:
                kind = param.bare_type().removeprefix("list[").removesuffix("]")
                param.metavar = _VALUES.get(kind)
        return params


class _Command(_Named, TyperCommand):
    """Command whose help describes arguments and ranges of numbers in words."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the lists of arguments and options for help."""
        params = sorted(self.get_params(ctx), key=lambda param: param.param_type_name)
        for kind, listed in itertools.groupby(params, lambda param: param.param_type_name):
            records = filter(None, (param.get_help_record(ctx) for param in listed))
            rows = [(_plain(name), _plain(text)) for name, text in records]
            if kind == "argument":  # the usage line shows which are required
                rows = [(name, text.removesuffix("  [required]")) for name, text in rows]
            with formatter.section(f"{kind.title()}s"):
                formatter.write_dl(rows)


class CommandGroup(_Named, TyperGroup):
    """Group that lists its commands by panel, with the complete first sentence of each help."""

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
