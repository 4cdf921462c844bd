"""Run the blocks of tutorials in order, each page in an empty folder, as a reader would.

python docs/tutorials.py [--write] [--shown] PAGE...

A block with a title is a file, a block of commands or Python is run, and a block of text is what
the block before it prints. A block of the language "console" holds commands after "$ ", each
followed by its output. With --write the output replaces the page's text; without, a text
whose first line says something else, numbers aside, is an error. With --shown only those blocks
are run whose output the page shows, and the output must be equal. A line ``...`` matches any number
of lines; such a text is checked and not written. So is a block of the language "console".
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["main"]

PROJECT: Final = Path(__file__).resolve().parent.parent
_BLOCK: Final = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", flags=re.MULTILINE)


def main() -> None:
    """Run every page that is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    parser.add_argument("--write", action="store_true", help="put what is printed into the page")
    parser.add_argument("--shown", action="store_true", help="only what is shown, to the letter")
    chosen = parser.parse_args()
    for page in chosen.pages:
        with tempfile.TemporaryDirectory() as folder:
            told = run_page(page.read_text(), Path(folder), write=chosen.write, shown=chosen.shown)
        if chosen.write:
            page.write_text(told)


def run_page(text: str, folder: Path, *, write: bool, shown: bool = False) -> str:
    """Run a page's blocks in `folder`; return the page with what they print in its texts."""
    printed = ""
    said = str if shown else _shape

    def visit(block: re.Match[str]) -> str:
        nonlocal printed
        language, about, content = block.groups()
        title = re.search(r'title="([^"]+)"', about)
        if (
            shown
            and language not in ("text", "console")
            and not re.match(r"\n\n?```text\n", text[block.end() :])
        ):
            return block[0]
        if title:
            (folder / title[1]).write_text(content)
        elif language == "sh":
            words = [shlex.split(line, comments=True) for line in content.splitlines()]
            printed = "".join(_run(["-m", *one], folder) for one in words if one)
        elif language == "python":
            printed = _run(["-c", content], folder)
        elif language == "console":
            for command, output in _COMMAND.findall(content):
                printed = _run(["-m", *shlex.split(command, comments=True)], folder)
                _compare(output or "...\n", printed, said)
        elif language == "text":
            _compare(content, printed, (lambda _: "") if write else said)
            return block[0] if "...\n" in content else f"```text\n{printed}```"
        return block[0]

    return _BLOCK.sub(visit, text)


def _compare(shown: str, printed: str, said: Callable[[str], str]) -> None:
    if "...\n" in shown:
        parts = (re.escape(part) for part in shown.split("...\n"))
        same = bool(re.fullmatch("(.*\n)*".join(parts), printed))
    else:
        same = said(shown) == said(printed)
    if not same:
        sys.exit(f"the page shows\n{shown}\nand what is printed is\n{printed}")


def _run(words: list[str], folder: Path) -> str:
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1200,
    )
    if done.returncode:
        sys.exit(f"{shlex.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE).strip("\n") + "\n"


def _shape(text: str) -> str:
    """The first line without its numbers, which differ between machines."""
    first = text.strip().splitlines()[:1]
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.]*", "0", "".join(first)))


if __name__ == "__main__":
    main()
