"""``rebench demo``: all of it, small, on embedded data, in minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rebench.cli.output import progress
from rebench.demo_sweep import CELLS, EPOCHS

if TYPE_CHECKING:
    from rebench.demo import Demonstrated

__all__ = ["app"]

app = typer.Typer()

# How often a pipe or a file is told what a terminal's bar shows.
_EVERY_S: Final = 10.0


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("demo"),
    cells: Annotated[
        int, typer.Option(min=2, max=len(CELLS), help="How many cells to train.")
    ] = len(CELLS),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = EPOCHS,
    draws: Annotated[int, typer.Option(min=20, help="Bootstrap draws and simulated runs.")] = 1000,
) -> None:
    """Train a sample of cells under three recipes, rank them beside seed noise, write a report.

    Interrupt it as you like: the same command goes on where it was.
    """
    from rebench.demo import demonstrate

    again = f"rebench demo --out {out}" if str(out) != "demo" else "rebench demo"
    for name, value, usual in (
        ("cells", cells, len(CELLS)),
        ("epochs", epochs, EPOCHS),
        ("draws", draws, 1000),
    ):
        again += f" --{name} {value}" if value != usual else ""
    typer.echo(
        f"{cells} cells under 3 recipes with 3 seeds: {cells * 9} trainings of {epochs} epochs on "
        f"digits under noise.\nEverything goes into {out}/. Stop it as you like (Ctrl-C): the same "
        "command goes on where it was.",
        err=True,
    )
    with progress() as bar:
        tasks: dict[str, int] = {}
        said = 0.0

        def tell(what: str, done: int, total: int) -> None:
            nonlocal said
            first = what not in tasks
            if first:
                tasks[what] = int(bar.add_task(what, total=total))
            if bar.disable and (first or time.monotonic() - said >= _EVERY_S):
                said = time.monotonic()
                typer.echo(f"{what}: {done} of {total}", err=True)
            bar.update(tasks[what], completed=done)  # type: ignore[arg-type]  # a task's number

        try:
            made = demonstrate(out, cells=cells, epochs=epochs, draws=draws, tell=tell)
        except KeyboardInterrupt:
            typer.echo(f"Stopped. The same command goes on from here: {again}")
            raise typer.Exit(130) from None
    typer.echo(_farewell(made))


def _farewell(made: Demonstrated) -> str:
    findings = "\n".join(f"  {finding}" for finding in made.findings)
    searched = "\n".join(f"  {line}" for line in made.searched)
    run = made.run
    return f"""
Done in {made.seconds:.0f} s. What was found (tiny networks on digits: a demonstration, no result):
{findings}

Would it matter to a search? Two NAS algorithms on these tables:
{searched}

And on real images, in the table `surface` that comes with the package:
  {made.surface}

Look at
  {made.report.html}   the report: open it in a browser, send it to a colleague
  {made.report.figures}/   its figures as PDF, SVG and PNG, with their data
  {made.spec}   the sweep that was trained; yours will look like it

Type next
  rebench rank {run}      tau at each top K %, beside what seed noise alone would do
  rebench status {run}    what became of every trial
  rebench query {run} {made.best}    the best cell under every recipe, seed by seed
  rebench surface surface              the same questions of the released table, and more
  rebench sweep new my-sweep.toml            a commented sweep of your own; edit it, then
  rebench submit my-sweep.toml --cluster slurm
"""
