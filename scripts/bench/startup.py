"""Time what commands take before they do anything: ``--help`` of each, beside ``import typer``.

Run: ``python scripts/bench/startup.py [--repeats 5]``. Seconds are medians of a process's user CPU
time: on a machine that others use, wall time says little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from results_file import publish, run_python, scaled


def command_lines() -> list[str]:
    """Every command, as the shell completes them."""
    asked = {"_REBENCH_COMPLETE": "complete_bash", "COMP_WORDS": "rebench ", "COMP_CWORD": "1"}
    offered = subprocess.run(
        [Path(sys.executable).with_name("rebench")],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
    )
    return ["", *offered.stdout.split()]


def user_seconds(*arguments: str, repeats: int) -> float:
    """The median user CPU time of a Python process, after one warm-up."""
    times = [run_python(*arguments).user_s for _ in range(repeats + 1)]
    return statistics.median(times[1:])


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    rows = [
        {"what": f"import {name}", "user_s": user_seconds("-c", f"import {name}", repeats=repeats)}
        for name in ("typer", "typer.rich_utils")
    ]
    rows += [
        {
            "what": f"rebench {line} --help".replace("  ", " "),
            "user_s": user_seconds("-m", "rebench", *line.split(), "--help", repeats=repeats),
        }
        for line in command_lines()[: scaled(100)]
    ]
    publish("startup", rows, repeats=repeats)


if __name__ == "__main__":
    main()
