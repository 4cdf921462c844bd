"""Time the full measurement of every law, and what a kill costs it.

Run: ``python scripts/bench/theory.py [LAW ...]``; laws not named keep their rows. Of each command
at full settings: wall time, and CPU time of all its processes, which the machine's load does not
change. Then the first of them again, killed half-way and resumed: its tables must be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from results_file import RESULTS, publish

PROJECT = Path(__file__).parents[2]
LAWS = ("depth", "dag", "released", "bafu", "speed", "am-mup")


def command(law: str, out: Path, workers: int, quick: bool) -> list[str]:
    """Return the command line that measures a law into a folder."""
    line = [sys.executable, "-m", "rebench", "theory", law, "--workers", str(workers)]
    return [*line, "--out", str(out), *(["--quick"] if quick else [])]


def measured(law: str, out: Path, workers: int, quick: bool) -> dict[str, object]:
    """Measure a law and return its times."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        command(law, out, workers, quick), cwd=PROJECT, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "law": law,
        "wall_min": round((time.perf_counter() - began) / 60, 2),
        "cpu_min": round(cpu / 60, 2),
        "workers": workers,
        "load": round(os.getloadavg()[0], 1),
    }


def kill_and_resume(law: str, whole: Path, workers: int, quick: bool) -> dict[str, object]:
    """Kill a law's measurement half-way, run it again, and compare its tables to `whole`."""
    out = whole / f"killed-{law}"
    shutil.rmtree(out, ignore_errors=True)
    pieces = out / "pieces"
    wanted = piece_count(whole, law)
    with subprocess.Popen(
        command(law, out, workers, quick), cwd=PROJECT, stdout=subprocess.DEVNULL
    ) as process:
        while len(list(pieces.glob("*.parquet"))) < wanted // 2 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    kept = len(list(pieces.glob("*.parquet")))
    row = measured(law, out, workers, quick)
    tables = sorted(path.name for path in whole.glob(f"{law}-*.csv"))
    same = all((out / name).read_bytes() == (whole / name).read_bytes() for name in tables)
    return {**row, "law": f"{law}, resumed", "kept": f"{kept} of {wanted}", "same_tables": same}


def piece_count(folder: Path, law: str) -> int:
    """Return how many pieces a law has; only its own kinds are looked for."""
    kinds = {"depth": ("depth-terms", "depth-widths")}
    return sum(len(list((folder / "pieces").glob(f"{kind}-*.parquet"))) for kind in kinds[law])


def main() -> None:
    """Measure what is asked for and publish all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("laws", nargs="*", choices=(*LAWS, []), help="all if none is named")
    parser.add_argument("--out", type=Path, required=True, help="emptied of what is measured")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    laws = asked.laws or list(LAWS)
    rows = []
    for law in laws:
        rows.append(measured(law, asked.out, asked.workers, asked.quick))
        print(rows[-1], file=sys.stderr)
    if "depth" in laws:
        rows.append(kill_and_resume("depth", asked.out, asked.workers, asked.quick))
    name = "theory-quick" if asked.quick else "theory"
    kept = RESULTS / f"{name}.json"
    before = json.loads(kept.read_text())["rows"] if kept.is_file() else []
    new = {str(row["law"]) for row in rows}
    rows += [row for row in before if row["law"] not in new]
    publish(name, rows, bar="all laws in 30 minutes on 2 cores")


if __name__ == "__main__":
    main()
