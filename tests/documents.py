"""Fenced blocks of a page: commands and snippets, for the tests that run them."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from support import python

__all__ = ["blocks", "commands", "ran"]


def blocks(page: Path, language: str, title: str | None = None) -> list[str]:
    """Return the fenced blocks of one language, with this title if a title is given."""
    about = rf'[^\n]*title="{re.escape(title)}"[^\n]*' if title else r"\b[^\n]*"
    pattern = rf"^```{language}{about}\n(.*?)^```"
    return re.findall(pattern, page.read_text(), re.DOTALL | re.MULTILINE)


def commands(page: Path, languages: str = "(?:sh|console)") -> list[list[str]]:
    """Return the words of every command, in the order of the page."""
    lines: list[str] = []
    for block in blocks(page, languages):
        typed = block.splitlines()
        prompts = block.startswith("$ ")  # the other lines are output
        lines += [one[2:] for one in typed if one.startswith("$ ")] if prompts else typed
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def ran(words: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a page (or ``-c`` and a snippet) in a folder; any exit code is accepted."""
    return python(*([] if words[0] == "-c" else ["-m"]), *words, folder=folder, **variables)
