"""Numbers, names, defaults and help of commands and options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from command_lines import all_commands

from rebench.cli import main
from rebench.cli.app import COMMANDS

MOST_COMMANDS, MOST_OPTIONS = 30, 80
# Option, least, most, default: commands.
NUMBERS = {
    ("--epochs", 1, None, None): "query rank report explore table-ingest export",
    ("--epochs", 1, None, 4): "demo",
    ("--epochs", 1, 100_000, 200): "train",
    ("--longer", 1, None, None): "train",
    (
        "--seed",
        0,
        None,
        0,
    ): "rank report explore recipe-show search-run search-compare search-proxies",
    ("--seed", 0, 2**31 - 1, None): "train",
    ("--jobs", 1, None, None): "table-ingest",
    ("--trials-per-job", 1, None, None): "sweep-plan submit",
    ("--trials", 1, None, None): "submit",
    ("--every-s", 0.2, None, 10): "watch",
    ("-n", 1, None, 50): "logs",
    ("--seconds", 1, None, None): "search-run search-compare",
    ("--evaluations", 1, None, None): "search-run search-compare",
    ("--repeats", 1, None, 1): "search-run",
    ("--repeats", 1, None, 500): "search-compare",
    ("--cells", 4, None, 200): "search-proxies",
    ("--cells", 2, 24, 24): "demo",
    ("--images", 1, None, 64): "search-proxies",
}
# Bounds and default of --draws are defined by the package `analysis`, not by the commands.
ELSEWHERE = {"--draws"}


def options() -> Iterator[str]:
    yield from ("--help", "--version", "--install-completion", "--show-completion")
    for _, command in all_commands():
        yield from (p.opts[0] for p in command.params if p.param_type_name == "option")


def test_commands_and_options_stay_few():
    assert len(list(all_commands())) <= MOST_COMMANDS
    assert len(set(options())) <= MOST_OPTIONS


def test_an_option_has_one_meaning():
    """Files are written by --out, figures also by --figure; a flag never takes a value.

    Except that `status --trials` lists the trials, and `submit --trials N` submits N of them.
    """
    kinds: dict[str, set[bool]] = {}
    for _, command in all_commands():
        for param in command.params:
            if param.param_type_name == "option":
                kinds.setdefault(param.opts[0], set()).add(bool(param.is_flag))
    assert {name for name, flags in kinds.items() if len(flags) > 1} == {"--trials"}
    assert not {"--plot", "--data", "--quick", "--table", "--tables"} & set(kinds)


def test_numbers_have_their_bounds_and_defaults():
    found: dict[tuple[object, ...], list[str]] = {}
    for name, command in all_commands():
        for param in command.params:
            least, most = getattr(param, "min", None), getattr(param, "max", None)
            if (least, most) != (None, None) and param.opts[0] not in ELSEWHERE:
                default = None if param.multiple else param.default
                kind = param.opts[0], least, most, default
                found.setdefault(kind, []).append(name.replace(" ", "-"))
    assert {kind: " ".join(names) for kind, names in found.items()} == NUMBERS


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
def test_a_command_has_an_example_that_can_be_typed(name: str, capsys, monkeypatch):
    from test_docs import problem

    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0
    [command] = [command for each, command in all_commands() if each == name]
    [line] = re.findall(r"Example: (rebench .+)", command.help)
    assert f"  Example: {line}\n" in capsys.readouterr().out
    assert line.startswith(f"rebench {name}")
    assert problem(shlex.split(line)[1:]) is None


@pytest.mark.parametrize("name", ["", "search", "table", *(name for name, _ in all_commands())])
def test_help_leaves_most_of_80_columns_to_sentences(name: str, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 or line.endswith("...")] == []
    assert any("completion" in line for line in lines) is (name == "")
    # Lines that go on with a sentence are indented as far as the sentence.
    assert max(len(line) - len(line.lstrip()) for line in lines) <= 34


def test_help_lists_every_command_in_its_panel(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    panels = re.findall(r"^(\w.*):$", shown, re.MULTILINE)
    assert panels == ["Options", "Ask", "Train", "Search", "Set up"]
    assert all(re.search(rf"^  {name} +{re.escape(command.help)}$", shown, re.MULTILINE)
               for name, command in COMMANDS.items())  # fmt: skip
