"""Measure time and memory of `sweep plan` for a very large sweep.

Run from the project's root: .venv/bin/python scripts/bench/plan.py [CELLS]. All 15,625 cells, the
default, with 11 learning rates, three data sets and three seeds give 1.5 million trials. Times are
CPU seconds, so other work on the machine has little influence.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from results_file import publish, run_rebench, scaled

MEASURES = ("rebench/launch", "rebench/runs")
RATES = [0.025 * 2 ** (power / 2) for power in range(11)]
SPEC = """
datasets = ["cifar10", "cifar100", "ImageNet16-120"]
recipes = [{recipes}]
seeds = [777, 888, 999]
epochs = 12
[cells]
random = {{ n = {cells}, seed = 0 }}
"""


def main() -> None:
    """Measure and publish."""
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else scaled(15_625, 4)
    recipes = ", ".join(f'"fixed(lr={rate})"' for rate in RATES)
    trials = cells * len(RATES) * 9
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "sweep.toml"
        spec.write_text(SPEC.format(recipes=recipes, cells=cells))
        took = run_rebench("sweep", "plan", str(spec))
        rows += [
            {"what": f"sweep plan, {trials:,} trials (CPU s)", "is": took.cpu_s, "bar": 60.0},
            {"what": f"sweep plan, {trials:,} trials (GB)", "is": took.peak_gb, "bar": 1.0},
        ]
    publish("plan", rows)


if __name__ == "__main__":
    main()
