"""``rebench doctor``, ``data`` and ``demo``: what is installed, image data, a first run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rebench.cli import options
from rebench.cli.groups import group
from rebench.cli.output import print_facts, print_rows, progress, say, warn
from rebench.errors import MissingDataError

__all__ = ["app", "demo", "doctor"]


def doctor(data_root: options.DataRoot = None, as_json: options.AsJson = False) -> None:
    """Show what is installed and what is missing; exit 1 if something required is.

    Example: rebench doctor
    """
    from rebench.cli.doctor import examine

    findings = list(examine(data_root))
    missing = [finding for finding in findings if not finding.found]
    if as_json:
        rows = [
            {"what": what, "found": found, "for": purpose, "how to get it": None if found else get}
            for what, found, purpose, get, _ in findings
        ]
        print_rows(rows, as_json=True)
    else:
        print_facts({finding.what: finding.found for finding in findings if finding.found})
        lacking = {finding.what: f"{finding.needed_for}: {finding.get}" for finding in missing}
        print_facts(lacking, title="\nmissing" if lacking else "")
    if any(finding.required for finding in missing):
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
    with progress("Training") as update:
        last = ""

        def tell(what: str, done: int, total: int) -> None:
            nonlocal last
            update(description=what, completed=done, total=total)
            line = f"{what}: {done} of {total}"
            if line != last and not sys.stderr.isatty():
                typer.echo(line, err=True)
            last = line

        try:
            farewell = demonstrate(out, cells=cells, epochs=epochs, draws=draws, tell=tell)
        except KeyboardInterrupt:
            again = shlex.join(["rebench", *sys.argv[1:]])
            typer.echo(f"Stopped. The same command goes on from here: {again}")
            raise typer.Exit(130) from None
    for line in farewell.splitlines():
        say(line)
