"""``rebench explore``: a page that shows every item of a table, or of two tables, as a point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli import options
from rebench.cli.output import print_rows, progress
from rebench.errors import InputError
from rebench.machine import keep_freed_memory

__all__ = ["explore"]


def explore(
    table: options.BaselineName,
    second: options.OtherName = None,
    dataset: options.Dataset = None,
    against_dataset: options.AgainstDataset = None,
    split: options.Split = None,
    epochs: options.Epochs = None,
    draws: options.Draws = 1000,
    seed: options.Seed = 0,
    out: Annotated[Path, typer.Option(help="HTML file of the page.")] = Path("explore.html"),
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a page on which every cell is a point, as one HTML file that needs no network.

    With two tables, a point shows the rank or the accuracy of a cell in both. With one table, it
    shows the accuracy and the cost of the cell, or two seeds. The page draws the cell under the
    pointer, with its rank and the interval of the rank. A click compares the runs of cells. A
    slider marks the K % best cells of BASELINE, and shows tau, the drop and the overlap.

    Example: rebench explore mini@fixed mini@topology
    """
    from rebench.report import write_explorer

    if out.suffix != ".html":
        raise InputError(f"--out must end in .html, got {out.name!r}")
    if second is None and against_dataset is not None:
        raise InputError("--against-dataset is the data set of OTHER: name two tables")
    options.refuse_existing(out, force)
    out.parent.mkdir(parents=True, exist_ok=True)
    keep_freed_memory()
    with progress("Comparing and drawing"):
        count = write_explorer(
            out,
            table,
            second,
            dataset=dataset,
            against_dataset=against_dataset,
            split=split,
            epochs=epochs,
            draws=draws,
            seed=seed,
        )
    print_rows([{"page": str(out), "cells": count}], as_json=as_json)
