"""What a page says by fenced blocks: commands and snippets, for the tests that run them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from support import PROJECT

__all__ = ["blocks", "commands", "environment", "ran"]


def blocks(page: Path, language: str, title: str | None = None) -> list[str]:
    """Return the fenced blocks of one language; those of one title, if one is given."""
    about = rf'[^\n]*title="{re.escape(title)}"[^\n]*' if title else r"\b[^\n]*"
    pattern = rf"^```{language}{about}\n(.*?)^```"
    return re.findall(pattern, page.read_text(), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """Return the words of every line of every block of commands."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def environment() -> dict[str, str]:
    """Return the environment in which a page's commands run this checkout's code."""
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def ran(words: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a page in a folder, or ``-c`` and a snippet, whatever it ends with."""
    return subprocess.run(
        [sys.executable, *([] if words[0] == "-c" else ["-m"]), *words],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
