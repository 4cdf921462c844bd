"""Time the searches of two tables by all algorithms, now and at an earlier commit.

Run: ``python scripts/bench/search_compare.py [--against COMMIT]``. Both search the same two tables
with the same seeds. The first table is one run of each cell of `nb201` (CIFAR-10, validation); the
second contains other runs of these cells. Each version has separate processes, which alternate.
``same_results`` says whether all final accuracies are equal bit by bit. OMP_NUM_THREADS limits the
threads of BLAS; without it BLAS uses its default.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from results_file import PROJECT, SCALE, publish, scaled, unpacked

MEASURES = ("rebench/search", "rebench/tables")
BEFORE = "c4a7e93"
REPEATS = scaled(20, 2)
ROUNDS = 3 if SCALE == 1 else 1
TABLE = PROJECT / "rebench" / "tables" / "released" / "tables" / "nb201.parquet"


def contest(code: str) -> None:
    """Search with the packages in the folder `code`, and print times and results."""
    sys.path.insert(0, code)
    import numpy as np

    from rebench.search import Fidelity, SearchSpace, SearchTable
    from rebench.search.comparison import run_all
    from rebench.search.run import Budget
    from rebench.tables import open_table

    runs = open_table(TABLE).group("cifar10-valid", "x-valid", 200).column("accuracy")
    # Move the missing runs (NaN) of each cell to the end; every cell has at least two runs.
    packed = np.take_along_axis(runs, np.argsort(np.isnan(runs), axis=1, kind="stable"), axis=1)
    tables = [
        SearchTable(
            name=name,
            dataset="cifar10",
            space=SearchSpace.whole(),
            fidelities=(Fidelity(epochs=200, accuracy=accuracy),),
            tested=accuracy,
            searched_on="validation",
            reported="validation",
        )
        for name, accuracy in (("runs", packed[:, :3]), ("second runs", packed[:, 1:2]))
    ]
    start, before = time.perf_counter(), time.process_time()
    budget = Budget(evaluations=150)
    found = [run_all(table, budget=budget, repeats=REPEATS) for table in tables]
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - before
    finals = [each.finals.tobytes() for each in found]
    digest = hashlib.sha256(b"".join(finals)).hexdigest()
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "results": digest}))


def measured(code: Path) -> dict[str, float | str]:
    """Return the output of `contest`, in a separate process."""
    command = [sys.executable, __file__, "--contest", str(code)]
    printed = subprocess.check_output(command, text=True)
    answer: dict[str, float | str] = json.loads(printed.splitlines()[-1])
    return answer


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default=BEFORE, help="an earlier commit")
    parser.add_argument("--contest", metavar="CODE", help="one search with the packages in CODE")
    asked = parser.parse_args()
    if asked.contest:
        contest(asked.contest)
        return
    codes = (unpacked(asked.against), PROJECT)
    rounds = [[measured(code) for code in codes] for _ in range(ROUNDS)]
    same = len({answer["results"] for pair in rounds for answer in pair}) == 1
    rows = [
        {
            "code": name,
            **{
                unit: statistics.median(float(pair[place][unit]) for pair in rounds)
                for unit in ("seconds", "cpu_s")
            },
        }
        for place, name in enumerate((asked.against, "now"))
    ]
    ratio = rows[0]["seconds"] / rows[1]["seconds"]
    print(f"{ratio:.1f} times as fast; same results: {same}")
    publish(
        "search_compare", rows, algorithms=7, repeats=REPEATS, same_results=same,
        omp_num_threads=os.environ.get("OMP_NUM_THREADS"),
    )  # fmt: skip


if __name__ == "__main__":
    main()
