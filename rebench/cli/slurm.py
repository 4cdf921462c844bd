"""``rebench slurm``: files that users of a cluster take and adapt."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import AsJson, Force, Value, print_rows, refuse_existing
from rebench.errors import InputError
from rebench.launch.templates import template_files

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Files for a SLURM cluster; jobs themselves are sent by `rebench submit`."""


@app.command()
def template(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path(),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the files to adapt: a job script for a whole sweep, and a container's definition."""
    wanted = {
        folder / source.name: (source, purpose) for source, purpose in template_files().items()
    }
    try:
        for out in wanted:
            refuse_existing(out, force)
        folder.mkdir(parents=True, exist_ok=True)
        for out, (source, _) in wanted.items():
            shutil.copyfile(source, out)
    except OSError as error:
        raise InputError(
            f"cannot write the files into {folder} ({error.strerror}); give another folder"
        ) from error
    rows: list[dict[str, Value]] = [
        {"file": str(out), "for": purpose} for out, (_, purpose) in wanted.items()
    ]
    print_rows(rows, as_json=as_json)
