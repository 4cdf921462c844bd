"""``rebench demo``: the whole pipeline, small, on data that every machine has.

Samples cells, trains them on handwritten digits under three recipes and three seeds through the
real launcher on this machine, collects the records, ranks with the noise baseline and writes the
report. Everything lies in one folder; called again, it goes on where it was.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
import sys
import time
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from rebench.cli.output import progress, say
from rebench.errors import RebenchError

__all__ = ["CELLS", "demo"]

# From the weakest to the best on the benchmark, one of a functional class: cells that a few seconds
# tell apart. All are cells of `experiments/surface`.
CELLS: Final = (
    *(7062, 9619, 6927, 1696, 6169, 10052, 6203, 10364, 3954, 3979, 1739, 11821),
    *(2903, 11865, 11122, 10789, 9393, 12900, 5891, 8420, 102, 15501, 2238, 1335),
)

_SEARCHES: Final = 200


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("demo"),
    cells: Annotated[
        int, typer.Option(min=2, max=len(CELLS), help="How many cells to train.")
    ] = len(CELLS),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = 4,
    draws: Annotated[int, typer.Option(min=20, help="Bootstrap draws and simulated runs.")] = 1000,
) -> None:
    """Train a sample of cells under three recipes, rank them beside seed noise, write a report.

    Interrupt it as you like: the same command goes on where it was.

    Example: rebench demo --out demo
    """
    import numpy as np

    from rebench.analysis import Choices, compare
    from rebench.analysis.study import study
    from rebench.report import write_report
    from rebench.search import Budget
    from rebench.search.comparison import compare as compare_algorithms
    from rebench.tables.opening import read_rows

    begun, trainings = time.monotonic(), cells * 9
    say(
        f"{cells} cells under 3 recipes with 3 seeds: {trainings} trainings on digits under noise, "
        f"epochs: {epochs}.\nEverything goes into {out}/. Stop it as you like (Ctrl-C): the same "
        "command goes on where it was.",
        err=True,
    )
    out.mkdir(parents=True, exist_ok=True)
    spec_file, folder = out / "sweep.toml", out / "run"
    chosen = [CELLS[round(at)] for at in np.linspace(0, len(CELLS) - 1, cells)]
    template = Template(Path(__file__).with_name("demo.toml").read_text("utf-8"))
    spec_file.write_text(template.substitute(n=cells, cells=chosen, epochs=epochs))
    _train(spec_file, folder, trainings)
    asked = study(read_rows(folder), Choices(draws=draws), name=folder)
    written = write_report(asked, out / "report")
    # On the tables of two recipes: do two NAS algorithms rank alike?
    searched = compare_algorithms(
        [f"{folder}@nb201", f"{folder}@topology"],
        ["rea", "random"],
        budget=Budget(evaluations=max(2, cells // 3)),
        repeats=_SEARCHES,
    )
    findings = "\n".join(f"  {reranking}" for reranking in asked.rerankings)
    seconds = time.monotonic() - begun
    best = int(asked.rerankings[-1].top["index"].iloc[0])
    farewell = f"""
Done in {seconds:.0f} s. What was found (tiny networks on digits: a demonstration, no result):
{findings}

Would it matter to a search? Two NAS algorithms on the tables of nb201 and topology:
  {searched}

And on real images, in the table `mini` that comes with the package:
  {compare("mini@fixed", "mini@topology")}

Look at
  {written.html}   the report: open it in a browser, send it to a colleague
  {written.figures}/   its figures as PDF, SVG and PNG, with their data
  {spec_file}   the sweep that was trained; yours will look like it

Type next
  rebench rank {folder}      tau at each top K %, beside what seed noise alone would do
  rebench status {folder}    what became of every trial
  rebench query {folder} {best}    the best cell under every recipe, seed by seed
  rebench sweep new --out my-sweep.toml     a commented sweep of your own; edit it, then
  rebench submit my-sweep.toml --cluster slurm
"""
    for line in farewell.splitlines():
        say(line)


def _train(spec: Path, folder: Path, total: int) -> None:
    """Submit what is pending or lost until every trial has a record; Ctrl-C ends its jobs."""
    from rebench.launch.state import cancel_jobs
    from rebench.launch.status import follow
    from rebench.launch.submit import submit
    from rebench.machine import cores
    from rebench.runs import Run

    each = -(-total // max(1, min(cores(), 8)))
    send = functools.partial(
        submit, spec, folder, cluster="local", trials_per_job=each, accept_change=True
    )
    try:
        with progress("Training", total) as update:
            send()
            status = follow(
                Run.open(folder),
                lambda status: update(completed=status.counts["done"] + status.counts["diverged"]),
                every_s=1.0,
                send=send,
            )
    except KeyboardInterrupt:
        with contextlib.suppress(RebenchError):  # there may be no run yet
            cancel_jobs(Run.open(folder))
        again = shlex.join(["rebench", *sys.argv[1:]])
        typer.echo(f"Stopped. The same command goes on from here: {again}")
        raise typer.Exit(130) from None
    counts = status.counts
    if counts["done"] + counts["diverged"] < total:
        left = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        raise RebenchError(
            f"the demonstration's trials did not all finish ({left}): see `rebench status"
            f" {folder} --trials` and `rebench logs {folder} TRIAL`, then run the same"
            " command again"
        )
