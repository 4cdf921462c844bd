"""Every command that prints a table, as it is typed in a folder that `prepare` has filled."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from report_tables import published_table, run_table

from rebench.cli import main
from rebench.cli.app import COMMANDS
from rebench.tables import write_table
from rebench.tables.synthetic import synthetic_frame

SWEEP = """
datasets = ["digits"]
seeds = [777, 888]
epochs = 1
stack = 2
recipes = ["nb201", "topology"]

[cells]
indices = [11, 284]

[skeleton]
channels = 4
cells_per_stage = 1

[protocol]
batch_size = 512

[slurm]
setup = ["export OMP_NUM_THREADS=1"]
device = "cpu"
"""

# Enough for a surrogate, on a data set of which all packages know.
PUBLISHED = published_table(60, "cifar100")
CELL = PUBLISHED["index"].iloc[0]
SMALL_NET = "--channels 2 --cells-per-stage 1 --batch-size 512"
SEARCH = "--algorithm rea --algorithm random --repeats 3 --evaluations 5"
# `run` is a trained run, `table.parquet` a table of three recipes, `published.parquet` what it is
# compared with.
LINES = {
    "doctor": "",
    "cells show": "11",
    "cells stats": "",
    "recipe list": "",
    "recipe show": "topology(base_lr=0.3) 11 --channels 4 --cells-per-stage 1",
    "data list": "",
    "data check": "digits",
    "train": f"11 --dataset digits --epochs 1 --device cpu {SMALL_NET}",
    "benchmark ingest": "published.csv ingested.parquet --force",
    "benchmark show": f"{CELL} --published published.parquet",
    "slurm template": "slurm-files --force",
    "sweep check": "sweep.toml",
    "sweep check --trials": "sweep.toml --trials",
    "sweep plan": "sweep.toml",
    "submit": "sweep.toml --run run --cluster debug",
    "submit --dry-run": "sweep.toml --run other --cluster debug --dry-run",
    "retry": "run",
    "status": "run",
    "status --trials": "run --trials",
    "collect": "run",
    "query": "run 11",
    "query --recipe": f"table.parquet {CELL} --recipe topology --published published.parquet",
    "query --sql": "table.parquet --sql 'SELECT avg(accuracy) AS \"mean of all\" FROM results'",
    "table list": "",
    "table release": "run released.parquet --title small --force",
    "rank": "table.parquet --published published.parquet --draws 20",
    "rank --across recipes": "table.parquet --across recipes --draws 20",
    "rank --across datasets": "space.parquet --across datasets --draws 20 --top 100,20",
    "surface": "surface --draws 20",
    "export nats": "table.parquet@topology nats --force",
    "export nas-bench-201": "table.parquet@topology topology.pth --force",
    "export syne-tune": "table.parquet@topology syne-tune --force",
    "export naslib": "table.parquet@topology naslib --force",
    "search list": "",
    "search run": "random published.parquet --evaluations 5",
    "search compare": f"published.parquet table.parquet@topology --literature {SEARCH}",
    "search proxies": "published.parquet",
    "search surrogate": "table.parquet@topology --out surrogate.parquet --force",
    "search missing": "table.parquet --recipe topology --published space.parquet --algorithm rea "
    "--repeats 3 --evaluations 20",
}
SLOW = {
    "report": "table.parquet --draws 20 --force",
    "theory depth": "--quick --out theory",
    "theory verdicts": "theory",
    "base-lr": "--points 3 --seeds 2 --samples 256 --width 4 --cells-per-stage 1",
    "recipe coordinates": "--widths 16,32 --steps 1 --seeds 1",
}
# It needs a server: tests/surfaces/test_download.py has one. The laws but the first take long, and
# tests/cli/test_cli_theory.py runs them.
ELSEWHERE = {
    "benchmark fetch",
    *(f"theory {law}" for law in ("dag", "released", "cells", "bafu", "speed", "am-mup", "all")),
}


NAMED = {"name": "published", "origin": "generated"}


def words(name: str) -> list[str]:
    """Return what is typed; what it needs has been done then."""
    if name == "theory verdicts":
        assert main(words("theory depth")) == 0
    return [*name.partition(" --")[0].split(), *shlex.split((LINES | SLOW)[name])]


def prepare(folder: Path) -> None:
    """Fill the current folder with a trained run, its sweep and tables."""
    (folder / "sweep.toml").write_text(SWEEP)
    run_table(60, "cifar100").to_parquet(folder / "table.parquet", index=False)
    PUBLISHED.to_csv(folder / "published.csv", index=False)
    cells = sorted(set(PUBLISHED["index"]))
    write_table(folder / "published.parquet", synthetic_frame(0, cells=cells), **NAMED)
    write_table(folder / "space.parquet", synthetic_frame(0, cells=range(300)), **NAMED)
    assert main(["submit", "sweep.toml", "--run", "run", "--cluster", "debug"]) == 0


def all_commands() -> Iterator[tuple[str, Any]]:
    """Yield every command's words and what typer makes of it."""
    for name, (module, _) in COMMANDS.items():
        made = typer.main.get_command(importlib.import_module(module).app)
        inner = getattr(made, "commands", None)
        yield from ((f"{name} {one}", it) for one, it in inner.items()) if inner else [(name, made)]
