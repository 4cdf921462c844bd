"""``rebench data``: where data sets are expected, whether they are whole, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli import completion
from rebench.cli.output import AsJson, Value, print_rows
from rebench.errors import MissingDataError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Data sets: where they are expected, and their state.")

Dataset = Annotated[
    str,
    typer.Argument(
        help="A data set's name; `rebench data list` shows them.",
        autocompletion=completion.datasets,
    ),
]
Root = Annotated[
    Path | None, typer.Option("--data-root", help="Folder of data sets; default: REBENCH_DATA.")
]


@app.command("list")
def list_datasets(root: Root = None, as_json: AsJson = False) -> None:
    """List the data sets and whether their files are there."""
    from rebench.data import data_root, is_present
    from rebench.datasets import data_specs

    folder = data_root(root)
    rows: list[dict[str, Value]] = [
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


@app.command()
def check(dataset: Dataset, root: Root = None, as_json: AsJson = False) -> None:
    """Check a data set's files, read it, and say what it holds."""
    from rebench.data import data_root, file_states, read_raw
    from rebench.datasets import data_spec

    spec, folder = data_spec(dataset), data_root(root)
    rows: list[dict[str, Value]] = [
        {"file": state.file, "found": state.found, "bytes": state.bytes, "state": state.state}
        for state in file_states(spec, folder)
    ]
    if any(row["state"] == "missing" for row in rows) and not as_json:
        print_rows(rows, as_json=False, title=f"{spec.name} in {folder}")
    raw = read_raw(dataset, folder)
    rows += [
        {"file": f"{part} images", "found": len(images), "bytes": None, "state": "read"}
        for part, images in (("train", raw.train), ("test", raw.test))
    ]
    print_rows(rows, as_json=as_json, title=f"{spec.name} in {folder}")
    for note in raw.notes:
        typer.echo(f"note: {note}", err=True)


@app.command("fetch")
def fetch_dataset(dataset: Dataset, root: Root = None) -> None:
    """Download the official archive, checked by its MD5."""
    from rebench.data import data_root, fetch
    from rebench.datasets import data_spec

    spec = data_spec(dataset)
    if not spec.files:
        raise MissingDataError(f"{spec.name} is embedded: there is nothing to fetch")
    typer.echo(f"{spec.name}: {fetch(spec, data_root(root))}")
