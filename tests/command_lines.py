"""Command lines of all commands that print a table, for a folder that `prepare` has filled."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generated_tables import synthetic_frame
from report_tables import published_table, run_table

from rebench.cli import main
from rebench.cli.app import COMMANDS, load
from rebench.tables import write_table

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
device = "cpu"
"""

# On a data set of which all packages know.
PUBLISHED = published_table(60, "cifar100")
CELL = PUBLISHED["index"].iloc[0]
SMALL_NET = "--set skeleton.channels=2 --set skeleton.cells_per_stage=1"
SEARCH = "--algorithm rea --algorithm random --repeats 3 --evaluations 5"
# `run` is a trained run, `table.parquet` a table of three recipes. `published.parquet` is compared
# with both.
LINES = {
    "doctor": "",
    "cells show": "11",
    "recipe list": "",
    "recipe show": f"topology(base_lr=0.3) 11 {SMALL_NET}",
    "data list": "",
    "data list --data-root": "digits --data-root .",
    "train": f"11 --dataset digits --epochs 1 --device cpu {SMALL_NET}",
    "table ingest": "published.csv --out ingested.parquet --force",
    "sweep plan": "sweep.toml",
    "sweep plan --trials": "sweep.toml --trials",
    "submit": "sweep.toml --run run --cluster debug",
    "submit --dry-run": "sweep.toml --run other --cluster debug --dry-run",
    "submit --retry-failed": "run --retry-failed",
    "status": "run",
    "status --trials": "run --trials",
    "watch": "run",
    "cancel": "run",
    "collect": "run",
    "query": "run 11",
    "query --recipe": f"table.parquet {CELL} --recipe topology --published published.parquet",
    "query --all": f"published.parquet {CELL} --all",
    "query --sql": "table.parquet --sql 'SELECT avg(accuracy) AS \"mean of all\" FROM results'",
    "table list": "",
    "table release": "run --out released.parquet --title small --force",
    "rank": "table.parquet --published published.parquet --draws 20",
    "explore": "table.parquet@topology --out explore.html --force --draws 20",
    "rank --across recipes": "table.parquet --across recipes --draws 20",
    "rank --across datasets": "space.parquet --across datasets --draws 20 --top 100,20",
    "export": "nats table.parquet@topology --out nats --force",
    "export --epochs": "syne-tune table.parquet@topology --out syne-tune --epochs 200 --force",
    "search list": "",
    "search run": "random published.parquet --evaluations 5",
    "search compare": f"published.parquet table.parquet@topology {SEARCH}",
    "search proxies": "published.parquet",
}
SLOW = {
    "report": "table.parquet --draws 20 --force",
}
# One downloads; the other needs the log of a job.
ELSEWHERE = {"table fetch", "logs"}


NAMED = {"name": "published", "origin": "generated"}


def words(name: str) -> list[str]:
    """Return the words of a command line, after the commands that it needs have run."""
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
    """Yield the words of every command, and typer's object of the command."""
    for name in COMMANDS:
        made = load(name)
        inner = getattr(made, "commands", None)
        yield from ((f"{name} {one}", it) for one, it in inner.items()) if inner else [(name, made)]
