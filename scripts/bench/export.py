"""Time the exports of a generated table: ``python scripts/bench/export.py [CELLS]``.

Each format is written in a separate process; the limit is three minutes for the whole space.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from results_file import publish, run_python, scaled

MEASURES = ("rebench/nats/export.py", "rebench/nats/naslib.py", "rebench/nats/synetune.py")
FORMATS = {
    "nats": "out",
    "nats one file": "out.pickle.pbz2",
    "nas-bench-201": "out.pth",
    "syne-tune": "out",
    "naslib": "out",
}
LIMIT_S = 180


def written(name: str, cells: int, out: Path) -> dict[str, float]:
    """Write one export of a generated table; return its time and memory."""
    from generated_tables import synthetic_frame

    from rebench.nats import export_naslib, export_nats, export_pth, export_syne_tune
    from rebench.nats.choice import Choice
    from rebench.tables import Table

    frame = synthetic_frame(0, cells=range(cells))
    choice = Choice(published=Table.from_frame(frame, origin="generated"))
    start, work = time.perf_counter(), time.process_time()
    if name.startswith("nats"):
        export_nats(choice, out, one_file=name.endswith("file"))
    else:
        exports = {"nas-bench-201": export_pth, "syne-tune": export_syne_tune}
        exports.get(name, export_naslib)(choice, out)
    files = [out] if out.is_file() else list(out.iterdir())
    return {
        "seconds": time.perf_counter() - start,
        "cpu seconds": time.process_time() - work,
        "memory MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "MB": sum(file.stat().st_size for file in files) / 1e6,
    }


def main() -> None:
    """Time every format and publish the rows."""
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else scaled(15_625, 4)
    rows = []
    for name, file in FORMATS.items():
        with tempfile.TemporaryDirectory() as folder:
            done = run_python(__file__, "write", name, str(cells), str(Path(folder) / file))
        row = json.loads(done.printed)
        rows.append({"format": name, "cells": cells, **row, "limit s": LIMIT_S * cells / 15_625})
        print(rows[-1], flush=True)
    publish("export", rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        print(json.dumps(written(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))))
    else:
        main()
