"""Time queries of a full-size table and of the real ``nats_bench`` package on the same cells.

Run: ``python scripts/bench/query.py``. The table is generated: all 15,625 cells, every data set
and split, 12 and 200 epochs, three seeds at 200. Mean test accuracies are the published values if
REBENCH_SHARED_DATA has them. Every accuracy has rounding noise like the benchmark's, so the file
compresses equally well. The package reads real (or exported) files, linked under the name of every
cell that is queried.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from results_file import median_seconds, publish, run_python, scaled, shared_data

# Shows the speed of the machine.
IMPORT = "import time; t = time.perf_counter(); import pandas; print(time.perf_counter() - t)"
MEASURES = ("rebench/tables", "rebench/nats/api.py", "rebench/nats/files.py")
ALL_CELLS = range(scaled(15_625, 20))
CELLS = scaled(300, 4)
REPEATS = 7
seconds = functools.partial(median_seconds, repeats=REPEATS)


def make_table(path: Path) -> None:
    """Write a table of the benchmark's full size and value distributions."""
    from generated_tables import synthetic_frame

    from rebench.tables import write_table

    frame = synthetic_frame(0, cells=ALL_CELLS)
    frame["accuracy"] += np.random.default_rng(0).normal(0, 3e-9, len(frame))
    frame["accuracy"] = frame["accuracy"].clip(0, 100)
    write_table(path, frame, name="full size", origin="generated")


def make_folder(folder: Path, table: Path) -> str:
    """Make a folder for the package, with a file for each of the first cells."""
    from rebench.nats.choice import Choice
    from rebench.nats.export import export_nats
    from rebench.tables import Table, open_table

    real = shared_data() / "nats-bench" / "NATS-tss-v1_0-3ffb9-simple"
    if real.is_dir():
        source, files = real, ["000000.pickle.pbz2", "000011.pickle.pbz2"]
        kind = "the two real files, linked under the cells' names"
    else:
        few = open_table(table).frame()
        few = Table.from_frame(few[few["index"] < 2], origin="generated")
        source = export_nats(Choice(published=few), folder.with_name("exported")).path
        files = ["000000.pickle.pbz2", "000001.pickle.pbz2"]
        kind = "exported files without curves: smaller than the real ones"
    folder.mkdir()
    (folder / "meta.pickle.pbz2").symlink_to(source / "meta.pickle.pbz2")
    for index in range(CELLS):
        (folder / f"{index:06d}.pickle.pbz2").symlink_to(source / files[index % 2])
    return kind


def reading_seconds(file: Path) -> tuple[float, float]:
    """Return the times to read one cell's file: ours (checked, to columns), the package's."""
    from nats_bench.api_utils import ArchResults, pickle_load

    from rebench.nats.files import CellResults, read_results

    def package() -> None:
        for state in pickle_load(file).values():
            ArchResults.create_from_state_dict(state)

    ours = seconds(lambda: read_results(file.read_bytes(), 0, file.name, CellResults()))
    return ours, seconds(package)


def in_fresh_process(task: str, *arguments: str) -> dict[str, float]:
    """Run one of the tasks below in a separate process and return its output."""
    return json.loads(run_python(__file__, task, *arguments).printed)


