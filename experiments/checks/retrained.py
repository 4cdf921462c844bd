"""Compare the trials of a run with the same trials of another run.

Run: ``experiments/checks/retrained.py RUN OTHER``. The trials of both runs are compared in two
groups: the record in RUN says that the code had uncommitted changes, or it does not. For each
group, the script reports how many trials have equal curves, and how far the others are apart.
Trials on the same type of processor are equal. On another type, they differ by rounding, which
should matter less than a change of the seed (`precision.py`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))

from rebench.runs.record import read_record  # noqa: E402 - after the path
from scripts.bench.results_file import CHECKS, publish  # noqa: E402 - after the path


def records(run: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a run by the ids of their trials."""
    lines = [
        line
        for path in (run / "results").glob("*.jsonl")
        for line in path.open("rb")
        if line.strip()
    ]
    return {record["trial_id"]: record for record in map(read_record, lines)}


def compared(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """Compare the learning rates and curves of trials; differences are second minus first."""
    outcomes = [(first["outcome"], second["outcome"]) for first, second in pairs]
    curves = [[outcome["curves"]["ori-test"]["accuracy"] for outcome in two] for two in outcomes]
    losses = [[outcome["curves"]["train"]["loss"][0] for outcome in two] for two in outcomes]
    points = np.array([second[-1] - first[-1] for first, second in curves])
    return {
        "trials": len(pairs),
        "equal": sum(first["curves"] == second["curves"] for first, second in outcomes),
        "equal learning rates": sum(a["learning_rate"] == b["learning_rate"] for a, b in outcomes),
        "points apart": round(float(np.abs(points).mean()), 2),
        "mean difference": round(float(points.mean()), 2),
        "first loss apart": round(float(np.abs(np.diff(losses)).mean()), 4),
    }


def main() -> None:
    """Compare the trials of two runs, and publish the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("other", type=Path)
    asked = parser.parse_args()
    before, after = records(asked.run), records(asked.other)
    rows = []
    for edited in (False, True):
        pairs = [
            (before[name], after[name])
            for name in sorted(before.keys() & after.keys())
            if bool(before[name]["provenance"]["dirty"]) is edited
        ]
        if pairs:
            rows.append({"uncommitted changes": edited, **compared(pairs)})
    publish(f"retrained-{asked.run.name}", rows, folder=CHECKS)


if __name__ == "__main__":
    main()
