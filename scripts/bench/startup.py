"""Time commands of the command line, compared with ``import pandas``.

Run: ``python scripts/bench/startup.py [--repeats 9]``. Times are CPU seconds of a process, medians
of alternating repeats. On a shared machine wall time is not informative.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from results_file import publish, run_python, scaled

MEASURES = ("rebench", "cells")
IMPORTED = ("pandas", "typer")
# Commands with their limits, in multiples of the import time of pandas.
ASKED = {"query mini 1696": 1.5, "rank mini": 4.0, "doctor": 3.0}


def command_lines() -> list[str]:
    """Return every command, from the completion of the shell."""
    asked = {"_REBENCH_COMPLETE": "complete_bash", "COMP_WORDS": "rebench ", "COMP_CWORD": "1"}
    offered = subprocess.run(
        [Path(sys.executable).with_name("rebench")],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
    )
    return ["", *offered.stdout.split()]


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    lines: dict[str, tuple[str, ...]]
    lines = {f"import {name}": ("-c", f"import {name}") for name in IMPORTED}
    helped = [f"{line} --help".strip() for line in command_lines()[: scaled(100)]]
    lines |= {f"rebench {line}": ("-m", "rebench", *line.split()) for line in [*ASKED, *helped]}
    times: dict[str, list[float]] = {what: [] for what in lines}
    for _ in range(repeats + 1):
        for what, arguments in lines.items():
            times[what].append(run_python(*arguments).cpu_s)
    rows = []
    for what, (_, *took) in times.items():
        ratio = statistics.median(map(float.__truediv__, took, times["import pandas"][1:]))
        most = ASKED.get(what.removeprefix("rebench "))
        rows.append({"what": what, "cpu_s": statistics.median(took), "imports_of_pandas": ratio,
                     "at_most": most})  # fmt: skip
    publish("startup", rows, repeats=repeats)


if __name__ == "__main__":
    main()
