"""``rebench doctor``, ``data`` and ``demo``: what is installed, image data, a first run."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rebench.cli import options
from rebench.cli.groups import group
from rebench.cli.output import print_facts, print_rows, progress, say, warn
from rebench.errors import MissingDataError

if TYPE_CHECKING:
    from rebench.cli.demo import Demonstrated

__all__ = ["app", "demo", "doctor"]


def doctor(data_root: options.DataRoot = None, as_json: options.AsJson = False) -> None:
    """Show what is installed and what is missing; exit 1 if something required is.

    Example: rebench doctor
    """
    from rebench.cli.doctor import examine

    findings = list(examine(data_root))
    rows = [
        {
            "what": finding.what,
            "found": finding.found,
            "for": finding.needed_for,
            "how to get it": None if finding.found else finding.get,
        }
        for finding in findings
    ]
    if as_json:
        print_rows(rows, as_json=True)
    else:
        print_facts({finding.what: finding.found for finding in findings if finding.found})
        missing = [finding for finding in findings if not finding.found]
        lacking = {finding.what: f"{finding.needed_for}: {finding.get}" for finding in missing}
        print_facts(lacking, title="\nmissing" if lacking else "")
    if any(finding.required and not finding.found for finding in findings):
        raise typer.Exit(1)


app = group("Image data sets: where they are expected, and their state.")


@app.command("list")
def list_datasets(
    dataset: Annotated[
        str | None,
        typer.Argument(help="One data set: its files are checked and read."),
    ] = None,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """List the data sets and whether their files are there; of one, check and read them.

    Example: rebench data list cifar10
    """
    from rebench.data import data_root as root_of
    from rebench.data import data_specs, is_present

    folder = root_of(data_root)
    if dataset is not None:
        _check(dataset, folder, as_json=as_json)
        return
    rows = [
        {
            "name": spec.name,
            "images": spec.title,
            "classes": spec.classes,
            "splits": list(spec.splits),
            "here": is_present(spec, folder),
        }
        for spec in data_specs().values()
    ]
    print_rows(rows, as_json=as_json, title=f"data sets, looked for in {folder}")


@app.command("fetch")
def fetch_dataset(
    dataset: Annotated[
        str,
        typer.Argument(help="As `rebench data list` names it."),
    ],
    data_root: options.DataRoot = None,
) -> None:
    """Download the official archive, checked by its MD5.

    Example: rebench data fetch cifar10
    """
    from rebench.data import data_root as root_of
    from rebench.data import data_spec, fetch

    spec = data_spec(dataset)
    if not spec.files:
        raise MissingDataError(f"{spec.name} is embedded: there is nothing to fetch")
    typer.echo(f"{spec.name}: {fetch(spec, root_of(data_root))}")


def _check(dataset: str, folder: Path, *, as_json: bool) -> None:
    """Check a data set's files, read it, and say what it holds."""
    from rebench.data import data_spec, file_states, read_raw

    spec = data_spec(dataset)
    title = f"{spec.name} in {folder}"
    rows = [
        {"file": state.file, "found": state.found, "bytes": state.bytes, "state": state.state}
        for state in file_states(spec, folder)
    ]
    if any(row["state"] == "missing" for row in rows) and not as_json:
        print_rows(rows, as_json=False, title=title)
    raw = read_raw(dataset, folder)
    rows += [
        {"file": f"{part} images", "found": len(images), "bytes": None, "state": "read"}
        for part, images in (("train", raw.train), ("test", raw.test))
    ]
    print_rows(rows, as_json=as_json, title=title)
    for note in raw.notes:
        warn(f"note: {note}")


# As many as `rebench.cli.demo` has; and epochs that tell them apart, few enough for a minute.
_CELLS, _EPOCHS = 24, 4
# How often a pipe or a file is told what a terminal's bar shows.
_EVERY_S: Final = 10.0


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("demo"),
    cells: Annotated[
        int, typer.Option(min=2, max=_CELLS, help="How many cells to train.")
    ] = _CELLS,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = _EPOCHS,
    draws: Annotated[int, typer.Option(min=20, help="Bootstrap draws and simulated runs.")] = 1000,
) -> None:
    """Train a sample of cells under three recipes, rank them beside seed noise, write a report.

    Interrupt it as you like: the same command goes on where it was.

    Example: rebench demo --out demo
    """
    from rebench.cli.demo import demonstrate

    say(
        f"{cells} cells under 3 recipes with 3 seeds: {cells * 9} trainings on digits under noise, "
        f"epochs: {epochs}.\nEverything goes into {out}/. Stop it as you like (Ctrl-C): the same "
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
            again = shlex.join(["rebench", *sys.argv[1:]])
            typer.echo(f"Stopped. The same command goes on from here: {again}")
            raise typer.Exit(130) from None
    for line in _farewell(made).splitlines():
        say(line)


def _farewell(made: Demonstrated) -> str:
    findings = "\n".join(f"  {finding}" for finding in made.findings)
    run = made.run
    return f"""
Done in {made.seconds:.0f} s. What was found (tiny networks on digits: a demonstration, no result):
{findings}

Would it matter to a search? Two NAS algorithms on the tables of nb201 and topology:
  {made.searched}

And on real images, in the table `surface` that comes with the package:
  {made.released}

Look at
  {made.report.html}   the report: open it in a browser, send it to a colleague
  {made.report.figures}/   its figures as PDF, SVG and PNG, with their data
  {made.spec}   the sweep that was trained; yours will look like it

Type next
  rebench rank {run}      tau at each top K %, beside what seed noise alone would do
  rebench status {run}    what became of every trial
  rebench query {run} {made.best}    the best cell under every recipe, seed by seed
  rebench surface surface              the same questions of the released table, and more
  rebench sweep new --out my-sweep.toml     a commented sweep of your own; edit it, then
  rebench submit my-sweep.toml --cluster slurm
"""
