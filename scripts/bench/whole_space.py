"""Plan and simulate the benchmark's own sweep in the launcher: every cell, 200 epochs.

Run from the project's root: .venv/bin/python scripts/bench/whole_space.py [CELLS] [--from RUN].
Needs Debian's slurm-wlm and munge. The plan covers 15,625 cells (default), three data sets and
three seeds: device hours of two recipes, days on 8, 64 and 512 GPUs. `--from` names a run with
measured times; without it times are estimates. One recipe is submitted to a private SLURM as held
jobs, so nothing trains. On every simulated day 1 % of the jobs are lost, followed by a submission.
Finally every trial gets an artificial record of 200 epochs, and all records are collected.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from launch import fill
from results_file import private_slurm, publish, run_rebench

from rebench.runs import Run

MEASURES = ("rebench/launch", "rebench/runs", "rebench/tables")
DAYS = 5
LOST_A_DAY = 0.01
GPUS = (8, 64, 512)
EPOCHS = 200
SPEC = """
datasets = ["cifar10", "cifar100", "ImageNet16-120"]
recipes = [{recipes}]
seeds = [777, 888, 999]
epochs = {epochs}
[cells]
random = {{ n = {cells}, seed = 0 }}
{classes}
[slurm]
extra = {{ hold = true }}
"""
ONE_OF_EACH = 'classes = "one of each"'


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", type=int, nargs="?", default=15_625)
    parser.add_argument("--from", dest="past", help="a run with measured times")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rebench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        rows = [*_planned(folder, options.cells, options.past), *_launched(folder, options.cells)]
    publish("whole_space", rows, cells=options.cells, days=DAYS, lost_a_day=LOST_A_DAY)


def _spec(folder: Path, cells: int, recipes: Sequence[str], classes: str = "") -> Path:
    path = folder / f"{len(recipes)}{len(classes)}.toml"
    listed = ", ".join(f'"{recipe}"' for recipe in recipes)
    path.write_text(SPEC.format(recipes=listed, epochs=EPOCHS, cells=cells, classes=classes))
    return path


def _planned(folder: Path, cells: int, past: str | None) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    learnt = ["--from", past] if past else []
    on = ["--devices", ",".join(map(str, GPUS))]
    for recipes, classes in (
        (["nb201"], ""),
        (["nb201"], ONE_OF_EACH),
        (["nb201", "topology"], ""),
    ):
        spec = _spec(folder, cells, recipes, classes)
        said = run_rebench("sweep", "plan", str(spec), *learnt, *on, "--json")
        [plan] = json.loads(said.printed)
        what = f"{' and '.join(recipes)}{', a cell of each class' if classes else ''}"
        rows.append({"what": f"{what}: trials", "is": plan["trials"]})
        rows.append({"what": f"{what}: device hours", "is": plan["device_hours"]})
        rows += [
            {"what": f"{what}: days on {n} GPUs", "is": plan[f"days_on_{n}_devices"]} for n in GPUS
        ]
    return rows


def _launched(folder: Path, cells: int) -> list[dict[str, object]]:
    run, spec = folder / "run", _spec(folder, cells, ["nb201"])
    rows: list[dict[str, object]] = []

    def timed(what: str, *arguments: str) -> None:
        took = run_rebench(*arguments)
        rows.append({"what": what, "is": took.cpu_s, "unit": "CPU s", "peak GB": took.peak_gb})

    send = ("submit", str(spec), "--run", str(run), "--no-preflight")
    draw = random.Random(0)  # noqa: S311 - the lost jobs
    with private_slurm(folder / "c"):
        timed("first submit", *send)
        timed("status, all waiting", "status", str(run))
        for day in range(1, DAYS + 1):
            asked = ["squeue", "--noheader", "--array", "--format=%i"]
            queued = subprocess.check_output(asked, text=True).split()
            lost = draw.sample(queued, max(1, round(LOST_A_DAY * len(queued))))
            subprocess.run(["scancel", *lost], check=True)
            timed(f"submit after day {day}, {len(lost)} of {len(queued)} jobs lost", *send)
        timed(f"status, {DAYS} submissions later", "status", str(run))
        files = sum(1 for path in run.rglob("*") if path.is_file())
        rows.append({"what": "files of the run before any record", "is": files})
        subprocess.run(["scancel", "-u", str(os.getuid())], check=True)
    started = time.monotonic()
    fill(run, epochs=EPOCHS)
    shards = [path for path in (run / "results").iterdir() if path.suffix == ".jsonl"]
    rows.append({"what": "records written", "is": time.monotonic() - started, "unit": "s"})
    rows.append({"what": "records", "is": sum(path.stat().st_size for path in shards) / 1e9,
                 "unit": "GB"})  # fmt: skip
    time.sleep(3)  # very recent records would be collected again
    timed("collect", "collect", str(run))
    timed("collect again", "collect", str(run))
    timed("status, all done", "status", str(run))
    tables = sum((run / name).stat().st_size for name in ("results.parquet", "curves.parquet"))
    rows.append({"what": "tables", "is": tables / 1e9, "unit": "GB"})
    cell = next(iter(Run.open(run).trials().values())).cell.index
    timed("query a cell", "query", str(run), str(cell))
    return rows


if __name__ == "__main__":
    main()
