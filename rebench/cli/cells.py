"""``rebench cells``: one cell as a page, the space as a table or a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli.output import (
    AsJson,
    Force,
    Value,
    console,
    print_json,
    print_rows,
    refuse_existing,
)
from rebench.errors import InputError

if TYPE_CHECKING:
    from cells import Cell

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Architecture strings and their graph statistics.")

CellName = Annotated[str, typer.Argument(help="An index, an architecture string or a code.")]


@app.command()
def show(cell: CellName, as_json: AsJson = False) -> None:
    """Show one cell: its drawing, paths, degrees, learning-rate multipliers, class and cost."""
    from cells import Cell
    from rebench import cell_space

    found = Cell.find(cell)
    facts = cell_space.cell_facts(found)
    if as_json:
        print_json(facts)
        return
    out = console()
    out.print(f"[bold]cell {found.index}[/]  {found.code}")
    out.print(f"{found}\n", markup=False)
    out.print(draw(found) + "\n", markup=False)
    width = max(map(len, facts))
    for name, value in list(facts.items())[3:]:
        text = "-" if value is None else f"{value:.6g}" if isinstance(value, float) else value
        out.print(f"{name.replace('_', ' '):<{width}}  {text}", markup=False)


def draw(cell: Cell) -> str:
    """Return the cell as text: what flows into each vertex; dead edges are marked."""
    from cells import OP_NAMES

    lines = ["0  input"]
    live = cell.edges(live=True)
    for vertex in (1, 2, 3):
        terms = [
            f"{edge[1]} ──{OP_NAMES[edge[2]]}──>{'' if edge in live else ' (dead)'}"
            for edge in cell.edges()
            if edge[0] == vertex
        ]
        lines.append(f"{vertex}  " + ("  +  ".join(terms) if terms else "zero: nothing flows in"))
    return "\n".join(lines) + "   (3 is the output)"


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="Where to write: .parquet or .csv.")],
    force: Force = False,
) -> None:
    """Write one row per cell, with every statistic, to a file."""
    from rebench import cell_space

    if file.suffix not in (".parquet", ".csv"):
        raise InputError(f"the file must end in .parquet or .csv, got {file.name!r}")
    refuse_existing(file, force)
    if not file.absolute().parent.is_dir():
        raise InputError(f"there is no folder {file.absolute().parent}; create it first")
    table = cell_space.space()
    try:
        if file.suffix == ".csv":
            table.to_csv(file, index=False)
        else:
            table.to_parquet(file, index=False, compression="zstd")
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror or error}") from error
    typer.echo(f"wrote {len(table):,} cells to {file}")


@app.command()
def stats(
    as_json: AsJson = False,
    figure: Annotated[
        Path | None, typer.Option(help="Also save a figure here (.pdf, .svg or .png).")
    ] = None,
) -> None:
    """Show the space at a glance: path counts, multipliers, degrees, classes."""
    import numpy as np

    import cells

    space = cells.compile_space()
    network = cells.compile_network(space)
    network_spread = np.nanmax(network.lr_multiplier) / np.nanmin(network.lr_multiplier)
    convolves = np.isin(space.ops, (2, 3)) & space.live_edges
    rows: list[dict[str, Value]] = [{"what": "cells", "value": len(space)}]
    rows += [
        {"what": f"cells with {count} paths", "value": int((space.n_paths == count).sum())}
        for count in range(5)
    ]
    rows += [
        {
            "what": "cells with a path but no convolution on any",
            "value": int(((space.n_paths > 0) & ~convolves.any(axis=1)).sum()),
        },
        {
            "what": "distinct multipliers, cell level",
            "value": int(np.unique(space.lr_multiplier[space.n_paths > 0]).size),
        },
        {"what": "mean multiplier, cell level", "value": float(np.nanmean(space.lr_multiplier))},
        {
            "what": "largest / smallest multiplier, cell level",
            "value": float(np.nanmax(space.lr_multiplier) / np.nanmin(space.lr_multiplier)),
        },
        {
            "what": "largest / smallest multiplier, network level",
            "value": float(network_spread),
        },
        {
            "what": "cells whose in-degree changes without dead edges",
            "value": int((space.in_degree != space.in_degree_live).any(axis=1).sum()),
        },
    ]
    for partition in ("benchmark", "exact", "strict"):
        classes = cells.functional_classes(partition)
        rows.append(
            {"what": f"functional classes, {partition}", "value": int(np.unique(classes).size)}
        )
    print_rows(rows, as_json=as_json, title="NAS-Bench-201")
    if figure:
        from rebench.figures.space import draw_space

        formats = (figure.suffix[1:],) if figure.suffix else ("pdf", "svg", "png")
        if not set(formats) <= {"pdf", "svg", "png"}:
            raise InputError(f"a figure ends in .pdf, .svg or .png, got {figure.name!r}")
        written = draw_space(space, network).save(figure.with_suffix(""), formats=formats)
        typer.echo(f"wrote {', '.join(map(str, written))}", err=True)
