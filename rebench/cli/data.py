"""``rebench data``: list, check and download image data sets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from rebench.cli import options
from rebench.cli.groups import App
from rebench.cli.output import print_rows, warn
from rebench.errors import MissingDataError

__all__ = ["app"]


app = App(help="List and download image data sets.")


@app.command("list")
def list_datasets(
    dataset: Annotated[
        str | None,
        typer.Argument(metavar="DATASET", help="Data set whose files are checked and read."),
    ] = None,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """List the data sets and whether their files exist, or check the files of one data set.

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
    print_rows(rows, as_json=as_json, title=f"data sets; files are searched in {folder}")


@app.command("fetch")
def fetch_dataset(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Name in `rebench data list`.")],
    data_root: options.DataRoot = None,
) -> None:
    """Download the official archive of a data set, and check its MD5 sum.

    Example: rebench data fetch cifar10
    """
    from rebench.data import data_root as root_of
    from rebench.data import data_spec, fetch

    spec = data_spec(dataset)
    if not spec.files:
        raise MissingDataError(
            f"{spec.name} needs no files: there is nothing to fetch; use it directly"
        )
    typer.echo(f"{spec.name}: {fetch(spec, root_of(data_root))}")


def _check(dataset: str, folder: Path, *, as_json: bool) -> None:
    """Check the files of a data set, read it, and print its contents."""
    from rebench.data import data_spec, file_states, read_raw

    spec = data_spec(dataset)
    title = f"{spec.name} in {folder}"
    rows = [dataclasses.asdict(state) for state in file_states(spec, folder)]
    raw = read_raw(dataset, folder)
    rows += [
        {"file": f"{part} images", "found": len(images), "bytes": None, "state": "read"}
        for part, images in (("train", raw.train), ("test", raw.test))
    ]
    print_rows(rows, as_json=as_json, title=title)
    for note in raw.notes:
        warn(f"note: {note}")
