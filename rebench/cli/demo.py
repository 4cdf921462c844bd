"""``rebench demo``: the whole pipeline, small, on data that every machine has.

The demo samples cells and trains them on handwritten digits under three recipes and three seeds. It
uses the real launcher on this machine. Then it collects the records, ranks the cells with the seed
baseline and writes the report. All files are in one folder; the same command resumes.
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
from rebench.errors import InputError, RebenchError

__all__ = ["CELLS", "demo"]

# From the weakest to the best on the benchmark, one cell per functional class. A few seconds of
# training separate these cells. All are cells of `experiments/surface`.
CELLS: Final = (
    *(7062, 9619, 6927, 1696, 6169, 10052, 6203, 10364, 3954, 3979, 1739, 11821),
    *(2903, 11865, 11122, 10789, 9393, 12900, 5891, 8420, 102, 15501, 2238, 1335),
)

_SEARCHES: Final = 200


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all output.")] = Path("demo"),
    cells: Annotated[
        int, typer.Option(min=2, max=len(CELLS), help="Number of cells to train.")
    ] = len(CELLS),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = 4,
    draws: Annotated[int, typer.Option(min=20, help="Number of bootstrap draws.")] = 1000,
) -> None:
    """Train a sample of cells under three recipes, rank them, write a report.

    You can stop with Ctrl-C; the same command resumes.

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
        f"{cells} cells under 3 recipes with 3 seeds: {trainings} trainings on digits with noise, "
        f"epochs: {epochs}.\nOutput folder: {out}/. You can stop with Ctrl-C; the same command "
        "resumes.",
        err=True,
    )
    out.mkdir(parents=True, exist_ok=True)
    spec_file, folder = out / "sweep.toml", out / "run"
    chosen = [CELLS[round(at)] for at in np.linspace(0, len(CELLS) - 1, cells)]
    template = Template(Path(__file__).with_name("demo.toml").read_text("utf-8"))
    begins = template.template.partition("$")[0]
    kept = spec_file.read_text("utf-8", "replace") if spec_file.is_file() else ""
    if any(out.iterdir()) and not kept.startswith(begins):
        raise InputError(f"{out} contains other files; give --out a new folder")
    spec_file.write_text(template.substitute(n=cells, cells=chosen, epochs=epochs))
    _train(spec_file, folder, trainings)
    asked = study(read_rows(folder), Choices(draws=draws), name=folder)
    written = write_report(asked, out / "report")
    # Compare the ranking of two NAS algorithms between the tables of two recipes.
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
Done in {seconds:.0f} s. Findings (tiny networks on digits: a demonstration, not a result):
{findings}

Does the change matter to a search? Two NAS algorithms on the tables of nb201 and topology:
  {searched}

On real images, in the released table `mini`:
  {compare("mini@fixed", "mini@topology")}

Look at
  {written.html}   the report: open it in a browser
  {written.figures}/   its figures as PDF, SVG and PNG, with their data
  {spec_file}   the sweep that was trained; your sweep will look similar

Next commands
  rebench rank {folder}      tau and seed tau at each top K %
  rebench status {folder}    the state of every trial
  rebench query {folder} {best}    the best cell under every recipe, seed by seed
  rebench sweep new --out my-sweep.toml     a commented example of a sweep; edit it, then
  rebench submit my-sweep.toml --cluster slurm
"""
    for line in farewell.splitlines():
        say(line)


def _train(spec: Path, folder: Path, total: int) -> None:
    """Submit pending and lost trials until every trial has a record; Ctrl-C ends the jobs."""
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
        typer.echo(f"Stopped. The same command resumes: {again}")
        raise typer.Exit(130) from None
    counts = status.counts
    if counts["done"] + counts["diverged"] < total:
        left = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        raise RebenchError(
            f"not all trials of the demo are finished ({left}): see `rebench status"
            f" {folder} --trials` and `rebench logs {folder} TRIAL`, then run the same"
            " command again"
        )
