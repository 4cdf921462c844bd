"""Modules that commands load: help loads no library that computes.

Seconds differ from machine to machine; `scripts/bench/startup.py` measures them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support import PROJECT

TRAINS_OR_DRAWS = ["torch", "sklearn", "matplotlib"]
COMPUTES = [*TRAINS_OR_DRAWS, "scipy", "pandas", "pyarrow", "numpy"]

# Refuses modules, so that a module loaded by one command is noticed for the next one, too.
REFUSING = """
import contextlib, io, json, sys
from importlib.abc import MetaPathFinder

refused, asked = set(sys.argv[1].split()), set()

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in refused:
            asked.add(name)
            raise ImportError(f"{name} is refused here")

sys.meta_path.insert(0, Refuse())
from rebench.cli.app import COMMANDS, load, main

def run(*arguments):
    asked.clear()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main(arguments)
        except ImportError as error:
            code = str(error)
    return {"code": code, "loads": sorted(asked), "said": said.getvalue()}
"""
HELP = """
found = {"": run("--help")}
for name in COMMANDS:
    found[name] = run(name, "--help")
    if found[name]["code"] == 0:
        command = load(name)
        for part in getattr(command, "commands", ()):
            found[f"{name} {part}"] = run(name, part, "--help")
print(json.dumps(found))
"""
RUN = """
print(json.dumps({line: run(*line.split()) for line in sys.argv[2:]}))
"""


def _answers(program: str, refused: list[str], *lines: str, cwd: Path = PROJECT) -> dict[str, dict]:
    """Return the output of each command in a process that refuses modules."""
    shown = subprocess.run(
        [sys.executable, "-c", REFUSING + program, " ".join(refused), *lines],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


def _refused(answers: dict[str, dict]) -> dict[str, dict]:
    return {line: one for line, one in answers.items() if one["code"] != 0 or one["loads"]}


def test_help_of_every_command_loads_nothing_that_computes():
    answers = _answers(HELP, COMPUTES)
    assert {"", "rank", "search compare", "recipe show", "cells show"} <= set(answers)
    assert _refused(answers) == {}
    assert all("Usage" in one["said"] for one in answers.values())


def test_light_commands_load_nothing_that_trains_or_draws(tmp_path: Path):
    lines = ["recipe list", "sweep new --for slurm-gpu", "sweep plan sweep.toml", "table list"]
    lines += [f"status {PROJECT / 'tests/small_run'}"]
    lines += ["cells show 11", "data list", "query mini 102", "search list"]
    assert _refused(_answers(RUN, TRAINS_OR_DRAWS, *lines, cwd=tmp_path)) == {}


def test_loading_a_refused_module_is_detected():
    answers = _answers(RUN, ["numpy"], "cells show 11")
    assert _refused(answers)["cells show 11"]["loads"] == ["numpy"]
