"""Time what a very large sweep asks of the login node: `sweep check` and `sweep plan`.

Run from the project's root: .venv/bin/python scripts/bench/plan.py [CELLS]. All 15,625 cells, the
default, under 11 learning rates on three data sets from three seeds are 1.5 million trials. Times
are of the processor, so that other work on the machine does not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from results_file import publish, scaled

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))  # the scripts beside this one would hide packages

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
        seconds, peak_gb = _cost("sweep", "plan", str(spec))
        rows += [
            {"what": f"sweep plan, {trials:,} trials (CPU s)", "is": seconds, "bar": 60.0},
            {"what": f"sweep plan, {trials:,} trials (GB)", "is": peak_gb, "bar": 1.0},
        ]
    publish("plan", rows)


def _cost(*arguments: str) -> tuple[float, float]:
    """Return the processor's seconds and the most memory, in GB, of a rebench command."""
    command = [sys.executable, "-m", "rebench", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=PROJECT)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main()
