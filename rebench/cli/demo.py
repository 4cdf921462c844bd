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
            typer.echo(f"Stopped. The same command goes on from here: rebench demo --out {out}")
            raise typer.Exit(130) from None
    typer.echo(_farewell(made))


def _farewell(made: Demonstrated) -> str:
    findings = "\n".join(f"  {finding}" for finding in made.findings)
    run = made.run
    return f"""
Done in {made.seconds:.0f} s. What was found (tiny networks on digits: a demonstration, no result):
{findings}

Look at
  {made.report.html}   the report, one file to send or keep
  {made.report.figures}/   its figures as PDF, SVG and PNG, with their data
  {made.spec}   the sweep that was trained

Type next
  rebench rank {run}                    the ranking, beside what seed noise alone would do
  rebench status {run}                  what became of every trial
  rebench query {run} {made.best} --dataset digits --epochs {made.epochs} --recipe topology
  rebench sweep new my-sweep.toml       a commented sweep of your own; then
  rebench submit my-sweep.toml --cluster slurm
"""