def memory_mb() -> float:
    """Return the resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def task_table(path: str) -> dict[str, float]:
    """Query a table, first cold and then warm."""
    from rebench.tables import open_table

    imported_mb = memory_mb()
    start = time.perf_counter()
    table = open_table(path)
    opened = time.perf_counter()
    table.accuracy(17, "cifar100", "x-test")
    first = time.perf_counter()
    table.means("cifar10")
    series = time.perf_counter()
    table.query(17, "ImageNet16-120")
    ranked = time.perf_counter()
    cells = ALL_CELLS[::7]

    def ask(seed: int | None) -> None:
        for index in cells:
            table.accuracy(index, "cifar100", "x-test", seed=seed)

    return {
        "open": opened - start,
        "first_query": first - opened,
        "first_series": series - first,
        "first_rank": ranked - series,
        "query_mean": seconds(lambda: ask(None)) / len(cells),
        "query_seed": seconds(lambda: ask(777)) / len(cells),
        "series": seconds(lambda: table.means("cifar10")),
        "rank": seconds(lambda: table.query(17, "ImageNet16-120").rank),
        "imported_mb": imported_mb,
        "memory_mb": memory_mb(),
    }


def task_api(path: str, kind: str) -> dict[str, float]:
    """Query `CELLS` cells twice, with either package."""
    import random

    random.seed(0)
    if kind == "nats_bench":
        import nats_bench

        imported_mb = memory_mb()
        start = time.perf_counter()
        api = nats_bench.create(path, "tss", fast_mode=True, verbose=False)
    else:
        from rebench.nats import ReBench

        imported_mb = memory_mb()
        start = time.perf_counter()
        api = ReBench(path)
    opened = time.perf_counter()
    api.get_more_info(0, "cifar100", hp="200", is_random=False)
    first = time.perf_counter()

    def ask() -> None:
        for index in range(CELLS):
            api.get_more_info(index, "cifar100", hp="200", is_random=False)

    def simulate() -> None:
        for index in range(CELLS):
            api.simulate_train_eval(index, "cifar100", hp="200")

    ask()
    cold = time.perf_counter()

    def objects() -> None:
        for index in range(CELLS):
            api.query_by_index(index, "cifar100", "200")

    def texts() -> None:
        for index in range(CELLS):
            api.query_info_str_by_arch(index, "200")

    return {
        "open": opened - start,
        "first": first - start,
        "cold": (cold - opened) / CELLS,
        "warm": seconds(ask, repeats=1) / CELLS,
        "simulate": seconds(simulate, repeats=1) / CELLS,
        "object": seconds(objects, repeats=1) / CELLS,
        "text": seconds(texts, repeats=1) / CELLS,
        "imported_mb": imported_mb,
        "memory_mb": memory_mb(),
    }


def median_of(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of every value over processes."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    """Make the table, query both packages alternately, and write the results."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "full.parquet"
        make_table(path)
        folder = Path(scratch) / "simple"
        files = make_folder(folder, path)
        table, ours, real, pandas = [], [], [], []
        for _ in range(3):
            table.append(in_fresh_process("table", str(path)))
            ours.append(in_fresh_process("api", str(path), "rebench"))
            real.append(in_fresh_process("api", str(folder), "nats_bench"))
            pandas.append(float(run_python("-c", IMPORT).printed))
        size_mb = path.stat().st_size / 1e6
        reading = reading_seconds(folder / "000000.pickle.pbz2")
    pandas_s = statistics.median(pandas)
    asked, here, there = median_of(table), median_of(ours), median_of(real)
    rows = [
        _row(f"open a table of {len(ALL_CELLS):,} cells", asked["open"] * 1e3, "ms", 200.0),
        _row("first query after opening", asked["first_query"] * 1e3, "ms", None),
        _row("one query, warm (mean over seeds)", asked["query_mean"] * 1e6, "us", 20.0),
        _row("one query, warm (one seed)", asked["query_seed"] * 1e6, "us", 20.0),
        _row("all test accuracies as a Series, first", asked["first_series"] * 1e3, "ms", 20.0),
        _row("all test accuracies as a Series, warm", asked["series"] * 1e3, "ms", 20.0),
        _row("rank query, first", asked["first_rank"] * 1e3, "ms", None),
        _row("rank query, warm", asked["rank"] * 1e3, "ms", 5.0),
        _row("memory of the process", asked["memory_mb"], "MB", 150.0),
        _row("memory of which imports", asked["imported_mb"], "MB", None),
        _row("file, no curves", size_mb, "MB", 30.0),
        _row("ReBench: open and first query", here["first"] * 1e3, "ms", 30.0),
        _row("for comparison: import pandas", pandas_s * 1e3, "ms", None),
        _row("ReBench memory of the process", here["memory_mb"], "MB", None),
        _row(f"nats_bench memory after {CELLS} cells", there["memory_mb"], "MB", None),
    ]
    for label, mine, package in (
        ("open for the package's calls", here["open"], there["open"]),
        (f"get_more_info, a cell's first query ({CELLS} cells)", here["cold"], there["cold"]),
        ("get_more_info again", here["warm"], there["warm"]),
        ("simulate_train_eval again", here["simulate"], there["simulate"]),
        ("query_by_index again", here["object"], there["object"]),
        ("query_info_str_by_arch again", here["text"], there["text"]),
        ("ingest: read one cell's file", *reading),
    ):
        compared = {"nats_bench": package * 1e6, "times as fast": package / mine}
        rows.append(_row(label, mine * 1e6, "us", None) | compared)
    publish("query", rows, package_files=files, cells=CELLS, processes=3)


def _row(what: str, value: float, unit: str, limit: float | None) -> dict[str, object]:
    met = None if limit is None else bool(value < limit)
    return {"what": what, "value": value, "unit": unit, "limit": limit, "met": met}


if __name__ == "__main__":
    tasks = {"table": task_table, "api": task_api}
    if len(sys.argv) > 1:
        print(json.dumps(tasks[sys.argv[1]](*sys.argv[2:])))
    else:
        main()
