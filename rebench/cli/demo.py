"""``rebench demo``: all of it, small, on embedded data, in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import progress
from rebench.demo import Demonstrated, demonstrate

__all__ = ["app"]

app = typer.Typer()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("demo"),
    cells: Annotated[int, typer.Option(min=2, max=500, help="How many cells to train.")] = 24,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = 5,
    draws: Annotated[int, typer.Option(min=20, help="Bootstrap draws and simulated runs.")] = 1000,
) -> None:
    """Train a sample of cells under three recipes, rank them beside seed noise, write a report.

    Interrupt it as you like: the same command goes on where it was.
    """
    again = f"rebench demo --out {out}" if str(out) != "demo" else "rebench demo"
    for name, value, usual in (("cells", cells, 24), ("epochs", epochs, 5), ("draws", draws, 1000)):
        again += f" --{name} {value}" if value != usual else ""
    typer.echo(
        f"{cells} cells under 3 recipes with 3 seeds: {cells * 9} trainings of {epochs} epochs on "
        f"handwritten digits.\nEverything goes into {out}/. Stop it as you like (Ctrl-C): the same "
        "command goes on where it was.",
        err=True,
    )
    with progress() as bar:
        tasks: dict[str, int] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = int(bar.add_task(what, total=total))
                if bar.disable:
                    typer.echo(f"{what} ...", err=True)
            bar.update(tasks[what], completed=done)  # type: ignore[arg-type]  # a task's number

        try:
            made = demonstrate(out, cells=cells, epochs=epochs, draws=draws, tell=tell)
        except KeyboardInterrupt:
            typer.echo(f"Stopped. The same command goes on from here: {again}")
            raise typer.Exit(130) from None
    typer.echo(_farewell(made))


def _farewell(made: Demonstrated) -> str:
    findings = "\n".join(f"  {finding}" for finding in made.findings)
    run = made.run
    return f"""
Done in {made.seconds:.0f} s. What was found (tiny networks on digits: a demonstration, no result):
{findings}

Look at
  {made.report.html}   the report: open it in a browser, send it to a colleague
  {made.report.figures}/   its figures as PDF, SVG and PNG, with their data
  {made.spec}   the sweep that was trained; yours will look like it

Type next
  rebench rank {run}      tau at each top K %, beside what seed noise alone would do
  rebench status {run}    what became of every trial
  rebench query {run} {made.best} --dataset digits --recipe topology   the best cell, seed by seed
  rebench sweep new my-sweep.toml            a commented sweep of your own; edit it, then
  rebench submit my-sweep.toml --cluster slurm
"""
