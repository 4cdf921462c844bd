"""Answers of commands and calls, compared with stored answers (``golden/answers.txt``).

`python tests/test_golden.py` stores the answers again. A change of a stored answer needs a reason,
which its commit states.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from support import run_here

FOLDER = Path(__file__).parent / "golden"
COMMANDS = (FOLDER / "commands.txt").read_text().splitlines()
ENVIRONMENT = {
    "HOME": "/home/user",
    "COLUMNS": "100",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "MPLBACKEND": "Agg",
}


def answer(command: str) -> str:
    """Return what a command prints, or the value of a call; numbers have six significant digits."""
    kind, _, rest = command.partition(" ")
    if kind == "python":
        import rebench.errors

        try:
            text = f"{eval(rest, {'rebench': rebench})!r}\n"
        except rebench.errors.RebenchError as error:
            text = f"{type(error).__name__}: {error}\n"
    else:
        done = run_here(*shlex.split(command.replace("|", "'|'")), environment=ENVIRONMENT)
        text = done.stdout + done.stderr
        if done.returncode:
            text += f"exit code {done.returncode}\n"
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", _six_digits, "\n".join(lines))


def _six_digits(number: re.Match[str]) -> str:
    """Return a number with six significant digits: the seventh depends on the machine."""
    return number[0] if len(number[0]) < 8 else f"{float(number[0]):.6g}"


def stored() -> dict[str, str]:
    """Return the stored answer of each command."""
    blocks = (FOLDER / "answers.txt").read_text().split("\n$ ")
    return dict(block.removeprefix("$ ").rstrip("\n").split("\n", 1) for block in blocks)


@pytest.mark.parametrize("command", COMMANDS)
def test_answer_is_the_stored_one(command: str):
    assert answer(command) == stored()[command]


if __name__ == "__main__":
    answers = [f"$ {command}\n{answer(command)}\n" for command in COMMANDS]
    (FOLDER / "answers.txt").write_text("".join(answers))
    sys.stdout.write(f"stored {len(answers)} answers\n")
