"""Time the launcher: plan and submit 10,000 trials to a real SLURM, their status, their collection.

Run from the project's root: .venv/bin/python scripts/bench/launch.py. Needs Debian's slurm-wlm and
munge. Jobs are held (`--hold`), so that nothing trains during the measurement. The overhead of the
worker is measured separately, on trained trials.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

from results_file import private_slurm, publish, run_rebench, scaled

from rebench.runs import Curve, Run, ShardWriter

MEASURES = ("rebench/launch", "rebench/runs", "rebench/tables")
# 1,000 cells, 2 recipes, 5 seeds; an array of 200 jobs.
CELLS = scaled(1000, 4)
TRIALS = 10 * CELLS
CHECKSUM_BYTES = 20
SPEC = f"""
datasets = ["digits"]
recipes = ["nb201", "topology-init"]
seeds = [1, 2, 3, 4, 5]
epochs = 12
[cells]
random = {{ n = {CELLS}, seed = 0 }}
[slurm]
extra = {{ hold = true }}
mem_gb = 0.1
"""
SMALL = """
datasets = ["digits"]
recipes = ["nb201"]
seeds = [1, 2, 3, 4, 5]
epochs = 2
[cells]
indices = [765, 6223, 8367, 9454]
[skeleton]
channels = 4
cells_per_stage = 1
[slurm]
device = "cpu"
"""


def main() -> None:
    """Measure and publish."""
    with tempfile.TemporaryDirectory(prefix="rebench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        rows = [*_on_slurm(folder), *_collecting(folder), _overhead(folder)]
    publish("launch", rows)


def _on_slurm(folder: Path) -> list[dict[str, object]]:
    run, spec = str(folder / "run"), folder / "sweep.toml"
    spec.write_text(SPEC)
    with private_slurm(folder / "c"):
        plan = _timed("sweep", "plan", str(spec), "--run", run)
        submit = _timed("submit", str(spec), "--run", run, "--trials-per-job", "50", "--json")
        pending = statistics.median(_timed("status", run) for _ in range(scaled(5)))
        subprocess.run(["scancel", "-u", str(os.getuid())], check=True)
        fill(Path(run), epochs=12)
        done = statistics.median(_timed("status", run) for _ in range(scaled(5)))
    return [
        {"what": f"plan + submit {TRIALS:,} trials", "seconds": plan + submit, "bar": 30.0},
        {"what": f"status, {TRIALS:,} waiting", "seconds": pending, "bar": 1.0},
        {"what": f"status, {TRIALS:,} done (12 epochs)", "seconds": done, "bar": 1.0},
    ]


def _collecting(folder: Path) -> list[dict[str, object]]:
    run, large = folder / "run", folder / "large"
    seconds = statistics.median(_collected(run) for _ in range(scaled(3)))
    lines = [
        line
        for shard in (run / "results").glob("*.jsonl")
        for line in shard.read_text().splitlines()
    ]
    for copy in range(10):
        # Only the id distinguishes these records; nothing recomputes it from the trial.
        bodies = [f"{line[:24]}{copy:x}{line[25:-CHECKSUM_BYTES]}" for line in lines]
        writer = ShardWriter(large / "results", f"w{copy}")
        writer.append([f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}' for body in bodies])
        writer.close()
    size = sum(shard.stat().st_size for shard in (large / "results").glob("*.jsonl"))
    many = statistics.median(_collected(large) for _ in range(scaled(3)))
    larger = f"collect {10 * TRIALS:,} records"
    return [
        {"what": f"collect {TRIALS:,} records", "seconds": seconds, "bar": 2.0},
        {"what": f"{larger} ({size / 1e6:.0f} MB)", "seconds": many, "bar": 5.0},
    ]


def _collected(run: Path) -> float:
    """Return the time of a collection of old records without existing tables."""
    for table in run.glob("*.parquet"):
        table.unlink()
    time.sleep(3)
    return _timed("collect", str(run))


def _overhead(folder: Path) -> dict[str, object]:
    """Return the wall time from the first record to the last, minus the training time."""
    spec, run = folder / "small.toml", folder / "small"
    spec.write_text(SMALL)
    _timed("submit", str(spec), "--run", str(run), "--cluster", "debug")
    records = [
        json.loads(line)
        for shard in (run / "results").glob("*.jsonl")
        for line in shard.read_text().splitlines()
    ]
    ends = [dt.datetime.fromisoformat(one["provenance"]["ended"]) for one in records]
    trained = sum(one["cost"]["seconds"] for one in records[1:])
    wall = (max(ends) - min(ends)).total_seconds()
    overhead = (wall - trained) / (len(records) - 1)
    return {"what": "worker's overhead a trial", "seconds": overhead, "bar": 0.05}


def fill(run: Path, *, epochs: int) -> None:
    """Write an artificial record with `epochs` epochs and two splits for every trial."""
    from made_records import make_record  # on the path by results_file

    draw = random.Random(0)  # noqa: S311 - artificial accuracies
    writers = [ShardWriter(run / "results", f"w{number}") for number in range(50)]
    for number, trial in enumerate(Run.open(run).trials().values()):
        curve = Curve(
            accuracy=[100 * draw.random() for _ in range(epochs)],
            loss=[draw.random() for _ in range(epochs)],
        )
        record = make_record(
            trial=trial.model_dump(),
            outcome={"curves": {"train": curve, "ori-test": curve}},
            started="2026-01-01T00:00:00",
            ended="2026-01-01T00:00:01",
        )
        writers[number % len(writers)].append([record.to_line()])
    for writer in writers:
        writer.close()


def _timed(*arguments: str) -> float:
    return run_rebench(*arguments).seconds


if __name__ == "__main__":
    main()
