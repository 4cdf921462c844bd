"""How many commands and options there are, and that every one of them explains itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from command_lines import all_commands

from rebench.cli.app import COMMANDS, root

MOST_COMMANDS, MOST_OPTIONS = 30, 80


def options() -> Iterator[str]:
    yield from ("--help", "--version", "--install-completion", "--show-completion")
    for _, command in all_commands():
        yield from (p.opts[0] for p in command.params if p.param_type_name == "option")


def test_commands_and_options_stay_few():
    assert len(list(all_commands())) <= MOST_COMMANDS
    assert len(set(options())) <= MOST_OPTIONS


def test_an_option_has_one_meaning():
    """What writes is --out, whatever it writes; a flag is nowhere an option with a value."""
    kinds: dict[str, set[bool]] = {}
    for _, command in all_commands():
        for param in command.params:
            if param.param_type_name == "option":
                kinds.setdefault(param.opts[0], set()).add(bool(param.is_flag))
    assert {name for name, flags in kinds.items() if len(flags) > 1} == set()
    assert not {"--figure", "--data", "--quick", "--table", "--tables"} & set(kinds)


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
def test_a_command_has_an_example_that_can_be_typed(name: str):
    from test_docs import problem

    [command] = [command for each, command in all_commands() if each == name]
    [line] = re.findall(r"Example: (rebench .+)", command.help)
    assert line.startswith(f"rebench {name}")
    assert problem(shlex.split(line)[1:]) is None


def test_help_lists_every_command_in_its_panel(capsys, monkeypatch):
    from rebench.cli import main

    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    panels = re.findall(r"─ (Ask|Train|Search|Set up) ─", shown)
    assert panels == ["Ask", "Train", "Search", "Set up"]
    assert all(re.search(rf"│ {name} +{re.escape(command.help)}", shown)
               for name, command in COMMANDS.items())  # fmt: skip
    assert root is not None
